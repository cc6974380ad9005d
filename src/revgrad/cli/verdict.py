"""`revgrad verdict`: did it work?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from revgrad.cli.common import JSON, configure_logging, echo_json


def verdict_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    baseline: Path | None = typer.Option(
        None,
        help="A source-only run on the same domains to compare with. Default: the one that "
        "`revgrad train --baseline` trained.",
    ),
    as_json: bool = JSON,
) -> None:
    """Judge a run without target labels: adapted, no gain, harmed, or can't tell; and why."""
    configure_logging()
    from revgrad.diagnostics.verdict import verdict as judge_run

    found = judge_run(run, baseline=baseline)
    if as_json:
        echo_json(asdict(found))
        return
    typer.echo(f"{found.outcome}: {found.sentence}\n")
    for reason in found.reasons:
        typer.echo(f"  - {reason}")
    for symptom in found.symptoms:
        typer.echo(f"\n{symptom.severity}: {symptom.name}: {symptom.seen}")
        typer.echo(f"  {symptom.cause}")
        typer.echo(f"  try: {symptom.remedy}")
