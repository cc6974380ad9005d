"""`layers(network, example)`: a network's layers, and which of them it can be cut at."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from revgrad.batch import Inputs, call_on, sample_count
from revgrad.cutting.cuts import crossing_values, single_calls
from revgrad.cutting.splitting import split_graph
from revgrad.cutting.tap import run_tapped
from revgrad.cutting.tracing import Trace, Untraceable, double, trace
from revgrad.errors import CutError

_Output = tuple[int, ...] | str
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


class Layer(NamedTuple):
    """One layer of a network.

    Attributes
    ----------
    shape
        of its output for one sample; None where that is not one tensor
    cuttable
        whether `cut` works there; else `reason` says why not
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None
    cuttable: bool
    reason: str | None


def layers(network: nn.Module, example: Inputs) -> list[Layer]:
    """The layers in order of execution (a layer after those inside it), unreached ones last.

    `example` holds a few samples, two or more: of a network that can't be traced, a part of them
    is run through each layer. The network runs in evaluation mode, without gradients, and is as it
    was afterwards.

    Parameters
    ----------
    network
        any module
    example
        a few samples, two or more, as the network takes them

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> for layer in revgrad.layers(network, torch.zeros(2, 4)):
    ...     print(layer.name, layer.shape, layer.cuttable)
    0 (8,) True
    1 (8,) True
    2 (2,) False
    """
    try:
        subject = double(network)
    except Exception:  # a network that can't be copied runs itself
        subject = network
    modes = {module: module.training for module in subject.modules()}
    try:
        for module in modes:
            module.training = False
        with torch.no_grad(), torch.random.fork_rng():
            outputs = _run(subject, example)
            try:
                traced: Trace | None = trace(network)
            except Untraceable:
                traced = None
            return [
                _layer(subject, name, module, outputs.get(module, []), example, traced)
                for name, module in _in_order(subject, outputs)
            ]
    finally:
        for module, mode in modes.items():
            module.training = mode


def _run(network: nn.Module, example: Inputs) -> dict[nn.Module, list[_Output]]:
    """Outputs of every module, call by call: a tensor's shape, or the name of another type."""
    outputs: dict[nn.Module, list[_Output]] = {}

    def note(module: nn.Module, args: Any, output: Any) -> None:
        one = isinstance(output, Tensor) and not output.is_nested
        outputs.setdefault(module, []).append(tuple(output.shape) if one else type(output).__name__)

    handles = [m.register_forward_hook(note) for m in network.modules() if m is not network]
    try:
        call_on(network, example)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def _in_order(
    network: nn.Module, outputs: dict[nn.Module, list[_Output]]
) -> list[tuple[str, nn.Module]]:
    names = {module: name for name, module in network.named_modules()}
    unreached = [
        (name, module)
        for module, name in names.items()
        if module not in outputs and module is not network and not isinstance(module, _CONTAINERS)
    ]
    return [(names[module], module) for module in outputs] + unreached


def _layer(
    network: nn.Module,
    name: str,
    module: nn.Module,
    outputs: list[_Output],
    example: Inputs,
    traced: Trace | None,
) -> Layer:
    shape = outputs[0] if outputs else None
    of_one = shape[1:] if isinstance(shape, tuple) else None
    reason = _why_uncuttable(network, name, outputs, example, traced)
    return Layer(name, type(module).__name__, of_one, reason is None, reason)


def _why_uncuttable(
    network: nn.Module, name: str, outputs: list[_Output], example: Inputs, traced: Trace | None
) -> str | None:
    """Why the network can't be cut at this layer; None where it can."""
    count = sample_count(example)
    if len(outputs) != 1:
        return f"called {len(outputs)} times" if outputs else "never reached"
    output = outputs[0]
    if isinstance(output, str):
        return f"returns a {output}, not one tensor"
    if not output or output[0] != count:
        return f"gives shape {output} for {count} samples, not one row per sample"
    node = None if traced is None else single_calls(network, traced).get(name)
    if traced is not None and node is not None:
        found = split_graph(traced.graph, node, network)
        if found.problem is not None:
            return found.problem
        if found.crossing:
            return f"{crossing_values(found)} used behind it as well"
        if not found.sizes:
            return None
    try:
        run_tapped(network, name, example, slice(0, max(1, count // 2)))
    except CutError as error:
        return str(error)
    return None
