"""Colours drawn for each image, against a slow computation and by what they must keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from revgrad import adapt, from_arrays
from revgrad.domains import Colours
from revgrad.errors import InputError


def images(n: int = 8, channels: int = 3) -> torch.Tensor:
    drawn = np.random.default_rng(0).integers(0, 256, (n, channels, 6, 5), dtype=np.uint8)
    return torch.from_numpy(drawn)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def slowly(given: torch.Tensor, least: float, tint: float, seed: int) -> np.ndarray:
    """The same in float64, an image and a pixel at a time."""
    random = generator(seed)
    n, channels, height, width = given.shape
    first = [255 * float(x) for x in torch.rand(n, generator=random)]
    share = [float(x) for x in torch.rand(n, generator=random)]
    tints = [torch.rand(n, channels, generator=random).double().numpy() for _ in range(2)]
    made = np.zeros(given.shape)
    for i in range(n):
        allowed = [(0.0, first[i] - least), (first[i] + least, 255.0)]
        allowed = [(a, b) for a, b in allowed if b > a]
        left = share[i] * sum(b - a for a, b in allowed)
        for a, b in allowed:
            if left < b - a:
                second = a + left
                break
            left -= b - a
        ends = []
        for level, drawn in zip((first[i], second), tints, strict=True):
            own = [2 * x - 1 for x in drawn[i]]
            ends.append([level + tint / 2 * (x - sum(own) / channels) for x in own])
        grey = given[i].double().numpy().mean(0)
        for y in range(height):
            for x in range(width):
                at = (grey[y, x] - grey.min()) / (grey.max() - grey.min())
                for c in range(channels):
                    value = ends[0][c] + (ends[1][c] - ends[0][c]) * at
                    made[i, c, y, x] = min(max(value, 0), 255)
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("channels", [1, 3])
def test_equals_the_slow_computation(seed: int, channels: int) -> None:
    given = images(channels=channels)
    found = Colours(60.0, 90.0)(given, generator(seed))
    assert found.dtype == torch.uint8
    expected = slowly(given, 60.0, 90.0, seed)
    assert np.abs(found.numpy() - expected).max() < 0.51  # rounded to whole levels


def test_both_colours_are_far_enough_apart_and_either_may_be_the_lighter() -> None:
    ramp = torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2).expand(4000, 3, 1, 2)
    found = Colours(least=40.0, tint=0.0)(ramp, generator()).float().mean(1)[:, 0]
    apart = found[:, 1] - found[:, 0]
    assert apart.abs().min() >= 39  # two roundings
    assert apart.abs().max() > 200
    assert 0.45 < (apart > 0).float().mean() < 0.55
    assert found.min() < 5
    assert found.max() > 250


def test_an_image_of_one_level_stays_one_colour_and_the_given_one_is_not_written() -> None:
    flat = torch.full((3, 3, 4, 4), 7, dtype=torch.uint8)
    found = Colours()(flat, generator())
    assert (flat == 7).all()
    assert torch.equal(found, found[:, :, :1, :1].expand_as(found))


def test_training_sees_colours_and_evaluation_the_images_as_they_are() -> None:
    domain = from_arrays(images().permute(0, 2, 3, 1).numpy(), np.arange(8) % 2)
    coloured = domain.augmented(Colours())
    plain = domain.batch([0, 1]).inputs
    assert torch.equal(coloured.batch([0, 1]).inputs, plain)
    assert not torch.equal(coloured.batch([0, 1], generator()).inputs, plain)
    weights = []
    for source in (domain, coloured, coloured):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(90, 2))
        adapt(
            network,
            source,
            domain.without_labels(),
            recipe="paper",
            layer="0",
            steps=2,
            progress=False,
        )
        weights.append(network[1].weight.detach())
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])


def test_mistakes_are_told() -> None:
    with pytest.raises(InputError, match="least is 0 to 127"):
        Colours(least=200)
    with pytest.raises(InputError, match="tint must be"):
        Colours(tint=float("nan"))
    with pytest.raises(InputError, match=r"images .* of uint8"):
        Colours()(torch.zeros(2, 3, 4, 4), generator())
