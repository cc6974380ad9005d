"""`revgrad select`: which of several runs to take, without target labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import JSON, configure_logging, echo_json

if TYPE_CHECKING:
    from revgrad.model_selection.selection import SelectedRun, Selection


def select_command(
    runs: list[Path] = typer.Argument(..., help="Runs, or folders of runs (as of `revgrad tune`)."),
    score: str | None = typer.Option(
        None, help="The label-free score to rank by. Default: the one that our study recommends."
    ),
    as_json: bool = JSON,
) -> None:
    """Rank finished runs of the same target by a score that reads no target label.

    The best comes first and is the one to take. Runs that kept no evidence, or
    are not finished, are left out and named; runs that failed come last.
    """
    configure_logging()
    from revgrad.diagnostics.scores import RECOMMENDED_SCORE
    from revgrad.model_selection.selection import select as select_runs

    selection = select_runs(runs, score or RECOMMENDED_SCORE)
    if as_json:
        echo_json(
            {
                "score": selection.score,
                "chosen": str(selection.chosen.run),
                "runs": [{**asdict(row), "run": str(row.run)} for row in selection.runs],
                "left_out": {str(run): reason for run, reason in selection.left_out.items()},
            }
        )
        return
    _show_selection(selection)


def _show_selection(selection: Selection) -> None:
    from revgrad.diagnostics.scores import SCORES
    from revgrad.model_selection.table import table_text

    names = list(selection.runs[0].settings)
    heading = ["", "run", selection.score, "estimated accuracy", "verdict", *names]
    rows = [
        ["→" if row is selection.chosen else "", *_run_cells(row), *row.settings.values()]
        for row in selection.runs
    ]
    typer.echo(table_text([heading, *rows]))
    for row in selection.runs:
        if row.failure is not None:
            typer.echo(f"{row.run} failed: {row.failure}")
    for run, reason in selection.left_out.items():
        typer.echo(f"left out: {run}: {reason}")
    typer.echo(
        f"chosen: {selection.chosen.run}, by {selection.score} ({SCORES[selection.score].says}). "
        "No target label was read."
    )


def _run_cells(row: SelectedRun) -> list[str]:
    estimate = row.estimate
    shown = (
        ""
        if estimate is None
        else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
    )
    score = "" if row.score is None else f"{row.score:.4f}"
    return [str(row.run), score, shown, "failed" if row.failure else row.outcome]
