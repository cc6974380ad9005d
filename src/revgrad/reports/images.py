"""Images of a page, on one sheet; predictions for samples, and how sure the network is of them."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass, field

import numpy as np

from revgrad.diagnostics.inputs import Array, log_probabilities

#: Bytes of a sheet at most, where coarser compression can do it; a third more as base64.
SHEET_BYTES = 1_500_000
#: Compressions that are tried, the best first; sides that tiles are made smaller to.
QUALITIES, TILE_SIDES = (86, 75, 62), (48, 36, 28, 20)
#: JPEG works on blocks of this many pixels: a tile never shares one with its neighbour.
JPEG_BLOCK = 8


@dataclass(frozen=True)
class Sheet:
    """Tile i lies in column i % columns and line i // columns.

    Attributes
    ----------
    width, height
        of a tile; stride_x, stride_y   from one tile to the next, in pixels
    """

    jpeg: bytes
    tiles: int
    columns: int
    width: int
    height: int
    stride_x: int
    stride_y: int

    @property
    def lines(self) -> int:
        return -(-self.tiles // self.columns)

    @property
    def data(self) -> dict[str, int]:
        """What JavaScript needs to show a tile."""
        return {
            "columns": self.columns,
            "lines": self.lines,
            "width": self.width,
            "height": self.height,
            "strideX": self.stride_x,
            "strideY": self.stride_y,
        }

    @property
    def url(self) -> str:
        """As a data: address, base64 only: nothing in it needs escaping."""
        return "data:image/jpeg;base64," + base64.b64encode(self.jpeg).decode("ascii")

    def frame(self, side: float) -> str:
        """CSS of what goes around a tile of that size."""
        scale = side / max(self.width, self.height)
        return f"width:{self.width * scale:.4g}px;height:{self.height * scale:.4g}px"

    def style(self, tile: int, side: float) -> str:
        """CSS of an element that shows a tile, `side` pixels at its longest."""
        left, top = tile % self.columns * self.stride_x, tile // self.columns * self.stride_y
        return (
            f"width:{self.width}px;height:{self.height}px;"
            f"transform:scale({side / max(self.width, self.height):.4g});"
            f"background-position:-{left}px -{top}px"
        )


def make_sheet(images: np.ndarray, most: int = SHEET_BYTES) -> Sheet:
    """(n, height, width, 3) uint8 → a sheet of at most `most` bytes, coarser where it must be."""
    longest = max(images.shape[1:3])
    for side in (longest, *(side for side in TILE_SIDES if side < longest)):
        for quality in QUALITIES:
            sheet = _compressed(_shrunk(images, side), quality)
            if len(sheet.jpeg) <= most:
                return sheet
    return sheet  # the smallest that it can be


@dataclass
class SharedTiles:
    """Collects images, whatever their sizes; the sheet's tiles are as large as the largest."""

    _images: list[np.ndarray] = field(default_factory=list)
    _places: dict[tuple[tuple[int, ...], bytes], int] = field(default_factory=dict)

    def add(self, images: np.ndarray | None, samples: Array) -> list[int]:
        """The tiles of these samples of (n, height, width, 3) images; −1 where there are none."""
        if images is None:
            return [-1] * len(samples)
        return [self._tile(images[sample]) for sample in samples.tolist()]

    def sheet(self) -> Sheet | None:
        """Of all that were added; None where none were."""
        if not self._images:
            return None
        height, width = (max(image.shape[side] for image in self._images) for side in (0, 1))
        return make_sheet(np.stack([_fitted(image, height, width) for image in self._images]))

    def _tile(self, image: np.ndarray) -> int:
        key = image.shape, image.tobytes()
        if key not in self._places:
            self._places[key] = len(self._images)
            self._images.append(image)
        return self._places[key]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of n samples over k classes.

    Attributes
    ----------
    classes
        (n,) the most likely
    confidence
        (n,) its softmax
    runner_up
        (n,) the second most likely
    margin
        (n,) log odds of the most likely class: tells samples apart where confidence is 1
    """

    classes: Array
    confidence: Array
    runner_up: Array
    margin: Array


def predictions(logits: Array) -> Predictions:
    """Of (n, k) logits."""
    logarithms = log_probabilities(logits)
    order = np.argsort(-logarithms, axis=1, kind="stable")
    first = np.take_along_axis(logarithms, order[:, :1], axis=1)[:, 0]
    rest = np.take_along_axis(logarithms, order[:, 1:], axis=1)
    top = rest[:, :1]
    others = (top + np.log(np.exp(rest - top).sum(axis=1, keepdims=True)))[:, 0]
    return Predictions(order[:, 0], np.exp(first), order[:, 1], first - others)


def least_sure(predicted: Predictions, count: int) -> Array:
    """(at most `count`,) samples, the least sure first."""
    found: Array = np.argsort(predicted.margin, kind="stable")[:count]
    return found


def most_sure(predicted: Predictions, count: int) -> Array:
    """(at most `count`,) samples, the surest first, of every predicted class in turn: one class
    alone might fill them all."""
    order = np.argsort(-predicted.margin, kind="stable")
    seen: dict[int, int] = {}
    turns = np.empty(len(order), np.int64)
    for place, sample in enumerate(order):
        label = int(predicted.classes[sample])
        turns[place] = seen.get(label, 0)
        seen[label] = turns[place] + 1
    found: Array = order[np.argsort(turns, kind="stable")][:count]
    return found


def _fitted(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """(h, w, 3) → (height, width, 3): as large as fits, proportions kept, on grey."""
    from PIL import Image

    if image.shape[:2] == (height, width):
        return image
    scale = min(height / image.shape[0], width / image.shape[1])
    size = [max(round(side * scale), 1) for side in image.shape[:2]]
    found = np.full((height, width, 3), 128, np.uint8)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    resized = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    found[top : top + size[0], left : left + size[1]] = np.asarray(resized)
    return found


def _compressed(images: np.ndarray, quality: int) -> Sheet:
    from PIL import Image

    count, height, width = images.shape[:3]
    down, right = -height % JPEG_BLOCK, -width % JPEG_BLOCK
    # repeated edges: a hard border would ring into the tile
    tiles = np.pad(images, ((0, 0), (0, down), (0, right), (0, 0)), mode="edge")
    columns = max(math.isqrt(count * tiles.shape[1] // tiles.shape[2]), 1)
    lines = -(-count // columns)
    full = np.zeros((lines * columns, *tiles.shape[1:]), np.uint8)
    full[:count] = tiles
    stride_y, stride_x = tiles.shape[1:3]
    pixels = full.reshape(lines, columns, stride_y, stride_x, 3).swapaxes(1, 2)
    picture = Image.fromarray(pixels.reshape(lines * stride_y, columns * stride_x, 3))
    if (images == images[..., :1]).all():
        picture = picture.convert("L")
    buffer = io.BytesIO()
    # full colour resolution, or a block would be of 16 pixels; `optimize` fails on noisy images,
    # whose code is longer than the buffer that Pillow gives it
    picture.save(buffer, "JPEG", quality=quality, subsampling=0)
    return Sheet(buffer.getvalue(), count, columns, width, height, stride_x, stride_y)


def _shrunk(images: np.ndarray, side: int) -> np.ndarray:
    """The longest side at most `side`."""
    from PIL import Image

    height, width = images.shape[1:3]
    if max(height, width) <= side:
        return images
    scale = side / max(height, width)
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    return np.stack(
        [np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BOX)) for i in images]
    )
