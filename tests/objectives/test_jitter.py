"""Jitter: each of its changes alone, against what it says."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from revgrad.errors import InputError
from revgrad.objectives.jitter import Jitter

STILL = dict.fromkeys((field.name for field in fields(Jitter)), 0.0)


def only(**limits: float) -> Jitter:
    return Jitter(**{**STILL, **limits})


def images(n: int = 40, size: int = 24) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, 3, size, size, generator=generator, dtype=torch.float64) * 255


def blobs(n: int, dx: float = 0.0, dy: float = 0.0, size: int = 33) -> Tensor:
    """A bright blob on black, (dx, dy) pixels right of and below the middle."""
    y, x = torch.meshgrid(*[torch.arange(size, dtype=torch.float64) - size // 2] * 2, indexing="ij")
    blob = torch.exp(-((x - dx) ** 2 + (y - dy) ** 2) / 8) * 200
    return blob.expand(n, 1, size, size)


def centres(x: Tensor) -> np.ndarray:
    size = x.shape[-1]
    places = torch.arange(size, dtype=torch.float64) - size // 2
    weights = x[:, 0] / x[:, 0].sum((1, 2), keepdim=True)
    return torch.stack(
        [(weights.sum(1) * places).sum(1), (weights.sum(2) * places).sum(1)], 1
    ).numpy()


def test_nothing_changes_nothing() -> None:
    x = images()
    assert torch.allclose(only()(x), x, atol=1e-9)
    grey = (x[:, :1]).to(torch.uint8)
    assert torch.allclose(only()(grey), grey.float(), atol=1e-3)
    assert only()(grey).dtype == torch.float32


def test_each_image_is_changed_by_itself_and_the_seed_decides() -> None:
    x = images(1).expand(30, 3, 24, 24).contiguous()
    torch.manual_seed(3)
    first = Jitter()(x)
    torch.manual_seed(3)
    assert torch.equal(Jitter()(x), first)
    assert len({float(one.sum()) for one in first}) == 30
    torch.manual_seed(4)
    assert not torch.equal(Jitter()(x), first)


def test_turn_moves_along_a_circle_up_to_its_limit() -> None:
    moved = centres(only(turn=30.0)(blobs(400, dx=8.0)))
    assert np.allclose(np.hypot(*moved.T), 8, atol=0.05)
    angles = np.degrees(np.arctan2(moved[:, 1], moved[:, 0]))
    assert 28 < angles.max() < 30.5
    assert -30.5 < angles.min() < -28


def test_scale_moves_to_and_from_the_middle() -> None:
    moved = centres(only(scale=0.4)(blobs(400, dx=6.0)))
    assert np.allclose(moved[:, 1], 0, atol=0.05)
    logarithms = np.log(moved[:, 0] / 6)
    assert 0.37 < logarithms.max() < 0.41
    assert -0.41 < logarithms.min() < -0.37


def test_shift_moves_by_shares_of_the_side() -> None:
    moved = centres(only(shift=0.2)(blobs(600)))
    for axis in (0, 1):
        assert 0.19 * 33 < moved[:, axis].max() < 0.201 * 33
        assert -0.201 * 33 < moved[:, axis].min() < -0.19 * 33
    assert abs(np.corrcoef(moved.T)[0, 1]) < 0.15


def test_shear_moves_the_top_against_the_bottom() -> None:
    top, bottom = (centres(only(shear=0.3)(blobs(300, dy=dy)))[:, 0] for dy in (-8.0, 8.0))
    assert 2.2 < top.max() < 2.45
    assert 2.2 < bottom.max() < 2.45
    torch.manual_seed(1)
    top = centres(only(shear=0.3)(blobs(50, dy=-8.0)))[:, 0]
    torch.manual_seed(1)
    bottom = centres(only(shear=0.3)(blobs(50, dy=8.0)))[:, 0]
    assert np.allclose(top, -bottom, atol=0.05)


def test_gain_is_a_contrast_about_the_mean() -> None:
    x = images()
    lit = only(gain=0.5)(x)
    assert torch.allclose(lit.mean((1, 2, 3)), x.mean((1, 2, 3)))
    logarithms = (lit.std((1, 2, 3)) / x.std((1, 2, 3))).log()
    assert 0.4 < float(logarithms.abs().max()) <= 0.5
    again = (x - x.mean((1, 2, 3), keepdim=True)) * logarithms.exp()[:, None, None, None]
    assert torch.allclose(lit, again + x.mean((1, 2, 3), keepdim=True))


def test_tint_and_offset_are_of_each_channel() -> None:
    x = images()
    tinted = (only(tint=0.3)(x).std((2, 3)) / x.std((2, 3))).log()
    assert 0.27 < float(tinted.abs().max()) <= 0.3
    assert float((tinted[:, 0] - tinted[:, 1]).abs().max()) > 0.2
    added = only(offset=20.0)(x) - x
    assert float(added.var((2, 3)).max()) < 1e-12
    assert 18 < float(added.abs().max()) <= 20
    assert float((added[:, 0] - added[:, 1]).abs().max()) > 10


def test_noise_is_of_many_strengths() -> None:
    deviations = (only(noise=9.0)(images(200)) - images(200)).std((1, 2, 3))
    assert 8 < float(deviations.max()) < 9.6
    assert float(deviations.min()) < 1


def test_a_hole_is_a_square_of_the_mean() -> None:
    x = images(100)
    holed = only(hole=0.5)(x)
    changed = (holed - x).abs() > 1e-6  # resampling rounds
    assert float(changed.double().mean((1, 2, 3)).max()) == 0.25  # of a hole that is whole inside
    for one, image, mask in zip(holed, x, changed, strict=True):
        rows, columns = mask[0].any(1), mask[0].any(0)
        assert torch.equal(mask, (rows[:, None] & columns[None, :]).expand_as(mask))
        assert torch.allclose(one[mask], image.mean())


@pytest.mark.parametrize("name", STILL)
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_limits_are_numbers(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(InputError, match=f"{name} must be a number, 0 or more"):
        Jitter(**changed)


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(InputError, match=r"not \(4, 7\)"):
        Jitter()(torch.zeros(4, 7))
