"""The table of a search: for the terminal, as Markdown, as csv; and its picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from revgrad._system import write_atomically
from revgrad.model_selection.search import SearchResult, Trial
from revgrad.model_selection.space import LogRange, OneOf, show_value
from revgrad.reports.figures import SOURCE_COLOUR, TARGET_COLOUR, save_figure

#: Of trials that were given up early.
GREY = "#9aa5b1"
#: Parameters beside each other in the picture.
PARAMETERS_ACROSS = 4

#: Target test accuracies by the trial's number; they decide nothing.
Tested = Mapping[int, float]


def trial_table(search: SearchResult, tested: Tested | None = None) -> list[list[str]]:
    """The heading and a line for each trial, the best first; the target test's accuracy last."""
    heading = ["trial", "state", "steps", search.score, *search.space, "held-out source", "seconds"]
    if tested is not None:
        heading.append("target test")
    return [heading, *(_cells(search, trial, tested) for trial in search.trials)]


def table_text(cells: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal."""
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ("  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def write_search(search: SearchResult, tested: Tested | None = None) -> list[Path]:
    """search.md, search.csv and search.png, beside the trials."""
    cells = trial_table(search, tested)
    paths = [search.folder / f"search.{suffix}" for suffix in ("md", "csv", "png")]
    write_atomically(paths[0], (_as_markdown(cells) + "\n").encode())
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    write_atomically(paths[1], text.getvalue().encode())
    draw_search(paths[2], search)
    return paths


def draw_search(path: Path, search: SearchResult) -> None:
    """The score by trial across the top, one panel for each parameter below.

    Trials without a score yet are left out; one that was given up stands at its last.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    scores = {trial.number: trial.score for trial in search.trials if trial.score is not None}
    trials = sorted(
        (trial for trial in search.trials if trial.number in scores), key=lambda t: t.number
    )
    lines = max(math.ceil(len(search.space) / PARAMETERS_ACROSS), 1)
    columns = max(math.ceil(len(search.space) / lines), 1)
    figure = Figure(figsize=(max(3.0 * columns, 7.0), 3.0 + 2.4 * lines), layout="constrained")
    grid = figure.add_gridspec(1 + lines, columns, height_ratios=[1.2, *[1.0] * lines])

    top = figure.add_subplot(grid[0, :])
    _scatter(top, [(trial, float(trial.number)) for trial in trials], search.best)
    finished = [trial.number for trial in trials if trial.state == "done"]
    if finished:
        highest = list(accumulate((scores[number] for number in finished), max))
        top.step(
            [*finished, trials[-1].number],
            [*highest, highest[-1]],
            where="post",
            color=SOURCE_COLOUR,
            lw=1.1,
            alpha=0.6,
        )
    top.set_xlabel("trial", fontsize=9)
    top.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(top, search.score)
    for place, (name, varied) in enumerate(search.space.items()):
        axes = figure.add_subplot(grid[1 + place // columns, place % columns])
        shown = [trial for trial in trials if name in trial.values]
        if isinstance(varied, LogRange):
            _draw_range(axes, name, shown, search.best)
        else:
            _draw_choices(axes, name, varied, shown, search.best)
        axes.set_xlabel(name, fontsize=9)
        _finish(axes, search.score if place % columns == 0 else "")
    marks: list[tuple[str, dict[str, Any]]] = [
        ("finished", {"marker": "o", "color": SOURCE_COLOUR}),
        ("given up early, its last score", {"marker": "x", "color": GREY}),
        ("best", {"marker": "*", "color": TARGET_COLOUR, "markersize": 11}),
        ("best so far", {"linestyle": "-", "color": SOURCE_COLOUR, "alpha": 0.6}),
    ]
    figure.legend(
        handles=[Line2D([], [], **{"linestyle": "", **how}, label=what) for what, how in marks],
        loc="outside upper center",
        ncols=len(marks),
        fontsize=8.5,
        frameon=False,
    )
    save_figure(figure, path)


def _cells(search: SearchResult, trial: Trial, tested: Tested | None) -> list[str]:
    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    cells = [
        str(trial.number),
        trial.state,
        str(trial.step),
        number(trial.score, ".4f"),
        *(show_value(trial.values.get(name)) for name in search.space),
        number(trial.source_accuracy, ".4f"),
        number(trial.seconds, ".0f"),
    ]
    if tested is not None:
        cells.append(number(tested.get(trial.number), ".4f"))
    return cells


def _as_markdown(cells: Sequence[Sequence[str]]) -> str:
    heading, *rows = ([cell.replace("|", "\\|") for cell in line] for line in cells)
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _draw_range(axes: Any, name: str, trials: Sequence[Trial], best: Trial | None) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    _scatter(axes, [(trial, float(trial.values[name])) for trial in trials], best)


def _draw_choices(
    axes: Any, name: str, varied: OneOf, trials: Sequence[Trial], best: Trial | None
) -> None:
    choices = [show_value(value) for value in varied.values]
    # beside one another, by number: trials with the same value would hide one another
    most = max((trial.number for trial in trials), default=0) + 1
    places = [
        choices.index(show_value(trial.values[name])) + 0.5 * ((trial.number + 0.5) / most - 0.5)
        for trial in trials
    ]
    _scatter(axes, list(zip(trials, places, strict=True)), best)
    long = max(map(len, choices)) > 7 or len(choices) > 4
    axes.set_xticks(
        range(len(choices)), choices, rotation=30 if long else 0, ha="right" if long else "center"
    )
    axes.set_xlim(-0.5, len(choices) - 0.5)


def _scatter(axes: Any, places: Sequence[tuple[Trial, float]], best: Trial | None) -> None:
    for trial, x in places:
        if trial is best:
            axes.scatter(x, trial.score, marker="*", s=130, color=TARGET_COLOUR, zorder=3)
        elif trial.state == "done":
            axes.scatter(
                x, trial.score, s=22, color=SOURCE_COLOUR, alpha=0.85, linewidths=0, zorder=2
            )
        else:
            axes.scatter(x, trial.score, marker="x", s=20, color=GREY, linewidths=1.1)


def _finish(axes: Any, score: str) -> None:
    axes.set_ylabel(score, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#e8e8e8", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
