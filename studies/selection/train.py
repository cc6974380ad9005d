"""Trains the study's runs, with their baselines; what is there already is skipped.

python studies/selection/train.py OUTPUT [--pair NAME …] [--part 0/2]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from pairs import PAIRS, Data
from revgrad import Provenance, Recipe, adapt
from revgrad._seals import write_sealed
from revgrad.diagnostics.recorder import read_evidence
from revgrad.errors import NonFiniteLossError
from trials import Trial, trials

#: Of target and held-out source, that each run keeps evidence of.
EVIDENCE_SAMPLES = 1000
TRUTH = "truth.json"


def train(folder: Path, trial: Trial, data: Data) -> None:
    """One run, and what share of its kept target samples is right at each evaluation: read from the
    labels after the training, which never sees them."""
    if (folder / TRUTH).exists():
        return
    failed = None
    try:
        adapt(
            trial.build(data.source.class_count or 0),
            data.source,
            data.target.without_labels(),
            layer=trial.layer,
            recipe=Recipe(trial.method, trial.settings()),
            domain_classifier=trial.hidden,
            preprocessing="per-image" if trial.network == "compact" else "fitted",
            balanced=trial.method == "adversarial-consistency",
            held_out=0.125,
            run=folder,
            evidence_samples=EVIDENCE_SAMPLES,
            progress=False,
            provenance=Provenance(network=f"study-{trial.network}"),
        )
    except NonFiniteLossError as error:
        failed = str(error)
    kept = read_evidence(folder)
    if kept is None:
        raise SystemExit(f"{folder} kept no evidence")
    labels = np.asarray(data.target.labels)[kept.target_indices]
    accuracies = {
        str(step): float((evidence.target_logits.argmax(1) == labels).mean())
        for step, evidence in kept.by_step.items()
    }
    end = None if kept.end is None else float((kept.end.target_logits.argmax(1) == labels).mean())
    write_sealed(
        folder / TRUTH,
        {
            "target_accuracy": end,
            "by_step": accuracies,
            "failed": failed,
            "trial": trial.describe(),
        },
    )


def folder_of(pair: str) -> str:
    """A pair's name as that of a folder."""
    return pair.replace("->", "-to-").replace(", ", "-").replace(" ", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--pair", action="append", default=[])
    parser.add_argument("--part", default="0/1", help="of the pairs, this process's share")
    arguments = parser.parse_args()
    part, parts = (int(text) for text in arguments.part.split("/"))
    names = arguments.pair or list(PAIRS)
    for name in names[part::parts]:
        data = PAIRS[name].open()
        where = arguments.output / folder_of(name)
        every = trials()
        below = dict.fromkeys(trial.baseline for trial in every)
        for number, trial in enumerate([*below, *every]):
            train(where / trial.name, trial, data)
            print(json.dumps({"pair": name, "done": number + 1, "of": len(below) + len(every)}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
