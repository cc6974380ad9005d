"""Fits the model of right and wrong samples (`diagnostics.accuracy_estimate`) on the tuned pairs.

python studies/selection/fit.py RUNS      prints the numbers that accuracy_estimate.py holds

The only place where target labels meet the diagnostics: on these pairs, never on a user's. How
well it does elsewhere is what the judged pairs tell; within the tuned ones a pair left out tells
it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from pairs import TUNED
from revgrad.diagnostics.accuracy_estimate import SIGN_WEIGHTS, correctness_signs
from revgrad.diagnostics.recorder import read_evidence
from train import TRUTH, folder_of


def signs_of(runs: Path, pair: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Signs (n, k) and whether the sample is right (n,), of each finished run and baseline."""
    target = TUNED[pair].open().target
    found = []
    for folder in sorted((runs / folder_of(pair)).glob("*")):
        if not (folder / TRUTH).exists() or json.loads((folder / TRUTH).read_text())["failed"]:
            continue
        kept = read_evidence(folder)
        assert kept is not None
        assert kept.end is not None
        labels = np.asarray(target.labels)[kept.target_indices]
        found.append((correctness_signs(kept.end), kept.end.target_logits.argmax(1) == labels))
    return found


def fitted(runs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, float]:
    """Weights of the signs, and the constant, in the signs' own units."""
    signs, right = (np.concatenate(part) for part in zip(*runs, strict=True))
    mean, spread = signs.mean(0), signs.std(0) + 1e-9
    model = LogisticRegression(C=0.01, max_iter=500).fit((signs - mean) / spread, right)
    weights = model.coef_[0] / spread
    return weights, float(model.intercept_[0] - weights @ mean)


def estimates(
    runs: list[tuple[np.ndarray, np.ndarray]], model: tuple[np.ndarray, float]
) -> np.ndarray:
    """(runs, 2): estimated and true accuracy."""
    weights, constant = model
    return np.array(
        [[(1 / (1 + np.exp(-(s @ weights + constant)))).mean(), right.mean()] for s, right in runs]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    runs = parser.parse_args().runs
    every = {pair: signs_of(runs, pair) for pair in TUNED}
    every = {pair: runs for pair, runs in every.items() if runs}
    for left_out, own in every.items():
        others = [run for pair, some in every.items() if pair != left_out for run in some]
        if others:
            found = estimates(own, fitted(others))
            error = np.abs(found[:, 0] - found[:, 1])
            print(f"{left_out} left out: wrong by {error.mean():.3f}, {error.max():.3f} at most")
    weights, constant = fitted([run for some in every.values() for run in some])
    for name, weight in zip(SIGN_WEIGHTS, weights, strict=True):
        print(f'    "{name}": {weight:.3f},')
    print(f"INTERCEPT = {constant:.3f}")


if __name__ == "__main__":
    main()
