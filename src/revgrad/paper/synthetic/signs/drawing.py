"""The 43 signs of GTSRB, in its order, drawn from geometry in several styles.

Real signs of one class differ: age, maker and year of the regulations change the ring's width,
the numerals, the size of what is shown. A style stands for one such maker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revgrad.paper.synthetic.signs import pictograms as shown
from revgrad.paper.synthetic.signs.glyphs import drawn_text, set_text
from revgrad.paper.synthetic.signs.shapes import (
    Colour,
    Figure,
    Patch,
    arc,
    disc,
    inset,
    line,
    paint,
    placed,
    rectangle,
    regular,
    rounded,
    stroke,
)

PALETTE: dict[str, Colour] = {
    "white": (236, 236, 234),
    "black": (24, 24, 26),
    "red": (190, 38, 38),
    "blue": (24, 74, 158),
    "yellow": (240, 178, 32),
    "green": (20, 150, 110),
    "grey": (128, 130, 132),
    "dark grey": (86, 88, 90),
}

_UP = np.array([(0.0, -0.94), (1.0, 0.8), (-1.0, 0.8)])  # a triangle's corners, clockwise as seen
_DOWN = np.array([(0.0, 0.94), (-1.0, -0.8), (1.0, -0.8)])


@dataclass(frozen=True)
class Style:
    """How one maker draws.

    Attributes
    ----------
    ring
        width of the red border, 1 as drawn     pictogram  size of what is shown
    numeral
        height of numbers and letters           narrow     their breadth
    weight
        thickness of the strokes of numerals    rim        width of the white edge
    font
        a font file for numbers and letters; None: narrow road-sign strokes
    """

    ring: float = 1.0
    pictogram: float = 1.0
    numeral: float = 1.0
    narrow: float = 1.0
    weight: float = 0.16
    rim: float = 0.03
    font: Path | None = None


def styles(count: int, font: Path | None = None) -> list[Style]:
    """`count` styles, always the same: the plain one, then varied; every third uses `font`."""
    result = [Style()]
    for number in range(1, count):
        u = np.random.default_rng([43, number]).uniform(-1, 1, 6)
        result.append(
            Style(
                ring=1 + 0.14 * u[0],
                pictogram=1 + 0.12 * u[1],
                numeral=1 + 0.1 * u[2],
                narrow=1 + 0.1 * u[3],
                weight=0.16 + 0.03 * u[4],
                rim=0.035 + 0.03 * u[5],
                font=font if number % 3 == 0 else None,
            )
        )
    return result


def drawings(size: int, style: Style) -> np.ndarray:
    """All signs in one style: (43, size, size, 4) uint8 RGBA, transparent around the sign."""
    return np.stack([paint(draw(style), PALETTE, size) for draw in SIGNS_DRAWN])


def _ringed(style: Style, content: list[Patch]) -> list[Patch]:
    """A round prohibitory sign: red ring, white face."""
    return [
        Patch(disc(0, 0, 1), "white"),
        Patch(disc(0, 0, 1 - style.rim), "red"),
        Patch(disc(0, 0, 0.98 - 0.25 * style.ring), "white"),
        *content,
    ]


def _warning(style: Style, content: list[Patch], size: float, y: float = 0.24) -> list[Patch]:
    """A triangle with red border; `content` at `size`, its middle at height `y`."""
    return [
        Patch(rounded(_UP, 0.09), "white"),
        Patch(rounded(inset(_UP, style.rim), 0.08), "red"),
        Patch(rounded(inset(_UP, 0.03 + 0.17 * style.ring), 0.03), "white"),
        *placed(content, 0, y, size * style.pictogram),
    ]


def _mandatory(style: Style, figure: Figure) -> list[Patch]:
    """A white figure on a blue disc."""
    return [
        Patch(disc(0, 0, 1), "white"),
        Patch(disc(0, 0, 1 - style.rim), "blue"),
        *placed([Patch(figure, "white")], 0, 0, 1 + 0.6 * (style.pictogram - 1)),
    ]


def _ended(style: Style, content: list[Patch]) -> list[Patch]:
    """A white disc with grey content, crossed out by five thin dark lines."""
    lines: Figure = []
    for shift in np.linspace(-0.17, 0.17, 5):
        half = float(np.sqrt(0.93**2 - shift**2))
        lines += stroke(line((-half, shift), (half, shift)), 0.045, ends="flat")
    return [
        Patch(disc(0, 0, 1), "white"),
        Patch(disc(0, 0, 0.985), "dark grey"),
        Patch(disc(0, 0, 0.985 - 0.04 * style.ring), "white"),
        *content,
        *placed([Patch(lines, "black")], turned=-45),
    ]


def _text(
    style: Style, text: str, colour: str, face: str, height: float, width: float
) -> list[Patch]:
    height, width = height * style.numeral, width * style.narrow
    if style.font is None:
        return [Patch(drawn_text(text, height, width, style.weight), colour)]
    letters, holes = set_text(text, height, width * 0.97, style.font)
    return [Patch(letters, colour), Patch(holes, face)]


def _limit(number: int) -> Callable[[Style], list[Patch]]:
    text = str(number)
    width = 1.04 if len(text) == 2 else 1.22

    def draw(style: Style) -> list[Patch]:
        return _ringed(style, _text(style, text, "black", "white", 0.8, width))

    return draw


def _end_of_limit(style: Style) -> list[Patch]:
    return _ended(style, _text(style, "80", "grey", "white", 0.95, 1.25))


def _vehicles(style: Style, left: str, right: str) -> list[Patch]:
    size = 0.62 * style.pictogram
    return [
        *placed(shown.car(left), -0.34, 0.02, size),
        *placed(shown.car(right), 0.34, 0.02, size),
    ]


def _lorry_and_car(style: Style, left: str, right: str) -> list[Patch]:
    size = style.pictogram
    return [
        *placed(shown.lorry_behind(left), -0.32, -0.04, 0.74 * size),
        *placed(shown.car(right), 0.34, 0.14, 0.58 * size),
    ]


def _no_overtaking(style: Style) -> list[Patch]:
    return _ringed(style, _vehicles(style, "red", "black"))


def _no_overtaking_by_lorries(style: Style) -> list[Patch]:
    return _ringed(style, _lorry_and_car(style, "red", "black"))


def _priority_road(style: Style) -> list[Patch]:
    return [
        Patch(rounded(regular(4, 1.0)[0], 0.06), "dark grey"),
        Patch(rounded(regular(4, 0.97)[0], 0.05), "white"),
        Patch(regular(4, 0.62 / (0.5 + 0.5 * style.ring)), "dark grey"),
        Patch(regular(4, 0.59 / (0.5 + 0.5 * style.ring)), "yellow"),
    ]


def _give_way(style: Style) -> list[Patch]:
    return [
        Patch(rounded(_DOWN, 0.09), "white"),
        Patch(rounded(inset(_DOWN, style.rim), 0.08), "red"),
        Patch(rounded(inset(_DOWN, 0.03 + 0.19 * style.ring), 0.03), "white"),
    ]


def _stop(style: Style) -> list[Patch]:
    return [
        Patch(regular(8, 1.0 / np.cos(np.pi / 8), 22.5), "white"),
        Patch(regular(8, (0.96 - style.rim) / np.cos(np.pi / 8), 22.5), "red"),
        *_text(style, "STOP", "white", "red", 0.66, 1.5),
    ]


def _no_vehicles(style: Style) -> list[Patch]:
    return _ringed(style, [])


def _no_lorries(style: Style) -> list[Patch]:
    return _ringed(style, placed(shown.lorry_beside(), 0, 0, 1.16 * style.pictogram))


def _no_entry(style: Style) -> list[Patch]:
    half = 0.17 * style.pictogram
    return [
        Patch(disc(0, 0, 1), "white"),
        Patch(disc(0, 0, 1 - style.rim), "red"),
        Patch(rectangle(-0.8, -half, 0.8, half), "white"),
    ]


def _shown(
    picture: Callable[[], list[Patch]], size: float, y: float = 0.24, mirrored: bool = False
) -> Callable[[Style], list[Patch]]:
    def draw(style: Style) -> list[Patch]:
        return _warning(style, placed(picture(), mirrored=mirrored), size, y)

    return draw


def _end_of_all(style: Style) -> list[Patch]:
    return _ended(style, [])


def _end_of_no_overtaking(style: Style) -> list[Patch]:
    return _ended(style, placed(_vehicles(style, "grey", "dark grey"), scale=1.15))


def _end_of_no_overtaking_by_lorries(style: Style) -> list[Patch]:
    return _ended(style, placed(_lorry_and_car(style, "dark grey", "grey"), scale=1.15))


def _turn_right() -> Figure:
    path = np.concatenate(
        [line((-0.26, 0.68), (-0.26, 0.0)), arc(0.02, 0.0, 0.28, 180, 270), line((0.58, -0.28))]
    )
    return shown.arrow(path, 0.2, 0.36)


def _straight(x: float = 0.0) -> Figure:
    return shown.arrow(line((x, 0.72), (x, -0.76)), 0.2, 0.36)


def _straight_or_right() -> Figure:
    branch = np.concatenate([arc(0.12, 0.34, 0.3, 180, 270), line((0.72, 0.04))])
    ahead = shown.arrow(line((-0.18, 0.76), (-0.18, -0.78)), 0.18, 0.3)
    return ahead + shown.arrow(branch, 0.18, 0.3)


def _keep_right() -> Figure:
    return shown.arrow(line((-0.5, -0.5), (0.52, 0.52)), 0.24, 0.44)


def _roundabout() -> Figure:
    figure: Figure = []
    for number in range(3):
        # Counter-clockwise, as traffic circulates where one drives on the right. The head is
        # straight, so it points along the chord of its part of the circle.
        begin, end = 120 * number + 92, 120 * number + 2
        path = np.concatenate([arc(0, 0, 0.62, begin, end + 26), arc(0, 0, 0.62, end, end)[:1]])
        figure += shown.arrow(path, 0.13, 0.21, barbed=False, reach=1.3)
    return figure


def _blue(figure: Callable[[], Figure], mirrored: bool = False) -> Callable[[Style], list[Patch]]:
    def draw(style: Style) -> list[Patch]:
        points = placed([Patch(figure(), "white")], mirrored=mirrored)[0].figure
        return _mandatory(style, points)

    return draw


#: How to draw each class, in GTSRB's order 0 to 42.
SIGNS_DRAWN: tuple[Callable[[Style], list[Patch]], ...] = (
    _limit(20),
    _limit(30),
    _limit(50),
    _limit(60),
    _limit(70),
    _limit(80),
    _end_of_limit,
    _limit(100),
    _limit(120),
    _no_overtaking,
    _no_overtaking_by_lorries,
    _shown(shown.priority, 0.84, 0.22),
    _priority_road,
    _give_way,
    _stop,
    _no_vehicles,
    _no_lorries,
    _no_entry,
    _shown(shown.exclamation_mark, 0.86, 0.14),
    _shown(shown.bend_left, 0.92),
    _shown(shown.bend_left, 0.92, mirrored=True),
    _shown(shown.double_bend_left, 0.92, 0.2),
    _shown(shown.bumps, 0.9, 0.4),
    _shown(shown.skidding_car, 0.88, 0.22),
    _shown(shown.narrowing_right, 0.8, 0.22),
    _shown(shown.worker, 0.86, 0.2),
    _shown(shown.traffic_signals, 0.86, 0.16),
    _shown(shown.pedestrian, 0.96, 0.12),
    _shown(shown.children, 0.86, 0.2),
    _shown(shown.bicycle, 0.82, 0.3),
    _shown(shown.snowflake, 0.74, 0.22),
    _shown(shown.deer, 0.86, 0.18),
    _end_of_all,
    _blue(_turn_right),
    _blue(_turn_right, mirrored=True),
    _blue(_straight),
    _blue(_straight_or_right),
    _blue(_straight_or_right, mirrored=True),
    _blue(_keep_right),
    _blue(_keep_right, mirrored=True),
    _blue(_roundabout),
    _end_of_no_overtaking,
    _end_of_no_overtaking_by_lorries,
)
