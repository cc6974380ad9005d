"""`revgrad export`: the deployable model as a file."""

from __future__ import annotations

from pathlib import Path

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, configure_logging, echo_json
from revgrad.cli.inputs import load_run, open_for


def export_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    output: Path = typer.Argument(
        ...,
        help="The suffix decides: .safetensors or .pt (the plain network's state dict), "
        ".pt2 (torch.export) or .onnx (both with the preprocessing inside).",
    ),
    network: str | None = NETWORK_AGAIN,
    example: str | None = typer.Option(
        None,
        help="Data whose first samples show the inputs' shapes and types. Needed for programs of "
        "inputs of several parts.",
    ),
    check: bool = typer.Option(True, help="Load the file again and compare its outputs."),
    as_json: bool = JSON,
) -> None:
    """Write a run's plain network to a file that other programs load."""
    configure_logging()
    adapted = load_run(run, network)
    shown = None if example is None else open_for(adapted, example, labels=False)
    path = adapted.export(output, shown, check=check)
    size = path.stat().st_size
    if as_json:
        echo_json({"path": str(path), "bytes": size, "checked": check})
    else:
        typer.echo(f"{path}  ({size / 1e6:.1f} MB{', checked' if check else ''})")
