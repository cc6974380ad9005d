"""Class shares of the target through the model's confusions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.diagnostics.label_shift import estimate_label_shift
from revgrad.errors import InputError

#: P[predicted | label], one row per label.
CONFUSION = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])


def rows(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels whose confusion is `CONFUSION` exactly; counts are multiples of 20."""
    predicted, labels = [], []
    for label, count in enumerate(counts):
        for answer in range(3):
            times = round(count * CONFUSION[label, answer])
            predicted += [answer] * times
            labels += [label] * times
    return np.eye(3)[predicted], np.array(labels)


def test_shares_are_found_through_the_confusions() -> None:
    source, labels = rows([200, 100, 100])
    target, truth = rows([100, 100, 400])
    found = estimate_label_shift(source, labels, target)
    assert found.source_shares == pytest.approx([0.5, 0.25, 0.25])
    assert found.target_shares == pytest.approx([1 / 6, 1 / 6, 4 / 6])
    assert found.distance == pytest.approx(4 / 6 - 1 / 4)
    # the predictions alone would not have said so
    assert np.bincount(target.argmax(1)) / 600 != pytest.approx(np.bincount(truth) / 600, abs=0.05)


def test_equal_shares_are_at_distance_0_and_noise_is_what_chance_gives() -> None:
    source, labels = rows([200, 100, 100])
    assert estimate_label_shift(source, labels, source).distance == pytest.approx(0, abs=1e-12)
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    distances, noises = [], []
    for _ in range(200):
        mine, theirs = (rng.choice(3, n, p=shares) for n in (300, 150))
        found = estimate_label_shift(np.eye(3)[mine], mine, np.eye(3)[theirs])
        distances.append(found.distance)
        noises.append(found.noise)
    assert np.mean(distances) == pytest.approx(np.mean(noises), rel=0.1)


def test_a_model_that_confuses_all_knows_nothing() -> None:
    labels = np.array([0, 1, 2] * 10)
    found = estimate_label_shift(np.tile([1.0, 0, 0], (30, 1)), labels, np.eye(3)[labels])
    assert math.isinf(found.noise)


def test_classes_that_the_source_lacks_and_other_classes() -> None:
    source, labels = np.eye(4)[[0, 1, 1, 2]], np.array([0, 1, 1, 2])
    without_samples = np.eye(4)[[3, 3, 3]]  # predicted as a class that the source lacks
    found = estimate_label_shift(source, labels, without_samples)
    assert found.target_shares.tolist() == [0, 0, 0, 1]
    assert found.distance == 1
    with pytest.raises(InputError, match="4 and 3 came"):
        estimate_label_shift(source, labels, np.eye(3))
