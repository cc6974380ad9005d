"""Views, opinions, published confidences, reverse validation and the disagreement bound, each
against a slow computation in float64 or a case made by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.confidence import (
    apportioned,
    classwise_confidence,
    matrix_norm,
    mean_energy,
    transported_confidence,
)
from revgrad.diagnostics.disagreement import accuracy_bound, disagreement_discrepancy, slack_of
from revgrad.diagnostics.inputs import probabilities
from revgrad.diagnostics.reverse_validation import reverse_validation
from revgrad.diagnostics.views import colours, kind_of, random_convolutions, texture, views
from revgrad.errors import InputError

RNG = np.random.default_rng(0)


def test_transport_is_the_best_of_all_assignments() -> None:
    """Five samples, three classes: every way to give out the labels is tried."""
    labels = np.array([0, 0, 1, 1, 2])
    source = 30.0 * np.eye(3)[labels]
    source[0] = [0, 1, 0]  # so that the temperature is no limit
    target = RNG.normal(size=(5, 3)) * 2
    found = transported_confidence(source, labels, target)
    from revgrad.diagnostics.certainty import source_temperature

    shares = probabilities(target / source_temperature(source, labels))
    slow = max(
        sum(shares[i, y] for i, y in enumerate(order)) / 5
        for order in set(itertools.permutations([0, 0, 1, 1, 2]))
    )
    assert found == pytest.approx(slow)


def test_apportioned_sums_to_the_count() -> None:
    assert apportioned(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert apportioned(np.array([1 / 3] * 3), 10).sum() == 10


def test_matrix_norm_and_energy_by_loops() -> None:
    logits = RNG.normal(size=(6, 4))
    rows = [[1 + x + x * x / 2 for x in row] for row in logits]
    slow = sum((x / sum(row)) ** 4 for row in rows for x in row) / 24
    assert matrix_norm(logits) == pytest.approx(slow**0.25)
    sure = 40 * np.eye(4)[[0, 1, 2, 3]]  # −log softmax is 30 on average: the softmax itself
    assert matrix_norm(sure) == pytest.approx((1 / 4) ** 0.25)
    energy = sum(math.log(sum(math.exp(x) for x in row)) for row in logits) / 6
    assert mean_energy(logits) == pytest.approx(energy)


def test_classwise_confidence_is_the_accuracy_where_nothing_shifts() -> None:
    n = 4000
    labels = RNG.integers(0, 3, n)
    logits = 1.2 * np.eye(3)[labels] + RNG.normal(size=(n, 3))
    accuracy = (logits.argmax(1) == labels).mean()
    assert classwise_confidence(logits, labels, logits) == pytest.approx(accuracy, abs=1e-3)


def test_reverse_validation_knows_sensible_labels() -> None:
    labels = np.arange(200) % 2
    view = np.eye(2)[labels] * 4 + RNG.normal(size=(200, 2))
    good = reverse_validation(view, labels, view + 3, labels, 2)
    assert good > 0.95
    assert reverse_validation(view, labels, view + 3, 1 - labels, 2) < 0.05


def test_the_bound_is_its_formula_and_holds() -> None:
    assert slack_of(100, 200, 0.01) == pytest.approx(
        math.sqrt((100 + 800) * math.log(100) / (2 * 100 * 200))
    )
    labels = np.arange(600) % 2
    features = 6 * np.eye(2)[labels] + RNG.normal(size=(600, 2))
    same = disagreement_discrepancy(features[:300], labels[:300], features[300:], labels[300:], 2)
    assert same < 0.15  # who agrees on one half agrees on the other
    # a target that lies where the source says nothing of it: there a critic may say what it likes
    away = np.stack([RNG.normal(size=300), 40 + RNG.normal(size=300)], axis=1)
    far = disagreement_discrepancy(features[:300], labels[:300], away, np.ones(300, int), 2)
    assert far > 0.8
    logits = 5 * np.eye(2)[labels]
    found = accuracy_bound(
        Evidence(logits[300:], logits[:300], labels[:300], features[300:], features[:300])
    )
    assert found.source_accuracy == 1
    assert found.value == pytest.approx(max(1 - found.discrepancy - found.slack, 0))
    assert 0.4 < found.value <= 1  # the truth


def test_views_by_kind() -> None:
    images = RNG.integers(0, 256, (5, 20, 20, 3), dtype=np.uint8)
    assert kind_of(images) == "images"
    assert list(views(images)) == ["edges", "colours", "texture"]
    assert list(views(RNG.normal(size=(5, 2, 40)))) == ["spectra", "convolutions"]
    assert list(views(RNG.normal(size=(5, 3)))) == ["values"]
    assert list(views((RNG.random((50, 40)) > 0.9).astype(float))) == ["counts"]
    with pytest.raises(InputError, match="views are of"):
        kind_of(np.zeros((2, 3, 4, 5, 6)))


def test_colours_count_and_average() -> None:
    red = np.zeros((1, 24, 24, 3), dtype=np.uint8)
    red[..., 0] = 255
    found = colours(red)[0]
    assert found[: 4**3].sum() == pytest.approx(1)
    assert found[3 * 16] == pytest.approx(1)  # the last step of red, the first of green and blue
    assert found[4**3 :].reshape(3, 9).mean(1) == pytest.approx([1, 0, 0])


def test_texture_of_a_pattern_by_loops() -> None:
    """Local binary patterns of every pixel, by their definition."""
    grey = RNG.integers(0, 256, (24, 24))
    image = np.repeat(grey[None, ..., None], 3, axis=3).astype(np.uint8)
    found = texture(image)[0]
    padded = np.pad(grey, 1, mode="edge")
    counts: dict[int, int] = {}
    for i, j in itertools.product(range(24), range(24)):
        around = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
        bits = [int(padded[i + a, j + b] >= grey[i, j]) for a, b in around]
        changes = sum(bits[k] != bits[k - 1] for k in range(8))
        code = sum(bit << k for k, bit in enumerate(bits)) if changes <= 2 else -1
        counts[code] = counts.get(code, 0) + 1
    slow = sorted(math.sqrt(count / 576) for count in counts.values())
    assert sorted(value for value in found[:-3] if value > 0) == pytest.approx(slow, abs=1e-6)


def test_random_convolutions_by_loops() -> None:
    series = RNG.normal(size=(3, 2, 30))
    found = random_convolutions(series)
    scaled = (series - series.mean((0, 2), keepdims=True)) / series.std(
        (0, 2), keepdims=True, ddof=1
    )
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(33, 2, 7))
    weights -= weights.mean(axis=2, keepdims=True)
    offsets = rng.uniform(-1, 1, 33)
    said = [
        offsets[4] + sum(scaled[1, c, t + k] * weights[4, c, k] for c in range(2) for k in range(7))
        for t in range(24)
    ]
    assert found[1, 4] == pytest.approx(max(said), abs=1e-4)
    assert found[1, 33 + 4] == pytest.approx(sum(value > 0 for value in said) / 24)
