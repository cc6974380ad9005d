"""Curves over steps: what was recorded in training, drawn crisp, with what a pointer shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from markupsafe import Markup

from revgrad.reports.svg import drawing, element, shown_number, ticks

WIDTH, HEIGHT = 350.0, 204.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 18.0, 10.0, 36.0
#: Points of a curve at most; beyond, neighbours are averaged.
POINTS = 400
#: Values this many times above what 95 in 100 stay below are cut off, or nothing else is seen.
SPIKE = 8.0
#: Evaluations are few: up to this many points each has a mark of its own.
MARKED = 25


@dataclass(frozen=True)
class Series:
    """One line. `look` is its style's name; a value that is not finite leaves a gap."""

    name: str
    look: str
    steps: tuple[int, ...]
    values: tuple[float, ...]

    def thinned(self, points: int = POINTS) -> Series:
        """At most so many points: means of as many neighbours each."""
        width = -(-len(self.steps) // points)
        if width <= 1:
            return self
        parts = range(0, len(self.steps), width)
        return Series(
            self.name,
            self.look,
            tuple(self.steps[min(i + width, len(self.steps)) - 1] for i in parts),
            tuple(float(np.mean(self.values[i : i + width])) for i in parts),
        )


@dataclass(frozen=True)
class Key:
    """A line of the legend."""

    name: str
    look: str


@dataclass(frozen=True)
class Chart:
    """A picture of some series that share an axis.

    share      values are shares, shown in percent
    level      a value worth a dashed line, and what it is
    floor      where the axis starts, unless a value is below; None: near the least value
    says       how to read it, in a sentence
    """

    key: str
    title: str
    unit: str
    series: tuple[Series, ...]
    says: str
    share: bool = False
    level: tuple[float, str] | None = None
    floor: float | None = 0.0
    steps: int = 1
    broken: int | None = None  # the step at which the loss was no longer finite
    marked: bool = False  # a mark at each point: evaluations are few
    legend: tuple[Key, ...] = ()  # where it is not simply the series' names

    @property
    def keys(self) -> tuple[Key | Series, ...]:
        return self.legend or self.series

    @property
    def drawn(self) -> bool:
        return any(math.isfinite(value) for one in self.series for value in one.values)


@dataclass(frozen=True)
class Drawn:
    """A chart's picture, what JavaScript needs to say a value under the pointer, and a note."""

    chart: Chart
    picture: Markup
    data: dict[str, Any]
    note: str


def draw_chart(chart: Chart) -> Drawn:
    """Axes, a dashed level, a line for each series."""
    series = [one.thinned() for one in chart.series if one.steps]
    low, high, cut = _range(chart, series)
    last = max([chart.steps, *(one.steps[-1] for one in series)])

    def across(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def up(value: float) -> float:
        inside = (min(max(value, low), high) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * inside

    parts = _axes(chart, low, high, last, across, up)
    for one in series:
        parts += _line(one, across, up, marked=chart.marked)
    if chart.broken is not None:
        x = across(chart.broken)
        beside = -5.0 if x > WIDTH / 2 else 5.0
        parts += [
            element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="broken"),
            element(
                "text",
                "not finite",
                x=x + beside,
                y=TOP + 11,
                text_anchor="end" if beside < 0 else "start",
                class_="broken-name",
            ),
        ]
    parts += [
        element("line", class_="cursor", x1=LEFT, x2=LEFT, y1=TOP, y2=HEIGHT - BOTTOM),
        element("rect", class_="catch", x=0, y=0, width=WIDTH, height=HEIGHT),
    ]
    names = ", ".join(one.name for one in series)
    picture = drawing(
        (WIDTH, HEIGHT),
        f"{chart.title} over steps: {names}",
        parts,
        class_="chart",
        id=f"chart-{chart.key}",
        tabindex=0,
    )
    data = {
        "id": f"chart-{chart.key}",
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "last": last,
        "share": chart.share,
        "series": [
            {
                "name": one.name,
                "look": one.look,
                "steps": one.steps,
                "values": [float(f"{value:.5g}") for value in one.values],
            }
            for one in series
        ],
    }
    return Drawn(chart, picture, data, cut)


def shown_value(value: float, share: bool) -> str:
    return f"{value:.1%}" if share else shown_number(value)


def _range(chart: Chart, series: Sequence[Series]) -> tuple[float, float, str]:
    """The axis' ends, and a note where spikes are cut off."""
    finite = np.array([v for one in series for v in one.values if math.isfinite(v)])
    if not len(finite):
        finite = np.zeros(1)
    least, most, note = float(finite.min()), float(finite.max()), ""
    usual = float(np.quantile(finite, 0.95))
    if chart.share:
        shown = [least, *([chart.level[0]] if chart.level else [])]
        # a little below, so that a line does not run along the edge
        return max(math.floor((min(shown) - 0.02) * 10) / 10, 0.0), 1.0, note
    if most > SPIKE * usual > 0:
        note = f"Cut off above; the largest value is {shown_number(most)}."
        most = 1.5 * usual
    if chart.level is not None:
        most = max(most, chart.level[0] * 1.15)
    low = least if chart.floor is None else min(chart.floor, least)
    high = most + 0.06 * (most - low)
    if not high > low:
        high = low + (abs(low) or 1.0)
    return low, high, note


def _axes(
    chart: Chart, low: float, high: float, last: float, across: Any, up: Any
) -> list[Element]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in ticks(low, high):
        text = f"{value:.0%}" if chart.share else shown_number(value)
        parts += [
            element("line", x1=LEFT, x2=right, y1=up(value), y2=up(value), class_="grid"),
            element("text", text, x=LEFT - 7, y=up(value) + 4, text_anchor="end", class_="tick"),
        ]
    for value in ticks(0, last, 5):
        x = across(value)
        parts.append(
            element(
                "text", shown_number(value), x=x, y=bottom + 17, text_anchor="middle", class_="tick"
            )
        )
    middle = (LEFT + right) / 2
    parts += [
        element("line", x1=LEFT, x2=right, y1=bottom, y2=bottom, class_="axis"),
        element("text", "step", x=middle, y=HEIGHT - 3, text_anchor="middle", class_="unit"),
    ]
    if chart.level is not None:
        value, name = chart.level
        y = up(value)
        parts += [
            element("line", x1=LEFT, x2=right, y1=y, y2=y, class_="level"),
            element("text", name, x=right, y=y - 5, text_anchor="end", class_="level-name"),
        ]
    return parts


def _line(one: Series, across: Any, up: Any, *, marked: bool) -> list[Element]:
    """A path with gaps where a value is not finite; marks where asked for."""
    path, pen_down, parts = [], False, []
    for step, value in zip(one.steps, one.values, strict=True):
        if not math.isfinite(value):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{across(step):.1f} {up(value):.1f}")
        pen_down = True
    parts.append(element("path", d="".join(path), class_=f"line {one.look}"))
    # a lone point has no line
    if len(one.steps) == 1 or (marked and len(one.steps) <= MARKED):
        dots = "".join(
            f"M{across(step):.1f} {up(value):.1f}h0"
            for step, value in zip(one.steps, one.values, strict=True)
            if math.isfinite(value)
        )
        parts.append(element("path", d=dots, class_=f"marks {one.look}"))
    return parts
