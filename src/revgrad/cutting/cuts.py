"""`cut(network, layer)`: feature extractor and label predictor out of one network.

The feature extractor ends with the named layer, the label predictor is what follows. Both use the
network's own parameters; the network stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor, fx, nn

from revgrad.batch import Inputs, part_of, sample_count
from revgrad.cutting.crossing import crossing_names
from revgrad.cutting.splitting import (
    GraphSplit,
    describe_node,
    feature_graph,
    predictor_graph,
    split_graph,
)
from revgrad.cutting.tap import OtherTaps, check_features, choose_samples, run_tapped
from revgrad.cutting.tracing import Trace, Untraceable, trace
from revgrad.errors import CutError, unknown

log = logging.getLogger("revgrad")

#: Layers that return more than one tensor.
_NOT_ONE_TENSOR = (nn.RNNBase, nn.MultiheadAttention, nn.LSTMCell)


class CutOutput(NamedTuple):
    """One pass of n samples through a cut network."""

    features: Tensor  # of the layer it is cut at, (n, …)
    others: tuple[Tensor, ...]  # of the other layers that are watched, (n, …) each
    predictions: Any | None  # the label predictor's, for the chosen samples

    @property
    def all_features(self) -> tuple[Tensor, ...]:
        """Of the layer it is cut at, then of the others."""
        return (self.features, *self.others)


class Cut:
    """A network and the layer at which it is cut; made by `cut`. It has no parameters of its own.

    The graph is made once: after replacing a module's plain attributes, adding hooks or changing
    the network's `forward`, cut again. A deep copy has a deep copy of the network.

    Attributes
    ----------
    predictor
        the label predictor as a module that shares the network's parameters; None for a tap
    network
        the network given, untouched
    layer
        name of the layer whose output is the features
    traced
        True: cut by torch.fx; False: a tap on the running network (see `reason`)
    reason
        why a tap is used, in one line, else None
    output
        the part of the network's output that the label predictor gives (`part_of`)
    also
        layers in front of it whose outputs are wanted too
    """

    __slots__ = (
        "_arguments",
        "_behind",
        "_forced",
        "_front",
        "_watched",
        "also",
        "layer",
        "network",
        "output",
        "predictor",
        "reason",
    )

    def __init__(
        self,
        network: nn.Module,
        layer: str,
        *,
        parts: tuple[Callable[..., Any], fx.GraphModule] | None,
        arguments: tuple[str, ...] = (),
        reason: str | None = None,
        forced: bool = False,
        output: str | int | None = None,
        also: tuple[str, ...] = (),
    ) -> None:
        self.network = network
        self.layer = layer
        self.also = also
        self.output = output
        self.reason = reason
        self.predictor: nn.Module | None = None if parts is None else parts[1]
        # The generated functions run on the network itself, so they see whatever `network.to` does.
        self._front = None if parts is None else parts[0]
        self._behind: Callable[..., Any] | None = None if parts is None else type(parts[1]).forward
        self._arguments = arguments
        self._forced = forced
        self._watched: set[bool] = set()  # modes, training or not, in which a tap found no crossing

    @property
    def traced(self) -> bool:
        """Whether torch.fx cut the network (else a tap)."""
        return self._front is not None

    def features(self, inputs: Inputs) -> Tensor:
        """The feature extractor's output for all samples, (n, ...)."""
        return self.run(inputs, None).features

    def forward(self, inputs: Inputs, chosen: slice | Tensor | None) -> tuple[Tensor, Any | None]:
        """(features of all n samples, the label predictor's output for the chosen ones).

        `chosen` is a slice or a bool mask (n,). Where it is None or chooses none, the label
        predictor does not run and the second is None. Raises CutError where values other than the
        features are needed behind the layer and only running the network shows it (a tap).
        """
        found = self.run(inputs, chosen)
        return found.features, found.predictions

    __call__ = forward

    def run(self, inputs: Inputs, chosen: slice | Tensor | None) -> CutOutput:
        """`forward` with the outputs of the layers in `also`, of the same pass."""
        values = self._values(inputs)
        if self._front is None or self._behind is None or values is None:
            return self._run_tapped(inputs, chosen)
        count = values[0].shape[0]
        extracted = self._front(self.network, *values)
        features, *others = extracted if self.also else (extracted,)
        check_features(self.layer, features, count)
        for name, one in zip(self.also, others, strict=True):
            check_features(name, one, count)
        handed = None if chosen is None else choose_samples(features, chosen)
        if handed is None or not handed.shape[0]:
            return CutOutput(features, tuple(others), None)
        return CutOutput(features, tuple(others), self._behind(self.network, handed))

    def predict(self, features: Tensor) -> Any:
        """The label predictor's output for features (m, ...), which stay as they are."""
        if self._behind is None:
            raise CutError(
                f"the label predictor behind '{self.layer}' can't run on features alone, as the "
                f"network is tapped ({self.reason}); use forward(inputs, chosen)"
            )
        return self._behind(self.network, features.clone())

    def _run_tapped(self, inputs: Inputs, chosen: slice | Tensor | None) -> CutOutput:
        mode = self.network.training
        watched = mode not in self._watched
        with OtherTaps(self.network, self.also, sample_count(inputs)) as others:
            features, output = run_tapped(
                self.network, self.layer, inputs, chosen, watched=watched, part=self.output
            )
        if output is not None:
            self._watched.add(mode)
        return CutOutput(features, others.features(self.layer), output)

    def _values(self, inputs: Inputs) -> tuple[Tensor, ...] | None:
        """The inputs in the graph's order; None where they are not exactly the graph's inputs."""
        names = self._arguments
        if isinstance(inputs, Tensor):
            return (inputs,) if len(names) == 1 else None
        if isinstance(inputs, dict):
            if len(inputs) != len(names) or any(name not in inputs for name in names):
                return None
            return tuple(inputs[name] for name in names)
        return inputs if len(inputs) == len(names) else None

    def __reduce__(self) -> Any:  # copies and pickles: of the network, cut again
        return _again, (self.network, self.layer, self._forced, self.output, self.also)

    def __repr__(self) -> str:
        how = "traced" if self.traced else f"tapped: {self.reason}"
        return f"Cut({type(self.network).__name__} at '{self.layer}', {how})"


