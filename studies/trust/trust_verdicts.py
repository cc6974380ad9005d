"""`verdict()` itself on finished runs of the study, beside the truth: verdicts.jsonl.

python studies/trust/trust_verdicts.py RUNS [--reserve] [--seconds N]

Pair by pair, so that a pair's consensus is found once; what is there is skipped. Seconds are of
CPU. Symptoms and further scores, which decide nothing, are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "pairs"))
from pair_catalogue import PAIRS
from pair_reserve import RESERVE
from revgrad._seals import unsealed
from revgrad.diagnostics.verdict import verdict
from trust_fit import Record, true_outcome
from trust_signs import set_of
from trust_train import TRUTH, folder_of
from trust_trials import TRIALS

OUTPUT = Path(__file__).parent / "verdicts.jsonl"


def verdicts() -> list[Record]:
    lines = OUTPUT.read_text(encoding="utf-8").splitlines() if OUTPUT.exists() else []
    return [json.loads(line) for line in lines]


def as_judged(found: Iterable[Record]) -> list[Record]:
    """As `trust_fit.judged` has it, of verdicts with an estimate."""
    every = []
    for one in found:
        if one["estimate"] is not None:
            value, low, high = one["estimate"]
            every.append(
                {
                    "pair": one["pair"],
                    "kind": one["kind"],
                    "told": None if one["outcome"] == "can't tell" else one["outcome"],
                    "true": true_outcome(one),
                    "off": abs(value - one["accuracy"]),
                    "inside": low <= one["accuracy"] <= high,
                    "width": high - low,
                }
            )
    return every


def judge(folder: Path, pair: str, kind: str, trial: str, baseline: str) -> Record:
    where = folder / trial, folder / baseline
    began = time.process_time()
    found = verdict(where[0], baseline=where[1], full=False)
    seconds = time.process_time() - began
    truths = [unsealed((one / TRUTH).read_text(encoding="utf-8")) for one in where]
    estimate, bound = found.estimate, found.bound
    return {
        "pair": pair,
        "kind": kind,
        "set": set_of(pair),
        "trial": trial,
        "accuracy": truths[0]["target_accuracy"],
        "baseline": truths[1]["target_accuracy"],
        "outcome": found.outcome,
        "decided_by": found.decided_by,
        "distance": None if found.distance is None else round(found.distance, 2),
        "estimate": None
        if estimate is None
        else [round(x, 4) for x in (estimate.value, estimate.low, estimate.high)],
        "bound": None if bound is None else round(bound.value, 4),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--reserve", action="store_true", help="the pairs of the reserve alone")
    parser.add_argument("--each", type=int, default=len(TRIALS), help="runs of a pair, at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU, at most")
    arguments = parser.parse_args()
    known = {(one["pair"], one["trial"]) for one in verdicts()}
    pairs: dict[str, Any] = RESERVE if arguments.reserve else PAIRS
    with OUTPUT.open("a", encoding="utf-8") as file:
        for pair in reversed(pairs.values()):  # the cheap kinds first
            place = arguments.runs / folder_of(pair.name)
            count = sum(name == pair.name for name, _ in known)
            for trial in TRIALS:
                names = trial.name, trial.baseline.name
                done = all((place / name / TRUTH).exists() for name in names)
                if done and (pair.name, trial.name) not in known and count < arguments.each:
                    count += 1
                    file.write(json.dumps(judge(place, pair.name, pair.kind, *names)) + "\n")
                    file.flush()
                if time.process_time() > arguments.seconds:
                    return


if __name__ == "__main__":
    main()
