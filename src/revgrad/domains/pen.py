"""Digits drawn by a pen along paths of our own: forms of house numbers that free fonts lack.

Enamel plates show a 3 with a flat top, terminals that end in balls and thick stems beside thin
curves; wrought and painted numbers show a bare 1, a 7 with a bar, an open 4. A hand combines such
forms; its pen is as broad as the path's direction says.

Paths lie in a box one wide (before `width`) and one high, x to the right and y down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from itertools import product

import numpy as np

Points = np.ndarray  # (n, 2), along a path

_STEP = 0.004  # heights between two points of a path


@dataclass(frozen=True)
class Hand:
    """How the digits are written. Lengths in heights of a digit.

    stem      breadth of the pen going down
    thin      breadth going across, as a share of it
    width     of the box
    ball      diameter of the balls that end curves, as a share of the stem; 0: none
    serif     length of the strokes across the ends of stems; 0: none
    one       "bare", "flag" or "foot" (a flag and a foot)
    three     "round" or "flat"
    four      "closed" or "open"
    six       "curled" or "straight", and so the 9
    seven     "straight", "curved" or "barred"
    """

    stem: float = 0.12
    thin: float = 1.0
    width: float = 0.6
    ball: float = 0.0
    serif: float = 0.0
    one: str = "flag"
    three: str = "round"
    four: str = "closed"
    six: str = "curled"
    seven: str = "straight"

    @property
    def name(self) -> str:
        return "pen " + " ".join(str(value) for value in astuple(self))


#: Stem, thin, width, ball, serif: enamel plates, then painted, wrought and cut numbers.
_PENS = (
    (0.12, 0.5, 0.6, 1.7, 0.1),
    (0.14, 0.4, 0.5, 1.5, 0.12),
    (0.16, 0.6, 0.5, 1.2, 0.12),
    (0.17, 0.35, 0.55, 1.25, 0.16),
    (0.2, 0.3, 0.62, 1.1, 0.14),
    (0.22, 0.4, 0.7, 1.05, 0.15),
    (0.07, 1.0, 0.5, 0.0, 0.0),
    (0.1, 0.7, 0.45, 0.0, 0.0),
    (0.1, 1.0, 0.55, 0.0, 0.0),
    (0.13, 0.9, 0.6, 0.0, 0.0),
    (0.17, 0.9, 0.65, 0.0, 0.0),
    (0.18, 0.8, 0.6, 0.0, 0.0),
)


def _hands() -> Iterator[Hand]:
    """Each pen with each 3; the other forms in turn, but plates have their own."""
    for at, (pen, three) in enumerate(product(_PENS, ("round", "flat"))):
        plate = bool(pen[4])
        yield Hand(
            *pen,
            one="foot" if plate else ("flag", "foot", "bare")[at % 3],
            three=three,
            four="closed" if plate else ("closed", "open")[at // 2 % 2],
            six="curled" if plate else ("curled", "straight")[at // 4 % 2],
            seven=("straight", "curved", "barred")[at // 2 % 3],
        )


HANDS = tuple(_hands())


def inks(hand: Hand, side: int, height: int) -> list[np.ndarray]:
    """The ten digits, (side, side) bool each: `height` pixels high, in the middle."""
    return [_inked(hand, draw(hand), side, height) for draw in _DIGITS]


def _inked(hand: Hand, strokes: list[_Stroke], side: int, height: int) -> np.ndarray:
    from PIL import Image, ImageDraw

    image = Image.new("1", (side, side))
    pencil = ImageDraw.Draw(image)
    for path, balls in strokes:
        points, radii = _spread(hand, path, balls)
        # the ink, not the path, is one high
        points = (points - (hand.width / 2, 0.5)) * height + side / 2
        for (x, y), radius in zip(points, radii * height, strict=True):
            pencil.ellipse((x - radius, y - radius, x + radius, y + radius), fill=1)
    return np.asarray(image)


def _spread(hand: Hand, path: Points, balls: tuple[bool, bool]) -> tuple[np.ndarray, np.ndarray]:
    """Points close to each other along the path, in the inset box, and the pen's radius at each."""
    margin = hand.stem / 2
    across = np.array([hand.width - 2 * margin, 1 - 2 * margin * max(hand.thin, 0.5)])
    path = path * across + (margin, margin * max(hand.thin, 0.5))
    length = np.r_[0, np.cumsum(np.hypot(*np.diff(path, axis=0).T))]
    at = np.linspace(0, length[-1], max(2, int(length[-1] / _STEP)))
    points = np.stack([np.interp(at, length, path[:, axis]) for axis in (0, 1)], axis=1)
    along = np.gradient(points, axis=0)
    down = np.abs(along[:, 1]) / np.maximum(np.hypot(*along.T), 1e-9)
    radii = hand.stem / 2 * (hand.thin + (1 - hand.thin) * down**1.5)
    if hand.ball:
        for end, wanted in zip((0, -1), balls, strict=True):
            if wanted:
                radii[end] = hand.stem * hand.ball / 2
    return points, radii


_Stroke = tuple[Points, tuple[bool, bool]]
_NONE = (False, False)


def _line(*points: tuple[float, float]) -> _Stroke:
    return np.array(points, dtype=float), _NONE


