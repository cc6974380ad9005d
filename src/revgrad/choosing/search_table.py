"""A search as a table: for the terminal, as Markdown, as csv; and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from revgrad.choosing.space import Range
from revgrad.choosing.trials import Search, TrialRow, show_value
from revgrad.files import write_atomically
from revgrad.reports.search import TrialPoint, Varied, draw_search

#: Target test accuracies by the trial's number; they decide nothing.
Tested = Mapping[int, float]


def table(search: Search, tested: Tested | None = None) -> list[list[str]]:
    """The heading and a row for each trial, the best first; the target test's accuracy last."""
    heading = ["trial", "state", "steps", search.score, *search.space, "held-out source", "seconds"]
    if tested is not None:
        heading.append("target test")
    return [heading, *(_cells(search, row, tested) for row in search.rows)]


def as_text(cells: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ("  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(cells: Sequence[Sequence[str]]) -> str:
    heading, *rows = ([cell.replace("|", "\\|") for cell in row] for row in cells)
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_search(search: Search, tested: Tested | None = None) -> list[Path]:
    """search.md, search.csv and search.png, beside the trials."""
    cells = table(search, tested)
    paths = [search.folder / f"search.{suffix}" for suffix in ("md", "csv", "png")]
    write_atomically(paths[0], (as_markdown(cells) + "\n").encode())
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    write_atomically(paths[1], text.getvalue().encode())
    points = [
        TrialPoint(row.number, row.score, row.state == "done", row.values)
        for row in search.rows
        if row.score is not None
    ]
    varied = [
        Varied(name, None if isinstance(what, Range) else tuple(map(show_value, what.values)))
        for name, what in search.space.items()
    ]
    draw_search(paths[2], search.score, points, varied)
    return paths


def _cells(search: Search, row: TrialRow, tested: Tested | None) -> list[str]:
    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    cells = [
        str(row.number),
        row.state,
        str(row.step),
        number(row.score, ".4f"),
        *(show_value(row.values.get(name)) for name in search.space),
        number(row.source_accuracy, ".4f"),
        number(row.seconds, ".0f"),
    ]
    if tested is not None:
        cells.append(number(tested.get(row.number), ".4f"))
    return cells
