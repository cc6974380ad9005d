"""Plane shapes made of polygons, and pictures of them.

Coordinates: x to the right, y down, a sign within [−1, 1]². A figure is a list of polygons, its
area their union; a drawing is a list of patches, each a figure in one colour, later ones on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

Figure = list[np.ndarray]
Colour = tuple[int, int, int]

MARGIN = 1.06  # of the picture around a sign's [−1, 1]², so that its edge is not cut
_OVERSAMPLING = 4


class Patch(NamedTuple):
    """A figure in a colour, which is a name the palette explains."""

    figure: Figure
    colour: str


def polygon(*points: tuple[float, float]) -> Figure:
    return [np.array(points, dtype=np.float64)]


def rectangle(left: float, top: float, right: float, bottom: float) -> Figure:
    return polygon((left, top), (right, top), (right, bottom), (left, bottom))


def regular(sides: int, radius: float, turned: float = 0.0) -> Figure:
    """A regular polygon around the origin; its first corner points right, `turned` by degrees."""
    angles = np.radians(turned + 360 * np.arange(sides) / sides)
    return [radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)]


def disc(x: float, y: float, radius: float, height: float | None = None) -> Figure:
    """A disc, or with `height` (its vertical radius) an ellipse."""
    return [arc(x, y, radius, 0, 360, height)]


def arc(
    x: float, y: float, radius: float, start: float, end: float, height: float | None = None
) -> np.ndarray:
    """A line of points on a circle (an ellipse with `height`); degrees run clockwise from east."""
    angles = np.radians(np.linspace(start, end, max(4, round(abs(end - start) / 5))))
    vertical = radius if height is None else height
    return np.stack([x + radius * np.cos(angles), y + vertical * np.sin(angles)], axis=1)


def line(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points, dtype=np.float64)


def curve(*points: tuple[float, float], closed: bool = False) -> np.ndarray:
    """A smooth line through the points (Catmull and Rom's), eight pieces between two of them."""
    p = np.array(points, dtype=np.float64)
    if closed:
        p = np.concatenate([p[-1:], p, p[:2]])
    else:
        p = np.concatenate([2 * p[:1] - p[1:2], p, 2 * p[-1:] - p[-2:-1]])
    t = np.linspace(0, 1, 8, endpoint=False)[None, :, None]
    a, b, c, d = (p[i : len(p) - 3 + i, None, :] for i in range(4))
    bent = b + t / 2 * ((c - a) + t * ((2 * a - 5 * b + 4 * c - d) + t * (3 * (b - c) + d - a)))
    return np.concatenate([bent.reshape(-1, 2), p[-2:-1]])


def blob(*points: tuple[float, float]) -> Figure:
    """The area inside a smooth closed line through the points."""
    return [curve(*points, closed=True)]


def stroke(
    points: np.ndarray, width: float, *, ends: str = "round", closed: bool = False
) -> Figure:
    """A line drawn with a round pen; `ends` "round", or "flat": cut at its first and last point."""
    if closed:
        points = np.concatenate([points, points[:1]])
    figure: Figure = []
    for one, other in pairwise(points):
        along = other - one
        length = float(np.hypot(*along))
        if length < 1e-9:
            continue
        across = np.array([-along[1], along[0]]) / length * width / 2
        figure.append(np.stack([one + across, other + across, other - across, one - across]))
    joints = points if ends == "round" or closed else points[1:-1]
    for x, y in joints:
        figure += disc(x, y, width / 2)
    return figure


def rounded(corners: np.ndarray, radius: float) -> Figure:
    """A convex polygon (corners clockwise as seen) whose corners are rounded, sides kept."""
    return [inset(corners, radius), *stroke(inset(corners, radius), 2 * radius, closed=True)]


def inset(corners: np.ndarray, distance: float) -> np.ndarray:
    """A convex polygon with all sides moved inwards; corners clockwise as seen (y down)."""
    before, after = np.roll(corners, 1, axis=0) - corners, np.roll(corners, -1, axis=0) - corners
    before /= np.linalg.norm(before, axis=1, keepdims=True)
    after /= np.linalg.norm(after, axis=1, keepdims=True)
    bisector = before + after
    bisector /= np.linalg.norm(bisector, axis=1, keepdims=True)
    half_sine = np.abs(before[:, 0] * bisector[:, 1] - before[:, 1] * bisector[:, 0])
    return np.asarray(corners + bisector * (distance / half_sine)[:, None])


def placed(
    patches: Sequence[Patch],
    x: float = 0.0,
    y: float = 0.0,
    scale: float = 1.0,
    *,
    stretch: float = 1.0,
    turned: float = 0.0,
    mirrored: bool = False,
) -> list[Patch]:
    """Patches mirrored (left ↔ right), turned by degrees, scaled (x also by `stretch`), moved."""
    cosine, sine = np.cos(np.radians(turned)), np.sin(np.radians(turned))
    flip = np.diag([-1.0 if mirrored else 1.0, 1.0])
    matrix = np.diag([scale * stretch, scale]) @ np.array([[cosine, -sine], [sine, cosine]]) @ flip
    shift = np.array([x, y])
    return [Patch([p @ matrix.T + shift for p in one.figure], one.colour) for one in patches]


def paint(patches: Sequence[Patch], palette: Mapping[str, Colour], size: int) -> np.ndarray:
    """A picture of the patches: (size, size, 4) uint8 RGBA, transparent where nothing is drawn.

    It shows [−MARGIN, MARGIN]², and each pixel is the mean of `_OVERSAMPLING`² of them.
    """
    from PIL import Image, ImageDraw

    side = size * _OVERSAMPLING
    image = Image.new("RGBA", (side, side))
    draw = ImageDraw.Draw(image)
    for figure, colour in patches:
        for points in figure:
            # Pillow paints every pixel that the outline touches, which treats left and right alike.
            at = (points / MARGIN + 1) * (side / 2)
            draw.polygon(at.ravel().tolist(), fill=palette[colour])
    # Pillow averages premultiplied: what is transparent lends no colour to the edge.
    return np.asarray(image.reduce(_OVERSAMPLING))
