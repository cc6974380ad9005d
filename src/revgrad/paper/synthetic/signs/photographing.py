"""Signs as a camera on a car sees them: many at a time, each a pure function of its index.

A sign stands before a photograph, seen under some angle; shadow and light fall on it; the camera
moves, is out of focus, has few pixels and a colour filter before each, and is noisy. What leaves is
`size` × `size` uint8, brought there from the resolution it was taken at, as GTSRB's are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from revgrad.paper.synthetic.generator import gaussians, uniforms
from revgrad.paper.synthetic.signs.frequency import in_turn
from revgrad.paper.synthetic.signs.parameters import VIEW, SynSigns
from revgrad.paper.synthetic.signs.shapes import MARGIN

_TOGETHER = 64  # signs seen at a time: what stays in the processor's cache
_TAPS = 7  # positions of a moving camera


class Scenes(NamedTuple):
    """What is photographed.

    Attributes
    ----------
    drawings
        (styles, classes, side, side, 4) uint8 RGBA, premultiplied
    photographs
        pixels of all photographs in one row, (n, 3) uint8
    heights, widths, starts
        of each photograph: its size and its first pixel in that row
    """

    drawings: np.ndarray
    photographs: np.ndarray
    heights: np.ndarray
    widths: np.ndarray
    starts: np.ndarray


def scenes(drawings: np.ndarray, photographs: list[np.ndarray]) -> Scenes:
    """Drawings (styles, classes, side, side, 4) before photographs (height, width, 3), uint8."""
    heights, widths = (np.array([one.shape[axis] for one in photographs]) for axis in (0, 1))
    starts = np.concatenate([[0], np.cumsum(heights * widths)[:-1]])
    row = np.concatenate([one.reshape(-1, 3) for one in photographs])
    premultiplied = drawings.copy()  # so that sampling between pixels mixes no hidden colours
    alpha = drawings[..., 3:].astype(np.float32) / 255
    premultiplied[..., :3] = np.rint(drawings[..., :3] * alpha)
    return Scenes(premultiplied, row, heights, widths, starts)


def photograph(indices: np.ndarray, p: SynSigns, seen: Scenes) -> tuple[np.ndarray, np.ndarray]:
    """Classes come in turn, `p.often`: images (n, size, size, 3) uint8, labels (n,) int64."""
    turns = in_turn(p.often)
    labels = turns[indices % len(turns)]
    images = np.empty((len(indices), p.size, p.size, 3), dtype=np.uint8)
    with _one_thread(), torch.no_grad():
        for at in range(0, len(indices), _TOGETHER):
            part = slice(at, at + _TOGETHER)
            images[part] = _photograph(indices[part], labels[part], p, seen)
    return images, labels


def _photograph(indices: np.ndarray, labels: np.ndarray, p: SynSigns, seen: Scenes) -> np.ndarray:
    draw = _Numbers(uniforms(p.seed, f"signs {p.split}", indices, 48))
    style = draw.whole(seen.drawings.shape[0])
    scene = _sign(seen.drawings[style, labels], p, draw)
    behind = _surround(seen, p, draw)
    view = scene[:, :3] + (1 - scene[:, 3:]) * behind
    view = _moved(view * _shadow(p, draw), p, draw)
    taken, enlarge = _taken(view, p, draw)
    return _developed(taken, enlarge, indices, p, draw)


class _Numbers:
    """Columns of uniform numbers, taken one after the other: one number an image."""

    def __init__(self, columns: np.ndarray) -> None:
        self._columns = columns
        self._next = 0

    def unit(self) -> np.ndarray:
        self._next += 1
        return self._columns[:, self._next - 1]

    def between(self, ends: tuple[float, float]) -> np.ndarray:
        return ends[0] + (ends[1] - ends[0]) * self.unit()

    def around(self, most: float) -> np.ndarray:
        return self.between((-most, most))

    def ratio(self, ends: tuple[float, float]) -> np.ndarray:
        """Between the ends, uniform in the logarithm."""
        low, high = np.log(ends)
        return np.asarray(np.exp(self.between((float(low), float(high)))))

    def whole(self, count: int) -> np.ndarray:
        return (self.unit() * count).astype(np.int64)


def _column(values: np.ndarray) -> Tensor:
    """One number an image, to be multiplied with (n, channels, height, width)."""
    return torch.from_numpy(values.astype(np.float32))[:, None, None, None]


def _sign(drawings: np.ndarray, p: SynSigns, draw: _Numbers) -> Tensor:
    """The sign under its angle: (n, 4, view, view), colours in [0, 1] premultiplied by alpha."""
    n = len(drawings)
    picture = torch.from_numpy(drawings).permute(0, 3, 1, 2).float()
    # From the view's coordinates to the sign's: move, turn back, scale back, look from the side.
    angle, fill, aspect = (
        np.radians(draw.around(p.turn)),
        draw.between(p.fill),
        draw.around(p.aspect),
    )
    turn = np.zeros((n, 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = np.cos(angle)
    turn[:, 0, 1], turn[:, 1, 0] = np.sin(angle), -np.sin(angle)
    turn[:, 0, 2], turn[:, 1, 2] = 2 * draw.around(p.offset), 2 * draw.around(p.offset)
    turn[:, 2, 2] = 1
    scale = np.zeros((n, 3, 3))
    scale[:, 0, 0] = np.exp(aspect / 2) / fill
    scale[:, 1, 1] = np.exp(-aspect / 2) / fill
    scale[:, 2, 2] = 1
    scale[:, 2, 0], scale[:, 2, 1] = draw.around(p.perspective), draw.around(p.perspective)
    matrix = torch.from_numpy((scale @ turn).astype(np.float32))
    at = (torch.arange(VIEW, dtype=torch.float32) + 0.5) * (2 / VIEW) - 1
    x, y = at[None, None, :], at[None, :, None]
    rows = [
        matrix[:, k, 0, None, None] * x
        + matrix[:, k, 1, None, None] * y
        + matrix[:, k, 2, None, None]
        for k in range(3)
    ]
    far = rows[2].clamp(min=0.1)  # what would lie behind the horizon is far away, not mirrored
    grid = torch.stack([rows[0] / far, rows[1] / far], dim=3) / MARGIN
    return functional.grid_sample(picture, grid, padding_mode="zeros", align_corners=False) / 255


def _surround(seen: Scenes, p: SynSigns, draw: _Numbers) -> Tensor:
    """Pieces of the photographs, some at a third of their resolution: (n, 3, view, view)."""
    which = draw.whole(len(seen.heights))
    heights, widths = seen.heights[which], seen.widths[which]
    most = np.minimum(np.minimum(heights, widths) // VIEW, 3)
    step = 1 + (draw.unit() * most).astype(np.int64)
    top = (draw.unit() * (heights - VIEW * step + 1)).astype(np.int64)
    left = (draw.unit() * (widths - VIEW * step + 1)).astype(np.int64)
    first = seen.starts[which] + top * widths + left
    rows = np.arange(VIEW) * (step * widths)[:, None]
    pixels = first[:, None, None] + rows[:, :, None] + (np.arange(VIEW) * step[:, None])[:, None]
    piece = torch.from_numpy(seen.photographs.take(pixels, axis=0)).permute(0, 3, 1, 2)
    return piece.float() * _column(draw.ratio(p.surround) / 255)


def _shadow(p: SynSigns, draw: _Numbers) -> Tensor:
    """(n, 1, view, view): 1 in the light, less behind the soft edge of a half-plane."""
    often, darkest = p.shadow
    there = draw.unit() < often
    angle, distance, width = 2 * np.pi * draw.unit(), draw.around(0.7), draw.ratio((0.03, 0.8))
    depth = _column(np.where(there, darkest * draw.between((0.3, 1.0)), 0.0))
    at = (torch.arange(VIEW, dtype=torch.float32) + 0.5) * (2 / VIEW) - 1
    across = _column(np.cos(angle) / width) * at + _column(np.sin(angle) / width) * at[:, None]
    return 1 - depth * torch.sigmoid(across - _column(distance / width))


def _moved(view: Tensor, p: SynSigns, draw: _Numbers) -> Tensor:
    """The mean of what a camera sees on a short straight way, for those that move."""
    often, most = p.motion
    moving = np.flatnonzero(draw.unit() < often)
    angle, length = np.pi * draw.unit(), VIEW * draw.between((0.02, max(most, 0.02)))
    if not moving.size:
        return view
    way = np.stack([np.sin(angle), np.cos(angle)]) * length
    place = np.arange(VIEW)
    total: Tensor | None = None
    still = view[moving].reshape(len(moving), 3, -1)
    for share in np.linspace(-0.5, 0.5, _TAPS):
        down, right = np.rint(share * way[:, moving]).astype(np.int64)
        rows = np.clip(place + down[:, None], 0, VIEW - 1) * VIEW
        columns = np.clip(place + right[:, None], 0, VIEW - 1)
        where = torch.from_numpy(
            (rows[:, :, None] + columns[:, None, :]).reshape(len(moving), 1, -1)
        )
        one = still.gather(2, where.expand(-1, 3, -1))
        total = one if total is None else total + one
    assert total is not None
    view[moving] = (total / _TAPS).reshape(len(moving), 3, VIEW, VIEW)
    return view


def _taken(view: Tensor, p: SynSigns, draw: _Numbers) -> tuple[Tensor, Tensor]:
    """What falls on the camera's r × r pixels, and the matrices (n, size, size) that enlarge it.

    r is the image's own and at most `size`; behind pixel r − 1 that pixel is repeated, so that
    all images have one shape.
    """
    fine = draw.ratio(p.resolution)
    pixels = np.rint(np.minimum(fine, p.size))
    own = np.arange(p.size)
    last = pixels[:, None] - 1
    centre = (np.minimum(own, last) + 0.5) * VIEW / pixels[:, None] - 0.5
    blur = np.hypot(draw.ratio(p.defocus) * VIEW, 0.4 * VIEW / pixels)
    distance = (centre[:, :, None] - np.arange(VIEW)) / blur[:, None, None]
    weights = np.exp(-0.5 * distance**2)
    reduce = torch.from_numpy((weights / weights.sum(axis=2, keepdims=True)).astype(np.float32))
    n = len(view)
    taken = torch.bmm(view.reshape(n, 3 * VIEW, VIEW), reduce.transpose(1, 2))
    taken = torch.matmul(reduce[:, None], taken.reshape(n, 3, VIEW, p.size))
    place = np.clip((own + 0.5) * pixels[:, None] / p.size - 0.5, 0, last)
    enlarge = np.maximum(0, 1 - np.abs(place[:, :, None] - own))
    return taken, torch.from_numpy(enlarge.astype(np.float32))


def _developed(
    taken: Tensor, enlarge: Tensor, indices: np.ndarray, p: SynSigns, draw: _Numbers
) -> np.ndarray:
    """Light, colour, filter, noise and enlargement: (n, size, size, 3) uint8."""
    n = len(taken)
    light = _column(draw.ratio(p.light))
    haze = _column(draw.between(p.haze))
    # Daylight is warmer or colder, seldom greener: red and blue move against each other.
    warm, green = draw.around(p.cast), draw.around(p.cast / 3)
    tint = torch.cat([_column(np.exp(c)) for c in (warm - green, green, -warm - green)], dim=1)
    grey = taken.mean(dim=1, keepdim=True)
    image = grey + _column(draw.between(p.saturation)) * (taken - grey)
    image = light * tint * (image + haze * (0.5 - image))
    image = image.clamp_(0, 1) ** _column(draw.between(p.gamma))
    mosaic = _column(draw.between(p.mosaic))
    image = image + mosaic * (_filtered(image) - image)
    strength = _column(draw.between(p.sharpening))
    image = image + strength * (image - _smoothed(image))
    noise = torch.from_numpy(gaussians(p.seed, f"signs {p.split} noise", indices, 3 * p.size**2))
    deviation = _column(draw.between(p.noise)) * (0.25 + image.clamp(0, 1)).sqrt()
    image = (image + deviation * noise.reshape(n, 3, p.size, p.size)).clamp_(0, 1)
    image = torch.matmul(enlarge[:, None], image)
    image = torch.bmm(image.reshape(n, 3 * p.size, p.size), enlarge.transpose(1, 2))
    levels = (image.reshape(n, 3, p.size, p.size) * 255).round_().to(torch.uint8)
    return np.asarray(levels.permute(0, 2, 3, 1).numpy())


def _smoothed(image: Tensor) -> Tensor:
    """Each pixel with its neighbours: weights 1 2 1 in both directions."""
    padded = functional.pad(image, (1, 1, 1, 1), mode="replicate")
    rows = padded[..., :-2, :] + 2 * padded[..., 1:-1, :] + padded[..., 2:, :]
    both = rows[..., :-2] + 2 * rows[..., 1:-1] + rows[..., 2:]
    return both / 16


def _filtered(image: Tensor) -> Tensor:
    """What a sensor with one colour filter a pixel (RGGB) sees, the others filled in between."""
    padded = functional.pad(image, (1, 1, 1, 1), mode="replicate")
    height, width = padded.shape[2:]
    rows, columns = torch.arange(height)[:, None] % 2, torch.arange(width) % 2
    kept = torch.stack([(rows + columns) == 0, (rows + columns) == 1, (rows + columns) == 2])
    single = padded * kept
    across = single[..., :-2] + single[..., 2:]
    middle = single[..., 1:-1]
    weighted = across / 2 + middle
    full = weighted[..., 1:-1, :] + (weighted[..., :-2, :] + weighted[..., 2:, :]) / 2
    green = (
        middle[..., 1:-1, :] + (across[..., 1:-1, :] + middle[..., :-2, :] + middle[..., 2:, :]) / 4
    )
    return torch.stack([full[:, 0], green[:, 1], full[:, 2]], dim=1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order: the processes are the parallelism."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
