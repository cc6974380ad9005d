"""The study of trust: cases that verdicts are known for, and the model that is shipped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "trust"))
import trust_fit
from revgrad.diagnostics.trust import outcome_signs, trust_model


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Any]:
    return {(one["pair"], one["trial"]): one for one in trust_fit.records()}


@pytest.mark.parametrize(
    ("pair", "trial", "truth", "allowed"),
    [
        # ruined sentiment: what the audited verdict called "adapted" may at most be unknown
        ("tweets -> products", "late-at-once", "harmed", {"harmed", None}),
        ("products -> tweets, swapped shares", "strong", "harmed", {"harmed", None}),
        ("cars of other countries", "strong", "harmed", {"harmed", None}),  # a ruined table
        ("surfaces, right side", "lambda-10", "harmed", {"harmed"}),  # texture
        ("amazon -> webcam", "dann", "harmed", {"harmed"}),  # photographs
        ("watch, other arm", "dann", "adapted", {"adapted"}),  # series
        ("watch, halves", "lambda-10", "harmed", {"harmed"}),
        ("moons by 30 degrees", "lambda-10", "harmed", {"harmed", None}),
        ("drawn signs -> signs, four", "late-at-once", "harmed", {"harmed"}),  # partial classes
        ("signs, halves", "strong", "no gain", {"no gain", None}),  # a strong network
    ],
)
def test_cases(
    known: dict[tuple[str, str], Any],
    pair: str,
    trial: str,
    truth: str,
    allowed: set[str | None],
) -> None:
    found = trust_fit.judged(known[pair, trial], trust_model())
    assert found["true"] == truth
    assert found["told"] in allowed
    assert found["inside"]


def test_a_harmed_run_of_moons_by_60_degrees_is_never_called_adapted(
    known: dict[tuple[str, str], Any],
) -> None:
    harmed = [
        one
        for (pair, _), one in known.items()
        if pair == "moons by 60 degrees" and trust_fit.true_outcome(one) == "harmed"
    ]
    assert harmed
    told = {trust_fit.judged(one, trust_model())["told"] for one in harmed}
    assert "adapted" not in told


def test_a_strong_network_is_not_underestimated(known: dict[tuple[str, str], Any]) -> None:
    """Right for .94: the earlier estimate said ten points less of such networks."""
    found = trust_fit.judged(known["signs, halves", "strong"], trust_model())
    assert found["off"] < 0.05


def test_the_shipped_model_is_the_fitted_one(known: dict[tuple[str, str], Any]) -> None:
    open_ones = [one for one in known.values() if one["set"] == "open"]
    shipped = trust_model()
    assert trust_fit.quality_weights(open_ones) == pytest.approx(shipped.quality, abs=0.001)
    support = trust_fit.support_of(open_ones)
    assert support.limit == pytest.approx(shipped.support.limit, abs=0.001)
    assert np.array(support.pairs) == pytest.approx(np.array(shipped.support.pairs), abs=0.001)
    fitted = trust_fit.outcome_forest(open_ones)
    for one in open_ones[::40]:
        signs = outcome_signs(one["signs"])
        assert fitted.said(signs) == pytest.approx(shipped.outcomes.said(signs), abs=0.02)


def test_conformal_by_loops() -> None:
    """Each pair counts as one, and a pair that nothing is known of beside them."""
    scores = [[0.1, 0.3], [0.2], [0.9, 0.5, 0.7]]
    every = sorted((value, 1 / len(one)) for one in scores for value in one)
    for level in (0.3, 0.5, 0.7):
        reached, expected = 0.0, None
        for value, weight in every:
            reached += weight / 4
            if reached >= level - 1e-12 and expected is None:
                expected = value
        assert trust_fit.conformal(scores, level) == expected
    assert trust_fit.conformal(scores, 0.95) == 0.9  # no more than the widest that was seen


def test_what_is_on_record() -> None:
    found = json.loads((trust_fit.HERE / "judged.json").read_text(encoding="utf-8"))
    assert set(found) == {"left-out pairs", "left-out kinds", "frozen pairs", "reserve"}
    pairs = found["left-out pairs"]["all"]
    assert pairs["runs"] == sum(
        one["runs"] for kind, one in found["left-out pairs"].items() if kind != "all"
    )
    assert pairs["harmed_called_adapted"] <= 0.02 * pairs["harmed"]
