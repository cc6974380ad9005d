"""`revgrad layers`: where a network can be cut."""

from __future__ import annotations

import typer

from revgrad.cli.common import JSON, echo_json, parse_size, speak


def layers(
    network: str = typer.Argument(..., help="mnist, svhn, gtsrb, alexnet, or module:function."),
    size: str | None = typer.Option(None, help="Image size. Default: the network's, or 32."),
    channels: int = typer.Option(3, help="Image channels."),
    classes: int = typer.Option(10, help="Classes."),
    as_json: bool = JSON,
) -> None:
    """List a network's layers in order, with the shape of one sample's output there."""
    speak()
    import torch

    from revgrad.cutting import layers as list_layers
    from revgrad.networks import NETWORKS, build_network

    pixels = parse_size(size)
    if pixels is None:
        pixels = int(getattr(NETWORKS.get(network), "size", 32))
    height, width = (pixels, pixels) if isinstance(pixels, int) else pixels
    built = build_network(network, classes=classes, channels=channels, size=(height, width), seed=0)
    found = list_layers(built, torch.zeros(2, channels, height, width))
    attached = getattr(built, "layer", None)
    for layer in found:
        if as_json:
            echo_json(layer._asdict())
            continue
        shape = "?" if layer.shape is None else "×".join(str(n) for n in layer.shape)
        mark = " " if layer.cuttable else "-"
        note = "  (default)" if layer.name == attached else ""
        why = f"  {layer.reason}" if layer.reason else ""
        typer.echo(f"{mark} {layer.name:<24} {layer.kind:<18} {shape:<14}{note}{why}")
