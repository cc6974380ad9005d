"""`verdict()` itself on finished runs of the study, beside the truth: verdicts.jsonl.

python studies/trust/trust_verdicts.py RUNS [--seconds N]

Round by round, each another run of every pair; what is there is skipped. Seconds are of CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pairs"))
from pair_catalogue import FROZEN, PAIRS
from revgrad._seals import unsealed
from revgrad.diagnostics.verdict import verdict
from trust_train import TRUTH, folder_of
from trust_trials import TRIALS

OUTPUT = Path(__file__).parent / "verdicts.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU, at most")
    arguments = parser.parse_args()
    lines = OUTPUT.read_text(encoding="utf-8").splitlines() if OUTPUT.exists() else []
    known = {(one["pair"], one["trial"]) for one in map(json.loads, lines)}
    with OUTPUT.open("a", encoding="utf-8") as file:
        for turn in range(len(TRIALS)):
            for number, pair in enumerate(PAIRS):
                trial = TRIALS[(turn + number) % len(TRIALS)]
                place = arguments.runs / folder_of(pair)
                where = place / trial.name, place / trial.baseline.name
                done = all((one / TRUTH).exists() for one in where)
                if not done or (pair, trial.name) in known:
                    continue
                began = time.process_time()
                found = verdict(where[0], baseline=where[1])
                truths = [unsealed((one / TRUTH).read_text(encoding="utf-8")) for one in where]
                estimate, bound = found.estimate, found.bound
                record = {
                    "pair": pair,
                    "kind": PAIRS[pair].kind,
                    "set": "frozen" if pair in FROZEN else "open",
                    "trial": trial.name,
                    "accuracy": truths[0]["target_accuracy"],
                    "baseline": truths[1]["target_accuracy"],
                    "outcome": found.outcome,
                    "decided_by": found.decided_by,
                    "estimate": None
                    if estimate is None
                    else [round(x, 4) for x in (estimate.value, estimate.low, estimate.high)],
                    "bound": None if bound is None else round(bound.value, 4),
                    "seconds": round(time.process_time() - began, 1),
                }
                file.write(json.dumps(record) + "\n")
                file.flush()
                if time.process_time() > arguments.seconds:
                    return


if __name__ == "__main__":
    main()
