"""Winograd convolution: against the direct one in double precision, and where it steps aside."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad.cutting import cut
from revgrad.errors import InputError
from revgrad.networks.products import FEWEST_ROWS
from revgrad.paper.networks.gtsrb import GTSRBNetwork
from revgrad.paper.networks.winograd import (
    TILES,
    WinogradConvolution,
    best_tile,
    by_tiles,
    convolve,
    in_one_dimension,
)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("kernel", [3, 5])
def test_the_matrices_correlate_in_one_dimension(kernel: int, tile: int) -> None:
    inputs, filters, outputs = (
        torch.tensor(matrix, dtype=torch.float64) for matrix in in_one_dimension(kernel, tile)
    )
    generator = torch.Generator().manual_seed(0)
    d, g = (
        torch.randn(n, generator=generator, dtype=torch.float64)
        for n in (tile + kernel - 1, kernel)
    )
    slow = [sum(float(g[j] * d[i + j]) for j in range(kernel)) for i in range(tile)]
    fast = outputs @ ((filters @ g) * (inputs @ d))
    torch.testing.assert_close(fast, torch.tensor(slow, dtype=torch.float64))


def example(height: int, width: int, kernel: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(FEWEST_ROWS, 6, height, width, generator=generator, dtype=dtype)
    weight = torch.randn(7, 6, kernel, kernel, generator=generator, dtype=dtype)
    bias = torch.randn(7, generator=generator, dtype=dtype)
    return tuple(tensor.requires_grad_() for tensor in (images, weight, bias))


SHAPES = [
    (8, 8, 5, 0),
    (18, 18, 3, 0),
    (14, 14, 5, 0),
    (11, 6, 3, 0),
    (13, 13, 5, 2),
    (7, 10, 3, 1),
    (5, 5, 5, 0),
    (3, 9, 3, 0),
]


@pytest.mark.parametrize(("height", "width", "kernel", "padding"), SHAPES)
def test_values_and_gradients_are_the_direct_ones(
    height: int, width: int, kernel: int, padding: int
) -> None:
    images, weight, bias = example(height, width, kernel, torch.float64)
    fast = by_tiles(images, weight, bias, padding)
    slow = F.conv2d(images, weight, bias, padding=padding)
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-11)
    down = torch.randn(slow.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for mine, direct in zip(
        torch.autograd.grad(fast, (images, weight, bias), down),
        torch.autograd.grad(slow, (images, weight, bias), down),
        strict=True,
    ):
        torch.testing.assert_close(mine, direct, rtol=1e-10, atol=1e-10)


def test_the_tile_is_the_one_of_fewest_products() -> None:
    assert best_tile(4, 4, 5) == best_tile(16, 16, 3) == 4  # network (c)
    assert best_tile(10, 10, 5) == 5  # network (b): 4 · 9² products instead of 9 · 8²
    assert best_tile(20, 20, 3) == 5


@pytest.mark.parametrize(("side", "most", "usual"), [(8, 2e-4, 1e-5), (14, 2e-3, 1e-4)])
def test_rounding_in_single_precision_stays_small(side: int, most: float, usual: float) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(32, 144, side, side, generator=generator)
    weight = torch.randn(64, 144, 5, 5, generator=generator) / 60
    exact = F.conv2d(images.double(), weight.double())
    off = (by_tiles(images, weight, None, 0) - exact) / exact.std()
    assert off.abs().max() < most
    assert off.square().mean().sqrt() < usual


def test_twice_differentiable() -> None:
    images, weight, bias = example(7, 7, 3, torch.float64)

    def second(convolution: object) -> Tensor:
        value = convolution(images, weight, bias, 1).square().sum()  # type: ignore[operator]
        (first,) = torch.autograd.grad(value, images, create_graph=True)
        return torch.autograd.grad(first.square().sum(), weight)[0]

    direct = second(lambda x, w, b, padding: F.conv2d(x, w, b, padding=padding))
    torch.testing.assert_close(second(by_tiles), direct, rtol=1e-9, atol=1e-9)


def test_the_transforms_of_torch_func_go_through() -> None:
    images, weight, bias = example(7, 7, 3, torch.float64)
    several = torch.stack([images.detach(), 2 * images.detach()])

    def slope(convolution: object) -> Tensor:
        def value(x: Tensor) -> Tensor:
            outputs: Tensor = convolution(x, weight, bias, 1)  # type: ignore[operator]
            return outputs.square().sum()

        return torch.func.vmap(torch.func.grad(value))(several)

    direct = slope(lambda x, w, b, padding: F.conv2d(x, w, b, padding=padding))
    torch.testing.assert_close(slope(convolve), direct, rtol=1e-9, atol=1e-9)


def direct_to_the_bit(images: Tensor, weight: Tensor, bias: Tensor) -> bool:
    return torch.equal(convolve(images, weight, bias, 1), F.conv2d(images, weight, bias, padding=1))


def test_steps_aside_where_it_would_not_pay_or_must_not_differ() -> None:
    images, weight, bias = example(9, 9, 3, torch.float32)
    assert not direct_to_the_bit(images, weight, bias)  # else nothing below would tell
    assert direct_to_the_bit(images[:-1], weight, bias)
    with torch.no_grad():
        assert direct_to_the_bit(images, weight, bias)
    with torch.autocast("cpu"):
        assert direct_to_the_bit(images, weight, bias)
    assert direct_to_the_bit(*example(9, 9, 3, torch.float64))
    one = torch.randn(FEWEST_ROWS, 9, 9)  # an image without a batch, of as many channels
    assert direct_to_the_bit(one, torch.randn(7, FEWEST_ROWS, 3, 3), bias)


def test_wrong_inputs_get_the_librarys_own_error() -> None:
    images, weight, bias = example(9, 9, 5, torch.float32)
    with pytest.raises(RuntimeError, match="channels"):
        convolve(images[:, :3], weight, bias, 0)
    with pytest.raises(RuntimeError, match="Kernel size"):
        convolve(images[:, :, :4], weight, bias, 0)


def test_other_kernels_are_refused() -> None:
    with pytest.raises(InputError, match="not 7"):
        WinogradConvolution(3, 4, 7)


def test_a_cut_network_decides_at_every_call() -> None:
    """Traced without gradients or with few rows, it must still be fast, and right, with many."""
    network = GTSRBNetwork(seed=0)
    images = torch.randn(FEWEST_ROWS, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        parts = cut(network, "pool3")
        assert parts.traced
        quiet = parts.features(images)
    loud = parts.features(images)
    assert torch.equal(
        loud,
        network.pool3(
            network.conv3(network.pool2(network.conv2(network.pool1(network.conv1(images)))))
        ),
    )
    assert not torch.equal(loud, quiet)
    torch.testing.assert_close(loud, quiet, rtol=1e-3, atol=1e-3)
