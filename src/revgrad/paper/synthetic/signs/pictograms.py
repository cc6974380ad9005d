"""What is shown on the signs: vehicles, people, animals, arrows, as layers around the origin.

Each is about one unit wide or high; `face` is the colour behind it, for what is left open.
"""

from __future__ import annotations

import numpy as np

from revgrad.paper.synthetic.signs.shapes import (
    Figure,
    Patch,
    arc,
    blob,
    curve,
    disc,
    line,
    placed,
    polygon,
    rectangle,
    stroke,
)


def car(colour: str, face: str = "white") -> list[Patch]:
    """A car from behind, as on no-overtaking signs: 1 wide, from −0.33 to 0.33."""
    body = polygon((-0.38, -0.33), (0.38, -0.33), (0.46, -0.06), (-0.46, -0.06))
    body += polygon(
        (-0.46, -0.08), (0.46, -0.08), (0.5, 0.0), (0.5, 0.19), (-0.5, 0.19), (-0.5, 0.0)
    )
    for side in (-1, 1):
        body += disc(side * 0.35, 0.24, 0.09)
    window = polygon((-0.3, -0.26), (0.3, -0.26), (0.36, -0.08), (-0.36, -0.08))
    return [Patch(body, colour), Patch(window, face)]


def lorry_behind(colour: str, face: str = "white") -> list[Patch]:
    """A lorry from behind: 0.8 wide, from −0.5 to 0.5."""
    box = rectangle(-0.4, -0.5, 0.4, 0.22)
    below = [Patch(rectangle(-0.4, 0.22, 0.4, 0.26), face)]
    wheels: Figure = rectangle(-0.2, 0.33, 0.2, 0.39) + disc(0, 0.36, 0.07)
    for side in (-1, 1):
        wheels += rectangle(side * 0.3 - 0.1, 0.26, side * 0.3 + 0.1, 0.5)
    return [Patch(box, colour), *below, Patch(wheels, colour)]


def lorry_beside(colour: str = "black", face: str = "white") -> list[Patch]:
    """A lorry from its left side, driving to the left: 1 wide, from −0.24 to 0.24."""
    cab = polygon((-0.5, 0.0), (-0.43, -0.16), (-0.25, -0.16), (-0.25, 0.14), (-0.5, 0.14))
    box = rectangle(-0.19, -0.24, 0.5, 0.08) + rectangle(-0.28, 0.08, 0.46, 0.14)
    window = polygon((-0.44, 0.0), (-0.4, -0.1), (-0.32, -0.1), (-0.32, 0.0))
    arches, wheels = disc(-0.36, 0.15, 0.12) + disc(0.27, 0.15, 0.12), disc(-0.36, 0.15, 0.085)
    wheels += disc(0.27, 0.15, 0.085)
    return [
        Patch(cab + box, colour),
        Patch(window + arches, face),
        Patch(wheels, colour),
    ]


def arrow(
    points: np.ndarray, width: float, head: float, *, barbed: bool = True, reach: float = 0.9
) -> Figure:
    """A line with an arrow head at its end: barbs drawn with the same pen, or a full triangle.

    Parameters
    ----------
    head
        half the head's breadth; reach  how far it goes back along the line, in heads
    """
    tip = points[-1]
    along = tip - points[-2]
    along = along / np.hypot(*along)
    across = np.array([-along[1], along[0]])
    back = tip - reach * head * along
    wings = [back + head * across, back - head * across]
    if not barbed:
        behind = points[(points - tip) @ along < -reach * head]
        neck = np.concatenate([behind, [back + 0.05 * head * along]])
        return [np.stack([wings[0], tip, wings[1]]), *stroke(neck, width, ends="flat")]
    # The barbs' ends are cut parallel to the shaft, their outer edges meet in the tip.
    inner = width * 1.35
    notch = tip - inner * along
    sides = [np.stack([tip, wing, wing - inner * along, notch]) for wing in wings]
    neck = np.concatenate([points[:-1], [tip - 0.6 * inner * along]])
    return [*sides, *stroke(neck, width, ends="flat")]


def ribbon(points: np.ndarray, width: float) -> Figure:
    """The broad line of bend signs: pointed at its end, notched like a tail at its beginning."""
    along = points[-1] - points[-2]
    along = along / np.hypot(*along)
    across = np.array([-along[1], along[0]]) * width / 2
    end = points[-1]
    tip = np.stack([end + across, end + 1.0 * width * along, end - across])
    back = points[0] - points[1]
    back = back / np.hypot(*back)
    side = np.array([-back[1], back[0]]) * width / 2
    start = points[0]
    tail = [
        np.stack([start, start + side, start + side + 0.45 * width * back]),
        np.stack([start, start - side, start - side + 0.45 * width * back]),
    ]
    return [tip, *tail, *stroke(points, width, ends="flat")]


