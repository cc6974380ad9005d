"""`revgrad verdict`: did it work?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import JSON, configure_logging, echo_json

if TYPE_CHECKING:
    from revgrad.diagnostics.fairness import GroupDifferences


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
    for name, one in found.targets.items():
        typer.echo(f"\n{name}: {one.outcome}: {one.sentence}")
    for told in found.attributes:
        said = "" if told.sentence in found.sentence else f": {told.sentence}"
        typer.echo(f"\n{told.name}: {told.outcome}{said}")
        _show_differences("with", told.differences)
        _show_differences("without", told.differences_before)
    for symptom in found.symptoms:
        typer.echo(f"\n{symptom.severity}: {symptom.name}: {symptom.seen}")
        typer.echo(f"  {symptom.cause}")
        typer.echo(f"  try: {symptom.remedy}")


def _show_differences(what: str, found: GroupDifferences | None) -> None:
    """Of predictions between an attribute's groups, with adversaries or without."""
    if found is None or found.parity is None:
        return
    odds = "" if found.odds is None else f", equalised odds {found.odds:.1%}"
    typer.echo(
        f"  differences between its groups {what} adversaries: demographic parity "
        f"{found.parity:.1%}{odds}"
    )
