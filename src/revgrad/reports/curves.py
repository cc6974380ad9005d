"""Curves over steps: those that a page shows, and their drawing as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from markupsafe import Markup

from revgrad.diagnostics.symptoms import GUESSING_LOSS
from revgrad.reports.run_summary import (
    MEASURED,
    SIDE_TITLES,
    SIDES,
    RunSummary,
    Side,
    evaluated_metrics,
    kind_of,
    value_of,
)
from revgrad.reports.svg import drawing, element, shown_number, ticks

#: Of a chart, and its margins.
CHART_WIDTH, CHART_HEIGHT = 350.0, 204.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 18.0, 10.0, 36.0
#: Of a small text: the width of a letter, the height of a line.
LETTER, LINE = 6.4, 17.0
#: Points of a curve at most; beyond, neighbours are averaged.
CURVE_POINTS = 400
#: Values this many times above what 95 in 100 stay below are cut off, or nothing else is seen.
SPIKE = 8.0
#: Evaluations are few: up to this many points each has a mark of its own.
POINTS_MARKED = 25
#: From a step or a value to its place in the picture.
Scale = Callable[[float], float]
#: Styles of lines that the page's stylesheet has for runs; beyond, they begin again.
RUN_LOOKS = 8


@dataclass(frozen=True)
class Curve:
    """A number of the records, and how it is shown.

    Attributes
    ----------
    field
        of training records; of evaluations a metric's name, or "loss"
    side
        of evaluations: which domain's
    floor
        of the axis: values below are cut off
    """

    field: str
    title: str
    unit: str
    says: str
    side: Side | None = None
    share: bool = False
    floor: float | None = None
    level: tuple[float, str] | None = None
    adversarial: bool = False  # `level` means something only where a domain classifier is trained


CURVES = (
    Curve(
        "label_loss",
        "Label loss L_y",
        "",  # the task's
        "On labelled source samples in training. It should fall and stay low.",
    ),
    Curve(
        "domain_loss",
        "Domain loss L_d",
        "nats",
        "Low: the domain classifier tells the domains apart. At the dashed line it guesses; well "
        "above, it is outrun.",
        level=(GUESSING_LOSS, "guessing, ln 2"),
        adversarial=True,
    ),
    Curve(
        "domain_accuracy",
        "Domain accuracy",
        "share of samples",
        "How often the domain classifier is right. Near half means that features are alike, or "
        "that it never learned.",
        share=True,
        level=(0.5, "guessing"),
        adversarial=True,
    ),
    Curve("adaptation_factor", "Adaptation factor λ", "", "How much the reversed gradient counts."),
    Curve("learning_rate", "Learning rate μ", "", "The size of the steps."),
)
#: R² of a network that has learnt nothing falls without end: below this it says no more.
LOWEST_R2 = -1.0


@dataclass(frozen=True)
class CurveLine:
    """One line. `look` is its style's name; a value that is not finite leaves a gap."""

    name: str
    look: str
    steps: tuple[int, ...]
    values: tuple[float, ...]

    def thinned(self, points: int = CURVE_POINTS) -> CurveLine:
        """At most so many points: means of as many neighbours each."""
        width = -(-len(self.steps) // points)
        if width <= 1:
            return self
        parts = range(0, len(self.steps), width)
        return CurveLine(
            self.name,
            self.look,
            tuple(self.steps[min(i + width, len(self.steps)) - 1] for i in parts),
            tuple(float(np.mean(self.values[i : i + width])) for i in parts),
        )


@dataclass(frozen=True)
class LegendKey:
    """A line of the legend."""

    name: str
    look: str


@dataclass(frozen=True)
class Chart:
    """A picture of some series that share an axis.

    Attributes
    ----------
    share
        values are shares, shown in percent
    level
        a value worth a dashed line, and what it is
    floor
        of the axis: values below are cut off
    says
        how to read it, in a sentence
    broken
        the step at which the loss was no longer finite
    marked
        a mark at each point: evaluations are few
    legend
        where it is not simply the series' names
    """

    key: str
    title: str
    unit: str
    series: tuple[CurveLine, ...]
    says: str
    share: bool = False
    level: tuple[float, str] | None = None
    floor: float | None = None
    steps: int = 1
    broken: int | None = None
    marked: bool = False
    legend: tuple[LegendKey, ...] = ()

    @property
    def keys(self) -> tuple[LegendKey | CurveLine, ...]:
        return self.legend or self.series

    @property
    def has_values(self) -> bool:
        return any(math.isfinite(value) for one in self.series for value in one.values)


@dataclass(frozen=True)
class DrawnChart:
    """A chart's picture, what JavaScript needs to say a value under the pointer, and a note."""

    chart: Chart
    picture: Markup
    data: dict[str, Any]
    note: str


def draw_chart(chart: Chart) -> DrawnChart:
    """Axes, a dashed level, a line for each series."""
    series = [one.thinned() for one in chart.series if one.steps]
    low, high, cut = _axis_range(chart, series)
    last = max([chart.steps, *(one.steps[-1] for one in series)])

    def across(step: float) -> float:
        return LEFT + (CHART_WIDTH - LEFT - RIGHT) * step / last

    def up(value: float) -> float:
        inside = (min(max(value, low), high) - low) / (high - low)
        return CHART_HEIGHT - BOTTOM - (CHART_HEIGHT - TOP - BOTTOM) * inside

    parts = _draw_axes(chart, low, high, last, across, up)
    for one in series:
        parts += _draw_series(one, across, up, marked=chart.marked)
    if chart.level is not None:
        parts.append(_draw_level_name(chart.level, series, across, up))
    if chart.broken is not None:
        parts += _draw_broken(across(chart.broken))
    parts += [
        element("line", class_="cursor", x1=LEFT, x2=LEFT, y1=TOP, y2=CHART_HEIGHT - BOTTOM),
        element("rect", class_="catch", x=0, y=0, width=CHART_WIDTH, height=CHART_HEIGHT),
    ]
    names = ", ".join(one.name for one in series)
    picture = drawing(
        (CHART_WIDTH, CHART_HEIGHT),
        f"{chart.title} over steps: {names}",
        parts,
        class_="chart",
        id=f"chart-{chart.key}",
        tabindex=0,
    )
    data = {
        "id": f"chart-{chart.key}",
        "left": LEFT,
        "right": CHART_WIDTH - RIGHT,
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
    return DrawnChart(chart, picture, data, cut)


def charts_of_run(summary: RunSummary) -> list[Chart]:
    """One run's curves in colour, its baseline's in grey. Both domains share a metric's picture."""
    found = [_chart(curve, _with_baseline(curve, summary, "plain"), [summary]) for curve in CURVES]
    found += _adversary_charts(summary)
    found += [_held_out(name, summary) for name in evaluated_metrics([summary])]
    return [chart for chart in found if chart.has_values]


def _adversary_charts(summary: RunSummary) -> list[Chart]:
    """How well each adversary tells its attribute as training goes on."""
    found = []
    for number, about in enumerate(summary.config.adversaries):
        name, categories = about["name"], about["values"] is not None
        records = [r for r in summary.training if name in r.adversary_scores]
        line = CurveLine(
            "this run",
            "plain",
            tuple(r.step for r in records),
            tuple(r.adversary_scores[name] for r in records),
        )
        what = "samples that it tells right" if categories else "the variance that it explains"
        curve = Curve(
            f"adversary_{number}",
            f"Adversary of {about['attribute']} at {about['layer']}",
            "share of samples" if categories else "share of the variance",
            f"The share of {what}. At the dashed line it guesses: the features do not tell, or it "
            "never learned.",
            share=categories,
            level=(about["guessing_score"], "guessing"),
            floor=None if categories else -1.0,
        )
        found.append(_chart(curve, [line] if line.steps else [], [summary]))
    return found


def charts_of_runs(runs: Sequence[RunSummary], names: Sequence[str]) -> list[Chart]:
    """Every run's curves in the same axes."""
    held_out = [
        evaluation_curve(name, side, runs) for name in evaluated_metrics(runs) for side in SIDES
    ]
    found = []
    for curve in (*CURVES, *held_out):
        series = [
            _series(name, look_of(number), curve, run)
            for number, (name, run) in enumerate(zip(names, runs, strict=True))
        ]
        found.append(_chart(curve, series, runs))
    return [chart for chart in found if chart.has_values]


def look_of(number: int) -> str:
    """The style of a run's line: colour and dashes."""
    return f"run{number % RUN_LOOKS} dash{number // RUN_LOOKS % 3}"


def _axis_range(chart: Chart, series: Sequence[CurveLine]) -> tuple[float, float, str]:
    """The axis' ends, and a note where spikes are cut off."""
    finite = np.array([v for one in series for v in one.values if math.isfinite(v)])
    if not len(finite):  # means of neighbours are not finite where one of them is not
        finite = np.zeros(1)
    least, most, note = float(finite.min()), float(finite.max()), ""
    if chart.floor is not None and least < chart.floor:
        note = f"Cut off below; the smallest value is {shown_number(least)}."
        least, most = chart.floor, max(most, 0.0)
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
    low = min(0.0, least)
    high = most + 0.06 * (most - low)
    if not high > low:
        high = low + (abs(low) or 1.0)
    return low, high, note


def _draw_axes(
    chart: Chart, low: float, high: float, last: float, across: Scale, up: Scale
) -> list[Element]:
    right, bottom = CHART_WIDTH - RIGHT, CHART_HEIGHT - BOTTOM
    parts = []
    for value in ticks(low, high):
        # 92.5 stays 92.5: rounded, a value of 92 % would lie below its own line
        text = f"{100 * value:.4g}%" if chart.share else shown_number(value)
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
        element("text", "step", x=middle, y=CHART_HEIGHT - 3, text_anchor="middle", class_="unit"),
    ]
    if chart.level is not None:
        y = up(chart.level[0])
        parts.append(element("line", x1=LEFT, x2=right, y1=y, y2=y, class_="level"))
    return parts


def _draw_level_name(
    level: tuple[float, str], series: Sequence[CurveLine], across: Scale, up: Scale
) -> Element:
    """The level's name at that end and side of its line where the fewest points are."""
    value, name = level
    y, width = up(value), LETTER * len(name)
    points = [
        (across(step), up(shown))
        for one in series
        for step, shown in zip(one.steps, one.values, strict=True)
        if math.isfinite(shown)
    ]

    def crowd(place: tuple[str, bool]) -> int:
        left = LEFT if place[0] == "start" else CHART_WIDTH - RIGHT - width
        top = y - LINE if place[1] else y
        inside = (left <= x <= left + width and top <= at <= top + LINE for x, at in points)
        out_of_sight = top < TOP or top + LINE > CHART_HEIGHT - BOTTOM
        return sum(inside) + len(points) * out_of_sight

    places = [("end", True), ("end", False), ("start", True), ("start", False)]
    anchor, above = min(places, key=crowd)
    return element(
        "text",
        name,
        x=LEFT + 3 if anchor == "start" else CHART_WIDTH - RIGHT,
        y=y - 5 if above else y + 13,
        text_anchor=anchor,
        class_="level-name",
    )


def _draw_series(one: CurveLine, across: Scale, up: Scale, *, marked: bool) -> list[Element]:
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
    if len(one.steps) == 1 or (marked and len(one.steps) <= POINTS_MARKED):
        dots = "".join(
            f"M{across(step):.1f} {up(value):.1f}h0"
            for step, value in zip(one.steps, one.values, strict=True)
            if math.isfinite(value)
        )
        parts.append(element("path", d=dots, class_=f"marks {one.look}"))
    return parts


def _draw_broken(x: float) -> list[Element]:
    """A line where the loss was no longer finite."""
    right = x > CHART_WIDTH / 2
    return [
        element("line", x1=x, x2=x, y1=TOP, y2=CHART_HEIGHT - BOTTOM, class_="broken"),
        element(
            "text",
            "not finite",
            x=x - 5.0 if right else x + 5.0,
            y=TOP + 11,
            text_anchor="end" if right else "start",
            class_="broken-name",
        ),
    ]


def _first_broken(summary: RunSummary) -> int | None:
    """The step by which a loss was no longer finite; None where it always was."""
    for record in summary.training:
        losses = (record.label_loss, record.domain_loss)
        if any(loss is not None and not math.isfinite(loss) for loss in losses):
            return record.step
    return summary.step if summary.failure and "finite" in summary.failure else None


def evaluation_curve(name: str, side: Side, runs: Sequence[RunSummary]) -> Curve:
    """Of a metric, or of "loss", on held-out source or on the target's test."""
    task = runs[0].task
    kind = kind_of(name, task)
    says = f"On labelled target samples: {MEASURED}."
    if side == "source":
        adapting = "add little to it" if kind.error else "cost little of it"
        says = f"On source samples that were not trained on. Adaptation should {adapting}."
    return Curve(
        name,
        f"{SIDE_TITLES[side]} {kind.title}",
        f"share of {task.decides}" if name == "accuracy" else kind.unit,
        says,
        side,
        kind.share,
        LOWEST_R2 if name == "r2" else None,
    )


def _held_out(name: str, summary: RunSummary) -> Chart:
    """Source and target in one picture, told apart by colour, dashes and mark."""
    source, target = (evaluation_curve(name, side, [summary]) for side in SIDES)
    series, keys = [], []
    for curve, side in ((source, "source"), (target, "target")):
        shown = "source" if side == "source" else "target test"
        found = _with_baseline(curve, summary, side)
        series += [replace(one, name=f"{shown}, {one.name}") for one in found]
        keys += [LegendKey(f"{found[-1].name}, on {shown}", side)] if found else []
    if any("baseline" in one.look for one in series):
        keys.append(LegendKey("source-only network", "baseline"))
    tested = any(key.look == "target" for key in keys)
    says = source.says + (f" Target test: {MEASURED}." if tested else "")
    both = replace(source, title=f"Held-out {kind_of(name, summary.task).title}", says=says)
    drawn = _chart(both, series, [summary])
    return replace(drawn, key=f"held-out-{name.replace('_', '-')}", legend=tuple(keys))


def _with_baseline(curve: Curve, summary: RunSummary, look: str) -> list[CurveLine]:
    own = "this run" if summary.baseline is None else "adapted"
    found = [_series(own, look, curve, summary)]
    if summary.baseline is not None and curve.field not in ("adaptation_factor", "learning_rate"):
        found.insert(0, _series("source only", f"baseline {look}", curve, summary.baseline))
    return [one for one in found if one.steps]


def _series(name: str, look: str, curve: Curve, summary: RunSummary) -> CurveLine:
    values = _values(curve, summary)
    return CurveLine(name, look, tuple(step for step, _ in values), tuple(v for _, v in values))


def _values(curve: Curve, summary: RunSummary) -> list[tuple[int, float]]:
    values: list[tuple[int, float | None]]
    if curve.side is None:
        values = [(one.step, getattr(one, curve.field)) for one in summary.training]
    else:
        values = [(one.step, value_of(one, curve.field, curve.side)) for one in summary.evaluations]
    return [(step, float(value)) for step, value in values if value is not None]


def _chart(curve: Curve, series: Sequence[CurveLine], runs: Sequence[RunSummary]) -> Chart:
    adversarial = any(r.domain_accuracy is not None for run in runs for r in run.training)
    # beside other adversaries, or of more than two domains, guessing is elsewhere
    pairs = adversarial and not any(run.config.adversaries for run in runs)
    title, says, unit = curve.title, curve.says, curve.unit
    if curve.field == "domain_loss" and not adversarial:
        title, says, unit = "Loss between domains", "The term that makes the domains alike.", ""
    if curve.field == "adaptation_factor" and not adversarial:
        says = "The weight of the loss between domains."
    if curve.field == "label_loss":
        units = {run.loss_unit for run in runs}
        unit = units.pop() if len(units) == 1 else ""
    key = curve.field if curve.side is None else f"{curve.side}-{curve.field}"
    return Chart(
        key.replace("_", "-"),
        title,
        unit,
        tuple(one for one in series if one.steps),
        says,
        share=curve.share,
        level=curve.level if pairs or not curve.adversarial else None,
        floor=curve.floor,
        steps=max(run.steps for run in runs),
        broken=_first_broken(runs[0]) if len(runs) == 1 else None,
        marked=curve.side is not None,
    )
