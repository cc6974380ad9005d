"""Many small images as one: a sheet that a page holds once and shows parts of."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

import numpy as np

#: Bytes of a sheet at most, where coarser compression can do it; a third more as base64.
BYTES = 1_500_000
#: Compressions that are tried, the best first; sides that tiles are made smaller to.
QUALITIES, SIDES = (86, 75, 62), (48, 36, 28, 20)
#: JPEG works on blocks of this many pixels: a tile never shares one with its neighbour.
BLOCK = 8


@dataclass(frozen=True)
class Sheet:
    """Tile i lies in column i % columns and line i // columns.

    width, height   of a tile; stride_x, stride_y   from one tile to the next, in pixels
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


def make_sheet(images: np.ndarray, most: int = BYTES) -> Sheet:
    """(n, height, width, 3) uint8 → a sheet of at most `most` bytes, coarser where it must be."""
    sheet = None
    for side in (max(images.shape[1:3]), *SIDES):
        if side > max(images.shape[1:3]):
            continue
        for quality in QUALITIES:
            sheet = _sheet(_shrunk(images, side), quality)
            if len(sheet.jpeg) <= most:
                return sheet
    assert sheet is not None
    return sheet


def fitted(image: np.ndarray, height: int, width: int) -> np.ndarray:
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


def _sheet(images: np.ndarray, quality: int) -> Sheet:
    from PIL import Image

    count, height, width = images.shape[:3]
    down, right = -height % BLOCK, -width % BLOCK
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
