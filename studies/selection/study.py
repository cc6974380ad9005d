"""What the study's records say: how well each score ranks and chooses, how right verdicts are.

python studies/selection/study.py [RECORDS]     prints the tables of docs/selection.md
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = Path(__file__).parent / "runs.jsonl"
#: What counts as a gain or as harm, as the verdict has it.
MARGIN = 0.02
OUTCOMES = ("adapted", "no gain", "harmed")

Record = dict[str, Any]


@dataclass(frozen=True)
class ScoreQuality:
    """One scorer over the pairs of a set: rank correlation and regret of its choice, by pair."""

    name: str
    correlations: tuple[float, ...]
    regrets: tuple[float, ...]

    @property
    def correlation(self) -> float:
        return float(np.mean(self.correlations))

    @property
    def regret(self) -> float:
        return float(np.mean(self.regrets))

    @property
    def worst(self) -> float:
        return max(self.regrets)


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pairs_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["pair"], []).append(record)
    return found


def scorers(records: Sequence[Record]) -> dict[str, Callable[[Record], float | None]]:
    """Every scorer that a record has a value of: ours, estimates, skada's."""
    found: dict[str, Callable[[Record], float | None]] = {}
    for group, mark in (("scores", ""), ("estimates", "estimate: "), ("skada", "skada: ")):
        for name in dict.fromkeys(name for record in records for name in record[group]):
            found[mark + name] = lambda record, g=group, n=name: record[g].get(n)  # type: ignore[misc]
    return found


def score_quality(
    name: str, score: Callable[[Record], float | None], records: Sequence[Record]
) -> ScoreQuality:
    """Within each pair; a run without a value (it failed) ranks last."""
    correlations, regrets = [], []
    for runs in pairs_of(records).values():
        truth = np.array([run["target_accuracy"] for run in runs])
        said = [score(run) for run in runs]
        values = np.array([-math.inf if value is None else value for value in said])
        correlations.append(spearman(values, truth))
        regrets.append(float(truth.max() - truth[int(values.argmax())]))
    return ScoreQuality(name, tuple(correlations), tuple(regrets))


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's correlation of the ranks, equal values sharing theirs; 0 for a constant."""
    ranks = [ranked(values) for values in (one, other)]
    if min(rank.std() for rank in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def ranked(values: np.ndarray) -> np.ndarray:
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def truth(record: Record) -> str:
    gain = record["target_accuracy"] - record["baseline_accuracy"]
    if record["failed"]:
        return "harmed"
    return "adapted" if gain >= MARGIN else "harmed" if gain <= -MARGIN else "no gain"


def verdicts(records: Sequence[Record]) -> tuple[float, float, dict[tuple[str, str], int]]:
    """Share that is right, share of "can't tell", and counts by (truth, verdict).

    "Can't tell" is right up to a tenth of the cases, wrong beyond.
    """
    judged = [record for record in records if record["verdict"] is not None]
    counts: dict[tuple[str, str], int] = {}
    for record in judged:
        key = truth(record), record["verdict"]
        counts[key] = counts.get(key, 0) + 1
    n = len(judged)
    unsure = sum(count for (_, said), count in counts.items() if said == "can't tell")
    right = sum(count for (true, said), count in counts.items() if true == said)
    return (right + min(unsure, n // 10)) / n, unsure / n, counts


def estimate_errors(records: Sequence[Record], name: str) -> list[float]:
    return [
        abs(record["estimates"][name] - record["target_accuracy"])
        for record in records
        if name in record["estimates"]
    ]


def by_pair(runs: Sequence[Record]) -> str:
    """A pair's line: its best accuracy and its baselines', its verdicts, its estimates' error."""
    below = [run["target_accuracy"] for run in runs if run["verdict"] is None]
    best = max(run["target_accuracy"] for run in runs)
    said = [(truth(run), run["verdict"]) for run in runs if run["verdict"] is not None]
    right = sum(true == told for true, told in said)
    unsure = sum(told == "can't tell" for _, told in said)
    errors = estimate_errors(runs, "signs")
    off = f"{100 * np.mean(errors):.1f}" if errors else "–"
    return f"{best:.2f}, {np.mean(below):.2f} | {right} of {len(said)} | {unsure} | {off}"


def tables(records: Sequence[Record]) -> str:
    """Markdown: scorers on the judged pairs, then on all; verdicts; estimates."""
    lines = []
    for kind in ("judged", "tuned"):
        some = [record for record in records if record["set"] == kind]
        if not some:
            continue
        pairs = pairs_of(some)
        lines += [f"## {kind.capitalize()} pairs", "", f"{len(some)} runs: {', '.join(pairs)}.", ""]
        lines += ["| score | Spearman | regret | worst pair |", "| --- | --- | --- | --- |"]
        found = [score_quality(name, score, some) for name, score in scorers(some).items()]
        for one in sorted(found, key=lambda one: -one.correlation):
            shown = f"{one.correlation:.2f} | {100 * one.regret:.1f} | {100 * one.worst:.1f}"
            lines.append(f"| {one.name} | {shown} |")
        right, unsure, counts = verdicts(some)
        lines += ["", f"Verdicts right: {right:.1%}; can't tell: {unsure:.1%}.", ""]
        said = list(dict.fromkeys([*OUTCOMES, *(s for _, s in counts)]))
        lines += [f"| truth | {' | '.join(said)} |", f"| --- |{' --- |' * len(said)}"]
        for true in OUTCOMES:
            row = " | ".join(str(counts.get((true, s), 0)) for s in said)
            lines.append(f"| {true} | {row} |")
        lines += ["", "| pair | truth: best, baselines | verdicts right | can't tell | off by |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        lines += [f"| {pair} | {by_pair(runs)} |" for pair, runs in pairs.items()]
        lines += ["", "| estimate of the accuracy | wrong by, on average | at most |"]
        lines += ["| --- | --- | --- |"]
        for name in dict.fromkeys(name for record in some for name in record["estimates"]):
            errors = estimate_errors(some, name)
            lines.append(f"| {name} | {100 * np.mean(errors):.1f} | {100 * max(errors):.1f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path, nargs="?", default=RECORDS)
    print(tables(read(parser.parse_args().records)))


if __name__ == "__main__":
    main()
