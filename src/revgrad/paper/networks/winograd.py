"""Convolution with fewer multiplications, for training on a CPU (Winograd 1980; Lavin & Gray 2016).

The library's own convolution multiplies once per weight and output. A tile of m×m outputs of an
r×r filter needs only (m+r−1)² products once filter and inputs are transformed: by evaluating both
as polynomials at m+r−1 points, and interpolating. With m = 4 that is a quarter of the products of a
3×3 filter and a sixth of those of a 5×5 one, with m = 5 an eighth of the latter; the transforms
cost some of it back, so it pays where there are many channels on both sides. The same sums, rounded
a little more (by some 5e-6 of the outputs' deviation in single precision for m = 4 and 4e-5 for
m = 5, where the direct way is off by 1e-6).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import InputError

#: Outputs of a tile along each side: what covers a map with the fewest products is taken.
TILES = (4, 5)
#: Where polynomials are evaluated, in this order, as many as needed; infinity comes on top.
_POINTS = tuple(Fraction(point) for point in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4"))
#: Filters for which the points suffice and rounding stays small.
KERNELS = (3, 5)
#: Samples below which transforming the filter costs more than it saves.
FEWEST_ROWS = 16


class WinogradConvolution(nn.Conv2d):
    """`nn.Conv2d` of stride 1, with its keys and values; faster in training on a CPU.

    Without gradients, on another device, in another precision, compiled or exported, and for a few
    samples, it is `nn.Conv2d` to the bit.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, padding: int = 0) -> None:
        if kernel not in KERNELS:
            raise InputError(f"a Winograd convolution has a kernel of 3 or 5, not {kernel}")
        super().__init__(inputs, outputs, kernel, padding=padding)

    def forward(self, input: Tensor) -> Tensor:
        return convolve(input, self.weight, self.bias, int(self.padding[0]))


