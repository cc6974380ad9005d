"""From the study's runs to records: scores, estimates and the truth of each, one json a line.

python benchmarks/selection/score.py RUNS [RECORDS]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pairs import PAIRS, TUNED
from skada_scores import skada_scores
from train import TRUTH, folder_of
from trials import Trial, trials

from revgrad.diagnostics import Evidence, available_estimates, available_scores, find_symptoms
from revgrad.diagnostics.kept import KeptEvidence, read_kept
from revgrad.files import write_atomically
from revgrad.training import Run

RECORDS = Path(__file__).parents[2] / "results" / "selection" / "runs.jsonl"


def record(pair: str, trial: Trial, where: Path) -> dict[str, Any] | None:
    """What is known of one run with and without labels; None while it is not done."""
    run, below = where / trial.name, where / trial.baseline.name
    if not ((run / TRUTH).exists() and (below / TRUTH).exists()):
        return None
    truth, bound = (json.loads((path / TRUTH).read_text()) for path in (run, below))
    kept, other = read_kept(run, baseline=below), read_kept(below)
    assert kept is not None
    assert other is not None
    assert other.end is not None
    after, before = last(kept), other.end
    return {
        "pair": pair,
        "set": "tuned" if pair in TUNED else "judged",
        "trial": trial.describe(),
        "failed": truth["failed"] is not None,
        "target_accuracy": truth["target_accuracy"],
        "baseline_accuracy": bound["target_accuracy"],
        "scores": rounded(available_scores(after)),
        "baseline_scores": rounded(available_scores(before)),
        "estimates": rounded({k: e.value for k, e in available_estimates(after).items()}),
        "baseline_estimates": rounded({k: e.value for k, e in available_estimates(before).items()}),
        "skada": rounded(skada_scores(after)),
        "symptoms": [s.name for s in find_symptoms(Run(run).records(), after)],
    }


def last(kept: KeptEvidence) -> Evidence:
    """The end's evidence; of a failed run, its last evaluation's, else its start's."""
    found = kept.last or kept.start
    assert found is not None
    return replace(found)


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("records", type=Path, nargs="?", default=RECORDS)
    arguments = parser.parse_args()
    found = []
    for pair in PAIRS:
        for trial in trials():
            one = record(pair, trial, arguments.runs / folder_of(pair))
            if one is not None:
                found.append(one)
        print(f"{pair}: {sum(one['pair'] == pair for one in found)} runs")
    arguments.records.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)
    write_atomically(arguments.records, lines.encode())


if __name__ == "__main__":
    main()
