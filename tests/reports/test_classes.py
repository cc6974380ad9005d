"""Confusion and balance of classes, by slow second computations."""

from __future__ import annotations

import numpy as np
import pytest

from revgrad.diagnostics.evidence import Evidence
from revgrad.reports.classes import balances, confusion_counts, confusion_of


def test_confusion_and_balance_by_loops() -> None:
    rng = np.random.default_rng(1)
    source, target, labels = (
        rng.normal(size=(30, 4)),
        rng.normal(size=(50, 4)),
        rng.integers(4, size=30),
    )
    counts = confusion_counts(source, labels)
    for label in range(4):
        for guess in range(4):
            found = [i for i in range(30) if labels[i] == label and source[i].argmax() == guess]
            assert counts[label, guess] == len(found)
    evidence = Evidence(target, source, labels, source_only_logits=-target)
    found = confusion_of(evidence, "abcd")
    assert found is not None
    worst = found.mistakes[0]
    assert worst.count == max(counts[i, j] for i in range(4) for j in range(4) if i != j)
    assert worst.of == list(labels).count("abcd".index(worst.label))
    assert found.right == sum(counts[i, i] for i in range(4))
    for number, one in enumerate(balances(evidence, "abcd")):
        assert one.source == pytest.approx(list(labels).count(number) / 30)
        assert one.target == pytest.approx(sum(t.argmax() == number for t in target) / 50)
        assert one.baseline == pytest.approx(sum(t.argmin() == number for t in target) / 50)


def test_many_classes_are_still_shown() -> None:
    rng = np.random.default_rng(2)
    evidence = Evidence(
        rng.normal(size=(300, 150)), rng.normal(size=(200, 150)), rng.integers(150, size=200)
    )
    names = [f"class {i}" for i in range(150)]
    found = confusion_of(evidence, names)
    assert found is not None
    assert found.picture is None
    assert found.mistakes
    assert len(balances(evidence, names)) == 50
