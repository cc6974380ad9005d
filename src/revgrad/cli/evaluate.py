"""`revgrad evaluate`: a run's network on labelled data."""

from __future__ import annotations

from pathlib import Path

import typer

from revgrad.cli.common import (
    FOLLOW_LINKS,
    JSON,
    NETWORK_AGAIN,
    TASK_AGAIN,
    configure_logging,
    echo_json,
)
from revgrad.cli.inputs import load_run, open_for


def evaluate_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Labelled data: a name, an .npz file or a folder."),
    network: str | None = NETWORK_AGAIN,
    task: str | None = TASK_AGAIN,
    follow_links: bool = FOLLOW_LINKS,
    as_json: bool = JSON,
) -> None:
    """Evaluate a run's network on labelled data.

    Prints the loss and the task's metrics: accuracy, over all and by class; of a regression R² and
    mean absolute error; of dense labels mean IoU. Started by torchrun, processes share out the
    data, and the first one prints.
    """
    configure_logging()
    from revgrad._distributed import process_group, rank, sharing_out
    from revgrad.tasks.metrics import shown_metrics

    adapted = load_run(run, network, task)
    domain = open_for(adapted, data, follow_links=follow_links)
    with process_group("cpu"), sharing_out():
        result = adapted.evaluate(domain)
        if rank() != 0:
            return
    per_class, counts = result.per_class, result.confusion
    # class, accuracy, samples of those classes that the data has
    classes: list[tuple[str, float, int]] = []
    if per_class is not None and counts is not None:
        names = adapted.task.class_names or [str(number) for number in range(len(per_class))]
        found = zip(names, per_class, counts.sum(1), strict=True)
        classes = [(name, float(value), int(count)) for name, value, count in found if count]
    if as_json:
        echo_json(
            {
                "run": str(run),
                "data": data,
                "count": result.count,
                "accuracy": result.accuracy,
                **result.figures,
                "loss": result.loss,
                "by_class": {name: value for name, value, _ in classes},
            }
        )
        return
    figures = {**result.figures, "loss": result.loss}
    typer.echo(f"{data}: {shown_metrics(figures)} ({result.count} samples)")
    width = max((len(name) for name, *_ in classes), default=0)
    for name, value, count in classes:
        typer.echo(f"  {name:<{width}}  {value:.4f}  ({count})")