def pedestrian() -> list[Patch]:
    """A walking person: from −0.5 to 0.5."""
    body = blob(
        (-0.09, -0.3), (0.09, -0.3), (0.1, -0.1), (0.08, 0.08), (-0.08, 0.08), (-0.09, -0.1)
    )
    body += disc(0.0, -0.42, 0.085)
    body += stroke(line((-0.06, -0.27), (-0.13, -0.08), (-0.2, 0.06)), 0.065)
    body += stroke(line((0.07, -0.27), (0.2, -0.12), (0.19, 0.04)), 0.065)
    body += stroke(line((-0.03, 0.06), (-0.1, 0.26), (-0.22, 0.46)), 0.085)
    body += stroke(line((0.03, 0.06), (0.12, 0.26), (0.24, 0.46)), 0.085)
    return [Patch(body, "black")]


def children() -> list[Patch]:
    """A taller child on the right who leads a smaller one by the hand, both running."""
    tall = disc(0.18, -0.36, 0.08)
    tall += blob((0.12, -0.25), (0.26, -0.24), (0.26, 0.0), (0.2, 0.08), (0.13, 0.0))
    tall += stroke(line((0.14, -0.2), (0.02, -0.12), (-0.08, -0.08)), 0.06)
    tall += stroke(line((0.24, -0.22), (0.38, -0.18), (0.44, -0.06)), 0.06)
    tall += stroke(line((0.17, 0.02), (0.16, 0.24), (0.12, 0.44)), 0.08)
    tall += stroke(line((0.22, 0.02), (0.34, 0.2), (0.5, 0.3)), 0.08)
    small = disc(-0.25, -0.14, 0.07)
    small += blob((-0.31, -0.04), (-0.19, -0.04), (-0.18, 0.14), (-0.3, 0.15))
    small += stroke(line((-0.29, -0.02), (-0.38, 0.06), (-0.44, 0.12)), 0.05)
    small += stroke(line((-0.2, -0.03), (-0.08, -0.08)), 0.05)
    small += stroke(line((-0.27, 0.12), (-0.26, 0.28), (-0.26, 0.42)), 0.065)
    small += stroke(line((-0.21, 0.12), (-0.12, 0.24), (0.0, 0.24)), 0.065)
    return [Patch(tall + small, "black")]


def worker() -> list[Patch]:
    """A bent person who shovels at a heap on the right."""
    body = disc(0.04, -0.4, 0.085)
    body += blob((-0.05, -0.34), (-0.02, -0.16), (-0.14, 0.0), (-0.27, -0.08), (-0.22, -0.3))
    body += stroke(line((-0.18, -0.28), (-0.33, -0.14), (-0.22, -0.02)), 0.06)
    body += stroke(line((-0.04, -0.3), (-0.02, -0.1), (-0.04, 0.06)), 0.07)
    body += stroke(line((-0.22, -0.02), (-0.28, 0.2), (-0.4, 0.44)), 0.09)
    body += stroke(line((-0.16, -0.02), (-0.06, 0.2), (-0.06, 0.44)), 0.09)
    body += stroke(line((-0.28, -0.06), (0.14, 0.28)), 0.035)
    heap = blob((0.02, 0.47), (0.16, 0.34), (0.27, 0.22), (0.38, 0.23), (0.47, 0.36), (0.6, 0.47))
    return [Patch(body + heap, "black")]


def bicycle() -> list[Patch]:
    """A bicycle that stands to the left: from −0.55 to 0.55."""
    wheels = stroke(arc(-0.32, 0.14, 0.2, 0, 360), 0.05) + stroke(
        arc(0.32, 0.14, 0.2, 0, 360), 0.05
    )
    frame = stroke(line((-0.32, 0.14), (-0.2, -0.27), (-0.12, -0.27)), 0.05)
    frame += stroke(
        line((-0.23, -0.15), (0.04, 0.15), (0.32, 0.14), (0.16, -0.16), (-0.23, -0.16)), 0.05
    )
    frame += stroke(line((0.04, 0.15), (0.19, -0.22)), 0.05) + stroke(
        line((0.1, -0.24), (0.27, -0.24)), 0.05
    )
    return [Patch(wheels + frame, "black")]


def snowflake() -> list[Patch]:
    """Six branched arms: radius 0.5."""
    figure: Figure = []
    for number in range(6):
        angle = np.radians(60 * number + 30)
        along = np.array([np.cos(angle), np.sin(angle)])
        figure += stroke(np.stack([0 * along, 0.5 * along]), 0.075)
        for turn in (-50, 50):
            twig = np.radians(60 * number + 30 + turn)
            side = np.array([np.cos(twig), np.sin(twig)])
            figure += stroke(np.stack([0.26 * along, 0.26 * along + 0.2 * side]), 0.07)
    return [Patch(figure, "black")]


