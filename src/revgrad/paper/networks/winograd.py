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
from revgrad.networks.products import products, trains_on_cpu

#: Outputs of a tile along each side: what covers a map with the fewest products is taken.
TILES = (4, 5)
#: Where polynomials are evaluated, in this order, as many as needed; infinity comes on top.
_POINTS = tuple(Fraction(point) for point in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4"))
#: Filters for which the points suffice and rounding stays small.
KERNELS = (3, 5)


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
        inputs.ndim == 4
        and inputs.shape[1] == weight.shape[1]  # else the library's own error is the better one
        and min(inputs.shape[2:]) >= weight.shape[2]
        and trains_on_cpu(inputs, weight)
    )
    if suits:
        return by_tiles(inputs, weight, bias, padding)
    return F.conv2d(inputs, weight, bias, padding=padding)


def by_tiles(inputs: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """(n, c, h, w), (k, c, r, r), (k,) → (n, k, h', w'), in channels-last order."""
    found: Tensor = _ByTiles.apply(inputs, weight, bias, padding)  # type: ignore[no-untyped-call]
    return found


class _ByTiles(torch.autograd.Function):
    """Images lie as (h, w, n · c), so that rows and columns of tiles are slices of them."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, padding: int
    ) -> Tensor:
        tiling = Tiling.of(inputs, weight, padding)
        ways = transforms(tiling.kernel, tiling.tile, inputs.dtype)
        images = tiling.padded(inputs)
        filters = ways.on_filters(weight)
        outputs = images.new_zeros((*tiling.out_padded, tiling.samples * tiling.maps))
        seen = []
        for row in range(tiling.down):
            values = taken_apart(images, ways.inputs, row, tiling.tile)
            seen.append(values.view(tiling.places, -1, tiling.channels))
            put_together(products(seen[-1], filters), ways.outputs, outputs, row, tiling.tile)
        ctx.save_for_backward(inputs, weight, filters, *seen)
        ctx.tiling = tiling
        found = outputs.view(*tiling.out_padded, tiling.samples, tiling.maps)
        height, width = tiling.out
        found = found[:height, :width].permute(2, 0, 1, 3).contiguous()
        return (found if bias is None else found.add_(bias)).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, filters, *seen = ctx.saved_tensors
        tiling: Tiling = ctx.tiling
        over_bias = gradient.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        if torch.is_grad_enabled():  # a gradient of this gradient is the direct way's
            direct = torch.ops.aten.convolution_backward(
                *(gradient, inputs, weight, None, (1, 1), (tiling.padding,) * 2, (1, 1), False),
                *((0, 0), 1, (True, True, False)),
            )
            return direct[0], direct[1], over_bias, None
        ways = transforms(tiling.kernel, tiling.tile, gradient.dtype)
        upstream = gradient.new_zeros((*tiling.out_padded, tiling.samples, tiling.maps))
        height, width = tiling.out
        upstream[:height, :width] = gradient.permute(2, 3, 0, 1)
        upstream = upstream.flatten(2)
        images = upstream.new_zeros((*tiling.in_padded, tiling.samples * tiling.channels))
        over_filters = torch.zeros_like(filters)
        for row in range(tiling.down):
            values = taken_apart(upstream, ways.outputs.t(), row, tiling.tile)
            values = values.view(tiling.places, -1, tiling.maps)
            over_filters += products(seen[row].transpose(1, 2), values)
            over_seen = products(values, filters.transpose(1, 2))
            put_together(over_seen, ways.inputs.t(), images, row, tiling.tile)
        return tiling.unpadded(images), ways.back_to_weight(over_filters), over_bias, None


def taken_apart(images: Tensor, matrix: Tensor, row: int, step: int) -> Tensor:
    """The matrix (s, r), along both axes, of each window (r, r) in a row of tiles.

    (h, w, flat) → (s, s, tiles, flat); windows lie `step` apart.
    """
    side, window = matrix.shape
    _, width, flat = images.shape
    tiles = (width - window) // step + 1
    down = images[row * step : row * step + window].view(window, width * flat)
    columns = (matrix @ down).view(side, width, flat)
    found = images.new_empty((side, side, tiles, flat))
    for at in range(side):
        for tile in range(tiles):
            window_of = columns[at, tile * step : tile * step + window]
            torch.mm(matrix, window_of, out=found[at, :, tile])
    return found


def put_together(values: Tensor, matrix: Tensor, images: Tensor, row: int, step: int) -> None:
    """Adds to (h, w, flat) images what `taken_apart` by the transposed matrix takes from there:
    its adjoint. `values` is (s · s, …), the matrix (r, s)."""
    window, side = matrix.shape
    _, width, flat = images.shape
    tiles = (width - window) // step + 1
    values = values.view(side, side, tiles, flat)
    columns = images.new_zeros((side, width, flat))
    for at in range(side):
        for tile in range(tiles):
            columns[at, tile * step : tile * step + window].addmm_(matrix, values[at, :, tile])
    down = images[row * step : row * step + window].view(window, width * flat)
    down.addmm_(matrix, columns.view(side, width * flat))


class Tiling(NamedTuple):
    """How tiles of outputs lie on a batch of images."""

    samples: int
    channels: int
    maps: int
    height: int
    width: int
    kernel: int
    padding: int
    tile: int

    @staticmethod
    def of(inputs: Tensor, weight: Tensor, padding: int) -> Tiling:
        samples, channels, height, width = inputs.shape
        maps, _, kernel, _ = weight.shape
        less = 2 * padding - kernel + 1
        tile = best_tile(height + less, width + less, kernel)
        return Tiling(samples, channels, maps, height, width, kernel, padding, tile)

    @property
    def places(self) -> int:
        """Numbers that a tile has in between, per channel: those of a window of inputs."""
        return (self.tile + self.kernel - 1) ** 2

    @property
    def out(self) -> tuple[int, int]:
        """Height and width of the outputs."""
        less = 2 * self.padding - self.kernel + 1
        return self.height + less, self.width + less

    @property
    def down(self) -> int:
        """Rows of tiles."""
        return -(-self.out[0] // self.tile)

    @property
    def out_padded(self) -> tuple[int, int]:
        """The outputs of whole tiles."""
        return self.down * self.tile, -(-self.out[1] // self.tile) * self.tile

    @property
    def in_padded(self) -> tuple[int, int]:
        """The inputs of whole tiles."""
        height, width = self.out_padded
        return height + self.kernel - 1, width + self.kernel - 1

    def padded(self, inputs: Tensor) -> Tensor:
        """(n, c, h, w) → (h', w', n · c), zeros around."""
        images = inputs.new_zeros((*self.in_padded, self.samples, self.channels))
        self._within(images).copy_(inputs.permute(2, 3, 0, 1))
        return images.flatten(2)

    def unpadded(self, images: Tensor) -> Tensor:
        """The way back, in channels-last order."""
        images = images.view(*self.in_padded, self.samples, self.channels)
        return self._within(images).permute(2, 0, 1, 3).contiguous().permute(0, 3, 1, 2)

    def _within(self, images: Tensor) -> Tensor:
        edge = self.padding
        return images[edge : edge + self.height, edge : edge + self.width]


def best_tile(height: int, width: int, kernel: int) -> int:
    """Of `TILES`, the one whose tiles over a map of this size take the fewest products."""
    return min(
        TILES, key=lambda m: -(-height // m) * -(-width // m) * (m + kernel - 1) ** 2
    )  # the smaller one, which rounds less, where two take as many


class Transforms(NamedTuple):
    """Along one axis, s = m + r − 1: outputs · ((filters · g) ∗ (inputs · d)) is what a filter g
    gives on a window d."""

    inputs: Tensor  # (s, s)
    filters: Tensor  # (s, r)
    outputs: Tensor  # (m, s)

    def on_filters(self, weight: Tensor) -> Tensor:
        """Along both axes: (k, c, r, r) → (s · s, c, k)."""
        maps, channels, kernel, _ = weight.shape
        both = torch.kron(self.filters, self.filters)
        flat = weight.permute(2, 3, 1, 0).reshape(kernel**2, channels * maps)
        return (both @ flat).view(-1, channels, maps)

    def back_to_weight(self, gradient: Tensor) -> Tensor:
        """The adjoint of `on_filters`."""
        places, channels, maps = gradient.shape
        both = torch.kron(self.filters, self.filters)
        flat = both.t() @ gradient.view(places, channels * maps)
        kernel = self.filters.shape[1]
        return flat.view(kernel, kernel, channels, maps).permute(3, 2, 0, 1)


@lru_cache
def transforms(kernel: int, tile: int, dtype: torch.dtype) -> Transforms:
    """Computed in fractions, rounded once."""
    matrices = in_one_dimension(kernel, tile)
    return Transforms(*(torch.tensor(matrix, dtype=torch.float64).to(dtype) for matrix in matrices))


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
