"""Signs and truths of the study's runs, a line each; what is there already is skipped.

python studies/trust/trust_signs.py RUNS [--candidates FOLDER] [--output signs.jsonl] [--seconds N]

RUNS is what `trust_train.py` wrote; FOLDER what `studies/defaults/candidates_train.py` did: other
methods' networks on the same pairs, each beside the source-only network that it started from. The
truth is written down beside the signs, which never see it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "pairs"))
from pair_catalogue import FROZEN, PAIRS
from pair_reserve import RESERVE
from revgrad import from_arrays
from revgrad._seals import unsealed
from revgrad.diagnostics.consensus import consensus_on
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.recorder import read_evidence
from revgrad.diagnostics.signs import comparison_signs
from revgrad.diagnostics.trust import input_kind
from revgrad.diagnostics.vetoes import find_vetoes
from trust_train import TRUTH, folder_of
from trust_trials import TRIALS

HERE = Path(__file__).parent
EVERY = PAIRS | RESERVE


def set_of(pair: str) -> str:
    return "reserve" if pair in RESERVE else "frozen" if pair in FROZEN else "open"


class Comparison(NamedTuple):
    pair: str
    trial: str
    after: Evidence | None
    before: Evidence
    accuracy: float | None
    baseline: float
    labels: np.ndarray  # of the target samples, to judge the consensus by: no sign sees them


def of_runs(folder: Path, known: set[tuple[str, str]], reserve: bool) -> Iterator[Comparison]:
    """Pair by pair, so that a pair's consensus is found once."""
    for pair in RESERVE if reserve else PAIRS:
        place = folder / folder_of(pair)
        for trial in TRIALS:
            where = place / trial.name, place / trial.baseline.name
            if (pair, trial.name) in known or not all((one / TRUTH).exists() for one in where):
                continue
            kept = [read_evidence(one) for one in where]
            truths = [unsealed((one / TRUTH).read_text(encoding="utf-8")) for one in where]
            after, before = (None if one is None else one.end for one in kept)
            if before is not None:
                accuracies = [one["target_accuracy"] for one in truths]
                labels = np.asarray(truths[0]["labels"])
                yield Comparison(pair, trial.name, after, before, *accuracies, labels)


def of_candidates(folder: Path, known: set[tuple[str, str]]) -> Iterator[Comparison]:
    for path in sorted(folder.glob("* 0.npz")):
        pair = path.stem.removesuffix(" 0")
        values = np.load(path)
        names = [key.split("|")[0] for key in values.files if key.endswith("|target_logits")]
        names = [one for one in names if one != "source-only"]
        if pair not in PAIRS or all((pair, f"candidate {one}") in known for one in names):
            continue
        data = PAIRS[pair].open()
        training, held_out = from_arrays(data.source_x, data.source_y).split(0.1)

        def evidence(name: str) -> Evidence:
            parts = {
                key.split("|")[1]: np.asarray(values[key], dtype=np.float32)  # noqa: B023
                for key in values.files  # noqa: B023
                if key.startswith(f"{name}|")
            }
            return Evidence(
                **parts,
                source_labels=np.asarray(held_out.labels),  # noqa: B023
                source_inputs=_inputs(held_out),  # noqa: B023
                target_inputs=data.target_x,  # noqa: B023
                training_inputs=_inputs(training),  # noqa: B023
                training_labels=np.asarray(training.labels),  # noqa: B023
            )

        before = evidence("source-only")
        baseline = _right(before, data.target_y)
        for name in names:
            if (pair, f"candidate {name}") not in known:
                after = evidence(name)
                right = _right(after, data.target_y)
                yield Comparison(
                    pair, f"candidate {name}", after, before, right, baseline, data.target_y
                )


def record(found: Comparison) -> dict[str, Any]:
    signs: dict[str, float] = {}
    truths: dict[str, Any] = {}
    if found.after is not None:
        signs = comparison_signs(found.after, found.before)
        said = consensus_on(found.after)
        assert said is not None
        truths = {
            name: round(float((getattr(said, name).argmax(1) == found.labels).mean()), 4)
            for name in ("pooled", "smooth", "learned")
        } | {
            "inputs": input_kind(found.after),
            "vetoes": {one.name: one.shared for one in find_vetoes(found.after, found.before)},
        }
    return {
        "pair": found.pair,
        "kind": EVERY[found.pair].kind,
        "set": set_of(found.pair),
        "trial": found.trial,
        "failed": found.after is None,
        "accuracy": found.accuracy,
        "baseline": found.baseline,
        **truths,
        "signs": {name: round(value, 4) for name, value in signs.items()},
    }


def _inputs(domain: Any) -> np.ndarray:
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    found: np.ndarray = inputs.numpy()
    return np.moveaxis(found, 1, 3) if found.ndim == 4 else found


def _right(evidence: Evidence, labels: np.ndarray) -> float:
    return float((evidence.target_logits.argmax(1) == labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--candidates", type=Path)
    parser.add_argument("--reserve", action="store_true", help="the pairs of the reserve alone")
    parser.add_argument("--output", type=Path, default=HERE / "signs.jsonl")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU, at most")
    arguments = parser.parse_args()
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    known = {(one["pair"], one["trial"]) for one in map(json.loads, lines)}
    found = of_runs(arguments.runs, known, arguments.reserve)
    if arguments.candidates is not None:
        found = of_candidates(arguments.candidates, known)
    with arguments.output.open("a", encoding="utf-8") as file:
        for one in found:
            file.write(json.dumps(record(one)) + "\n")
            file.flush()
            if time.process_time() > arguments.seconds:
                break


if __name__ == "__main__":
    main()
