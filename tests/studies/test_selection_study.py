"""The study's arithmetic against slow definitions, and that its records say what the page says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad import from_arrays

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "selection"))
import fit
import score
import study
import train
from pairs import TUNED, Data, Pair
from trials import trials


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
    found = study.score_quality("s", study.scorers(runs)["s"], [*runs, *other])
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


def test_from_trainings_to_records_and_to_the_estimates_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two trials of a few steps on noise, by the study's own scripts."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (240, 28, 28, 3), dtype=np.uint8)
    data = Data(*(from_arrays(part, np.arange(120) % 3) for part in (pixels[:120], pixels[120:])))
    monkeypatch.setattr(Pair, "open", lambda pair: data)
    monkeypatch.setattr(train, "EVIDENCE_SAMPLES", 60)
    short = [replace(trial, steps=2) for trial in trials()[:2]]
    assert {trial.network for trial in short} == {"mnist", "compact"}
    for module in (train, score):
        monkeypatch.setattr(module, "trials", lambda: short)
    monkeypatch.setattr(score, "skada_scores", lambda evidence: {"theirs": 0.5})
    pair = next(iter(TUNED))
    runs, records = tmp_path / "runs", tmp_path / "records.jsonl"

    def call(main: Callable[[], None], *words: object) -> None:
        monkeypatch.setattr(sys, "argv", ["script", *map(str, words)])
        main()

    call(train.main, runs, "--pair", pair)
    monkeypatch.setattr(train, "adapt", None)  # nothing is trained twice
    call(train.main, runs, "--pair", pair)
    call(score.main, runs, records, "--pair", pair)
    call(fit.main, runs)
    shown = capsys.readouterr().out
    assert f"{pair}: 4 runs" in shown
    assert "INTERCEPT = " in shown
    found = study.read(records)
    known = study.read(study.RECORDS)[0]
    assert all(set(one) == set(known) for one in found)
    assert [one["verdict"] is None for one in found] == [False, False, True, True]
    assert {tuple(one["trial"]) for one in found} == {tuple(known["trial"])}
    assert "| score | Spearman |" in study.tables(found)
