"""Signs of right and wrong rows against slow loops over their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.calibrating import source_temperature
from revgrad.diagnostics.correctness import (
    CONSTANT,
    WEIGHTS,
    correctness,
    estimated_accuracy,
    suffices,
)
from revgrad.diagnostics.row_signs import NEIGHBOURS, SIGNS, row_signs
from revgrad.errors import InputError

CLASSES = 3


def evidence(n: int = 17, m: int = 25, seed: int = 0, **more: Any) -> Evidence:
    rng = np.random.default_rng(seed)

    def logits(rows: int) -> np.ndarray:
        return rng.normal(size=(rows, CLASSES)) * 2

    return Evidence(
        target_logits=logits(n),
        source_logits=logits(m),
        source_labels=rng.integers(0, CLASSES, m),
        target_features=rng.normal(size=(n, 4)),
        source_features=rng.normal(size=(m, 4)),
        target_changed_logits=logits(n),
        source_changed_logits=logits(m),
        **{"checkpoint_logits": (logits(n), logits(n)), **more},
    )


def softmax(row: Any) -> list[float]:
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def invariance(row: Any, changed: Any, heat: float) -> float:
    one, other = softmax(row / heat), softmax(changed / heat)
    first = one.index(max(one))
    return math.sqrt(one[first] * other[first]) if other.index(max(other)) == first else 0.0


def unit(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(0)
    return np.array([row / math.sqrt(sum(row**2)) for row in centred])


def test_every_sign_is_that_of_its_definition() -> None:
    e: Any = evidence()
    n, m = len(e.target_logits), len(e.source_logits)
    heat = source_temperature(e.source_logits, e.source_labels)
    own, other = unit(e.target_features), unit(e.source_features)
    predicted = [int(np.argmax(row)) for row in e.target_logits]
    of_source = [
        invariance(a, b, heat)
        for a, b in zip(e.source_logits, e.source_changed_logits, strict=True)
    ]
    of_target = [
        invariance(a, b, heat)
        for a, b in zip(e.target_logits, e.target_changed_logits, strict=True)
    ]
    found = row_signs(e)
    assert found.shape == (n, len(SIGNS))
    for i in range(n):
        likely = max(softmax(e.target_logits[i] / heat))
        near = sorted((j for j in range(n) if j != i), key=lambda j: -float(own[i] @ own[j]))
        abroad = sorted(range(m), key=lambda j: -float(own[i] @ other[j]))
        here = sum(c == predicted[i] for c in predicted) / n
        there = sum(c == predicted[i] for c in e.source_labels) / m
        expected = [
            math.log(likely / (1 - likely)),
            of_target[i],
            float(np.argmax(e.target_changed_logits[i]) == predicted[i]),
            sum(np.argmax(c[i]) == predicted[i] for c in e.checkpoint_logits) / 2,
            sum(predicted[j] == predicted[i] for j in near[:NEIGHBOURS]) / NEIGHBOURS,
            sum(e.source_labels[j] == predicted[i] for j in abroad[:NEIGHBOURS]) / NEIGHBOURS,
            math.log((here + 0.5 / n) / (there + 0.5 / n)),
            np.mean(
                [np.argmax(r) == c for r, c in zip(e.source_logits, e.source_labels, strict=True)]
            ),
            sum(of_source) / m,
            sum(of_target) / n,
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
    """More certain, kept when changed, better supported: more likely right."""
    assert set(WEIGHTS) == set(SIGNS)
    for name in ("confidence", "alike when changed", "source neighbours", "target neighbours"):
        assert WEIGHTS[name] > 0, name


def test_few_rows_and_no_checkpoints() -> None:
    few = evidence(4, 3, seed=1, checkpoint_logits=())
    signs = row_signs(few)
    assert np.isfinite(signs).all()
    assert (signs[:, SIGNS.index("stable")] == 1).all()


def test_what_is_missing_is_named() -> None:
    bare = Evidence(np.zeros((3, 2)))
    assert not suffices(bare)
    with pytest.raises(InputError, match="source_logits"):
        row_signs(bare)
