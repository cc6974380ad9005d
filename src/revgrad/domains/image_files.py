"""From an image file to uint8 pixels of one size.

What is decided here, once: EXIF orientation is applied; of animations and multi-page files the
first picture is taken; transparency is composited on white; 16-bit grey is scaled to 8 bits, not
clipped; CMYK, palettes and the rest become RGB; what has no known range (floating point, 32-bit
integers) and what is larger than `MOST_PIXELS` is refused, the latter before decoding.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from revgrad.errors import DataError, InputError

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = frozenset(
    [".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"]
)

#: A few kilobytes of PNG can ask for gigabytes: larger images are refused before decoding.
MOST_PIXELS = 64_000_000

FITS = ("crop", "pad", "stretch")

Size = tuple[int, int]

_GREY_MODES = frozenset(["1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N"])
_TURNED = frozenset([5, 6, 7, 8])  # EXIF orientations that exchange height and width
_ORIENTATION = 0x0112


class Unreadable(Exception):
    """An image that can't be used, and why."""


class Header(NamedTuple):
    """What a file says before it is decoded: size as shown (height, width), and whether grey."""

    size: Size
    grey: bool


def read_header(path: Path) -> Header:
    """The header of an image file; `Unreadable` where there is none, or the image is too large."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            _check_pixels(image.size)
            width, height = image.size
            if image.format == "TIFF":  # some versions of Pillow have turned this size already
                tags: Any = image
                width, height = int(tags.tag_v2[256]), int(tags.tag_v2[257])
            if _orientation(image) in _TURNED:
                width, height = height, width
            return Header((height, width), image.mode in _GREY_MODES)
    except Unreadable:
        raise
    except Exception as error:  # decoders raise nearly anything on damaged files
        raise Unreadable(short_reason(error)) from None


def read_pixels(path: Path, channels: int) -> np.ndarray:
    """An image file as (height, width, channels) uint8; `Unreadable` where it is damaged."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return pixels(image, channels)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(short_reason(error)) from None


def decoded(data: bytes, channels: int, at_least: Size | None = None) -> np.ndarray:
    """An image file's bytes as (height, width, channels) uint8; `Unreadable` where damaged.

    Parameters
    ----------
    at_least
        the size that it will be brought to: a JPEG far larger is decoded at a half, a quarter or
        an eighth of its size, at least twice this one, which is several times as fast
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if at_least is not None and image.format == "JPEG":
                _check_pixels(image.size)
                height, width = at_least
                sides = image.size
                # as turned as not: which one is known only when it is decoded
                scale = max(*(width / side for side in sides), *(height / side for side in sides))
                wanted = [math.ceil(2 * scale * side) for side in sides]
                image.draft(None, (wanted[0], wanted[1]))
            return pixels(image, channels)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(short_reason(error)) from None


def pixels(image: Image, channels: int) -> np.ndarray:
    """A Pillow image as (height, width, channels) uint8, decided as this file says at its top."""
    from PIL import Image as pillow
    from PIL import ImageOps

    _check_pixels(image.size)
    image.load()
    if image.mode == "F":
        raise Unreadable("a floating-point image, whose range is unknown")
    if image.mode.startswith("I"):
        grey = _sixteen_bits(ImageOps.exif_transpose(image))
        return np.repeat(grey[..., None], channels, axis=2)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        if image.mode in ("La", "RGBa"):  # premultiplied
            image = image.convert(image.mode[:-1] + "A")
        image = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, (255, 255, 255, 255)), image)
    image = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    array = np.asarray(image)
    return array[..., None] if channels == 1 else array


def read_photographs(paths: Iterable[Path]) -> list[np.ndarray]:
    """The photographs at `paths` as uint8 (height, width, 3)."""
    read = []
    for path in paths:
        try:
            read.append(read_pixels(path, 3))
        except Unreadable as error:
            raise DataError(f"the photograph {path} can't be read: {error}") from None
    return read


def resize(images: np.ndarray, size: Size, fit: str) -> np.ndarray:
    """Images (..., H, W, C) uint8 brought to `size` (height, width), antialiased bilinear.

    fit "crop": scaled until they cover the size, the middle is kept; "pad": scaled until they fit
    inside, black around; "stretch": both sides scaled as needed.
    """
    height, width = images.shape[-3:-1]
    if (height, width) == size:
        return images
    if fit == "crop":
        # Cut first: the scaled image may be far larger than what is kept of it.
        scale = max(size[0] / height, size[1] / width)
        keep = [_clip(side / scale, most) for side, most in zip(size, (height, width), strict=True)]
        top, left = (height - keep[0]) // 2, (width - keep[1]) // 2
        return _scale(images[..., top : top + keep[0], left : left + keep[1], :], size)
    if fit == "stretch":
        return _scale(images, size)
    scale = min(size[0] / height, size[1] / width)
    inner = (_clip(height * scale, size[0]), _clip(width * scale, size[1]))
    top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    padded = np.zeros((*images.shape[:-3], *size, images.shape[-1]), dtype=np.uint8)
    padded[..., top : top + inner[0], left : left + inner[1], :] = _scale(images, inner)
    return padded


def check_size(size: Any) -> Size | None:
    """`size` as (height, width): an integer means a square, None stays None."""
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int | np.integer) else size
    try:
        height, width = (int(side) for side in pair)
        whole = (height, width) == tuple(pair)
    except (TypeError, ValueError):
        whole = False
    if not whole or isinstance(size, bool) or min(height, width) < 1:
        raise InputError(f"size must be a number of pixels or (height, width), not {size!r}")
    if height * width > MOST_PIXELS:
        raise InputError(f"size {height}×{width} is too large: at most {MOST_PIXELS:,} pixels")
    return height, width


def check_fit(fit: str) -> str:
    if fit not in FITS:
        raise InputError(f"fit must be one of {', '.join(FITS)}, not {fit!r}")
    return fit


def _scale(images: np.ndarray, size: Size) -> np.ndarray:
    batch = torch.from_numpy(np.array(images).reshape(-1, *images.shape[-3:])).permute(0, 3, 1, 2)
    scaled = functional.interpolate(
        batch, size=size, mode="bilinear", antialias=True, align_corners=False
    )
    return scaled.permute(0, 2, 3, 1).numpy().reshape(*images.shape[:-3], *size, images.shape[-1])


def _clip(side: float, most: int) -> int:
    return min(max(round(side), 1), most)


def _check_pixels(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MOST_PIXELS:
        raise Unreadable(f"{size[0]}×{size[1]} pixels, more than {MOST_PIXELS:,}")


def _orientation(image: Image) -> int:
    # A PNG whose EXIF block is not at its beginning would be decoded whole to look for it.
    if image.format == "PNG" and "exif" not in image.info:
        return 1
    return int(image.getexif().get(_ORIENTATION, 1))


def _sixteen_bits(image: Image) -> np.ndarray:
    values = np.asarray(image).astype(np.int64)
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise Unreadable("a 32-bit image, whose range is unknown")
    return ((values + 128) // 257).astype(np.uint8)  # 65535 = 255 · 257


def short_reason(error: Exception) -> str:
    """One line of what a decoder says."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
