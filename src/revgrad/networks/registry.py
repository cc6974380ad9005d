"""Networks by name: of `NETWORKS`, of timm, torchvision or transformers, or of the user's own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
from torch import nn

from revgrad._system import named
from revgrad.errors import InputError, RevgradError, unknown
from revgrad.networks.default import BY_SHAPE
from revgrad.networks.domain_classifier import DOMAIN_CLASSIFIER
from revgrad.networks.sizes import height_and_width
from revgrad.networks.state_dict import read_state_dict

#: The networks the command line knows by name: "module:callable", imported when asked for.
NETWORKS: dict[str, str] = {
    "mnist": "revgrad.paper.networks.mnist:MNISTNetwork",
    "svhn": "revgrad.paper.networks.svhn:SVHNNetwork",
    "gtsrb": "revgrad.paper.networks.gtsrb:GTSRBNetwork",
    "alexnet": "revgrad.paper.networks.alexnet:AlexNet",
    "compact": "revgrad.networks.compact:CompactNetwork",
    "perceptron": "revgrad.networks.perceptron:Perceptron",
    "series": "revgrad.networks.series:SeriesNetwork",
    "efficientnet-lite0": "revgrad.networks.efficientnet:EfficientNetLite0.pretrained",
    "one-hidden": "revgrad.paper.networks.one_hidden:OneHidden.for_images",
}
#: Those of them that read weights, built without.
UNTRAINED: dict[str, str] = {
    "efficientnet-lite0": "revgrad.networks.efficientnet:EfficientNetLite0",
}

#: Weights that a network by name starts from, where no file of them is given.
PRETRAINED, NO_WEIGHTS = "pretrained", "none"
#: The custom in fine-tuning: new layers learn ten times as fast as pretrained ones.
PRETRAINED_LR_FACTOR = 0.1


@dataclass(frozen=True)
class Blueprint:
    """Facts of a network beside its weights: the class attribute `blueprint` of a network, ours or
    the user's own. They hold from Python and from the command line alike.

    Attributes
    ----------
    layer
        where the domain classifier is attached unless said
    size
        side of the images it is made for, in pixels; None: any
    channels
        of the images it is made for: grey ones are shown to it as colour; None: any
    domain_classifier
        hidden widths of the domain classifier unless said
    max_weight_norm
        limit of the l2 norm of the weights into each unit; None: none
    new_layers
        layers whose weights are not pretrained, where all others' are; None: no
        weights are pretrained
    pixel_mean, pixel_scale
        a number per channel of uint8 images: what pretrained weights want
    pretrained_lr_factor
        multiple of μ that pretrained layers learn with unless said

    Examples
    --------
    >>> class Network(nn.Module):
    ...     blueprint = revgrad.Blueprint(layer="features", size=32, domain_classifier=(256,))
    """

    layer: str
    size: int | None = None
    channels: int | None = None
    domain_classifier: tuple[int, ...] = DOMAIN_CLASSIFIER
    max_weight_norm: float | None = None
    pixel_mean: tuple[float, ...] | None = None
    pixel_scale: tuple[float, ...] | None = None
    new_layers: tuple[str, ...] | None = None
    pretrained_lr_factor: float = PRETRAINED_LR_FACTOR


def blueprint_of(network: nn.Module) -> Blueprint | None:
    """The network's own blueprint; None where it has none."""
    found = getattr(network, "blueprint", None)
    return found if isinstance(found, Blueprint) else None


def mark_pretrained(network: nn.Module, new_layers: Sequence[str]) -> None:
    """Note in the network's blueprint that all weights but those of `new_layers` are pretrained."""
    blueprint = blueprint_of(network)
    if blueprint is None:
        raise InputError(f"{type(network).__name__} has no blueprint to say so in")
    vars(network)["blueprint"] = replace(blueprint, new_layers=tuple(new_layers))


def blueprint_named(name: str) -> Blueprint | None:
    """The blueprint of the network that `build_network` would build; None where its class has none,
    or a function of the user's own builds it."""
    from revgrad.networks.zoo import zoo_blueprint

    known = zoo_blueprint(name)
    if known is not None:
        return known
    if ":" in name:
        with current_directory_first():
            builder: Any = _import_builder(name)
    elif name in NETWORKS:
        builder = named(NETWORKS[name])
    else:
        raise unknown("network", name, NETWORKS)
    found = getattr(getattr(builder, "__self__", builder), "blueprint", None)  # of a class's method
    return found if isinstance(found, Blueprint) else None


