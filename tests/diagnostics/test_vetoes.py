"""What rules out that a network adapted, against slow computations and cases made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.verdict import judge
from revgrad.diagnostics.vetoes import find_vetoes, relative_spread, source_fall, variety


def test_relative_spread_by_loops() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3)) + 2
    mean = [math.fsum(row[i] for row in rows) / 7 for i in range(3)]
    spread = math.fsum((row[i] - mean[i]) ** 2 for row in rows for i in range(3)) / 7
    size = math.fsum(row[i] ** 2 for row in rows for i in range(3)) / 7
    assert relative_spread(rows) == pytest.approx(math.sqrt(spread / size))
    assert relative_spread(np.zeros((4, 2))) == 0
    assert relative_spread(np.full((4, 2), 0.1)) == pytest.approx(0, abs=1e-7)


def model(
    predicted: np.ndarray, source_right: float = 1.0, classes: int = 2, spread: float = 1.0
) -> Evidence:
    """A network that predicts these classes, and is right for this share of the source."""
    n, rng = len(predicted), np.random.default_rng(0)
    labels = np.arange(n) % classes
    wrong = np.arange(n) >= round(source_right * n)
    return Evidence(
        target_logits=5 * np.eye(classes)[predicted],
        source_logits=5 * np.eye(classes)[np.where(wrong, (labels + 1) % classes, labels)],
        source_labels=labels,
        source_features=1 + spread * rng.normal(size=(n, 3)),
        target_features=1 + spread * rng.normal(size=(n, 3)),
    )


def test_variety_by_hand() -> None:
    half = np.arange(100) % 2
    assert variety(model(half)) == pytest.approx(1)
    assert variety(model(0 * half)) == pytest.approx(0)
    shares = (0.9, 0.1)
    slow = math.exp(-sum(p * math.log(p) for p in shares)) - 1
    assert variety(model((np.arange(100) < 10).astype(int))) == pytest.approx(slow)
    ten = np.arange(100) % 10
    assert variety(model(ten % 2, classes=10)) == pytest.approx(1 / 9)


def test_a_collapse_of_two_classes_is_noticed() -> None:
    """Half of two effective classes is one, which nothing falls below: the old rule never did."""
    varied, one_class = np.arange(200) % 2, (np.arange(200) < 6).astype(int)
    found = find_vetoes(model(one_class), model(varied))
    assert [(veto.name, veto.shared) for veto in found] == [("predictions collapsed", False)]
    assert judge(model(one_class), model(varied), compared_with="x").outcome == "harmed"
    assert find_vetoes(model(varied), model(varied)) == ()


def test_two_of_many_classes_are_a_collapse_and_four_are_not() -> None:
    ten = np.arange(400) % 10
    two, four = model(ten % 2, classes=10), model(ten % 4, classes=10)
    varied = model(ten, classes=10)
    assert [veto.name for veto in find_vetoes(two, varied)] == ["predictions collapsed"]
    assert find_vetoes(four, varied) == ()  # a target of some of the classes


def test_what_the_baseline_shares_is_no_harm() -> None:
    ten = np.arange(400) % 10
    two = model(ten % 2, classes=10)
    (veto,) = find_vetoes(two, two)
    assert veto.shared
    assert judge(two, two, compared_with="x").outcome == "no gain"


def test_features_that_do_not_differ() -> None:
    varied = np.arange(200) % 2
    flat = model(varied, spread=1e-3)
    (veto,) = find_vetoes(flat, model(varied))
    assert (veto.name, veto.shared) == ("features collapsed", False)
    assert find_vetoes(flat, flat)[0].shared


def test_an_unlearned_source() -> None:
    varied = np.arange(200) % 2
    good, worse = model(varied), model(varied, source_right=0.85)
    assert [veto.name for veto in find_vetoes(worse, good)] == ["source forgotten"]
    assert find_vetoes(model(varied, source_right=0.93), good) == ()
    fall, deviation = source_fall(worse, good)
    differences = [1.0] * 30 + [0.0] * 170
    mean = sum(differences) / 200
    slow = math.sqrt(sum((d - mean) ** 2 for d in differences) / 200 / 200)
    assert (fall, deviation) == pytest.approx((mean, slow))
    few = np.arange(10) % 2  # of ten samples one more is wrong: that may be chance
    assert find_vetoes(model(few, source_right=0.9), model(few)) == ()
    # a baseline that predicts one class of the target is beaten by what knows both a little
    (veto,) = find_vetoes(worse, model(0 * varied))
    assert veto.shared


def test_without_a_baseline() -> None:
    """A network is not called adapted beside its own first steps, had it not learned yet then."""
    varied = np.arange(200) % 2
    first, last = model(0 * varied, source_right=0.5), model(varied)
    found = judge(last, first, compared_with="this run at step 20", own_start=True)
    assert found.outcome == "can't tell"
    collapsed = judge(model(0 * varied), first, compared_with="this run at step 20", own_start=True)
    assert collapsed.outcome != "adapted"
    assert judge(model(0 * varied), None, compared_with="nothing").outcome == "harmed"
