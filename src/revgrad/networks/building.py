"""From a text to a network: a name in a registry, or a function of the user's own module."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from revgrad.errors import InputError, RevgradError, unknown


def build(
    text: str, registry: Mapping[str, Callable[..., nn.Module]], **settings: Any
) -> nn.Module:
    """The network `text` names, built with those of `settings` that its builder takes.

    Builders that take no seed draw their weights from PyTorch's generator: it is seeded for the
    call and put back, so the network depends on the seed alone.
    """
    if ":" not in text:
        if text not in registry:
            raise unknown("network", text, registry)
        return registry[text](**settings)
    with _current_directory_first():  # for the call too: the function may import what lies there
        network = _call(text, _import_builder(text), settings)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"network '{text}' must return a torch.nn.Module, got {type(network).__name__}"
        )
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
    module_name, _, function_name = text.partition(":")
    if not module_name or not function_name:
        raise InputError(f"network '{text}' is not of the form module:function")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(missing + "."):
            raise InputError(
                f"network '{text}': module '{module_name}' needs '{missing}', which is missing"
            ) from error
        raise InputError(
            f"network '{text}': no module '{module_name}' in {os.getcwd()} or among the "
            "installed packages"
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"network '{text}': importing '{module_name}' failed: {_one_line(error)}"
        ) from error
    found = getattr(module, function_name, None)
    if found is None:
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise unknown(f"function in module '{module_name}'", function_name, names)
    if not callable(found):
        raise InputError(f"network '{text}': '{function_name}' is not a function")
    return found  # type: ignore[no-any-return]


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
def _current_directory_first() -> Iterator[None]:
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
