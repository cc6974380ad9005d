"""Networks of others by name: `timm:resnet18`, `torchvision:alexnet`, `transformers:FOLDER`.

Each gets a new classifier for the classes at hand, and a blueprint: attached where the classifier
takes its features, images in the size and the scale that its weights were trained with, new
layers ten times as fast as pretrained ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from revgrad._system import named
from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import NO_WEIGHTS, PRETRAINED, Blueprint, mark_pretrained
from revgrad.networks.state_dict import fill_backbone, read_state_dict


@dataclass(frozen=True)
class Model:
    """A package's own network, before it gets a new classifier.

    Attributes
    ----------
    classifier
        path of the linear layer that it is replaced for
    takes_files
        whether files of weights have the names that the network has
    size, mean, sd
        of the images it is made for, values from 0 to 1; None: it takes no images
    """

    network: nn.Module
    classifier: str
    takes_files: bool = True
    size: int | None = None
    mean: tuple[float, ...] | None = None
    sd: tuple[float, ...] | None = None


#: (name, whether with the package's own pretrained weights) → the network.
Build = Callable[[str, bool], Model]

#: Prefix → where the network is made; imported when asked for.
ZOOS = {
    "timm": "revgrad.networks.zoo.timm:build",
    "torchvision": "revgrad.networks.zoo.torchvision:build",
    "transformers": "revgrad.networks.zoo.transformers:build",
}


def zoo_of(text: str) -> tuple[Build, str] | None:
    """How the network that `text` names is made, and its name there; None: it is no such text."""
    prefix, _, name = text.partition(":")
    if prefix not in ZOOS or ":" not in text:
        return None
    if not name:
        raise InputError(f"network '{text}' lacks a name: {prefix}:NAME")
    return named(ZOOS[prefix]), name


def zoo_blueprint(text: str) -> Blueprint | None:
    """The blueprint of the network that `text` names, made without memory for its weights."""
    found = zoo_of(text)
    if found is None:
        return None
    build, name = found
    with torch.device("meta"):
        return _blueprint(build(name, False))


def build_zoo_network(
    text: str, *, classes: int, channels: int, weights: Path | str, seed: int
) -> nn.Module:
    """The network that `text` names, with a new classifier: `features`, then `output`.

    Parameters
    ----------
    weights
        "pretrained": the package's own, fetched where they are not on disk; "none": random;
        else a file of them, in the package's names. The classifier in it is left.
    """
    found = zoo_of(text)
    assert found is not None
    build, name = found
    model = build(name, weights == PRETRAINED)
    network, blueprint = model.network, _blueprint(model)
    if blueprint.channels not in (None, channels):
        raise InputError(
            f"network '{text}' takes images of {blueprint.channels} channels, not {channels}: show "
            "grey images as colour (domain.as_colour())"
        )
    old = network.get_submodule(model.classifier)
    assert isinstance(old, nn.Linear)
    head = nn.Sequential(
        OrderedDict(features=nn.Identity(), output=nn.Linear(old.in_features, classes))
    )
    network.set_submodule(model.classifier, initialise(head, seed))
    vars(network)["blueprint"] = blueprint
    if weights not in (PRETRAINED, NO_WEIGHTS):
        if not model.takes_files:
            raise InputError(
                f"network '{text}' takes no file of weights: a folder as save_pretrained writes it "
                "holds the network and its weights, transformers:FOLDER"
            )
        state, new = read_state_dict(weights), f"{model.classifier}."
        fill_backbone(network, state, lambda key: key.startswith(new), str(weights))
    if weights != NO_WEIGHTS:
        mark_pretrained(network, (model.classifier,))
    return network


def last_linear(network: nn.Module, text: str) -> str:
    """The path of the last linear layer: the classifier of most networks."""
    linear: list[str] = [
        path for path, part in network.named_modules() if isinstance(part, nn.Linear)
    ]
    if not linear:
        raise InputError(
            f"network '{text}' ends in no linear classifier that could be replaced: build it "
            "yourself, --network module:function"
        )
    return linear[-1]


def _blueprint(model: Model) -> Blueprint:
    def bytes_of(values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if values is None else tuple(255 * value for value in values)

    return Blueprint(
        f"{model.classifier}.features",
        size=model.size,
        channels=None if model.mean is None else len(model.mean),
        pixel_mean=bytes_of(model.mean),
        pixel_scale=bytes_of(model.sd),
    )
