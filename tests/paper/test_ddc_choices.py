"""Choosing a layer and a width by the difference of means, and never by a target label."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import Domain, DomainAdapter, MeanMatching, Settings, Trainer, from_arrays
from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.ddc import WithAdaptationLayer, choose_place, choose_width, domain_distance
from revgrad.preprocessing import Preprocessing
from revgrad.schedules import Constant
from tiny import Images, Perceptron, images, seeded, vectors

#: Inputs as they are, so that numbers can be had by hand.
RAW: dict[str, Any] = {"preprocessing": Preprocessing.identity()}


class Scaled(nn.Module):
    """4 → the first two inputs, then all of them a thousandfold, then the last two."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 2, bias=False)
        self.large = nn.Linear(4, 4, bias=False)
        self.last = nn.Linear(4, 2, bias=False)
        self.dead = nn.Linear(4, 2)
        with torch.no_grad():
            self.first.weight.copy_(torch.eye(4)[:2])
            self.large.weight.copy_(1000 * torch.eye(4))
            self.last.weight.copy_(1e-3 * torch.eye(4)[2:])
            self.dead.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        large = self.large(x)
        return self.first(x) + self.last(large) + self.dead(x)


def domains(n: int = 60) -> tuple[Domain, Domain]:
    """Far apart in the first two inputs, near in the last two."""
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(n, 4)), rng.normal(size=(n - 9, 4)) * 1.2
    target[:, :2] += 3.0
    target[:, 2:] += 0.3
    return (
        from_arrays(source.astype(np.float32), rng.integers(0, 2, n), name="source"),
        from_arrays(target.astype(np.float32), rng.integers(0, 2, n - 9), name="target"),
    )


def slow(source: np.ndarray, target: np.ndarray) -> float:
    """Squared distance of the means over the mean squared distance to the own mean, in loops."""
    means, spreads = [], []
    for rows in (source, target):
        mean = [math.fsum(row[i] for row in rows) / len(rows) for i in range(rows.shape[1])]
        apart = [math.fsum((x - m) ** 2 for x, m in zip(row, mean, strict=True)) for row in rows]
        means.append(mean)
        spreads.append(math.fsum(apart) / len(rows))
    between = math.fsum((a - b) ** 2 for a, b in zip(*means, strict=True))
    return between / (sum(spreads) / 2)


def test_the_layer_whose_means_lie_nearest_is_chosen_whatever_its_scale() -> None:
    source, target = domains()
    choice = choose_place(Scaled(), ["first", "large", "last", "dead"], source, target, **RAW)
    s, t = (np.float64(d.batch(range(len(d))).inputs) for d in (source, target))
    found = dict(choice.distances)
    assert found["first"] == pytest.approx(slow(s[:, :2], t[:, :2]), rel=1e-5)
    assert found["large"] == pytest.approx(slow(s, t), rel=1e-5)
    assert found["last"] == pytest.approx(slow(s[:, 2:], t[:, 2:]), rel=1e-5)
    assert math.isinf(found["dead"])  # no row differs there: nothing to adapt
    assert choice.candidate == "last"
    assert [layer for layer, _ in choice.distances] == ["first", "large", "last", "dead"]
    assert choose_place(Scaled(), ["dead", "first"], source, target).candidate == "first"


def test_labels_are_neither_needed_nor_read() -> None:
    source, target = domains()
    assert target.labels is not None
    poisoned = from_arrays(target.batch(range(len(target))).inputs, 1 - target.labels)
    layers = ["first", "last"]
    known = choose_place(Scaled(), layers, source, target)
    assert choose_place(Scaled(), layers, source.without_labels(), poisoned) == known
    assert choose_place(Scaled(), layers, source, target.without_labels()) == known
    moved = from_arrays(target.batch(range(len(target))).inputs + 0.1)  # type: ignore[operator]
    assert choose_place(Scaled(), layers, source, moved).distances != known.distances


