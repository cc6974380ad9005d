"""`revgrad layers`: where a network can be cut, and where two domains would have it cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from revgrad.cli.common import configure_logging, echo_json
from revgrad.cli.inputs import ImageOptions, open_training_data, parse_size
from revgrad.cli.options import spread_options
from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.diagnostics.layer_choice import LayerSuggestion

#: The library's rules by the names of --rule.
RULE_OF = {"difference": "relative_difference", "mmd": "mmd"}
#: Side of images where neither the user nor the network says one.
USUAL_SIZE = 32


def _suggest_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="With --suggest")


@dataclass(frozen=True, kw_only=True)
class LayersOptions:
    """A network, and the domains that a suggestion is for."""

    network: Annotated[str, typer.Argument(help="compact, …, timm:NAME, …, or module:function.")]
    size: Annotated[
        str | None, typer.Option(help="Image size.", show_default="the network's, or 32")
    ] = None
    channels: Annotated[int, typer.Option(help="Image channels; with --suggest, the data's.")] = 3
    classes: Annotated[int, typer.Option(help="Classes; with --suggest, the source's.")] = 10
    suggest: Annotated[
        bool,
        typer.Option("--suggest", help="Rank the layers by how far two domains lie apart there."),
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print json on standard output, for programs.")
    ] = False
    source: Annotated[str | None, _suggest_option("Source data, as `revgrad train` takes it.")] = (
        None
    )
    target: Annotated[str | None, _suggest_option("Target data; labels are never read.")] = None
    init: Annotated[
        Path | None,
        _suggest_option(
            "Weights of this run (a folder) or file (.safetensors). Default: random ones, which "
            "say less."
        ),
    ] = None
    rule: Annotated[
        Literal["difference", "mmd"],
        _suggest_option("Suggest by: difference (of the domains' means, the paper's rule) or mmd."),
    ] = "difference"
    samples: Annotated[
        int, _suggest_option("Samples of each domain; fewer where a layer is very wide.")
    ] = 500
    fit: Annotated[
        Literal["crop", "pad", "stretch"],
        _suggest_option("What is done to images of other proportions."),
    ] = "crop"
    follow_links: Annotated[
        bool,
        typer.Option(
            "--follow-links",
            help="Take what links out of a folder of images lead to; else it is left out.",
            rich_help_panel="With --suggest",
        ),
    ] = False


@spread_options
def layers_command(options: LayersOptions) -> None:
    """List a network's layers in order, with the shape of one sample's output there.

    With --suggest: where to attach the domain classifier. Layers are ranked by
    the distance of the two domains' features; the nearest is suggested, as in
    the paper.
    """
    configure_logging()
    if options.suggest:
        _suggest_layer(options)
        return
    given = {"--source": options.source, "--target": options.target, "--init": options.init}
    if alone := next((name for name, value in given.items() if value is not None), None):
        raise InputError(f"{alone} is for a suggestion: add --suggest")
    _list_layers(options)


def _list_layers(options: LayersOptions) -> None:
    import torch

    from revgrad.adapter import taking
    from revgrad.cutting import layers
    from revgrad.networks import blueprint_named, build_network
    from revgrad.networks.registry import NO_WEIGHTS
    from revgrad.networks.sizes import height_and_width

    blueprint = blueprint_named(options.network)
    usual = USUAL_SIZE if blueprint is None else blueprint.size or USUAL_SIZE
    size = height_and_width(parse_size(options.size) or usual)
    channels, classes = options.channels, options.classes
    # a series is as long as an image is wide
    inputs = (channels, size[1]) if options.network == "series" else (channels, *size)
    network = build_network(
        options.network,
        classes=classes,
        channels=channels,
        size=size,
        shape=inputs,
        seed=0,
        weights=NO_WEIGHTS,
    )
    example = torch.zeros(2, *inputs)
    with taking(example):
        found = layers(network, example)
    for layer in found:
        if options.as_json:
            echo_json(layer._asdict())
            continue
        shape = "?" if layer.shape is None else "×".join(str(n) for n in layer.shape)
        mark = " " if layer.cuttable else "-"
        note = "  (default)" if blueprint is not None and layer.name == blueprint.layer else ""
        why = f"  {layer.reason}" if layer.reason else ""
        typer.echo(f"{mark} {layer.name:<24} {layer.kind:<18} {shape:<14}{note}{why}")


def _suggest_layer(options: LayersOptions) -> None:
    if options.source is None or options.target is None:
        raise InputError("--suggest needs two domains: --source and --target")
    from revgrad.diagnostics.layer_choice import suggest_layer

    images = ImageOptions(options.size, options.fit, follow_links=options.follow_links)
    data = open_training_data(options.network, [options.source], [options.target], images=images)
    suggestion = suggest_layer(
        data.build(seed=0),
        data.source,
        data.targets[0],
        rule=RULE_OF[options.rule],
        samples=options.samples,
        trained=options.init,
    )
    if options.as_json:
        echo_json(suggestion.as_json())
    else:
        _show_suggestion(suggestion, options.source, options.target)


def _show_suggestion(suggestion: LayerSuggestion, source: str, target: str) -> None:
    ranked = suggestion.ranking.ranked
    width = max(len("layer"), *(len(shift.layer) for shift in ranked))
    typer.echo(f"{source} and {target}, {suggestion.samples} samples of each, nearest first:")
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
