"""Descriptors and the second opinion against slow loops over their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from revgrad.diagnostics.second_opinion import (
    HOG_CEILING,
    HOG_DIRECTIONS,
    HOG_SIDE,
    HOG_STRIDE,
    HOG_WINDOW,
    NEIGHBOURS_WEIGHT,
    SMOOTHINGS,
    descriptors,
    most_similar,
    second_opinion,
    smoothed,
    surest,
)
from revgrad.errors import InputError


def slowly_described(image: np.ndarray) -> list[float]:
    """One image of HOG_SIDE × HOG_SIDE, pixel by pixel."""
    picture = image.astype(float)

    def smooth(y: int, x: int, channel: int) -> float:
        near = [
            picture[j, i, channel]
            for j in range(y - 1, y + 2)
            for i in range(x - 1, x + 2)
            if 0 <= j < HOG_SIDE and 0 <= i < HOG_SIDE
        ]
        return float(sum(near) / len(near))

    def inside(place: int) -> int:
        return min(max(place, 0), HOG_SIDE - 1)

    counts = np.zeros((HOG_DIRECTIONS, HOG_SIDE, HOG_SIDE))
    for y in range(HOG_SIDE):
        for x in range(HOG_SIDE):
            steepest = (-1.0, 0.0, 0.0)
            for channel in range(3):
                across = smooth(y, inside(x + 1), channel) - smooth(y, inside(x - 1), channel)
                down = smooth(inside(y + 1), x, channel) - smooth(inside(y - 1), x, channel)
                steepest = max(steepest, (math.hypot(across, down), across, down))
            size, across, down = steepest
            turn = (math.atan2(down, across) % math.pi) / math.pi * HOG_DIRECTIONS
            lower = math.floor(turn)
            counts[lower % HOG_DIRECTIONS, y, x] += size * (1 - (turn - lower))
            counts[(lower + 1) % HOG_DIRECTIONS, y, x] += size * (turn - lower)
    places = range(0, HOG_SIDE - HOG_WINDOW + 1, HOG_STRIDE)
    windows = np.array(
        [
            [
                [counts[d, y : y + HOG_WINDOW, x : x + HOG_WINDOW].mean() for x in places]
                for y in places
            ]
            for d in range(HOG_DIRECTIONS)
        ]
    )
    scaled = np.zeros_like(windows)
    last = len(places)
    for y in range(last):
        for x in range(last):
            around = [
                (windows[:, j, i] ** 2).sum()
                for j in range(max(y - 1, 0), min(y + 2, last))
                for i in range(max(x - 1, 0), min(x + 2, last))
            ]
            scaled[:, y, x] = windows[:, y, x] / math.sqrt(sum(around) / len(around) + 1)
    return [min(value, HOG_CEILING) for value in scaled.ravel().tolist()]


def test_descriptors_are_those_of_their_definition() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, HOG_SIDE, HOG_SIDE, 3), dtype=np.uint8)
    images[1, :, :14] = 40  # an edge that is plain to see
    found = descriptors(images)
    for image, row in zip(images, found, strict=True):
        assert row.tolist() == pytest.approx(slowly_described(image), abs=2e-5)


def test_light_on_dark_is_dark_on_light() -> None:
    images = np.random.default_rng(1).integers(0, 256, (3, HOG_SIDE, HOG_SIDE, 3), dtype=np.uint8)
    np.testing.assert_allclose(descriptors(images), descriptors(255 - images), atol=1e-4)


def test_other_sizes_and_vectors() -> None:
    rng = np.random.default_rng(2)
    assert descriptors(rng.integers(0, 256, (2, 40, 31, 3), dtype=np.uint8)).shape[1] == 968
    vectors = rng.normal(size=(4, 5))
    np.testing.assert_array_equal(descriptors(vectors), vectors)
    with pytest.raises(InputError, match="inputs of a second opinion"):
        descriptors(np.zeros((2, 3, 4, 5, 6)))


def test_spectra_by_sums() -> None:
    """The size of each frequency by its definition, in float64."""
    series = np.random.default_rng(3).normal(size=(2, 3, 8))
    found = descriptors(series)
    assert found.shape == (2, 3 * 5 + 3 + 3)
    for i, channel in ((0, 0), (1, 2)):
        values = series[i, channel]
        centred = values - values.mean()
        for k in range(5):
            wave = np.exp(-2j * np.pi * k * np.arange(8) / 8)
            slow = np.log(1 + abs((centred * wave).sum()))
            assert found[i, 5 * channel + k] == pytest.approx(slow, abs=1e-12)
        assert found[i, 15 + channel] == pytest.approx(values.mean())
        assert found[i, 18 + channel] == pytest.approx(values.std())


def test_neighbours_are_the_most_similar_others() -> None:
    rows = np.random.default_rng(3).normal(size=(12, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = most_similar(rows, 5)
    for i in range(12):
        others = sorted((j for j in range(12) if j != i), key=lambda j: -float(rows[i] @ rows[j]))
        assert found[i].tolist() == others[:5]
    assert most_similar(rows[:1]).shape == (1, 0)


def test_opinions_spread_to_neighbours() -> None:
    rng = np.random.default_rng(4)
    said = rng.dirichlet(np.ones(3), size=6)
    near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    expected = said.tolist()
    for _ in range(SMOOTHINGS):
        expected = [
            [
                (1 - NEIGHBOURS_WEIGHT) * said[i][c]
                + NEIGHBOURS_WEIGHT * sum(expected[j][c] for j in near[i]) / 2
                for c in range(3)
            ]
            for i in range(6)
        ]
    np.testing.assert_allclose(smoothed(said, near), expected)


def test_the_surest_samples_of_each_class_are_learned_from() -> None:
    said = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
    rows, guesses = surest(said, 0.5)
    assert rows.tolist() == [0, 2, 4]
    assert guesses.tolist() == [0, 0, 1]


def clouds(n: int, moved: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes about three points; the whole domain moved and stretched."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    centres = np.array([[0.0, 0, 0, 0], [3, 0, 2, 0], [0, 3, 0, 2]])
    rows = centres[labels] + 0.5 * rng.normal(size=(n, 4))
    return (rows * (1 + moved) + 10 * moved).astype(np.float32), labels


def test_it_sees_through_a_plain_shift_of_vectors() -> None:
    source, labels = clouds(200, 0.0, 0)
    target, truth = clouds(150, 1.0, 1)
    opinion = second_opinion(source, labels, target, 4)
    assert opinion.probabilities.shape == (150, 4)
    np.testing.assert_allclose(opinion.probabilities.sum(axis=1), 1)
    assert (opinion.probabilities.argmax(1) == truth).mean() > 0.95
    assert opinion.source_accuracy > 0.95
    assert opinion.is_informative


def test_scales_of_vectors_do_not_matter() -> None:
    source, labels = clouds(120, 0.0, 0)
    target, _ = clouds(80, 1.0, 1)
    scale = np.array([1e-6, 1.0, 1e6, 10.0], dtype=np.float32)
    one = second_opinion(source, labels, target, 3).probabilities
    other = second_opinion(source * scale, labels, target * scale, 3).probabilities
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_an_opinion_that_knows_nothing_is_not_heard() -> None:
    rng = np.random.default_rng(5)
    rows, labels = rng.normal(size=(200, 6)), rng.integers(0, 3, 200)
    assert not second_opinion(rows, labels, rng.normal(size=(50, 6)), 3).is_informative


def test_the_same_samples_get_the_same_answer() -> None:
    source, labels = clouds(60, 0.0, 0)
    target, _ = clouds(40, 1.0, 1)
    first = second_opinion(source, labels, target, 3)
    assert second_opinion(source.copy(), labels.copy(), target.copy(), 3) is first
    changed: Any = target.copy()
    changed[0] += 1
    assert second_opinion(source, labels, changed, 3) is not first


def test_mistakes_get_one_line() -> None:
    source, labels = clouds(20, 0.0, 0)
    with pytest.raises(InputError, match="20 source samples and 19 labels"):
        second_opinion(source, labels[:-1], source, 3)
    with pytest.raises(InputError, match="two classes"):
        second_opinion(source, np.zeros(20, dtype=int), source, 3)
