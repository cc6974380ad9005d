"""`revgrad report`: a page that shows what a run did."""

from __future__ import annotations

from pathlib import Path

import typer

from revgrad.cli.common import JSON, echo_json


def report_command(
    runs: list[Path] = typer.Argument(..., metavar="RUN…", help="Folder of a run, or of several."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="File to write. Default: report.html in the run's folder; of several runs, here.",
    ),
    points: int = typer.Option(600, help="Points of each domain in a feature cloud."),
    as_json: bool = JSON,
) -> None:
    """Write one self-contained page: did it work, and why; several runs side by side."""
    from revgrad.reports.page import write_report

    path = write_report(runs, output, points=points)
    if as_json:
        echo_json({"report": str(path), "bytes": path.stat().st_size})
        return
    typer.echo(f"see {path}")
