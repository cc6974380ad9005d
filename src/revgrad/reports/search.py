"""A search in one picture: the score by trial, and by each parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from revgrad.reports.drawing import SOURCE, TARGET, save_figure

_GIVEN_UP = "#9aa5b1"
_COLUMNS = 4


@dataclass(frozen=True)
class TrialPoint:
    """A trial: its number, its score (a pruned one's last), whether it came to the end, and the
    values of what was varied, by name."""

    number: int
    score: float
    finished: bool
    values: Mapping[str, float | str]


@dataclass(frozen=True)
class Varied:
    """A parameter: a range of numbers, drawn on a log scale, or these `choices`."""

    name: str
    choices: tuple[str, ...] | None = None


def draw_search(
    path: Path, score: str, points: Sequence[TrialPoint], varied: Sequence[Varied]
) -> None:
    """The score by trial across the top, one panel for each parameter below."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    lines = max(math.ceil(len(varied) / _COLUMNS), 1)
    columns = max(math.ceil(len(varied) / lines), 1)
    figure = Figure(figsize=(max(3.0 * columns, 7.0), 3.0 + 2.4 * lines), layout="constrained")
    grid = figure.add_gridspec(1 + lines, columns, height_ratios=[1.2, *[1.0] * lines])
    best = max((p for p in points if p.finished), key=lambda p: p.score, default=None)

    top = figure.add_subplot(grid[0, :])
    _scatter(top, [(point, float(point.number)) for point in points], best)
    finished = sorted((p for p in points if p.finished), key=lambda p: p.number)
    if finished:
        highest = list(accumulate((p.score for p in finished), max))
        last = max(point.number for point in points)
        top.step(
            [*(p.number for p in finished), last],
            [*highest, highest[-1]],
            where="post",
            color=SOURCE,
            lw=1.1,
            alpha=0.6,
        )
    top.set_xlabel("trial", fontsize=9)
    top.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(top, score)
    for place, parameter in enumerate(varied):
        axes = figure.add_subplot(grid[1 + place // columns, place % columns])
        _panel(axes, parameter, points, best)
        _finish(axes, score if place % columns == 0 else "")
    marks: list[tuple[str, dict[str, Any]]] = [
        ("finished", {"marker": "o", "color": SOURCE}),
        ("given up early, its last score", {"marker": "x", "color": _GIVEN_UP}),
        ("best", {"marker": "*", "color": TARGET, "markersize": 11}),
        ("best so far", {"linestyle": "-", "color": SOURCE, "alpha": 0.6}),
    ]
    figure.legend(
        handles=[Line2D([], [], **{"linestyle": "", **how}, label=what) for what, how in marks],
        loc="outside upper center",
        ncols=len(marks),
        fontsize=8.5,
        frameon=False,
    )
    save_figure(figure, path)


def _panel(
    axes: Any, parameter: Varied, points: Sequence[TrialPoint], best: TrialPoint | None
) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    name, choices = parameter.name, parameter.choices
    shown = [point for point in points if name in point.values]
    if choices is None:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        _scatter(axes, [(point, float(point.values[name])) for point in shown], best)
    else:
        places = {choice: i for i, choice in enumerate(choices)}
        texts = [(p, v if isinstance(v := p.values[name], str) else f"{v:.3g}") for p in shown]
        # beside one another, by number: trials with the same value would hide one another
        most = max((p.number for p in points), default=0) + 1
        _scatter(
            axes,
            [(p, places[t] + 0.5 * ((p.number + 0.5) / most - 0.5)) for p, t in texts],
            best,
        )
        long = max(map(len, choices)) > 7 or len(choices) > 4
        axes.set_xticks(
            range(len(choices)),
            choices,
            rotation=30 if long else 0,
            ha="right" if long else "center",
        )
        axes.set_xlim(-0.5, len(choices) - 0.5)
    axes.set_xlabel(name, fontsize=9)


def _scatter(
    axes: Any, places: Sequence[tuple[TrialPoint, float]], best: TrialPoint | None
) -> None:
    for point, x in places:
        if point is best:
            axes.scatter(x, point.score, marker="*", s=130, color=TARGET, zorder=3)
        elif point.finished:
            axes.scatter(x, point.score, s=22, color=SOURCE, alpha=0.85, linewidths=0, zorder=2)
        else:
            axes.scatter(x, point.score, marker="x", s=20, color=_GIVEN_UP, linewidths=1.1)


def _finish(axes: Any, score: str) -> None:
    axes.set_ylabel(score, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#e8e8e8", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
