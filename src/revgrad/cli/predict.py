"""`revgrad predict`: a folder of images to a table of classes and confidences."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, configure_logging, echo_json
from revgrad.cli.inputs import load_run, open_for

if TYPE_CHECKING:
    from revgrad.api import Adapted
    from revgrad.domains import Domain

#: A line of the table by its columns' names.
PredictionLine = dict[str, str | float]


def predict_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Inputs: a folder of images, an .npz file or a name."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="A csv file. Default: print it."
    ),
    network: str | None = NETWORK_AGAIN,
    as_json: bool = JSON,
) -> None:
    """Predict every input: a line each with file, class, confidence; of a regression, file and
    value."""
    configure_logging()
    from revgrad._system import write_atomically

    adapted = load_run(run, network)
    domain = open_for(adapted, data, labels=False)
    lines = (
        _class_lines(adapted, domain) if adapted.is_classifier else _value_lines(adapted, domain)
    )
    files = domain.files or [str(number) for number in range(len(domain))]
    table: list[PredictionLine] = [
        {"file": file, **line} for file, line in zip(files, lines, strict=True)
    ]
    if as_json:
        for line in table:
            echo_json(line)
    if output is None and as_json:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, ["file", *lines[0]] if lines else ["file"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    if output is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        write_atomically(output, text.getvalue().encode())
        typer.echo(f"{len(table)} predictions in {output}", err=True)


def _class_lines(adapted: Adapted, domain: Domain) -> list[PredictionLine]:
    found = adapted.probabilities(domain)
    decided = found.argmax(1)
    names = adapted.classes or [str(number) for number in range(found.shape[1])]
    return [
        {"class": names[number], "confidence": round(float(found[row, number]), 6)}
        for row, number in enumerate(decided)
    ]


def _value_lines(adapted: Adapted, domain: Domain) -> list[PredictionLine]:
    """`value`, or `value_0`, `value_1`, … of several outputs."""
    found = adapted.predict(domain).reshape(len(domain), -1)
    names = ["value"] if found.shape[1] == 1 else [f"value_{i}" for i in range(found.shape[1])]
    # seven digits: what a float32 holds
    return [dict(zip(names, (float(f"{v:.7g}") for v in row), strict=True)) for row in found]