@torch.fx.wrap  # what it asks of its inputs is asked at every call, not once when it is traced
def convolve(inputs: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """`F.conv2d(inputs, weight, bias, padding=padding)`, by whichever way is faster."""
    suits = (
        torch.is_grad_enabled()
        and inputs.device.type == "cpu"
        and inputs.dtype == weight.dtype == torch.float32
        and inputs.ndim == 4
        and len(inputs) >= FEWEST_ROWS
        and inputs.shape[1] == weight.shape[1]  # else the library's own error is the better one
        and min(inputs.shape[2:]) >= weight.shape[2]
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
    )
    if suits:
        return by_tiles(inputs, weight, bias, padding)
    return F.conv2d(inputs, weight, bias, padding=padding)


def by_tiles(inputs: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """(n, c, h, w), (k, c, r, r), (k,) → (n, k, h', w'), in channels-last order."""
    (maps, channels, kernel, _), (rows, _, height, width) = weight.shape, inputs.shape
    out_height, out_width = (extent + 2 * padding - kernel + 1 for extent in (height, width))
    tile = best_tile(out_height, out_width, kernel)
    side = tile + kernel - 1
    down, across = -(-out_height // tile), -(-out_width // tile)
    images = inputs.permute(0, 2, 3, 1)
    below = down * tile + kernel - 1 - height - padding
    right = across * tile + kernel - 1 - width - padding
    if padding or below or right:
        images = F.pad(images, (0, 0, padding, right, padding, below))
    windows = _Windows.apply(images, side, tile)  # type: ignore[no-untyped-call]
    tiles = rows * down * across
    ways = transforms(kernel, tile, inputs.dtype)
    seen = ways.inputs @ windows.reshape(side**2, tiles * channels)
    filters = ways.filters @ weight.permute(2, 3, 1, 0).reshape(kernel**2, channels * maps)
    products = torch.bmm(seen.view(side**2, tiles, channels), filters.view(side**2, channels, maps))
    outputs = ways.outputs @ products.view(side**2, tiles * maps)
    outputs = outputs.view(tile, tile, rows, down, across, maps).permute(2, 3, 0, 4, 1, 5)
    outputs = outputs.reshape(rows, down * tile, across * tile, maps)[:, :out_height, :out_width]
    return (outputs if bias is None else outputs + bias).permute(0, 3, 1, 2)


class _Windows(torch.autograd.Function):
    """(n, h, w, c) → (side, side, n, down, across, c): the windows of all tiles, place in the
    window first. `unfold` gives the same; the way back through it takes several times as long."""

    generate_vmap_rule = True

    @staticmethod
    def forward(images: Tensor, side: int, tile: int) -> Tensor:
        windows = images.unfold(1, side, tile).unfold(2, side, tile)
        return windows.permute(4, 5, 0, 1, 2, 3).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:
        images, ctx.side, ctx.tile = inputs
        ctx.shape = images.shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Overlapped.apply(gradient, ctx.shape, ctx.tile), None, None  # type: ignore[no-untyped-call]


class _Overlapped(torch.autograd.Function):
    """The windows added up where they lie in the images: the transpose of `_Windows`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(windows: Tensor, shape: torch.Size, tile: int) -> Tensor:
        side, _, _, down, across, _ = windows.shape
        images = windows.new_zeros(shape)
        for i in range(down):
            for j in range(across):
                place = images[:, i * tile : i * tile + side, j * tile : j * tile + side]
                place += windows[:, :, :, i, j].permute(2, 0, 1, 3)
        return images

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, torch.Size, int], output: Tensor) -> None:
        windows, _, ctx.tile = inputs
        ctx.side = windows.shape[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Windows.apply(gradient, ctx.side, ctx.tile), None, None  # type: ignore[no-untyped-call]


def best_tile(height: int, width: int, kernel: int) -> int:
    """Of `TILES`, the one whose tiles over a map of this size take the fewest products."""
    return min(
        TILES, key=lambda m: -(-height // m) * -(-width // m) * (m + kernel - 1) ** 2
    )  # the smaller one, which rounds less, where two take as many


class Transforms(NamedTuple):
    """For flattened squares, s = m + r − 1: outputs · ((filters · g) ∗ (inputs · d)) is what a
    filter g gives on a window d."""

    inputs: Tensor  # (s², s²)
    filters: Tensor  # (s², r²)
    outputs: Tensor  # (m², s²)


@lru_cache
def transforms(kernel: int, tile: int, dtype: torch.dtype) -> Transforms:
    """Both axes at once: the Kronecker square of what `in_one_dimension` gives."""
    matrices = in_one_dimension(kernel, tile)
    squares = (torch.tensor(matrix, dtype=torch.float64) for matrix in matrices)
    return Transforms(*(torch.kron(one, one).to(dtype).contiguous() for one in squares))


def in_one_dimension(kernel: int, tile: int) -> tuple[list[list[float]], ...]:
    """The matrices of `Transforms` along one axis, computed in fractions.

    A product of polynomials with m and r coefficients is known from its values at s points: it
    is V⁻¹((V_r g) ∗ (V_m a)), V being the matrix of the points' powers. Correlation is the
    transpose of multiplication by g: V_mᵀ((V_r g) ∗ (V⁻ᵀ d)). Each row of V⁻ᵀ is scaled to a
    largest entry of one, the filters' making up for it, which keeps rounding small.
    """
    side = tile + kernel - 1
    inputs = [list(column) for column in zip(*_inverse(_powers(side, side)), strict=True)]
    filters = _powers(side, kernel)
    for at, row in enumerate(inputs):
        scale = max(abs(value) for value in row)
        inputs[at] = [value / scale for value in row]
        filters[at] = [value * scale for value in filters[at]]
    outputs = [list(column) for column in zip(*_powers(side, tile), strict=True)]
    return tuple([[float(v) for v in row] for row in rows] for rows in (inputs, filters, outputs))


def _powers(side: int, count: int) -> list[list[Fraction]]:
    """A row a point, its powers 0 … count − 1; infinity has the highest alone."""
    finite = [[point**power for power in range(count)] for point in _POINTS[: side - 1]]
    return [*finite, [Fraction(int(power == count - 1)) for power in range(count)]]


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """By Gauss-Jordan elimination, exactly."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(at for at in range(column, size) if rows[at][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for at in range(size):
            if at != column and (factor := rows[at][column]):
                rows[at] = [a - factor * b for a, b in zip(rows[at], rows[column], strict=True)]
    return [row[size:] for row in rows]
