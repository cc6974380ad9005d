"""`revgrad layers`: where a network can be cut, and where two domains would have it cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import JSON, echo_json, parse_size, speak
from revgrad.errors import InputError, unknown

if TYPE_CHECKING:
    from revgrad.choosing.suggesting import Suggestion

SUGGESTING = "With --suggest"
#: Columns by the rule they show; shared with the help text.
RULES = {"difference": "relative_difference", "mmd": "mmd"}


def layers(
    network: str = typer.Argument(..., help="mnist, svhn, gtsrb, alexnet, or module:function."),
    size: str | None = typer.Option(None, help="Image size. Default: the network's, or 32."),
    channels: int = typer.Option(3, help="Image channels; with --suggest, the data's."),
    classes: int = typer.Option(10, help="Classes; with --suggest, the source's."),
    suggest: bool = typer.Option(
        False, "--suggest", help="Rank the layers by how far two domains lie apart there."
    ),
    source: str | None = typer.Option(
        None, help="Source data, as `revgrad train` takes it.", rich_help_panel=SUGGESTING
    ),
    target: str | None = typer.Option(
        None, help="Target data; labels are never read.", rich_help_panel=SUGGESTING
    ),
    init: Path | None = typer.Option(
        None,
        help="Weights of this run (a folder) or file (.safetensors). Default: random ones, which "
        "say less.",
        rich_help_panel=SUGGESTING,
    ),
    rule: str = typer.Option(
        "difference",
        help="Suggest by: difference (of the domains' means, the paper's rule) or mmd.",
        rich_help_panel=SUGGESTING,
    ),
    rows: int = typer.Option(
        500,
        help="Rows of each domain; fewer where a layer is very wide.",
        rich_help_panel=SUGGESTING,
    ),
    fit: str = typer.Option(
        "crop",
        help="Images of other proportions: crop, pad or stretch.",
        rich_help_panel=SUGGESTING,
    ),
    as_json: bool = JSON,
) -> None:
    """List a network's layers in order, with the shape of one sample's output there.

    With --suggest: where to attach the domain classifier. Layers are ranked by
    the distance of the two domains' features; the nearest is suggested, as in
    the paper.
    """
    speak()
    if suggest:
        _suggest(network, source, target, init, size, fit, rule, rows, as_json)
        return
    given = {"--source": source, "--target": target, "--init": init}
    if alone := next((name for name, value in given.items() if value is not None), None):
        raise InputError(f"{alone} is for a suggestion: add --suggest")
    _list(network, size, channels, classes, as_json)


def _list(network: str, size: str | None, channels: int, classes: int, as_json: bool) -> None:
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


def _suggest(
    network: str,
    source: str | None,
    target: str | None,
    init: Path | None,
    size: str | None,
    fit: str,
    rule: str,
    rows: int,
    as_json: bool,
) -> None:
    if source is None or target is None:
        raise InputError("--suggest needs two domains: --source and --target")
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    from revgrad.choosing.suggesting import suggest_layer
    from revgrad.cli.opening import open_data

    data = open_data(network, source, target, size=size, fit=fit)
    assert data.target is not None
    suggestion = suggest_layer(
        data.build(seed=0),
        data.source,
        data.target,
        rule=RULES[rule],
        rows=rows,
        trained=init,
    )
    if as_json:
        echo_json(suggestion.as_json())
        return
    _show(suggestion, source, target)


def _show(suggestion: Suggestion, source: str, target: str) -> None:
    ranked = suggestion.ranking.ranked
    width = max(len("layer"), *(len(shift.layer) for shift in ranked))
    typer.echo(f"{source} and {target}, {suggestion.rows} rows of each, nearest first:")
    typer.echo(f"  {'layer':<{width}}  features  difference of means       MMD")
    for shift in ranked:
        mark = "→" if shift.layer == suggestion.layer else " "
        notes = ["suggested"] if shift.layer == suggestion.layer else []
        notes += ["default"] if shift.layer == suggestion.default else []
        note = f"  ({', '.join(notes)})" if notes else ""
        typer.echo(
            f"{mark} {shift.layer:<{width}}  {shift.width:>8}  {shift.relative_difference:>19.4f}"
            f"  {shift.mmd:>8.4f}{note}"
        )
    for sentence in suggestion.sentences:
        typer.echo(sentence)