def build_network(
    text: str,
    *,
    classes: int,
    channels: int,
    size: int | tuple[int, int],
    seed: int,
    shape: Any = None,
    weights: Path | str = PRETRAINED,
) -> nn.Module:
    """The network that `text` names: one of `NETWORKS`, "timm:NAME", "torchvision:NAME",
    "transformers:NAME" (NAME may be a folder), or "module:function" of the user's own.

    The user's module may lie in the current directory; it is imported here and only where the
    text holds a colon. The function gets those of classes, channels, size, shape (of one input,
    images or not) and seed that it takes; one that takes no seed draws its weights from PyTorch's
    generator, which is seeded for the call and put back.

    Parameters
    ----------
    weights
        "pretrained": those that come with the network, where there are any; "none": random
        ones; else a file of pretrained ones (.safetensors, .pth), which the network's
        `load_pretrained(state_dict)` takes
    """
    from revgrad.networks.zoo import build_zoo_network, zoo_of

    settings: dict[str, Any] = {
        "classes": classes,
        "channels": channels,
        "size": size,
        "seed": seed,
        "shape": (channels, *height_and_width(size)) if shape is None else shape,
    }
    if zoo_of(text) is not None:
        with _seeded(seed):
            return build_zoo_network(
                text, classes=classes, channels=channels, weights=weights, seed=seed
            )
    if ":" not in text:
        if text not in NETWORKS:
            raise unknown("network", text, NETWORKS)
        if text not in BY_SHAPE and (isinstance(shape, dict) or len(settings["shape"]) != 3):
            raise InputError(
                f"network '{text}' takes images, not inputs of shape {shape}: take perceptron "
                "(vectors), series (channels, time), or your own, --network module:function"
            )
        untrained = UNTRAINED.get(text, NETWORKS[text])
        builder = named(NETWORKS[text] if weights == PRETRAINED else untrained)
        built: nn.Module = builder(**_taken(builder, settings))
        return _with_weights(built, weights, text)
    with current_directory_first():  # for the call too: the function may import what lies there
        network = build_with(_import_builder(text), settings, text)
    return _with_weights(network, weights, text)


def build_with(builder: Callable[..., object], settings: Mapping[str, Any], name: str) -> nn.Module:
    """The network that a function of the user's own builds from those settings that it takes; they
    hold a seed."""
    network = _call(name, builder, settings)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"network '{name}' must return a torch.nn.Module, got {type(network).__name__}"
        )
    return network


def _with_weights(network: nn.Module, weights: Path | str, text: str) -> nn.Module:
    """With a file's weights, where one is given."""
    if weights in (PRETRAINED, NO_WEIGHTS):
        return network
    load = getattr(network, "load_pretrained", None)
    if not callable(load):
        raise InputError(
            f"network '{text}' takes no file of pretrained weights: its class has no "
            "load_pretrained(state_dict). The weights of a whole network go in by --init"
        )
    load(read_state_dict(weights))
    return network


def _call(text: str, builder: Callable[..., object], settings: Mapping[str, Any]) -> object:
    try:
        with _seeded(settings["seed"]):
            return builder(**_taken(builder, settings))
    except RevgradError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"network '{text}' could not be built: {_one_line(error)}") from error


def _import_builder(text: str) -> Callable[..., object]:
    found = import_object(text, "network")
    if not callable(found):
        raise InputError(f"network '{text}': '{text.partition(':')[2]}' is not a function")
    return found


def import_object(text: str, kind: str) -> object:
    """The user's own `module:name`, a network or a task; where it can't be had, one line."""
    module_name, _, function_name = text.partition(":")
    if not module_name or not function_name:
        raise InputError(f"{kind} '{text}' is not of the form module:function")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(missing + "."):
            raise InputError(
                f"{kind} '{text}': module '{module_name}' needs '{missing}', which is missing"
            ) from error
        raise InputError(
            f"{kind} '{text}': no module '{module_name}' in {os.getcwd()} or among the "
            "installed packages"
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{kind} '{text}': importing '{module_name}' failed: {_one_line(error)}"
        ) from error
    found = getattr(module, function_name, None)
    if found is None:
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise unknown(f"function in module '{module_name}'", function_name, names)
    return found


def _taken(builder: Callable[..., object], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that the builder takes by keyword; all where it takes any."""
    try:
        parameters = signature(builder).parameters
    except (TypeError, ValueError):  # some callables of C code show no signature
        return dict(settings)
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    if Parameter.VAR_KEYWORD in kinds.values():
        return dict(settings)
    by_keyword = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {name: value for name, value in settings.items() if kinds.get(name) in by_keyword}


@contextmanager
def current_directory_first() -> Iterator[None]:
    """Modules that lie in the current folder can be imported inside."""
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
