"""The model of trust: its formulas by hand, what it tells and what it leaves open."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from revgrad.diagnostics.trust import (
    FREEDOM,
    TrustModel,
    accuracy_of,
    contradiction,
    gain_of,
    judge_signs,
    outcome_probabilities,
    quality_of,
    trust_model,
)

MODEL = TrustModel(
    quality={
        "sureness": 0.5,
        "steadiness": 0.5,
        "most-reliable": 0.0,
        "competence": 0.0,
        "chance": 0.0,
        "one": 0.0,
    },
    accuracy=(0.1, 0.5, 0.4, 0.0),
    accuracy_spread=(-2.0, -2.0),
    gain=0.9,
    spread=(0.003, 0.5, 0.4, 0.5),
    intervals={"all": 3.0},
    pairs={"all": 40},
)
SIGNS = {
    "differing": 0.2,
    "classes": 4.0,
    "target-samples": 1000.0,
    "source-samples": 200.0,
    "pooled-after": 0.8,
    "pooled-before": 0.7,
    "cot-after": 0.8,
    "cot-before": 0.75,
    "votes-own-scale": 0.1,
    "votes-source-scale": 0.05,
    "votes-spread": 0.01,
    "sureness": 0.9,
    "steadiness": 0.9,
    "most-reliable": 0.9,
    "competence": 0.9,
}


def test_the_formulas_by_hand() -> None:
    quality = quality_of(SIGNS, MODEL)
    assert quality == pytest.approx((0.9 - 0.25) / 0.75)
    value, error = accuracy_of(0.8, quality, MODEL)
    assert value == pytest.approx(0.1 + 0.5 * 0.8 + 0.4 * 0.8 * quality)
    assert error == pytest.approx(math.exp(-2 - 2 * quality))
    gain, spread = gain_of(SIGNS, quality, MODEL)
    assert gain == pytest.approx(0.09)
    parts = [0.003, 0.5 * math.sqrt(0.2 / 1000), 0.4 * 0.2 * (1 - quality), 0.5 * 0.01]
    assert spread == pytest.approx(math.sqrt(sum(part**2 for part in parts)))


def test_probabilities_are_those_of_students_distribution() -> None:
    """Against the integral of its density, in small steps."""

    def density(t: float) -> float:
        return (
            math.gamma((FREEDOM + 1) / 2)
            / (math.sqrt(FREEDOM * math.pi) * math.gamma(FREEDOM / 2))
            * (1 + t * t / FREEDOM) ** (-(FREEDOM + 1) / 2)
        )

    found = outcome_probabilities(0.03, 0.02)
    step = 0.001
    above = sum(density(-0.5 + step * (i + 0.5)) for i in range(200_000)) * step
    assert found["adapted"] == pytest.approx(above, abs=1e-4)
    assert sum(found.values()) == pytest.approx(1)
    mirrored = outcome_probabilities(-0.03, 0.02)
    assert mirrored["harmed"] == pytest.approx(found["adapted"])


def test_what_is_told_and_what_is_not() -> None:
    assert judge_signs(SIGNS, MODEL)[0] == "adapted"
    turned = SIGNS | {
        "pooled-after": 0.7,
        "pooled-before": 0.8,
        "cot-after": 0.75,
        "cot-before": 0.8,
        "votes-own-scale": -0.1,
        "votes-source-scale": -0.05,
    }
    assert judge_signs(turned, MODEL)[0] == "harmed"
    equal = SIGNS | {"pooled-after": 0.7, "differing": 0.03, "votes-own-scale": 0.0}
    assert judge_signs(equal | {"votes-source-scale": 0.0}, MODEL)[0] == "no gain"
    near = SIGNS | {"pooled-after": 0.722}
    told, _, why = judge_signs(near, MODEL)
    assert told is None
    assert "adapted" in why
    assert "no gain" in why
    # few samples of a large share that is predicted otherwise say less
    assert judge_signs(SIGNS | {"target-samples": 45.0, "differing": 0.9}, MODEL)[0] is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"steadiness": 0.4, "sureness": 0.4}, "know too little"),
        ({"votes-source-scale": -0.05}, "standardise each domain by itself say +10.0"),
        ({"cot-after": 0.6}, "the networks' own confidence -15.0"),
        ({"source-samples": 12.0}, "too few"),
        ({"target-samples": 20.0}, "too few"),
    ],
)
def test_reasons_to_stay_silent(changes: dict[str, float], why: str) -> None:
    told, _, said = judge_signs(SIGNS | changes, MODEL)
    assert told is None
    assert why in said


def test_nothing_contradicts_a_small_difference() -> None:
    small = {"votes-own-scale": 0.015, "votes-source-scale": -0.01, "pooled-after": 0.71}
    assert contradiction(SIGNS | small | {"cot-after": 0.5}) == ""


def test_the_shipped_model_knows_more_where_the_consensus_is_better() -> None:
    model = trust_model()
    poor, good = (accuracy_of(0.8, quality, model) for quality in (0.2, 0.9))
    assert good[1] < poor[1]
    assert accuracy_of(0.9, 0.8, model)[0] > accuracy_of(0.6, 0.8, model)[0] + 0.2
    assert 0.8 < model.gain < 1.1
    assert model.pairs["all"] >= 40
    assert gain_of(SIGNS, 0.2, model)[1] > gain_of(SIGNS, 0.9, model)[1]
    assert replace(model) == model
