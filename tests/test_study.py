"""The study's arithmetic against slow definitions, and that its records say what the page says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "selection"))
import study


def record(accuracy: float, **more: Any) -> study.Record:
    values: dict[str, Any] = {
        "pair": "a->b",
        "set": "judged",
        "failed": False,
        "target_accuracy": accuracy,
        "baseline_accuracy": 0.5,
        "scores": {"s": accuracy},
        "estimates": {"e": accuracy + 0.1},
        "skada": {},
        "verdict": None,
    }
    return {**values, **more}


def test_spearman_is_scipys() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 6, 20).astype(float), rng.integers(0, 6, 20).astype(float)
    assert study.spearman(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert study.spearman(np.ones(4), np.arange(4.0)) == 0


def test_regret_is_what_the_choice_costs() -> None:
    runs = [record(0.9, scores={"s": 1.0}), record(0.7, scores={"s": 2.0}), record(0.8, scores={})]
    other = [record(0.4, pair="c->d", scores={"s": 1.0})]
    found = study.choosing("s", study.scorers(runs)["s"], [*runs, *other])
    assert found.regrets == pytest.approx((0.2, 0.0))
    assert (found.regret, found.worst) == pytest.approx((0.1, 0.2))


@pytest.mark.parametrize(
    ("accuracy", "failed", "said"),
    [
        (0.52, False, "adapted"),
        (0.51, False, "no gain"),
        (0.48, False, "harmed"),
        (0.9, True, "harmed"),
    ],
)
def test_the_truth(accuracy: float, failed: bool, said: str) -> None:
    assert study.truth(record(accuracy, failed=failed)) == said


def test_cannot_tell_is_right_up_to_a_tenth() -> None:
    right = [record(0.9, verdict="adapted")] * 7
    unsure = [record(0.9, verdict="can't tell")] * 3
    share, unsure_share, counts = study.verdicts([*right, *unsure, record(0.5)])
    assert (share, unsure_share) == pytest.approx((0.8, 0.3))
    assert counts == {("adapted", "adapted"): 7, ("adapted", "can't tell"): 3}


def test_a_pair_in_a_line() -> None:
    runs = [
        record(0.9, verdict="adapted", estimates={"signs": 0.8}),
        record(0.3, verdict="adapted", estimates={"signs": 0.6}),
        record(0.4, verdict="can't tell", estimates={}),
        record(0.5, estimates={"signs": 0.5}),
        record(0.7, estimates={"signs": 0.7}),
    ]
    assert study.by_pair(runs) == "0.90, 0.60 | 1 of 3 | 1 | 10.0"


def test_the_records_are_of_the_study() -> None:
    """120 runs or more over five pairs or more; tuned and judged pairs are different ones."""
    found = study.read(study.RECORDS)
    pairs = study.pairs_of(found)
    assert len(found) >= 120
    assert len(pairs) >= 5
    sets = {name: {run["set"] for run in runs} for name, runs in pairs.items()}
    assert all(len(kinds) == 1 for kinds in sets.values())
    assert {"tuned"} in sets.values()
    assert {"judged"} in sets.values()
    harmed = {run["pair"] for run in found if study.truth(run) == "harmed"}
    assert len(harmed) >= 2
    assert "| score | Spearman |" in study.tables(found)
