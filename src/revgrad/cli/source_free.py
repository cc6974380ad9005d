"""`revgrad source-free`: adapt a run's network to a target, without the source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import (
    JSON,
    NETWORK_AGAIN,
    TASK_AGAIN,
    configure_logging,
    echo_json,
    exit_when_interrupted,
)
from revgrad.cli.inputs import load_run, open_for

if TYPE_CHECKING:
    from revgrad.training.settings import SettingsChanges


def source_free_command(
    run: Path = typer.Argument(..., help="Folder of the run that was trained on the source."),
    target: str = typer.Argument(..., help="Inputs: a folder of images, an .npz file or a name."),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the new run."),
    network: str | None = NETWORK_AGAIN,
    task: str | None = TASK_AGAIN,
    rounds: int = typer.Option(10, help="Pseudo-labels are made anew at the beginning of each."),
    steps: int | None = typer.Option(None, help="Of a round. Default: a pass over the target."),
    learning_rate: float | None = typer.Option(
        None, help="A constant one. Default: annealed from 0.001 over all rounds."
    ),
    seed: int = typer.Option(0, help="Decides the batches."),
    quiet: bool = typer.Option(False, help="No progress, no notes."),
    as_json: bool = JSON,
) -> None:
    """Adapt a run's network to a target where the source is no longer at hand (SHOT).

    The label predictor stays as the source trained it; the feature extractor learns to give the
    target features that it is sure about. It helps a network that is right on most of the target,
    and can harm one that is not; there is no verdict, as nothing of the source is there to judge
    by. The same command resumes.
    """
    configure_logging(quiet)
    from revgrad.api import adapt_without_source

    start = load_run(run, network, task)
    domain = open_for(start, target, labels=False)
    changes: SettingsChanges = {"seed": seed}
    if steps is not None:
        changes["steps"] = steps
    if learning_rate is not None:
        changes["learning_rate"] = learning_rate
    with exit_when_interrupted():
        adapted = adapt_without_source(
            start,
            domain,
            rounds=rounds,
            run=output,
            progress=not quiet,
            **changes,
        )
    counts: dict[str, int] = {}
    for label in adapted.predict(domain):
        counts[str(label)] = counts.get(str(label), 0) + 1
    if as_json:
        echo_json({"run": str(output), "rounds": rounds, "predicted": counts})
        return
    shares = ", ".join(f"{label} {count}" for label, count in sorted(counts.items()))
    typer.echo(f"{output}  (predicted classes of the target: {shares})")