def test_a_sample_is_evenly_spaced_rows() -> None:
    source, target = domains()
    found = domain_distance(Scaled(), "first", source, target, samples=7)
    parts = []
    for domain in (source, target):
        where = [int(i * (len(domain) - 1) / 6) for i in range(7)]
        parts.append(np.float64(domain.batch(where).inputs)[:, :2])
    assert found == pytest.approx(slow(*parts), rel=1e-5)


def test_images_are_preprocessed_and_grey_ones_shown_as_colour() -> None:
    colour = images(20, 1)
    grey = from_arrays(np.random.default_rng(0).integers(0, 256, (15, 8, 8), np.uint8))
    net = seeded(Images)
    choice = choose_place(net, ["pool", "fc"], colour, grey)
    prepare = Preprocessing.fit(colour, grey.as_colour())
    again = choose_place(net, ["pool", "fc"], colour, grey.as_colour(), preprocessing=prepare)
    assert again == choice
    assert all(math.isfinite(distance) for _, distance in choice.distances)
    assert net.training


SHORT: dict[str, Any] = {
    "steps": 25,
    "batch_size": 32,
    "device": "cpu",
    "learning_rate": Constant(0.05),
}


def build(width: int) -> nn.Module:
    return WithAdaptationLayer(seeded(Perceptron, 2), "relu", width, 3, torch.zeros(2, 4))


def test_a_width_is_chosen_after_a_short_training_of_each() -> None:
    source, target = vectors(80, 1), vectors(70, 2, shift=1.0)
    choice = choose_width([1, 2, 6], build, source, target, **SHORT, **RAW)
    by_hand = []
    for width in (1, 2, 6):
        adapter = DomainAdapter(build(width), "adaptation", nn.Identity())
        settings = Settings(**SHORT, adaptation_factor=Constant(0.25))
        Trainer(
            *(adapter, source, target.without_labels()),
            objective=MeanMatching(),
            settings=settings,
        ).fit()
        features = [
            adapter.cut.features(domain.batch(range(len(domain))).inputs).detach().double().numpy()
            for domain in (source, target)
        ]
        by_hand.append((width, slow(*features)))
    assert [w for w, _ in choice.distances] == [1, 2, 6]
    for (_, found), (_, wanted) in zip(choice.distances, by_hand, strict=True):
        assert found == pytest.approx(wanted, rel=1e-4)
    assert len({round(d, 6) for _, d in by_hand}) == 3
    assert choice.candidate == min(by_hand, key=lambda pair: pair[1])[0]


def test_the_targets_labels_choose_no_width() -> None:
    source, target = vectors(60, 1), vectors(50, 2, shift=1.0)
    assert target.labels is not None
    poisoned = from_arrays(target.batch(range(50)).inputs, (target.labels + 1) % 3)
    bare = choose_width([1, 3], build, source, target.without_labels(), **SHORT)
    assert choose_width([1, 3], build, source, poisoned, **SHORT) == bare
    other = from_arrays(source.batch(range(60)).inputs, (np.asarray(source.labels) + 1) % 3)
    assert choose_width([1, 3], build, other, target, **SHORT) != bare  # the source's do


def test_mistakes_are_one_line() -> None:
    source, target = domains()
    with pytest.raises(InputError, match="name the layers"):
        choose_place(Scaled(), [], source, target)
    with pytest.raises(UnknownNameError, match="no layer 'lats'; did you mean 'last'"):
        choose_place(Scaled(), ["lats"], source, target)
    with pytest.raises(InputError, match="two samples or more, not 1"):
        choose_place(Scaled(), ["last"], source, target, samples=1)
    with pytest.raises(InputError, match="name the widths"):
        choose_width([], build, source, target)
    with pytest.raises(InputError, match="name the layer that has the width"):
        choose_width([2], lambda width: Scaled(), source, target)
    broken = Scaled()
    with torch.no_grad():
        broken.first.weight.fill_(math.nan)
    with pytest.raises(InputError, match="features at 'first' are not finite"):
        choose_place(broken, ["last", "first"], source, target)
