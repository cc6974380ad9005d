"""`revgrad reproduce`: a table or figure of the paper, by one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.cli.common import JSON, configure_logging, echo_json, exit_when_interrupted
from revgrad.errors import InputError, unknown

if TYPE_CHECKING:
    from revgrad.paper.tables.reproduce import Reproduced

WHAT = (
    *("table1", "table2", "office31", "semi-supervised", "tsne", "mnist-to-svhn"),
    "office-caltech",
)


def reproduce_command(
    what: str = typer.Argument(..., help="table1, table2, office31, semi-supervised, tsne, …"),
    cell: list[str] = typer.Option(
        [], help="One cell: 'mnist->mnist-m' or mnist-to-mnist-m. May be repeated. Default: all."
    ),
    method: list[str] = typer.Option(
        [], help="One method, such as adversarial or recommended. May be repeated. Default: all."
    ),
    seeds: str | None = typer.Option(
        None, help="Which seeds: 0,1,2 or 0-4. Default: as many as the budget says, from 0."
    ),
    budget: str = typer.Option(
        "quick",
        help="tiny (a minute or two, stand-in data), quick (ten minutes a table on two cores), "
        "standard (hours), full (the paper's scale).",
    ),
    jobs: int | None = typer.Option(
        None,
        help="Jobs at once, a process and a thread each. Default: one a core, as far as memory "
        "goes; one beside a GPU.",
    ),
    output: Path = typer.Option(
        Path("reproduce"), "--output", "-o", help="Folder of all runs, tables and figures."
    ),
    data: Path | None = typer.Option(
        None, help="office31: the folder with amazon, dslr and webcam. Default: the data folder's."
    ),
    weights: Path | None = typer.Option(
        None, help="office31: AlexNet's weights, torchvision's state dict (.pth, .safetensors)."
    ),
    layer: str | None = typer.Option(
        None, help="tsne: the layer whose features are shown. Default: the paper's."
    ),
    quiet: bool = typer.Option(False, help="No progress, no notes."),
    as_json: bool = JSON,
) -> None:
    """Run an experiment of the paper and every method it compares; write the table.

    Each job (one method, one cell, one seed) has a folder of its own. Jobs that are done are
    skipped and interrupted ones resume, so the same command goes on after Ctrl-C. Nothing is
    chosen on target labels; what was (an oracle) says so.
    """
    configure_logging(quiet)
    if what not in WHAT:
        raise unknown("table or figure", what, WHAT)
    if layer is not None and what != "tsne":
        raise InputError(f"--layer is for tsne, not for {what}")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs takes 1 or more processes, not {jobs}")
    from revgrad.paper.tables.budgets import budget_named
    from revgrad.paper.tables.cells import parse_seeds
    from revgrad.paper.tables.pool import jobs_at_once
    from revgrad.paper.tables.reproduce import reproduce_table
    from revgrad.paper.tables.tsne import reproduce_tsne

    common: dict[str, Any] = {
        "cells": cell,
        "methods": method,
        "seeds": parse_seeds(seeds),
        "processes": jobs or jobs_at_once(),
        "quiet": quiet,
    }
    with exit_when_interrupted():
        if what == "tsne":
            pictures = reproduce_tsne(budget_named(budget), output, layer=layer, **common)
            _show_pictures(pictures, as_json)
            return
        done = reproduce_table(
            what, budget_named(budget), output, data=data, weights=weights, **common
        )
    _show(done, as_json)
    if done.failures:
        raise typer.Exit(1)


def _show(done: Reproduced, as_json: bool) -> None:
    from dataclasses import asdict

    from revgrad.paper.tables.render import as_markdown, notes

    if as_json:
        for line in done.lines:
            echo_json(asdict(line))
    else:
        typer.echo(as_markdown(done.lines))
        for note in notes(done.records, done.experiments):
            typer.echo(f"- {note}")
        for file in done.files:
            typer.echo(f"see {file}")
    for job, reason in done.failures.items():
        typer.echo(f"revgrad: {job} failed: {reason}", err=True)


def _show_pictures(pictures: list[Path], as_json: bool) -> None:
    for picture in pictures:
        if as_json:
            echo_json({"picture": str(picture)})
        else:
            typer.echo(f"see {picture}")