def cut(
    network: nn.Module,
    layer: str,
    *,
    tap: bool = False,
    output: str | int | None = None,
    also: Sequence[str] = (),
) -> Cut:
    """Cut `network` right behind `layer`, a name as in `network.named_modules()`.

    Of a network that returns several values, `output` says which one the label predictor gives: a
    key, an attribute or a place. The others may then cross the cut. `also` names layers in front of
    this one whose outputs `Cut.run` gives too, of the same pass.

    Raises CutError where the cut is impossible: other tensors cross it, the layer is called twice
    or never, nothing is left behind it. `tap=True` uses a tap even where the network can be traced
    (same result; for comparisons).

    Parameters
    ----------
    network
        any module; its parameters are shared with the two halves
    layer
        a name as in `network.named_modules()`
    tap
        use a tap even where the network can be traced (the same result; for comparisons)
    output
        of a network that returns several values, the one that the label predictor gives: a key, an
        attribute or a place
    also
        names of layers in front of this one whose outputs `Cut.run` gives too

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> pieces = revgrad.cut(network, "1")
    >>> features = pieces.features(torch.zeros(3, 4))
    >>> features.shape, pieces.predictor(features).shape
    (torch.Size([3, 8]), torch.Size([3, 2]))
    """
    modules = dict(network.named_modules(remove_duplicate=False))
    if layer == "":
        raise CutError("'' is the whole network: name a layer inside it to cut at")
    others = tuple(also)
    for one in (layer, *others):
        if one not in modules:
            raise unknown("layer", one, (name for name in modules if name))
        if isinstance(modules[one], _NOT_ONE_TENSOR):
            kind = type(modules[one]).__name__
            raise CutError(f"layer '{one}' ({kind}) does not return one tensor: can't cut there")
    if tap:
        return Cut(
            network, layer, parts=None, reason="asked for", forced=True, output=output, also=others
        )
    try:
        traced = trace(network, layer, *others)
        if output is not None:
            _keep_part(traced.graph, output)
        return _cut_graph(network, layer, traced, output, others)
    except Untraceable as error:
        reason = str(error)
    log.info("cutting %s at '%s' with a tap: %s", type(network).__name__, layer, reason)
    return Cut(network, layer, parts=None, reason=reason, output=output, also=others)


def cut_at_all(network: nn.Module, layers: Sequence[str], output: str | int | None = None) -> Cut:
    """Cut `network` at the one of these layers that lies behind all the others; `also` has those.

    Of a network that can only be tapped, the one that is defined last: `call_order` knows better.
    """
    wanted = list(dict.fromkeys(layers))
    if len(wanted) == 1:
        return cut(network, wanted[0], output=output)
    names = [name for name, _ in network.named_modules(remove_duplicate=False)]
    strange = next((one for one in wanted if one not in names), None)
    if strange is not None:
        raise unknown("layer", strange, (name for name in names if name))
    last = max(wanted, key=names.index)
    for at in (last, *(one for one in wanted if one != last)):
        try:
            return cut(network, at, output=output, also=[one for one in wanted if one != at])
        except CutError:
            continue
    return cut(network, last, output=output, also=[one for one in wanted if one != last])


