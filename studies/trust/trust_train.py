"""Trains the study's runs, with their baselines; what is there already is skipped.

python studies/trust/trust_train.py OUTPUT [--pair NAME …] [--trials N] [--part K --parts N]

Round by round over all pairs, each round another trial of every pair, drawn in an order of the
pair's own: what is done at any time is a fair sample of the whole.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "pairs"))
from pair_catalogue import PAIRS, PairData
from pair_reserve import RESERVE
from revgrad import adapt, from_arrays
from revgrad._seals import write_sealed
from revgrad.diagnostics.recorder import read_evidence
from revgrad.errors import NonFiniteLossError
from trust_trials import TRIALS, Trial

#: Share of the source that is held out, and samples of each domain that evidence is kept of.
HELD_OUT, EVIDENCE_SAMPLES = 0.2, 2000
TRUTH = "truth.json"


@cache
def data_of(pair: str) -> PairData:
    return (PAIRS | RESERVE)[pair].open()


def folder_of(pair: str) -> str:
    return pair.replace(" -> ", "-to-").replace(", ", "-").replace(" ", "-")


def train(folder: Path, pair: str, trial: Trial) -> None:
    """One run, and what share of its kept target samples is right: read from labels that the
    training never sees."""
    if (folder / TRUTH).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    data, failed = data_of(pair), None
    source = from_arrays(data.source_x, data.source_y, name=f"{pair}, source")
    target = from_arrays(data.target_x, name=f"{pair}, target")
    try:
        adapt(
            data.network(trial.seed, trial.wide),
            source,
            target,
            layer=trial.layer,
            recipe=trial.recipe(),
            held_out=HELD_OUT,
            run=folder,
            evidence_samples=EVIDENCE_SAMPLES,
            progress=False,
        )
    except NonFiniteLossError as error:
        failed = str(error)
    kept = read_evidence(folder)
    assert kept is not None
    labels = data.target_y[kept.target_indices]
    every = {str(step): one for step, one in kept.by_step.items()}
    by_step = {step: _accuracy(one.target_logits, labels) for step, one in every.items()}
    end = None if kept.end is None else _accuracy(kept.end.target_logits, labels)
    for path in folder.glob("checkpoint*"):  # nobody goes on from here
        path.unlink()
    _share_samples(folder)
    write_sealed(
        folder / TRUTH,
        {
            "target_accuracy": end,
            "by_step": by_step,
            "labels": labels.tolist(),
            "failed": failed,
            "trial": trial.describe(),
        },
    )


def _share_samples(folder: Path) -> None:
    """One file for the samples that all runs of a pair recorded alike."""
    first, own = (
        place / "evidence" / "samples.safetensors"
        for place in (folder.parent / "baseline-usual", folder)
    )
    if first != own and first.exists() and first.read_bytes() == own.read_bytes():
        own.unlink()
        own.hardlink_to(first)


def _accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((logits.argmax(1) == labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--pair", action="append", default=[])
    parser.add_argument("--reserve", action="store_true", help="the pairs of the reserve alone")
    parser.add_argument("--trials", type=int, default=len(TRIALS))
    parser.add_argument("--part", type=int, default=0, help="of the pairs, of several processes")
    parser.add_argument("--parts", type=int, default=1)
    arguments = parser.parse_args()
    every = list(RESERVE if arguments.reserve else PAIRS)
    names = (arguments.pair or every)[arguments.part :: arguments.parts]
    for turn in range(arguments.trials):
        for name in names:
            order = np.random.default_rng(list(name.encode())).permutation(len(TRIALS))
            trial = TRIALS[order[turn]]
            if trial.images_only and data_of(name).source_x.ndim != 4:
                continue
            where = arguments.output / folder_of(name)
            for one in (trial.baseline, trial):
                train(where / one.name, name, one)
        print(f"round {turn + 1} of {arguments.trials}", flush=True)


if __name__ == "__main__":
    main()
