"""Gains and harms of every method over source only, from the records.

python studies/defaults/defaults_table.py [frozen | open | reserve]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

RECORDS = Path(__file__).parent / "runs.jsonl"
#: Of the pairs that nothing was made on.
RESERVE = RECORDS.with_name("reserve.jsonl")
#: A gain or a harm that counts: two points; and one that auto is to reach half of.
MEANINGFUL, LARGE = 0.02, 0.05


class Line(NamedTuple):
    """One method over all its pairs; gains in shares of the target's samples."""

    method: str
    runs: int
    mean: float
    gained: int
    harmed: int
    worst: float


def gains(records: Iterable[dict[str, object]]) -> dict[str, list[float]]:
    """Each method's accuracy less that of source only, of the same pair and seed; of a record that
    has a `baseline` of its own, less that."""
    rows = list(records)
    below = {
        (r["pair"], r["seed"]): float(str(r["accuracy"]))
        for r in rows
        if r["method"] == "source only"
    }
    found: dict[str, list[float]] = defaultdict(list)
    for r in rows:
        if r["method"] != "source only":
            baseline = float(str(r.get("baseline", below[r["pair"], r["seed"]])))
            gain = float(str(r["accuracy"])) - baseline
            found[str(r["method"])].append(gain)
    return found


def lines(records: Iterable[dict[str, object]]) -> list[Line]:
    """Best mean gain first."""
    made = [
        Line(
            method,
            len(values),
            fmean(values),
            sum(v >= MEANINGFUL for v in values),
            sum(v <= -MEANINGFUL for v in values),
            min(values),
        )
        for method, values in gains(records).items()
    ]
    return sorted(made, key=lambda line: -line.mean)


def reached(records: Iterable[dict[str, object]]) -> tuple[int, int]:
    """Of how many pairs and seeds auto has half of the best fixed method's gain, and of how many
    that gain is large."""
    runs: dict[object, list[dict[str, object]]] = defaultdict(list)
    for one in records:
        runs[one["pair"], one["seed"]].append(one)
    half = large = 0
    for own in runs.values():
        found = {method: values[0] for method, values in gains(own).items()}
        auto = found.get("auto")
        best = max((v for m, v in found.items() if not m.startswith("auto")), default=0.0)
        if auto is not None and best >= LARGE:
            large += 1
            half += auto >= best / 2
    return half, large


def read_records(path: Path) -> list[dict[str, object]]:
    """All of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def main(which: str | None) -> None:
    records = read_records(RESERVE if which == "reserve" else RECORDS)
    if which in ("frozen", "open"):
        records = [r for r in records if r["frozen"] == (which == "frozen")]
    print(f"{'method':<18} {'runs':>4} {'mean gain':>9} {'gained':>6} {'harmed':>6} {'worst':>6}")
    for line in lines(records):
        print(
            f"{line.method:<18} {line.runs:>4} {100 * line.mean:>+9.1f} {line.gained:>6} "
            f"{line.harmed:>6} {100 * line.worst:>+6.1f}"
        )
    print(
        "auto gains half of the best fixed method's 5 points or more on {} of {}".format(
            *reached(records)
        )
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
