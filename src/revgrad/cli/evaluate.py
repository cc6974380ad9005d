"""`revgrad evaluate`: a run's network on labelled data."""

from __future__ import annotations

from pathlib import Path

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, echo_json, load_run, open_like, speak


def evaluate(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Labelled data: a name, an .npz file or a folder."),
    network: str | None = NETWORK_AGAIN,
    as_json: bool = JSON,
) -> None:
    """Accuracy of a run's network on labelled data, over all and by class."""
    speak()
    opened, adapted = load_run(run, network)
    domain = open_like(opened, data, adapted)
    result = adapted.evaluate(domain)
    per_class = result.per_class
    names = adapted.classes or [str(i) for i in range(0 if per_class is None else len(per_class))]
    if as_json:
        by_class = {}
        if per_class is not None:
            by_class = {n: float(v) for n, v in zip(names, per_class, strict=False) if v == v}
        echo_json(
            {
                "run": str(run),
                "data": data,
                "count": result.count,
                "accuracy": result.accuracy,
                "loss": result.loss,
                "by_class": by_class,
            }
        )
        return
    shown = f"loss {result.loss:.4f}"
    if result.accuracy is not None:
        shown = f"accuracy {result.accuracy:.4f}, {shown}"
    typer.echo(f"{data}: {shown} ({result.count} samples)")
    if per_class is not None and result.confusion is not None:
        width = max(len(name) for name in names)
        for name, value, count in zip(names, per_class, result.confusion.sum(1), strict=False):
            if count:
                typer.echo(f"  {name:<{width}}  {value:.4f}  ({count})")
