"""Signs of right and wrong rows against slow loops over their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.correctness import (
    CONSTANT,
    WEIGHTS,
    accuracy_of,
    correctness,
    estimated_accuracy,
    suffices,
)
from revgrad.diagnostics.row_signs import SIGNS, opinion_on, row_signs
from revgrad.errors import InputError

CLASSES = 3


def evidence(n: int = 17, m: int = 40, seed: int = 0, *, told: float = 4.0) -> Evidence:
    """Random predictions; rows that tell their class by `told` times their noise."""
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
    found = row_signs(e)
    assert found.shape == (n, len(SIGNS))
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
    signs = row_signs(e)
    expected = [
        1 / (1 + math.exp(-CONSTANT - sum(WEIGHTS[name] * row[k] for k, name in enumerate(SIGNS))))
        for row in signs
    ]
    assert correctness(e).tolist() == pytest.approx(expected)
    estimate = estimated_accuracy(e)
    assert estimate.value == pytest.approx(sum(expected) / len(expected))
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


def test_weights_have_the_sense_that_the_signs_have() -> None:
    """Agreed with, and better supported: more likely right. A class said too often: less."""
    assert set(WEIGHTS) == set(SIGNS)
    for name in ("agrees", "likelihood", "look-alikes", "agreement"):
        assert WEIGHTS[name] > 0, name
    assert WEIGHTS["class share"] < 0


def test_one_row_alone() -> None:
    assert np.isfinite(row_signs(evidence(1))).all()


def test_an_opinion_that_is_not_heard_leaves_the_published_estimators() -> None:
    deaf = evidence(told=0.0, m=120)
    assert not suffices(deaf)
    found = accuracy_of(deaf)
    assert found is not None
    assert "signs" not in found.method
    heard = accuracy_of(evidence())
    assert heard is not None
    assert "signs" in heard.method


def test_what_is_missing_is_named() -> None:
    bare = Evidence(np.zeros((3, 2)))
    assert not suffices(bare)
    assert accuracy_of(bare) is None
    with pytest.raises(InputError, match="source_inputs"):
        row_signs(bare)
