"""Choices among a pair's runs by each score on record: regret, and Spearman's correlation.

python studies/trust/trust_choice.py      # choice.json
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from revgrad.diagnostics.trust import quality_of, trust_model
from trust_fit import HERE, Record, records


def trust(one: Record) -> float:
    """As `diagnostics/trust.py` has it."""
    signs = one["signs"]
    q = quality_of(signs, trust_model())
    healthy = (signs["source-after"] + min(signs["variety-after"], 1)) / 2
    return float(q * signs["pooled-after"] + (1 - q) * healthy)


def sign(name: str) -> Callable[[Record], float]:
    return lambda one: float(one["signs"][f"{name}-after"])


SCORES: dict[str, Callable[[Record], float]] = {
    "trust": trust,
    "agreement with the consensus": sign("pooled"),
    "agreement with what learned from it": sign("learned"),
    "COT": sign("cot"),
    "ATC": sign("atc"),
    "difference of confidences": sign("doc"),
    "class-wise confidence (MOVAL)": sign("classwise"),
    "MaNo": sign("mano"),
    "energy": sign("energy"),
    "nuclear norm": sign("nuclear"),
    "source accuracy": sign("source"),
    "variety of predictions": sign("variety"),
}


def quality(known: list[Record], score: Callable[[Record], float]) -> dict[str, Any]:
    """Points below the best run of a pair, mean, worst and by kind; mean correlation."""
    pairs = defaultdict(list)
    for one in known:
        pairs[one["pair"]].append(one)
    regrets, kinds, correlations = [], defaultdict(list), []
    for runs in pairs.values():
        values = [score(one) for one in runs]
        truth = [one["accuracy"] for one in runs]
        regrets.append(max(truth) - truth[int(np.argmax(values))])
        kinds[runs[0]["kind"]].append(regrets[-1])
        if len(set(values)) > 1 and len(set(truth)) > 1:
            correlations.append(float(spearmanr(values, truth).statistic))
    return {
        "regret": round(100 * float(np.mean(regrets)), 1),
        "worst": round(100 * max(regrets), 1),
        "spearman": round(float(np.mean(correlations)), 2),
        "by kind": {kind: round(100 * float(np.mean(x)), 1) for kind, x in sorted(kinds.items())},
    }


def main() -> None:
    every = records()
    found = {
        name: {
            score: quality([one for one in every if one["set"] == name], function)
            for score, function in SCORES.items()
        }
        for name in ("open", "frozen")
    }
    (HERE / "choice.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, scores in found.items():
        for score, one in scores.items():
            print(name, score, one)


if __name__ == "__main__":
    main()
