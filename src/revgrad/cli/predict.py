"""`revgrad predict`: data to a table of predictions, or to an .npz file of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, TASK_AGAIN, configure_logging, echo_json
from revgrad.cli.inputs import load_run, open_for

#: Beginnings of a cell that a spreadsheet computes.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def predict_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Inputs: a folder of images, an .npz file or a name."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="A csv file, or an .npz file with the arrays files and predictions. Default: print "
        "csv.",
    ),
    network: str | None = NETWORK_AGAIN,
    task: str | None = TASK_AGAIN,
    as_json: bool = JSON,
) -> None:
    """Predict every input: a line each with file, class and confidence; of several labels, the
    labels and the probability of each; of a regression, the value; of a sequence, the classes. Maps
    (dense labels) go to an .npz file. In the csv, texts that a spreadsheet would take for a formula
    (= + - @) begin with '."""
    configure_logging()
    from revgrad._system import write_atomically

    adapted = load_run(run, network, task)
    domain = open_for(adapted, data, labels=False)
    if domain.files is not None:  # its rows come in no order that a reader would know
        domain = domain.subset(sorted(range(len(domain)), key=domain.files.__getitem__))
    files = list(domain.files or [str(number) for number in range(len(domain))])
    if output is not None and output.suffix.lower() == ".npz":
        import numpy as np

        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, files=np.array(files, dtype=str), predictions=adapted.predict(domain)
        )
        write_atomically(output, buffer.getvalue())
        typer.echo(f"{len(files)} predictions in {output}", err=True)
        return
    columns = {"file": files, **adapted.table(domain)}
    table = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    if as_json:
        for line in table:
            echo_json(line)
    if output is None and as_json:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _no_formula(cell) for key, cell in line.items()} for line in table)
    if output is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        write_atomically(output, text.getvalue().encode())
        typer.echo(f"{len(table)} predictions in {output}", err=True)


def _no_formula(cell: Any) -> Any:
    """A text that a spreadsheet would compute, behind the mark by which it does not."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