def _keep_part(graph: fx.Graph, part: str | int) -> None:
    """Let the graph give this part of its output alone, and compute nothing else."""
    node = next(node for node in graph.nodes if node.op == "output")
    value = node.args[0]
    if isinstance(value, fx.Node):  # a value that a layer or an operation made: only running shows
        raise Untraceable("its output is made of parts by one of its layers")
    node.args = (part_of(value, part),)
    graph.eliminate_dead_code(is_impure_node=_acts)


def _acts(node: fx.Node) -> bool:
    """Whether a node does more than give a value: BatchNorm keeps statistics."""
    return bool(node.op in ("placeholder", "output", "call_module") or node.is_impure())


def _cut_graph(
    network: nn.Module,
    layer: str,
    traced: Trace,
    output: str | int | None = None,
    also: tuple[str, ...] = (),
) -> Cut:
    at = _only_call(network, traced, layer)
    others = [_only_call(network, traced, one) for one in also]
    found = split_graph(traced.graph, at, network)
    if found.problem is not None:
        hint = _hint(network, traced, at)
        raise CutError(f"layer '{layer}' {found.problem}{hint}")
    if found.crossing:
        raise CutError(
            f"can't cut at layer '{layer}': {crossing_values(found)} used behind it as well"
            f"{_hint(network, traced, at)}"
        )
    behind = [one for one, node in zip(also, others, strict=True) if node in found.behind]
    if behind:
        raise CutError(f"layer '{behind[0]}' does not lie in front of '{layer}'")
    if found.sizes:
        sizes = ", ".join(f"'{node.name}'" for node in found.sizes)
        raise Untraceable(f"sizes or kinds of earlier values are used behind the layer ({sizes})")
    graph = feature_graph(traced.graph, found, others)
    front = fx.GraphModule(network, graph, "FeatureExtractor")
    predictor = fx.GraphModule(network, predictor_graph(traced.graph, found), "LabelPredictor")
    _share_buffers(network, predictor)
    parts = (type(front).forward, predictor)
    return Cut(network, layer, parts=parts, arguments=traced.arguments, output=output, also=also)


def _only_call(network: nn.Module, traced: Trace, layer: str) -> fx.Node:
    """The node of the one call of a layer."""
    module = network.get_submodule(layer)
    names = [name for name in traced.calls if network.get_submodule(name) is module]
    calls = traced.calls[names[0]] if names else []
    if len(calls) != 1 or calls[0] is None:
        fault = "is never reached" if not calls else f"is called {len(calls)} times"
        near = next((node for node in calls if node is not None), None)
        raise CutError(f"layer '{layer}' {fault}: can't cut there{_hint(network, traced, near)}")
    return calls[0]


def crossing_values(found: GraphSplit) -> str:
    """The values that cross a cut, for a sentence."""
    return crossing_names([describe_node(node) for node in found.crossing])


def single_calls(network: nn.Module, traced: Trace) -> dict[str, fx.Node]:
    """Layers that are called once and may return one tensor, with the node of their output."""
    return {
        name: calls[0]
        for name, calls in traced.calls.items()
        if len(calls) == 1
        and calls[0] is not None
        and not isinstance(network.get_submodule(name), _NOT_ONE_TENSOR)
    }


def _hint(network: nn.Module, traced: Trace, near: fx.Node | None) -> str:
    """Layers where a cut is possible, nearest to a node first, as the end of a sentence."""
    place = {node: i for i, node in enumerate(traced.graph.nodes)}
    centre = len(place) if near is None else place[near]
    working = [
        (abs(place[node] - centre), name)
        for name, node in single_calls(network, traced).items()
        if not ((found := split_graph(traced.graph, node, network)).problem or found.crossing)
    ]
    names = [f"'{name}'" for _, name in sorted(working, key=lambda pair: pair[0])[:5]]
    if names:
        return f"; layers that work: {', '.join(names)}"
    return (
        "; no other layer works either: give what is computed of it all (the pooled features) a "
        "layer of its own, self.features = nn.Identity(), and name that"
    )


def _share_buffers(network: nn.Module, part: fx.GraphModule) -> None:
    """Let the part's buffers be the network's own, also after `network.to` replaced them."""
    for node in part.graph.nodes:
        if node.op != "get_attr":
            continue
        owner, _, name = str(node.target).rpartition(".")
        source = network.get_submodule(owner)
        if name in source._buffers:
            part.get_submodule(owner)._buffers = source._buffers


def _again(
    network: nn.Module, layer: str, tap: bool, output: str | int | None, also: tuple[str, ...]
) -> Cut:
    return cut(network, layer, tap=tap, output=output, also=also)