def _curve(*points: tuple[float, float], balls: tuple[bool, bool] = _NONE) -> _Stroke:
    """Through a chain of cubic Bézier pieces: 1 + 3 n points."""
    t = np.linspace(0, 1, 40)[:, None]
    given = np.array(points, dtype=float)
    parts = []
    for at in range(0, len(given) - 1, 3):
        a, b, c, d = given[at : at + 4]
        parts.append(
            (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
        )
    return np.concatenate(parts), balls


def _ring(x: float, y: float, across: float, down: float) -> _Stroke:
    angle = np.linspace(0, 2 * np.pi, 120)
    return np.stack([x + across * np.cos(angle), y + down * np.sin(angle)], axis=1), _NONE


def _zero(hand: Hand) -> list[_Stroke]:
    return [_ring(0.5, 0.5, 0.5, 0.5)]


def _one(hand: Hand) -> list[_Stroke]:
    strokes = [_line((0.55, 0), (0.55, 1))]
    if hand.one != "bare":
        strokes.append(_line((0.55, 0), (0.2, 0.2)))
    if hand.one == "foot" or hand.serif:
        strokes.append(_line((0.2, 1), (0.9, 1)))
    return strokes


def _two(hand: Hand) -> list[_Stroke]:
    top = _curve(
        *((0.04, 0.27), (0.04, 0.08), (0.25, 0), (0.5, 0)),
        *((0.8, 0), (0.98, 0.12), (0.98, 0.3)),
        *((0.98, 0.55), (0.3, 0.7), (0, 1)),
        balls=(True, False),
    )
    strokes = [top, _line((0, 1), (1, 1))]
    if hand.serif:
        strokes.append(_line((1, 1), (1, 1 - hand.serif)))
    return strokes


def _three(hand: Hand) -> list[_Stroke]:
    if hand.three == "flat":
        bowl = _curve(
            *((0.42, 0.4), (0.8, 0.38), (1, 0.5), (1, 0.7)),
            *((1, 0.9), (0.78, 1), (0.48, 1)),
            *((0.2, 1), (0.02, 0.94), (0.02, 0.8)),
            balls=(False, True),
        )
        strokes = [_line((0.1, 0), (0.92, 0), (0.42, 0.4)), bowl]
        if hand.serif:
            strokes.append(_line((0.1, 0), (0.1, hand.serif)))
        return strokes
    top = _curve(
        *((0.06, 0.2), (0.06, 0.06), (0.25, 0), (0.48, 0)),
        *((0.78, 0), (0.92, 0.1), (0.92, 0.24)),
        *((0.92, 0.4), (0.75, 0.47), (0.4, 0.47)),
        balls=(True, False),
    )
    bowl = _curve(
        *((0.4, 0.47), (0.8, 0.47), (1, 0.56), (1, 0.73)),
        *((1, 0.92), (0.78, 1), (0.48, 1)),
        *((0.2, 1), (0.02, 0.94), (0.02, 0.8)),
        balls=(False, True),
    )
    return [top, bowl]


def _four(hand: Hand) -> list[_Stroke]:
    if hand.four == "open":
        return [_line((0.3, 0), (0, 0.66), (1, 0.66)), _line((0.72, 0.3), (0.72, 1))]
    strokes = [_line((0.72, 1), (0.72, 0), (0, 0.7), (1, 0.7))]
    if hand.serif:
        strokes.append(_line((0.5, 1), (0.94, 1)))
    return strokes


def _five(hand: Hand) -> list[_Stroke]:
    bowl = _curve(
        *((0.1, 0.47), (0.25, 0.38), (0.4, 0.36), (0.52, 0.36)),
        *((0.82, 0.36), (1, 0.48), (1, 0.68)),
        *((1, 0.88), (0.8, 1), (0.48, 1)),
        *((0.2, 1), (0.02, 0.94), (0.02, 0.8)),
        balls=(False, True),
    )
    strokes = [_line((0.9, 0), (0.14, 0), (0.1, 0.47)), bowl]
    if hand.serif:
        strokes.append(_line((0.9, 0), (0.86, hand.serif / 2)))
    return strokes


def _six(hand: Hand) -> list[_Stroke]:
    bowl = _ring(0.5, 0.7, 0.5, 0.3)
    if hand.six == "straight":
        return [bowl, _line((0.72, 0), (0.06, 0.56))]
    tail = _curve(
        *((0, 0.7), (0, 0.25), (0.2, 0), (0.55, 0)),
        *((0.78, 0), (0.94, 0.04), (0.94, 0.15)),
        balls=(False, True),
    )
    return [bowl, tail]


def _seven(hand: Hand) -> list[_Stroke]:
    top = _line((0, 0), (1, 0))
    strokes = [top, _line((1, 0), (0.35, 1))]
    if hand.seven == "curved":
        strokes[1] = _curve((1, 0), (0.75, 0.35), (0.45, 0.6), (0.42, 1))
    if hand.seven == "barred":
        strokes.append(_line((0.35, 0.5), (0.95, 0.5)))
    if hand.serif:
        strokes.append(_line((0, 0), (0, hand.serif)))
    return strokes


def _eight(hand: Hand) -> list[_Stroke]:
    return [_ring(0.5, 0.235, 0.42, 0.235), _ring(0.5, 0.73, 0.5, 0.27)]


def _nine(hand: Hand) -> list[_Stroke]:
    return [(1 - path, balls) for path, balls in _six(hand)]


_DIGITS: tuple[Callable[[Hand], list[_Stroke]], ...] = (
    *(_zero, _one, _two, _three, _four, _five, _six, _seven, _eight, _nine),
)
