"""A torch.fx graph of a network, or the reason why no graph is faithful to it.

Tracing runs the network's `forward` with proxies in place of the inputs, so whatever `forward` asks
of Python at that moment is frozen into the graph. The tracer below refuses where that matters: the
training mode, random numbers, tensors made on the way, attributes and buffers that `forward`
changes, gradients switched off for a part of it, hooks, questions about an input's type. Plain
numbers among a module's attributes are frozen: cut again after changing one.

Tracing works on a copy of the network that shares the parameters alone, so that nothing `forward`
does to itself reaches the network.
"""

from __future__ import annotations

import copy
import inspect
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn


class Untraceable(Exception):
    """A network has no faithful graph; the message is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A network's graph.

    Attributes
    ----------
    arguments
        names of the required arguments of `forward`: the graph's inputs. Optional ones
        keep their defaults
    calls
        for every module that was called, by its first name, the node of each call's result
        (None: a result that is not one value)
    """

    graph: fx.Graph
    arguments: tuple[str, ...]
    calls: dict[str, list[fx.Node | None]]


def trace(network: nn.Module, *layers: str) -> Trace:
    """Trace `network`, with `layers` as one node each, but for one that holds another of them;
    raise `Untraceable` where that is not faithful."""
    if "forward" in vars(network):
        raise Untraceable("its forward was replaced on the object")
    arguments = required_arguments(network)
    if not arguments:
        raise Untraceable("its forward names no required argument")
    training = _trace_once(network, layers, arguments, training=True)
    evaluation = _trace_once(network, layers, arguments, training=False)
    if _steps(training.graph) != _steps(evaluation.graph):
        raise Untraceable("what its forward does depends on the training mode")
    return training


def required_arguments(network: nn.Module) -> tuple[str, ...]:
    """Names of the arguments of `forward` that have no default, in order."""
    plain = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    parameters = inspect.signature(type(network).forward).parameters.values()
    return tuple(
        parameter.name
        for parameter in list(parameters)[1:]
        if parameter.kind in plain and parameter.default is inspect.Parameter.empty
    )


def double(network: nn.Module) -> nn.Module:
    """A copy of the network with buffers and attributes of its own that shares the parameters."""
    memo: dict[int, Any] = {id(parameter): parameter for parameter in network.parameters()}
    for module in network.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:  # deepcopy refuses these
                memo[id(value)] = value
    return copy.deepcopy(network, memo)


def _trace_once(
    network: nn.Module, layers: tuple[str, ...], arguments: tuple[str, ...], *, training: bool
) -> Trace:
    try:
        subject = double(network)
    except Exception as error:
        raise Untraceable(f"it can't be copied for tracing ({_first_line(error)})") from error
    for module in subject.modules():
        module.training = training
    tracer = _Tracer(subject, layers, arguments)
    drawn = random.getstate()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        # the second trace runs without gradients, so a forward that asks shows as a difference
        stack.enter_context(torch.set_grad_enabled(training))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        before = torch.get_rng_state()
        tracer.state = _global_state()
        try:
            graph = tracer.trace(subject)
        except Untraceable:
            raise
        except fx.proxy.TraceError as error:
            raise Untraceable(
                f"its forward has control flow that depends on the data ({_first_line(error)})"
            ) from error
        except Exception as error:
            raise Untraceable(f"torch.fx can't trace it ({_first_line(error)})") from error
        finally:
            moved = random.getstate() != drawn
            random.setstate(drawn)
        if moved or not torch.equal(torch.get_rng_state(), before):
            raise Untraceable("its forward draws random numbers that tracing would freeze")
    for node in graph.nodes:
        if node.op == "get_attr" and not _has_tensor(network, str(node.target)):
            raise Untraceable("its forward makes tensors that tracing would freeze")
        owner = node.args[0] if node.args else None
        in_place = node.op == "call_method" and str(node.target).endswith("_")
        if in_place and isinstance(owner, fx.Node) and owner.op == "get_attr":
            raise Untraceable(f"its forward changes '{owner.target}'")
    changed = _changed_attribute(network, subject)
    if changed is not None:
        raise Untraceable(f"its forward changes the attribute '{changed}'")
    return Trace(graph, arguments, tracer.calls)


