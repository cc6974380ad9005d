"""Bars of a table, ours beside the published numbers, as a picture by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from revgrad.reports.figures import SOURCE_COLOUR, TARGET_COLOUR, save_figure

#: Panels beside each other.
PANEL_COLUMNS = 2
#: A bar longer than this share of the axis has room for its number.
ROOM = 0.14
#: Bars that are all shorter get a shorter axis.
HALF = 0.5


@dataclass(frozen=True)
class Bar:
    """One method: what we measured, what was published; None where there is no number."""

    label: str
    value: float | None
    sd: float | None = None
    published: float | None = None


@dataclass(frozen=True)
class Panel:
    """One cell of a table."""

    title: str
    bars: tuple[Bar, ...]


def draw_bars(path: Path, panels: Sequence[Panel], measure: str = "target accuracy") -> None:
    """A panel a cell, its methods from top to bottom; a method without a number keeps its place."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    limit = _limit(panels)
    columns = min(PANEL_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    most = max(len(panel.bars) for panel in panels)
    size = (6.4 * columns, (0.34 * most + 0.8) * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes, panel in zip(grid.flat, panels, strict=False):
        for place, bar in enumerate(panel.bars):
            if bar.value is not None:
                axes.barh(
                    place, bar.value, xerr=bar.sd, height=0.62, color=SOURCE_COLOUR, capsize=3
                )
                # at the foot of a bar that has room: beyond its end is the paper's mark
                inside = bar.value > ROOM * limit
                beyond = max(bar.value + (bar.sd or 0.0), bar.published or 0.0)
                left = (0.0 if inside else beyond) + 0.012 * limit
                colour = "white" if inside else "black"
                number = f"{bar.value:.3f}"
                axes.text(left, place, number, va="center", fontsize=8.5, color=colour)
            else:
                left = (bar.published or 0.0) + 0.015 * limit
                axes.text(left, place, "–", va="center", fontsize=9)
            if bar.published is not None:
                axes.plot(
                    [bar.published] * 2, [place - 0.4, place + 0.4], color=TARGET_COLOUR, lw=2.2
                )
        axes.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars], fontsize=9)
        axes.set_ylim(len(panel.bars) - 0.4, -0.6)
        axes.set_xlim(0, 1.02 * limit)
        axes.tick_params(axis="x", labelsize=8.5)
        axes.set_title(panel.title, fontsize=10.5)
        axes.set_xlabel(measure, fontsize=9)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.legend(
        handles=[
            Patch(color=SOURCE_COLOUR, label="ours: mean, whisker: deviation over seeds"),
            Line2D([], [], color=TARGET_COLOUR, lw=2.2, label="the paper"),
        ],
        loc="outside upper right",
        ncols=2,
        fontsize=9,
        frameon=False,
    )
    save_figure(figure, path)


def _limit(panels: Sequence[Panel]) -> float:
    """Where the axis ends, the same in all panels: at 1, or above the longest of short bars."""
    ends = [
        end
        for panel in panels
        for bar in panel.bars
        for end in ((bar.value or 0.0) + (bar.sd or 0.0), bar.published or 0.0)
    ]
    tenth = ceil(10 * max(ends)) / 10
    return tenth if 0 < tenth <= HALF else 1.0
