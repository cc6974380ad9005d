"""SYN NUMBERS (§4.1): drawn house numbers, after SVHN; the digit in the middle is the label.

One-, two- and three-digit numbers from many fonts, under variation of what the paper lists and of
nothing else: place, turn, size, colours of stroke and background (and so contrast), blur. The rest
of the number reaches to the border and over it. Numbers are as frequent as in any street, small
ones before large ones, so that a 1 often comes first and seldom last: where shares of classes
differ between domains, beside a neighbour or alone, mixing the domains mismatches classes.
`SynNumbers.varied()` has uneven light, shadows, outlines, noise, shear, perspective and weight of
strokes as well: networks trained on it, adapted or not, are better on real numbers. The paper's set
had nothing structured behind the numbers; `clutter` puts plates, edges, lines and blobs there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revgrad.errors import InputError, unknown
from revgrad.paper.synthetic.fonts import REACH, Glyphs, fonts, glyphs
from revgrad.paper.synthetic.generator import (
    Generated,
    gaussians,
    generated,
    library_versions,
    uniforms,
)

if TYPE_CHECKING:
    from revgrad.domains.domain import Domain

#: Images of a split unless said otherwise (the paper's training set had about 500,000).
NUMBER_COUNTS = {"train": 100_000, "test": 10_000}

_VERSION = "2"  # of the generator: a new number makes cached sets be generated anew
_COLUMNS = 128  # random numbers of an image, besides its noise
_CHUNK = 64  # images computed at a time: what stays in the processor's cache
_TAPS = 6  # pixels the blur reaches to each side

#: The two axes of colour: blue to orange, as daylight, shade and paint are, and pink to green.
_WARM = np.array([1, 0.1, -1], dtype=np.float32)
_GREEN = np.array([-0.3, 0.35, -0.15], dtype=np.float32)

Range = tuple[float, float]
Shares = tuple[float, ...]


def house_digits() -> tuple[Shares, Shares, Shares]:
    """How often 0, 1, … 9 come first, second and third in house numbers, of which there are the
    fewer the larger they are: n weighs ln(1 + 1/n) (Newcomb 1881, Benford 1938). The numbers of
    one, two and three digits agree on it."""
    numbers = np.arange(100, 1000)
    weights = np.log1p(1 / numbers) / np.log(10)
    counts = (np.bincount(numbers // place % 10, weights, 10) for place in (100, 10, 1))
    first, second, third = (tuple(round(float(n), 4) for n in count) for count in counts)
    return first, second, third


@dataclass(frozen=True)
class SynNumbers:
    """All that decides what the numbers look like. Ranges are (least, most).

    Lengths are in parts of the image's side unless said otherwise; brightness is from 0 to 1.
    """

    seed: int = 0
    size: int = 32
    lengths: tuple[float, float, float] = (0.12, 0.45, 0.43)  # shares of one-, two-, three-digit
    digits: tuple[Shares, Shares, Shares] = house_digits()  # of 0, 1, … 9 in each place
    height: Range = (0.55, 0.92)  # of the digits
    aspect: Range = (0.62, 1.12)  # stretch of their width
    turn: Range = (-12.0, 12.0)  # degrees
    shear: Range = (0.0, 0.0)  # of the width, by height
    perspective: Range = (0.0, 0.0)  # change of size from the middle to where it would be 1 away
    shift: Range = (-0.06, 0.06)  # of the middle digit from the image's middle
    gap: Range = (0.02, 0.24)  # between digits, in heights
    weight: Range = (0.0, 0.0)  # added around the strokes, in heights
    contrast: Range = (0.17, 0.68)  # between stroke and background
    brightness: Range = (0.08, 0.95)  # of both
    tint: float = 0.2  # most colour of stroke and background
    cast: float = 0.07  # most colour of the light
    light: float = 0.0  # most unevenness of the light over the image
    outline: float = 0.0  # share of numbers with an outline in another colour
    shadow: float = 0.0  # share of numbers that throw a shadow
    blur: Range = (0.4, 1.9)  # deviation in pixels of an image of 32; half of the images have two
    noise: Range = (0.0001, 0.0002)  # hardly any
    clutter: float = 0.0  # share of images with a plate, and of each line, edge and blob there

    @classmethod
    def varied(cls, **changes: Any) -> SynNumbers:
        """With what the paper does not list: light, shadow, outline, noise, slant, weight."""
        more: dict[str, Any] = {
            "shear": (-0.25, 0.25),
            "perspective": (-0.3, 0.3),
            "weight": (-0.02, 0.04),
            "light": 0.35,
            "outline": 0.15,
            "shadow": 0.25,
            "noise": (0.002, 0.025),
        }
        return cls(**{**more, **changes})

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, tuple) and len(value) == 2 and value[0] > value[1]:
                raise InputError(f"syn-numbers: {name} must be (least, most), not {value}")
        if self.size < 8:
            raise InputError(f"syn-numbers: size must be 8 or more, not {self.size}")
        for name in ("outline", "shadow", "clutter"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(
                    f"syn-numbers: {name} must be between 0 and 1, not {getattr(self, name)}"
                )
        if min(self.lengths) < 0 or sum(self.lengths) <= 0:
            raise InputError(f"syn-numbers: lengths must be three shares, not {self.lengths}")
        tens = [np.asarray(shares, dtype=float) for shares in self.digits]
        if len(tens) != 3 or any(t.shape != (10,) or t.min() < 0 or t.sum() <= 0 for t in tens):
            raise InputError(
                f"syn-numbers: digits must be ten shares for each of three places, "
                f"not {self.digits}"
            )
        if self.blur[0] <= 0 or self.contrast[0] <= 0 or self.noise[0] <= 0:
            raise InputError("syn-numbers: blur, contrast and noise must begin above 0")
        if self.contrast[1] > self.brightness[1] - self.brightness[0]:
            raise InputError(
                f"syn-numbers: contrast up to {self.contrast[1]} does not fit into brightness "
                f"{self.brightness}"
            )


def syn_numbers(
    split: str = "train",
    *,
    count: int | None = None,
    clutter: bool | float = False,
    parameters: SynNumbers | None = None,
    font_folders: Sequence[str | Path] = (),
    workers: int | None = None,
    progress: bool = True,
) -> Domain:
    """SYN NUMBERS: drawn numbers, (3, 32, 32) uint8, labelled with the digit in the middle.

    Made once and kept in the cache folder as a memory-mapped file.

    Parameters
    ----------
    count
        of images: 100,000 for "train", 10,000 for "test" unless said. The first ones are
        the same whatever the count.
    clutter
        structure behind the numbers: True, or a share from 0 (the paper's) to 1
    parameters
        instead of `SynNumbers()`, such as `SynNumbers.varied()`; the test split takes
        their seed plus one
    font_folders
        with more `.ttf` and `.otf` files than the default ones
    workers
        processes; one a core unless said
    """
    if split not in NUMBER_COUNTS:
        raise unknown("split of syn-numbers", split, NUMBER_COUNTS)
    from dataclasses import replace

    from revgrad.domains.arrays import ArrayStore
    from revgrad.domains.domain import Domain

    chosen = parameters or SynNumbers()
    if clutter is not False:
        chosen = replace(chosen, clutter=0.5 if clutter is True else float(clutter))
    if split == "test":
        chosen = replace(chosen, seed=chosen.seed + 1)
    made = make_numbers(
        NUMBER_COUNTS[split] if count is None else count,
        chosen,
        font_folders=font_folders,
        workers=workers,
        progress=progress,
    )
    return Domain(
        ArrayStore(made.images, layout="NHWC", key=made.digest),
        made.labels,
        classes=tuple("0123456789"),
        name="syn-numbers",
    )


def make_numbers(
    count: int,
    parameters: SynNumbers,
    *,
    font_folders: Sequence[str | Path] = (),
    workers: int | None = None,
    progress: bool = True,
) -> Generated:
    """Images (count, size, size, 3) uint8 and labels, made or found in the cache folder."""
    chosen = fonts(font_folders)
    return generated(
        "syn-numbers",
        count,
        parameters,
        draw,
        context=lambda: glyphs(chosen),
        inputs={f"{at:03d} {font.name}": font.sha256 for at, font in enumerate(chosen)},
        versions={"syn-numbers": _VERSION, **library_versions("numpy", "pillow", "scipy")},
        workers=workers,
        progress=progress,
    )


def draw(
    indices: np.ndarray, parameters: SynNumbers, drawn: Glyphs
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, size, size, 3) uint8 and labels of `indices`; image i depends on i alone."""
    size = parameters.size
    images = np.empty((len(indices), size, size, 3), dtype=np.uint8)
    labels = np.empty(len(indices), dtype=np.int64)
    for at in range(0, len(indices), _CHUNK):
        part = slice(at, at + _CHUNK)
        images[part], labels[part] = _Chunk(indices[part], parameters, drawn).images()
    return images, labels


class _Chunk:
    """Some images, drawn together. Arrays are float32 (n, pixels) or (n, pixels, 3)."""

    def __init__(self, indices: np.ndarray, parameters: SynNumbers, drawn: Glyphs) -> None:
        self.n = len(indices)
        self.indices = indices
        self.parameters = parameters
        self.drawn = drawn
        self.pixels = np.float32(parameters.size)
        # Each call takes the next column: a column added at the end leaves the others' as they are.
        numbers = uniforms(parameters.seed, "syn-numbers", indices, _COLUMNS).astype(np.float32)
        self._columns: Iterator[np.ndarray] = iter(np.ascontiguousarray(numbers.T))

    def unit(self) -> np.ndarray:
        """(n,) in [0, 1)."""
        return next(self._columns)

    def between(self, limits: Range) -> np.ndarray:
        """(n,) uniform between the limits."""
        return _f(limits[0]) + _f(limits[1] - limits[0]) * self.unit()

    def around(self, most: float) -> np.ndarray:
        return self.between((-most, most))

    def scaled(self, limits: Range) -> np.ndarray:
        """(n,) whose logarithm is uniform: small values as often as large ones."""
        ratio: np.ndarray = _f(limits[0]) * _f(limits[1] / limits[0]) ** self.unit()
        return ratio

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        size = self.parameters.size
        self._choose()
        self._place()
        stroke, ground = self._colours()
        image = self._background(ground)
        self._write(image, stroke, ground)
        self._shine(image)
        result = self._blurred(image.reshape(self.n, size, size, 3))
        return result, self.labels

    # -- the number --------------------------------------------------------------------------

    def _choose(self) -> None:
        """Which number, in which font; where its digits stand from the middle one's middle."""
        shares = np.cumsum(self.parameters.lengths) / sum(self.parameters.lengths)
        self.font = (self.unit() * len(self.drawn.fields)).astype(np.int64)
        self.length = 1 + np.searchsorted(shares[:2], self.unit(), side="right")
        middle = (self.unit() * self.length).astype(np.int64)
        often = [np.cumsum(shares) / sum(shares) for shares in self.parameters.digits]
        drawn = [np.searchsorted(one[:9], self.unit(), side="right") for one in often]
        self.digits = np.stack(drawn, axis=1)
        which = np.arange(self.n)
        self.labels = self.digits[which, middle]
        self.middle = middle
        widths = self.drawn.widths[self.font[:, None], self.digits]
        gap = self.between(self.parameters.gap)[:, None]
        centres = np.cumsum(widths + gap, axis=1) - gap - widths / 2
        self.offsets = centres - centres[which, middle][:, None]
        self.widths = widths

    def _place(self) -> None:
        """Where each pixel lies on the number: x and y in heights from the middle digit's."""
        p = self.parameters
        self.height = self.between(p.height)
        self.aspect = self.between(p.aspect)
        turn = np.deg2rad(self.between(p.turn))
        shear = self.between(p.shear)
        tilt_x, tilt_y = self.between(p.perspective), self.between(p.perspective)
        across, down = _grid(p.size)
        x = across[None] - self.between(p.shift)[:, None]
        y = down[None] - self.between(p.shift)[:, None]
        nearer = 1 + tilt_x[:, None] * x + tilt_y[:, None] * y
        x, y = x / nearer, y / nearer
        cosine, sine = np.cos(turn)[:, None], np.sin(turn)[:, None]
        up = (cosine * y - sine * x) / self.height[:, None]
        self.x = (cosine * x + sine * y) / (self.height * self.aspect)[:, None] - shear[
            :, None
        ] * up
        self.y = up + self.drawn.middles[self.font, self.labels][:, None]
        self.scale = (self.height * self.pixels * np.sqrt(self.aspect))[:, None]  # pixels a height

    def _distance(self, which: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Distance to the number's outline, in heights, at (x, y) of the images `which`."""
        nearest = np.full(x.shape, -1, dtype=np.float32)
        for place in range(3):
            # Left out where it is not there or lies beyond the border.
            reach = np.abs(self.offsets[which, place]) - self.widths[which, place] / 2 - _f(0.15)
            beyond = reach * self.height[which] * self.aspect[which] > _f(0.75)
            there = (place < self.length[which]) & (~beyond | (place == self.middle[which]))
            inside = np.flatnonzero(there)
            if not inside.size:
                continue
            chosen = which[inside]
            found = _sample(
                self.drawn.fields,
                self.font[chosen],
                self.digits[chosen, place],
                x[inside] - self.offsets[chosen, place][:, None],
                y[inside],
            )
            nearest[inside] = np.maximum(nearest[inside], found)
        return nearest

    # -- colours -----------------------------------------------------------------------------

    def _tinted(self, brightness: np.ndarray, most: float) -> np.ndarray:
        """(n, 3): a colour of that brightness; strong ones are rare, and so are green and pink."""
        hue, strength = 2 * _f(np.pi) * self.unit(), _f(most) * self.unit() ** 2
        warm, green = strength * np.cos(hue), strength * np.sin(hue)
        colour: np.ndarray = brightness[:, None] + warm[:, None] * _WARM + green[:, None] * _GREEN
        return colour

    def _colours(self) -> tuple[np.ndarray, np.ndarray]:
        """Colours (n, 3) of stroke and background; light on dark as often as dark on light."""
        p = self.parameters
        contrast = self.scaled(p.contrast)
        sign = np.where(self.unit() < _f(0.5), _f(1), _f(-1))
        low, high = _f(p.brightness[0]), _f(p.brightness[1])
        middle = low + contrast / 2 + (high - low - contrast) * self.unit() ** _f(1.5)
        stroke = self._tinted(middle + sign * contrast / 2, p.tint)
        ground = self._tinted(middle - sign * contrast / 2, p.tint)
        return stroke, ground

    def _background(self, ground: np.ndarray) -> np.ndarray:
        p = self.parameters
        across, down = _grid(p.size)
        image = np.repeat(ground[:, None, :], across.size, axis=1)
        if p.clutter:
            self._clutter(image)
        slope = (
            self.around(p.light / 4)[:, None] * across + self.around(p.light / 4)[:, None] * down
        )
        image += slope[..., None]
        return image

    def _write(self, image: np.ndarray, stroke: np.ndarray, ground: np.ndarray) -> None:
        """The shadow, the outline, the digits."""
        p = self.parameters
        everything = np.arange(self.n)
        thrown, angle = self.unit() < _f(p.shadow), 2 * _f(np.pi) * self.unit()
        length, depth = self.between((0.03, 0.1)), self.between((0.25, 0.8))
        outlined, width = self.unit() < _f(p.outline), self.between((0.03, 0.1))
        outline = self._tinted(self.between(p.brightness), p.tint)
        weight = self.between(p.weight)
        which = np.flatnonzero(thrown)
        if which.size:
            x = self.x[which] - (length * np.cos(angle))[which, None]
            y = self.y[which] - (length * np.sin(angle))[which, None]
            far = (self._distance(which, x, y) + weight[which, None]) * self.scale[which]
            dark = _ink(far / 2) * depth[which, None]  # a soft edge
            image[which] *= 1 - dark[..., None]
        far = self._distance(everything, self.x, self.y) + weight[:, None]
        which = np.flatnonzero(outlined)
        if which.size:
            around = (far[which] + width[which, None]) * self.scale[which]
            _cover(image, which, outline[which], _ink(around))
        _cover(image, everything, stroke, _ink(far * self.scale))

    def _shine(self, image: np.ndarray) -> None:
        """Uneven light of some colour over everything."""
        p = self.parameters
        across, down = _grid(p.size)
        bumps = (
            across,
            down,
            across * across - _f(1 / 12),
            across * down,
            down * down - _f(1 / 12),
        )
        light = np.ones((self.n, across.size), dtype=np.float32)
        strength = _f(p.light) * self.unit()
        for bump in bumps:
            light += (strength * (2 * self.unit() - 1))[:, None] * bump
        cast = self._tinted(np.ones(self.n, dtype=np.float32), p.cast)
        image *= light[..., None] * cast[:, None, :]

    # -- the camera --------------------------------------------------------------------------

    def _blurred(self, image: np.ndarray) -> np.ndarray:
        """Grain, blur, noise; to bytes."""
        p = self.parameters
        wide = self.scaled(p.blur)
        other = np.where(self.unit() < _f(0.5), wide, self.scaled(p.blur))
        strength = self.scaled(p.noise)
        colourless = self.unit()
        noise = gaussians(p.seed, "syn-numbers noise", self.indices, image[0].size)
        noise = noise.reshape(image.shape)
        grey = noise.mean(axis=3, keepdims=True) * _f(np.sqrt(3))
        mix = colourless[:, None, None, None]
        noise = (noise * (1 - mix) + grey * mix) * strength[:, None, None, None]
        image = image + 2 * noise[:, ::-1]
        scale = self.pixels / 32
        image = _blur(_blur(image, wide * scale, axis=1), other * scale, axis=2)
        image += noise
        np.clip(image, 0, 1, out=image)
        return (image * _f(255) + _f(0.5)).astype(np.uint8)

    # -- clutter -----------------------------------------------------------------------------

    def _clutter(self, image: np.ndarray) -> None:
        """What stands behind real house numbers: the plate's border, edges, lines, blobs."""
        p = self.parameters
        share = _f(p.clutter)
        across, down = _grid(p.size)
        # A plate around the number: the background goes on outside of it in another colour.
        here, margin = self.unit() < share, self.between((0.08, 0.3))
        first, last = self.offsets[:, 0], self.offsets[np.arange(self.n), self.length - 1]
        left = first - self.widths[:, 0] / 2 - margin
        right = last + self.widths[np.arange(self.n), self.length - 1] / 2 + margin
        sideways = np.maximum(left[:, None] - self.x, self.x - right[:, None])
        outside = np.maximum(sideways, np.abs(self.y) - (_f(0.5) + margin)[:, None])
        colour = self._tinted(self.between(p.brightness), p.tint)
        self._add(image, here, colour, outside * self.scale)
        border = self.between((0.02, 0.06))[:, None] - np.abs(outside + _f(0.05))
        framed = here & (self.unit() < _f(0.4))
        colour = self._tinted(self.between(p.brightness), p.tint)
        self._add(image, framed, colour, border * self.scale)
        for kind in ("edge", "line", "line", "blob", "blob"):
            here = self.unit() < share
            colour = self._tinted(self.between(p.brightness), p.tint)
            angle, soft = 2 * _f(np.pi) * self.unit(), self.between((0.3, 1))
            x = across[None] - self.around(0.5)[:, None]
            y = down[None] - self.around(0.5)[:, None]
            along = np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * y
            size = self.between((0.02, 0.12))[:, None]
            if kind == "edge":
                inside = along - 3 * size
            elif kind == "line":
                inside = size / 2 - np.abs(along)
            else:
                beside = np.cos(angle)[:, None] * y - np.sin(angle)[:, None] * x
                inside = 2 * size - np.sqrt(along * along + 3 * beside * beside)
            self._add(image, here, colour, inside * self.pixels * soft[:, None])

    def _add(
        self, image: np.ndarray, here: np.ndarray, colour: np.ndarray, inside: np.ndarray
    ) -> None:
        which = np.flatnonzero(here)
        if which.size:
            _cover(image, which, colour[which], _ink(inside[which]))


def _f(value: float) -> np.float32:
    """NumPy scalars keep float32 arrays float32 in all its versions."""
    return np.float32(value)


def _grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    """(pixels,) each: across and down from the image's middle, in sides."""
    line = (np.arange(size, dtype=np.float32) + _f(0.5)) / _f(size) - _f(0.5)
    return np.tile(line, size), np.repeat(line, size)


def _ink(distance: np.ndarray) -> np.ndarray:
    """How much of a pixel is covered whose middle is `distance` pixels inside of an edge."""
    return np.clip(distance + _f(0.5), 0, 1)


def _cover(image: np.ndarray, which: np.ndarray, colour: np.ndarray, ink: np.ndarray) -> None:
    if which.size == len(image):
        image += ink[..., None] * (colour[:, None, :] - image)
    else:
        image[which] += ink[..., None] * (colour[:, None, :] - image[which])


def _sample(
    fields: np.ndarray, font: np.ndarray, digit: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The fields of (font, digit) at (x, y) heights from their middle, bilinear; (n, pixels)."""
    side = fields.shape[-1]
    scale, half, last = _f(side / REACH), _f((side - 1) / 2), _f(side - 1.001)
    column = np.clip(x * scale + half, 0, last)
    row = np.clip(y * scale + half, 0, last)
    left, top = column.astype(np.int32), row.astype(np.int32)
    column -= left
    row -= top
    start = (font * fields.shape[1] + digit).astype(np.int32) * np.int32(side * side)
    at = start[:, None] + top * np.int32(side) + left
    flat = fields.reshape(-1)
    upper: np.ndarray = flat.take(at)
    upper += column * (flat.take(at + 1) - upper)
    at += np.int32(side)
    lower = flat.take(at)
    lower += column * (flat.take(at + 1) - lower)
    upper += row * (lower - upper)
    return upper


def _blur(image: np.ndarray, deviation: np.ndarray, axis: int) -> np.ndarray:
    """Each image (n, height, width, 3) smoothed along `axis` by a Gaussian of its own deviation."""
    steps = np.arange(-_TAPS, _TAPS + 1, dtype=np.float32)
    taps = np.exp(-(steps**2) / (2 * deviation[:, None] ** 2))
    taps /= taps.sum(axis=1, keepdims=True)
    length = image.shape[axis]
    margins = [(0, 0)] * 4
    margins[axis] = (_TAPS, _TAPS)
    padded = np.pad(image, margins, mode="edge")
    result = np.zeros_like(image)
    for at in range(2 * _TAPS + 1):
        part = padded[:, at : at + length] if axis == 1 else padded[:, :, at : at + length]
        result += taps[:, at, None, None, None] * part
    return result
