"""The numerals and letters of the signs: narrow road-sign letters as strokes, or from a font."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from revgrad.paper.synthetic.signs.shapes import Figure, arc, curve, line, stroke

_LEFT, _RIGHT, _WIDTH = 0.08, 0.44, 0.52  # of a character one unit high


def _strokes() -> dict[str, list[np.ndarray]]:
    """Centre lines of the characters, y from 0 (top) to 1, drawn with a pen 0.15 wide."""
    top, bottom, middle = 0.075, 0.925, (_LEFT + _RIGHT) / 2
    radius = (_RIGHT - _LEFT) / 2
    ring = np.concatenate(
        [
            arc(middle, top + 0.2, radius, 180, 360, 0.2),
            arc(middle, bottom - 0.2, radius, 0, 180, 0.2),
            line((_LEFT, top + 0.2)),
        ]
    )
    return {
        "0": [ring],
        "1": [line((0.1, 0.27), (0.32, top), (0.32, bottom))],
        "2": [
            np.concatenate(
                [
                    arc(middle, 0.27, radius, 185, 385, 0.195),
                    line((0.09, bottom), (0.46, bottom)),
                ]
            )
        ],
        "3": [
            arc(0.25, 0.275, 0.17, 195, 450, 0.2),
            arc(0.25, 0.695, 0.19, 270, 530, 0.23),
        ],
        "5": [
            np.concatenate(
                [
                    line((0.42, top), (0.12, top), (0.1, 0.47)),
                    arc(0.25, 0.65, 0.19, 225, 515, 0.275),
                ]
            )
        ],
        "6": [
            arc(middle, 0.68, radius, 0, 360, 0.245),
            curve((_LEFT, 0.68), (0.11, 0.42), (0.2, 0.2), (0.36, top)),
        ],
        "7": [line((0.06, top), (0.45, top), (0.19, bottom))],
        "8": [arc(middle, 0.285, 0.155, 0, 360, 0.21), arc(middle, 0.71, 0.18, 0, 360, 0.215)],
        "S": [
            curve(
                (0.43, 0.25),
                (0.37, 0.11),
                (0.25, top),
                (0.12, 0.14),
                (0.09, 0.28),
                (0.16, 0.42),
                (0.36, 0.57),
                (0.44, 0.73),
                (0.38, 0.88),
                (0.25, bottom),
                (0.12, 0.88),
                (0.07, 0.75),
            )
        ],
        "T": [line((0.03, top), (0.49, top)), line((0.26, top), (0.26, bottom))],
        "O": [ring],
        "P": [
            line((_LEFT, bottom), (_LEFT, top)),
            np.concatenate(
                [line((_LEFT, top)), arc(0.27, 0.3, 0.16, 270, 450, 0.225), line((_LEFT, 0.525))]
            ),
        ],
    }


def drawn_text(text: str, height: float, width: float, weight: float = 0.15) -> Figure:
    """`text` in strokes of `weight` · height, centred on the origin within height × width."""
    lines = _strokes()
    total = _WIDTH * len(text)
    figure: Figure = []
    for place, character in enumerate(text):
        for points in lines[character]:
            moved = points + np.array([place * _WIDTH - total / 2, -0.5])
            moved = moved * np.array([width / total, height])
            figure += stroke(moved, weight * height)
    return figure


def default_font() -> Path:
    """DejaVu Sans Bold, from matplotlib's wheel."""
    from matplotlib import get_data_path

    return Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"


def set_text(text: str, height: float, width: float, font: Path) -> list[Figure]:
    """`text` set in a font file, stretched to height × width around the origin.

    Returned as figures to be painted in turn: the letters, then the holes in them.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    outlines = TextPath((0, 0), text, size=100, prop=FontProperties(fname=str(font)))
    parts = [np.asarray(part, dtype=np.float64) for part in outlines.to_polygons()]
    corners = np.concatenate(parts)
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, scale = (low + high) / 2, np.array([width, -height]) / (high - low)
    letters: Figure = []
    holes: Figure = []
    areas = [_signed_area(part) for part in parts]
    outward = np.sign(areas[int(np.argmax(np.abs(areas)))])  # the largest outline is no hole
    for part, area in zip(parts, areas, strict=True):
        (letters if np.sign(area) == outward else holes).append((part - middle) * scale)
    return [letters, holes]


def _signed_area(points: np.ndarray) -> float:
    x, y = points.T
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) / 2)
