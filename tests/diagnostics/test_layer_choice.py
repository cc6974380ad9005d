"""Distances of the domains per layer, against double loops."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import median_low

import numpy as np
import pytest
import torch
from torch import nn

from revgrad import from_arrays
from revgrad.diagnostics.layer_choice import (
    layer_shift,
    rank_layers,
    rank_network_layers,
)
from revgrad.errors import InputError, UnknownNameError
from revgrad.objectives.discrepancy import SCALES
from revgrad.paper.ddc import choose_place
from revgrad.preprocessing import Preprocessing


def features(shift: float = 0.7, n: int = 9, m: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) * 1.3 + shift


def squared(x: np.ndarray, y: np.ndarray) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def slow_means(source: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """‖difference of means‖², and the same over the mean squared distance to the own mean."""
    means = [
        [math.fsum(r[i] for r in rows) / len(rows) for i in range(3)] for rows in (source, target)
    ]
    within = [
        math.fsum(squared(row, np.array(mean)) for row in rows) / len(rows)
        for rows, mean in zip((source, target), means, strict=True)
    ]
    between = squared(np.array(means[0]), np.array(means[1]))
    return between, between / (sum(within) / 2)


def slow_mmd(source: np.ndarray, target: np.ndarray) -> float:
    every = [*source, *target]
    unit = median_low(math.sqrt(squared(x, y)) for x, y in combinations(every, 2))

    def kernel(x: np.ndarray, y: np.ndarray) -> float:
        widths = [unit * scale for scale in SCALES]
        return sum(math.exp(-squared(x, y) / (2 * w * w)) for w in widths) / len(widths)

    def within(rows: np.ndarray) -> float:
        values = [kernel(x, y) for i, x in enumerate(rows) for j, y in enumerate(rows) if i != j]
        return math.fsum(values) / len(values)

    between = math.fsum(kernel(x, y) for x in source for y in target) / (len(source) * len(target))
    return within(source) + within(target) - 2 * between


def test_distances_are_those_of_their_definitions() -> None:
    source, target = features()
    found = layer_shift("pool2", source, target)
    between, relative = slow_means(source, target)
    assert (found.layer, found.width) == ("pool2", 3)
    assert found.difference == pytest.approx(between, rel=1e-12)
    assert found.relative_difference == pytest.approx(relative, rel=1e-12)
    assert found.mmd == pytest.approx(slow_mmd(source, target), rel=1e-10)


def test_equal_domains_are_at_distance_0_on_average_and_far_ones_at_2() -> None:
    rng = np.random.default_rng(1)
    equal = [layer_shift("x", *rng.normal(size=(2, 40, 4))).mmd for _ in range(60)]
    assert abs(np.mean(equal)) < 3 * np.std(equal) / math.sqrt(60)
    assert min(equal) < 0
    one = rng.normal(size=(40, 4)) * 1e-3
    far = layer_shift("x", one, one + 1.0)
    # within a domain all alike, between them the kernels of half a unit, one and two of it
    expected = 2 - 2 * np.mean([math.exp(-1 / (2 * s * s)) for s in SCALES])
    assert far.mmd == pytest.approx(expected, abs=0.01)


def test_feature_maps_are_flattened_and_units_do_not_matter() -> None:
    source, target = features(n=8, m=8)
    maps = [rows.reshape(2, 3, 2, 2) * 1000 for rows in (source, target)]
    vectors = [rows.reshape(2, 12) for rows in (source, target)]
    one, other = layer_shift("map", *maps), layer_shift("map", *vectors)
    assert one.width == other.width == 12
    assert one.relative_difference == pytest.approx(other.relative_difference)
    assert one.mmd == pytest.approx(other.mmd)
    assert one.difference == pytest.approx(1e6 * other.difference)


def test_the_nearest_layer_is_first_and_a_dead_one_last() -> None:
    source, target = features()
    dead = np.ones((9, 2)), np.ones((7, 2))
    by_layer = {"far": (source, target + 5), "dead": dead, "near": (source, target)}
    for rule in ("relative_difference", "mmd"):
        found = rank_layers(by_layer, rule)
        assert [shift.layer for shift in found.shifts] == ["far", "dead", "near"]
        assert [shift.layer for shift in found.ranked] == ["near", "far", "dead"]
        assert found.suggested == "near"
    assert math.isinf(found.ranked[-1].mmd)


def test_a_networks_layers_are_ranked_as_choose_place_does() -> None:
    rng = np.random.default_rng(0)
    source = from_arrays(rng.normal(size=(50, 4)).astype(np.float32), rng.integers(0, 2, 50))
    target = from_arrays((rng.normal(size=(40, 4)) + np.array([3, 0, 0, 0])).astype(np.float32))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    prepare = Preprocessing.identity()
    layers = ["0", "1", "2"]
    found = rank_network_layers(network, layers, source, target, preprocessing=prepare, samples=30)
    chosen = choose_place(network, layers, source, target, preprocessing=prepare, samples=30)
    assert found.suggested == chosen.candidate
    assert [(s.layer, s.relative_difference) for s in found.shifts] == [
        (layer, pytest.approx(distance)) for layer, distance in chosen.distances
    ]
    assert [shift.width for shift in found.shifts] == [6, 6, 3]


def test_wrong_input_is_refused_in_a_line() -> None:
    source, target = features()
    with pytest.raises(InputError, match="target features hold NaN or infinity, first in sample 0"):
        layer_shift("x", source, np.full((7, 3), np.nan))
    with pytest.raises(InputError, match="two samples or more of each"):
        layer_shift("x", source, target[:1])
    with pytest.raises(InputError, match="name the layers to rank"):
        rank_layers({})
    with pytest.raises(UnknownNameError, match="no rule 'mdd'; did you mean 'mmd'"):
        rank_layers({"x": (source, target)}, "mdd")