class _Value(fx.Proxy):
    """A proxy of a tensor. It is no Tensor, so code that asks for its type would be misled."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what isinstance looks at
        caller = sys._getframe(1)
        asked = "isinstance" in caller.f_code.co_names  # else torch's compiled code did
        if asked and not caller.f_globals.get("__name__", "").startswith("torch."):
            raise Untraceable("its forward asks for the type of a value (isinstance)")
        return _Value


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # arithmetic on buffers belongs to the graph

    def __init__(
        self, root: nn.Module, layers: tuple[str, ...], arguments: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.layers = layers
        self.layer_modules = [root.get_submodule(layer) for layer in layers]
        self.arguments = arguments
        self.calls: dict[str, list[fx.Node | None]] = {}
        self.state = _global_state()
        self._refuse_hooks(root, "the network")

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if any(layer.startswith(f"{module_qualified_name}.") for layer in self.layers):
            return False
        if any(m is one for one in self.layer_modules):
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        names = self.arguments

        def forward(root: nn.Module, *values: Any) -> Any:
            return call_by_name(root_fn, root, names, values)

        return forward, [self.root, *(self.create_proxy("placeholder", n, (), {}) for n in names)]

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        name = self.path_of_module(m)
        if not self.is_leaf_module(m, name):
            self._refuse_hooks(m, f"'{name}'")
        result = super().call_module(m, forward, args, kwargs)
        node = result.node if issubclass(type(result), fx.Proxy) else None
        self.calls.setdefault(name, []).append(node)
        return result

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if _global_state() != self.state:
            raise Untraceable("its forward switches gradients or autocast for a part of it")
        return super().create_node(*args, **kwargs)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Value(node, self)

    @staticmethod
    def _refuse_hooks(module: nn.Module, name: str) -> None:
        # a graph goes past the modules that it looks into, and so past their hooks
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        if any(getattr(module, kind, None) for kind in kinds):
            raise Untraceable(f"{name} has hooks")


def call_by_name(
    function: Callable[..., Any], root: nn.Module, names: tuple[str, ...], values: tuple[Any, ...]
) -> Any:
    """Call a `forward` with values for the arguments of these names, whatever their kind."""
    parameters = inspect.signature(function).parameters
    given = dict(zip(names, values, strict=True))
    positional = [
        given.pop(name)
        for name in names
        if parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    return function(root, *positional, **given)


def _global_state() -> tuple[bool, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    )


def _steps(graph: fx.Graph) -> list[tuple[Any, ...]]:
    return [(node.op, node.target, repr(node.args), repr(node.kwargs)) for node in graph.nodes]


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:120]}"


def _has_tensor(network: nn.Module, path: str) -> bool:
    value: Any = network
    for name in path.split("."):
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return isinstance(value, Tensor)


def _changed_attribute(network: nn.Module, traced: nn.Module) -> str | None:
    """The first attribute or buffer in which the traced copy differs from the network."""
    modules = dict(traced.named_modules())
    for path, module in network.named_modules():
        mine, theirs = _attributes(module), _attributes(modules[path])
        for name in (*mine, *(name for name in theirs if name not in mine)):
            if name not in mine or name not in theirs or not _same(mine[name], theirs[name]):
                return f"{path}.{name}" if path else name
    return None


def _attributes(module: nn.Module) -> dict[str, Any]:
    plain = {
        name: value
        for name, value in vars(module).items()
        if name != "training" and not (name.startswith("_") and name in _MODULE_FIELDS)
    }
    return {**plain, **module._buffers}


_MODULE_FIELDS = frozenset(vars(nn.Module()))


def _same(mine: Any, theirs: Any, depth: int = 5) -> bool:
    """Whether two attributes are equal; unknown objects by their own attributes, `depth` deep."""
    if mine is theirs or depth == 0:
        return True
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, Tensor):
        if mine.is_meta:
            return bool(mine.shape == theirs.shape)
        return torch.equal(mine.detach(), theirs.detach())
    if isinstance(mine, nn.Module):
        return True  # compared on its own
    if isinstance(mine, list | tuple):
        pairs = zip(mine, theirs, strict=False)
        return len(mine) == len(theirs) and all(_same(a, b, depth - 1) for a, b in pairs)
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and all(
            _same(value, theirs[key], depth - 1) for key, value in mine.items()
        )
    if isinstance(mine, bool | int | float | complex | str | bytes | set | frozenset):
        return bool(mine == theirs)
    if hasattr(mine, "__dict__") and not callable(mine):
        return _same(vars(mine), vars(theirs), depth - 1)
    return True
