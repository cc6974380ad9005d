"""The model of trust: its parts by hand, what it tells and what it leaves open."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from revgrad.diagnostics.forest import Forest, forest_from
from revgrad.diagnostics.trust import (
    LEAST_SPREAD,
    OF_PAIR,
    Support,
    TrustModel,
    accuracy_of,
    judge_signs,
    outcome_of,
    outcome_signs,
    pair_signs,
    quality_of,
    trust_model,
)

SIGNS = {
    "differing": 0.2,
    "classes": 4.0,
    "target-samples": 1000.0,
    "source-samples": 200.0,
    "pooled-after": 0.8,
    "pooled-before": 0.7,
    "votes-own-scale": 0.1,
    "votes-source-scale": 0.05,
    "votes-least": 0.02,
    "votes-most": 0.12,
    "votes-side": 1.0,
    "sureness": 0.9,
    "steadiness": 0.9,
    "most-reliable": 0.9,
    "competence": 0.9,
    "agreement": 0.8,
    "scales-agree": 0.9,
    "pool-shares": 0.05,
    **{
        f"{name}-{when}": 0.8
        for name in (
            *("learned", "learned-soft", "smooth", "source", "variety", "cot", "latent"),
            *("pooled-soft", "unlike-neighbours", "shares-off", "atc", "doc", "classwise"),
        )
        for when in ("after", "before")
    },
}


def stump(sign: str, threshold: float, below: list[float], above: list[float]) -> Forest:
    return forest_from(
        {
            "signs": [sign],
            "trees": [
                {
                    "sign": [0, -1, -1],
                    "threshold": [threshold, 0, 0],
                    "left": [1, 0, 0],
                    "right": [2, 0, 0],
                    "values": [[0] * len(below), below, above],
                }
            ],
        }
    )


def model(sure: float = 0.9) -> TrustModel:
    rest = (1 - sure) / 2
    return TrustModel(
        quality={"sureness": 0.5, "steadiness": 0.5}
        | dict.fromkeys(("most-reliable", "competence", "chance", "one"), 0.0),
        outcomes=stump("gain-pooled", 0, [sure, rest, rest], [rest, rest, sure]),
        accuracy=stump("pooled", 0.75, [0.5, 0.26], [0.8, 0.65]),
        intervals={"all": 2.0},
        pairs={"all": 40},
        support=Support((0.1,) * 7, (tuple(pair_signs(SIGNS).values()),), 2.0),
    )


def test_the_formulas_by_hand() -> None:
    assert quality_of(SIGNS, model()) == pytest.approx((0.9 - 0.25) / 0.75)
    value, spread = accuracy_of(SIGNS, "after", model())
    assert value == pytest.approx(0.8)
    assert spread == pytest.approx(math.sqrt(0.65 - 0.64) + LEAST_SPREAD)
    assert accuracy_of(SIGNS, "before", model())[0] == pytest.approx(0.5)
    assert outcome_of(SIGNS, model()) == pytest.approx(
        {"harmed": 0.05, "no gain": 0.05, "adapted": 0.9}
    )
    assert outcome_signs(SIGNS)["gain-pooled"] == pytest.approx(0.1)
    assert outcome_signs(SIGNS)["log-samples"] == pytest.approx(math.log(1000))


def test_distance_to_the_nearest_pair_by_loops() -> None:
    here = pair_signs(SIGNS)
    pairs = [{name: value + shift for name, value in here.items()} for shift in (0.3, -0.1)]
    pairs[1]["chance"] += 0.5
    scale = [0.1 * (1 + k) for k in range(len(OF_PAIR))]
    support = Support(tuple(scale), tuple(tuple(one.values()) for one in pairs), 1.0)
    slow = []
    for one in pairs:
        squares = [
            ((one[name] - here[name]) / size) ** 2
            for name, size in zip(OF_PAIR, scale, strict=True)
        ]
        slow.append(math.sqrt(sum(squares) / len(squares)))
    assert support.distance(here) == pytest.approx(min(slow))


def test_what_is_told_and_what_is_not() -> None:
    assert judge_signs(SIGNS, model())[0] == "adapted"
    assert judge_signs(SIGNS | {"pooled-after": 0.6}, model())[0] == "harmed"
    told, probability, why = judge_signs(SIGNS, model(sure=0.5))
    assert (told, probability) == (None, 0.5)
    assert "adapted (50%)" in why
    against = SIGNS | {"votes-source-scale": -0.05}
    assert "own scale" not in why
    assert "in the source's scale -5.0" in judge_signs(against, model(sure=0.5))[2]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source-samples": 12.0}, "too few"),
        ({"target-samples": 20.0}, "too few"),
        ({"steadiness": 0.1, "agreement": 0.0, "pool-shares": 0.9}, "unlike all"),
    ],
)
def test_reasons_to_stay_silent(changes: dict[str, float], why: str) -> None:
    told, _, said = judge_signs(SIGNS | changes, replace(model()))
    assert told is None
    assert why in said


def test_the_shipped_model() -> None:
    """Of networks that differ by ten points to every eye, and the same the other way round."""
    shipped = trust_model()
    better = SIGNS | {
        f"{name}-before": SIGNS[f"{name}-after"] - 0.1
        for name in ("pooled", "learned", "learned-soft", "smooth", "cot", "variety")
    }
    chances = outcome_of(better, shipped)
    assert sum(chances.values()) == pytest.approx(1, abs=0.001)
    assert chances["adapted"] > 0.7
    turned = {
        name.replace("-after", "-before")
        if name.endswith("-after")
        else name.replace("-before", "-after"): value
        for name, value in better.items()
    }
    votes = {name: -value for name, value in better.items() if name.startswith("votes")}
    votes["votes-least"], votes["votes-most"] = votes["votes-most"], votes["votes-least"]
    assert outcome_of(turned | votes, shipped)["harmed"] > 0.7
    poor, good = (
        accuracy_of(SIGNS | {"pooled-after": value, "learned-after": value}, "after", shipped)[0]
        for value in (0.3, 0.95)
    )
    assert poor < good - 0.1
    assert shipped.pairs["all"] >= 40
