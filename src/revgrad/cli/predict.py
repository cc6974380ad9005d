"""`revgrad predict`: a folder of images to a table of classes and confidences."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, echo_json, load_run, open_like, speak


def predict(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Inputs: a folder of images, an .npz file or a name."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="A csv file. Default: print it."
    ),
    network: str | None = NETWORK_AGAIN,
    as_json: bool = JSON,
) -> None:
    """Class and confidence of every input: a line each with file, class, confidence."""
    speak()
    from revgrad.files import write_atomically

    opened, adapted = load_run(run, network)
    domain = open_like(opened, data, adapted, labels=False)
    confidence, decided = adapted.outputs(domain).softmax(1).max(1)
    files = domain.files or [str(i) for i in range(len(domain))]
    names = [adapted.classes[i] if adapted.classes else str(i) for i in decided.tolist()]
    rows = list(zip(files, names, confidence.tolist(), strict=True))
    if as_json:
        for file, name, value in rows:
            echo_json({"file": file, "class": name, "confidence": round(value, 6)})
    if output is None and as_json:
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "class", "confidence"])
    table.writerows((file, name, f"{value:.6f}") for file, name, value in rows)
    if output is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        write_atomically(output, text.getvalue().encode())
        typer.echo(f"{len(rows)} predictions in {output}", err=True)
