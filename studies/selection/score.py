"""From the study's runs to records: scores, estimates and the truth of each, one json a line.

python studies/selection/score.py RUNS [RECORDS] [--pair NAME …]
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from pairs import PAIRS, TUNED
from revgrad._system import write_atomically
from revgrad.diagnostics import available_estimates, available_scores, read_evidence, verdict
from revgrad.diagnostics.accuracy_estimate import accuracy_by_signs, has_informative_opinion
from skada_scores import skada_scores
from study import pairs_of, read
from train import TRUTH, folder_of
from trials import Trial, trials

RECORDS = Path(__file__).parent / "runs.jsonl"


def record(pair: str, trial: Trial, where: Path) -> dict[str, Any] | None:
    """What is known of one run with and without labels; None while it is not done."""
    run, below = where / trial.name, where / trial.baseline.name
    if not ((run / TRUTH).exists() and (below / TRUTH).exists()):
        return None
    truth, bound = (json.loads((path / TRUTH).read_text()) for path in (run, below))
    kept = read_evidence(run, baseline=below)
    assert kept is not None
    after = kept.last or kept.start
    assert after is not None
    judged = verdict(run, baseline=below)
    estimates = {name: one.value for name, one in available_estimates(after).items()}
    if has_informative_opinion(after):
        estimates["signs"] = accuracy_by_signs(after).value
    return {
        "pair": pair,
        "set": "tuned" if pair in TUNED else "judged",
        "trial": trial.describe(),
        "failed": truth["failed"] is not None,
        # a run that failed hands nothing back: its last checkpoint is what there is
        "target_accuracy": truth["target_accuracy"] or next(reversed(truth["by_step"].values()), 0),
        "baseline_accuracy": bound["target_accuracy"],
        "scores": rounded(judged.scores or available_scores(after)),
        "estimates": rounded(estimates),
        "skada": rounded(skada_scores(after)),
        "verdict": None if trial == trial.baseline else judged.outcome,
        "symptoms": [symptom.name for symptom in judged.symptoms],
    }


def of_pair(pair: str, runs: Path) -> list[dict[str, Any]]:
    found = (record(pair, trial, runs / folder_of(pair)) for trial in candidates())
    return [one for one in found if one is not None]


def candidates() -> list[Trial]:
    """Every training of a pair: the trials, and their baselines, which adapt with λ = 0."""
    every = trials()
    return [*every, *dict.fromkeys(trial.baseline for trial in every)]


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("records", type=Path, nargs="?", default=RECORDS)
    parser.add_argument("--pair", action="append", default=[], help="only this; others stay")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    names = arguments.pair or list(PAIRS)
    old = read(arguments.records) if arguments.pair and arguments.records.exists() else []
    by_pair = pairs_of(old)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for pair, some in zip(
            names, pool.map(of_pair, names, [arguments.runs] * len(names)), strict=True
        ):
            print(f"{pair}: {len(some)} runs", flush=True)
            by_pair[pair] = some
    found = [one for pair in PAIRS for one in by_pair.get(pair, [])]
    arguments.records.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)
    write_atomically(arguments.records, lines.encode())


if __name__ == "__main__":
    main()