def deer() -> list[Patch]:
    """A deer that leaps to the left."""
    body = blob(
        (-0.2, -0.12),
        (-0.06, -0.06),
        (0.14, -0.02),
        (0.28, 0.06),
        (0.28, 0.2),
        (0.12, 0.16),
        (-0.06, 0.14),
        (-0.2, 0.1),
        (-0.26, 0.0),
    )
    body += polygon((-0.12, -0.04), (-0.24, 0.04), (-0.3, -0.26), (-0.2, -0.28))
    body += blob((-0.42, -0.22), (-0.3, -0.33), (-0.2, -0.32), (-0.2, -0.22), (-0.3, -0.2))
    body += stroke(line((-0.24, -0.3), (-0.16, -0.42), (-0.04, -0.5)), 0.04)
    body += stroke(line((-0.16, -0.4), (-0.08, -0.38)), 0.035)
    body += stroke(line((-0.26, -0.3), (-0.28, -0.42)), 0.035)
    body += stroke(line((-0.18, 0.08), (-0.36, 0.06), (-0.42, 0.14)), 0.05)
    body += stroke(line((-0.16, 0.1), (-0.3, 0.18), (-0.26, 0.26)), 0.05)
    body += stroke(line((0.22, 0.12), (0.32, 0.28), (0.5, 0.46)), 0.075)
    body += stroke(line((0.18, 0.14), (0.26, 0.3), (0.46, 0.5)), 0.05)
    return [Patch(body, "black")]


def skidding_car() -> list[Patch]:
    """A leaning car above two wavy tracks."""
    tracks = stroke(
        curve((-0.44, 0.3), (-0.22, 0.26), (-0.06, 0.31), (-0.2, 0.38), (-0.12, 0.46), (-0.4, 0.5)),
        0.055,
    )
    tracks += stroke(curve((0.1, 0.26), (0.16, 0.38), (0.34, 0.4), (0.54, 0.48)), 0.055)
    return [*placed(car("black"), 0.02, -0.06, 0.66, turned=14), Patch(tracks, "black")]


def traffic_signals() -> list[Patch]:
    """Red, yellow and green lamps, one above the other: from −0.5 to 0.5."""
    lamps = (("red", -0.34), ("yellow", 0.0), ("green", 0.34))
    edge = [Patch(disc(0, y, 0.165), "black") for _, y in lamps]
    return [*edge, *(Patch(disc(0, y, 0.14), colour) for colour, y in lamps)]


def exclamation_mark() -> list[Patch]:
    mark = blob((0.0, -0.54), (0.1, -0.42), (0.05, 0.16), (0.0, 0.2), (-0.05, 0.16), (-0.1, -0.42))
    return [Patch(mark + disc(0, 0.4, 0.09), "black")]


def bumps() -> list[Patch]:
    left = blob(
        (-0.54, 0.1), (-0.36, 0.02), (-0.24, -0.1), (-0.12, -0.02), (0.0, 0.08), (-0.25, 0.1)
    )
    ground = rectangle(-0.5, 0.05, 0.5, 0.12)
    return [
        Patch(ground, "black"),
        *placed([Patch(left, "black")]),
        *placed([Patch(left, "black")], mirrored=True),
    ]


def narrowing_right() -> list[Patch]:
    """Two edges of a road, the right one moving in."""
    edges = stroke(line((-0.12, 0.5), (-0.12, -0.5)), 0.11, ends="flat")
    edges += stroke(line((0.28, 0.5), (0.28, 0.06), (0.12, -0.12), (0.12, -0.5)), 0.11, ends="flat")
    return [Patch(edges, "black")]


def priority() -> list[Patch]:
    """A broad arrow ahead across a narrow bar."""
    ahead = polygon((0, -0.52), (0.2, -0.34), (0.2, 0.52), (0.0, 0.32), (-0.2, 0.52), (-0.2, -0.34))
    return [Patch(ahead + rectangle(-0.42, -0.12, 0.42, 0.04), "black")]


def bend_left() -> list[Patch]:
    path = np.concatenate(
        [line((0.2, 0.42), (0.2, 0.1)), arc(0.0, 0.1, 0.2, 0, -90), line((-0.2, -0.1))]
    )
    return [Patch(ribbon(path, 0.2), "black")]


def double_bend_left() -> list[Patch]:
    path = line((0.22, 0.4), (0.22, -0.04), (-0.17, 0.1), (-0.17, -0.28))
    return [Patch(ribbon(path, 0.19), "black")]
