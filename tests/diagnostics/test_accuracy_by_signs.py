"""Signs of right and wrong samples against slow loops over their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.accuracy_estimate import (
    INTERCEPT,
    SIGN_WEIGHTS,
    accuracy_by_signs,
    correctness,
    correctness_signs,
    estimate_accuracy,
    has_informative_opinion,
    opinion_on,
)
from revgrad.errors import InputError

CLASSES = 3


def evidence(n: int = 17, m: int = 40, seed: int = 0, *, told: float = 4.0) -> Evidence:
    """Random predictions; samples that tell their class by `told` times their noise."""
    rng = np.random.default_rng(seed)

    def logits(rows: int) -> np.ndarray:
        return rng.normal(size=(rows, CLASSES)) * 2

    labels, truth = np.arange(m) % CLASSES, np.arange(n) % CLASSES
    return Evidence(
        target_logits=logits(n),
        source_logits=logits(m),
        source_labels=labels,
        target_inputs=told * np.eye(CLASSES)[truth] + rng.normal(size=(n, CLASSES)),
        source_inputs=told * np.eye(CLASSES)[labels] + rng.normal(size=(m, CLASSES)),
    )


def test_every_sign_is_that_of_its_definition() -> None:
    e: Any = evidence()
    n = len(e.target_logits)
    predicted = [int(np.argmax(row)) for row in e.target_logits]
    opinion = opinion_on(e)
    said = opinion.probabilities.tolist()
    agrees = [float(row.index(max(row)) == c) for row, c in zip(said, predicted, strict=True)]
    found = correctness_signs(e)
    assert found.shape == (n, len(SIGN_WEIGHTS))
    for i in range(n):
        near = opinion.neighbours[i].tolist()
        share = sum(c == predicted[i] for c in predicted) / n
        expected = [
            agrees[i],
            math.log(said[i][predicted[i]]),
            sum(predicted[j] == predicted[i] for j in near) / len(near),
            math.log(CLASSES * (share + 0.5 / n)),
            sum(agrees) / n,
            sum(max(row) for row in said) / n,
        ]
        assert found[i].tolist() == pytest.approx(expected, abs=1e-9)


def test_correctness_is_the_logistic_function_of_the_weighted_signs() -> None:
    e = evidence()
    signs = correctness_signs(e)
    expected = [
        1
        / (
            1
            + math.exp(
                -INTERCEPT - sum(SIGN_WEIGHTS[name] * row[k] for k, name in enumerate(SIGN_WEIGHTS))
            )
        )
        for row in signs
    ]
    assert correctness(e).tolist() == pytest.approx(expected)
    estimate = accuracy_by_signs(e)
    assert estimate.value == pytest.approx(sum(expected) / len(expected))
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


def test_weights_have_the_sense_that_the_signs_have() -> None:
    """Agreed with, and better supported: more likely right. A class said too often: less."""
    assert set(SIGN_WEIGHTS) == set(SIGN_WEIGHTS)
    for name in ("agrees", "likelihood", "look-alikes", "agreement"):
        assert SIGN_WEIGHTS[name] > 0, name
    assert SIGN_WEIGHTS["class share"] < 0


def test_one_sample_alone() -> None:
    assert np.isfinite(correctness_signs(evidence(1))).all()


def test_an_opinion_that_is_not_heard_leaves_the_published_estimators() -> None:
    deaf = evidence(told=0.0, m=120)
    assert not has_informative_opinion(deaf)
    found = estimate_accuracy(deaf)
    assert found is not None
    assert "signs" not in found.method
    informed = estimate_accuracy(evidence())
    assert informed is not None
    assert "signs" in informed.method


def test_what_is_missing_is_named() -> None:
    bare = Evidence(np.zeros((3, 2)))
    assert not has_informative_opinion(bare)
    assert estimate_accuracy(bare) is None
    with pytest.raises(InputError, match="source_inputs"):
        correctness_signs(bare)
