"""`revgrad export`: what leaves the house."""

from __future__ import annotations

from pathlib import Path

import typer

from revgrad.cli.common import JSON, NETWORK_AGAIN, echo_json, load_run, speak


def export(
    run: Path = typer.Argument(..., help="Folder of the run."),
    output: Path = typer.Argument(
        ...,
        help="The suffix decides: .safetensors or .pt (the plain network's state dict), "
        ".pt2 (torch.export) or .onnx (both with the preprocessing inside).",
    ),
    network: str | None = NETWORK_AGAIN,
    check: bool = typer.Option(True, help="Load the file again and compare its outputs."),
    as_json: bool = JSON,
) -> None:
    """Write a run's plain network to a file that other programs load."""
    speak()
    import torch

    from revgrad.exporting import export as write

    opened, adapted = load_run(run, network)
    shape = tuple(opened.config.input_shape)
    images = len(shape) == 3
    generator = torch.Generator().manual_seed(0)
    example = (
        torch.randint(0, 256, (2, *shape), dtype=torch.uint8, generator=generator)
        if images
        else torch.randn((2, *shape), generator=generator)
    )
    path = write(adapted.model, output, example, check=check)
    size = path.stat().st_size
    if as_json:
        echo_json({"path": str(path), "bytes": size, "checked": check})
    else:
        typer.echo(f"{path}  ({size / 1e6:.1f} MB{', checked' if check else ''})")
