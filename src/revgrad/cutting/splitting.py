"""A graph cut in two at one node: the part that computes its value, and the part that uses it.

The part behind may use the node's value, parameters and buffers, and nothing else that was computed
from the inputs; else a value crosses the cut. Sizes are the exception. The number of samples is
read from the features anew, as the label predictor sees fewer samples than the feature extractor.
Other sizes and kinds (height, dtype, ...) do not depend on the samples, but can't be read from the
features: they need the whole network, hence a tap.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

#: Operations on numbers, exact when computed twice.
_ARITHMETIC = frozenset(
    (operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod)
)
#: Functions whose result has the samples of their first argument in its first dimension.
_KEEP_SAMPLES = frozenset(
    (
        *("relu", "relu_", "leaky_relu", "gelu", "silu", "tanh", "sigmoid", "softmax"),
        *("dropout", "dropout2d", "add", "sub", "mul", "truediv", "contiguous", "conv1d", "conv2d"),
        *("linear", "batch_norm", "layer_norm", "max_pool1d", "max_pool2d", "avg_pool2d"),
        *("adaptive_avg_pool2d", "interpolate"),
    )
)
_JOIN = ("cat", "concat", "concatenate")
#: Modules that may put something else there.
_CHANGE_SAMPLES = (nn.Flatten, nn.Unflatten, nn.RNNBase, nn.Transformer, nn.MultiheadAttention)


@dataclass(frozen=True, slots=True)
class GraphSplit:
    """The parts of a graph that is cut at the node `at`, and what stands in the way.

    Attributes
    ----------
    behind
        nodes that depend on the layer's output, the network's output among them
    carried
        nodes that do not, but are computed behind the cut as well: parameters, sizes
    counts
        nodes whose value is the number of samples, where the part behind needs it
    sizes
        other sizes and kinds of earlier values that the part behind needs
    crossing
        values that cross the cut
    problem
        what else makes the cut impossible, in words that follow "layer 'x' "
    """

    at: fx.Node
    behind: frozenset[fx.Node]
    carried: frozenset[fx.Node]
    counts: frozenset[fx.Node]
    sizes: tuple[fx.Node, ...]
    crossing: tuple[fx.Node, ...]
    problem: str | None


def split_graph(graph: fx.Graph, at: fx.Node, root: nn.Module) -> GraphSplit:
    """The cut of `graph` (of the network `root`) right behind the node `at`."""
    behind: set[fx.Node] = set()
    of_inputs: set[fx.Node] = set()
    output = None
    for node in graph.nodes:
        sources = node.all_input_nodes
        if node.op == "output":
            output = node
        if node.op == "placeholder" or any(source in of_inputs for source in sources):
            of_inputs.add(node)
        if any(source is at or source in behind for source in sources):
            behind.add(node)
    problem = None
    if output is not None and output.args == (None,):
        problem = "leads nowhere: the network's forward returns nothing (is its return missing?)"
    elif output not in behind:
        problem = "does not reach the network's output"
    elif len(behind) == 1:
        problem = "gives the network's output: no label predictor is left behind it"

    carried: set[fx.Node] = set()
    counts: set[fx.Node] = set()
    sizes: dict[fx.Node, None] = {}
    crossing: dict[fx.Node, None] = {}

    def bring(node: fx.Node) -> None:
        if node in carried or node is at or node in behind:
            return
        if node in of_inputs:
            if _is_sample_count(node, root):
                counts.add(node)
                return
            if _is_other_size(node):
                sizes[node] = None
                return
            if not _is_of_sizes(node, of_inputs, root):
                crossing[node] = None
                return
        carried.add(node)
        for source in node.all_input_nodes:
            bring(source)

    for node in graph.nodes:
        if node in behind:
            for source in node.all_input_nodes:
                bring(source)
    for node in carried:  # computed twice: exact for parameters and numbers, maybe not for the rest
        shared = any(user not in behind and user not in carried for user in node.users)
        if shared and node.op != "get_attr" and node.target not in _ARITHMETIC:
            crossing[node] = None
    return GraphSplit(
        at=at,
        behind=frozenset(behind),
        carried=frozenset(carried),
        counts=frozenset(counts),
        sizes=tuple(sizes),
        crossing=tuple(crossing),
        problem=problem,
    )


def feature_graph(graph: fx.Graph, cut: GraphSplit, also: Sequence[fx.Node] = ()) -> fx.Graph:
    """The feature extractor: a graph from the inputs to the value of `cut.at`; with `also`, to a
    tuple of it and copies of these nodes' values, taken before an operation in place can change
    them."""
    part = fx.Graph()
    taken: dict[fx.Node, fx.Node] = {}
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        unused = node in cut.carried and all(
            user in cut.behind or user in cut.carried for user in node.users
        )
        if node in cut.behind or node.op == "output" or unused:
            continue
        copies[node] = part.node_copy(node, copies.__getitem__)
        if node in also:
            taken[node] = part.call_method("clone", (copies[node],))
    at = copies[cut.at]
    part.output((at, *(taken[node] for node in also)) if also else at)
    return part


def predictor_graph(graph: fx.Graph, cut: GraphSplit) -> fx.Graph:
    """The label predictor: a graph from the features to the network's output."""
    part = fx.Graph()
    features = part.placeholder("features")
    copies: dict[fx.Node, fx.Node] = {cut.at: features}
    for node in graph.nodes:
        if node in cut.counts:
            copies[node] = part.call_method("size", (features, 0))
        elif node in cut.carried or node in cut.behind:
            copies[node] = part.node_copy(node, copies.__getitem__)
    return part


def describe_node(node: fx.Node) -> str:
    """A node's name as a user would look for it."""
    if node.op == "placeholder":
        return f"the input '{node.target}'"
    if node.op == "call_module":
        return f"the output of '{node.target}'"
    return f"'{node.name}'"


def _shape_and_index(node: fx.Node) -> tuple[fx.Node, Any] | None:
    """(tensor, index) for a node that is tensor.size(index) or tensor.shape[index]."""
    args: tuple[Any, ...] = node.args
    if node.op == "call_method" and node.target == "size":
        if len(args) == 2:
            return args[0], args[1]
        return (args[0], node.kwargs["dim"]) if "dim" in node.kwargs else None
    if node.op == "call_function" and node.target is operator.getitem:
        shape, index = args
        if isinstance(shape, fx.Node) and _is_shape(shape):
            tensor: Any = shape.args[0]
            return tensor, index
    return None


def _is_shape(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target == "size" and len(node.args) == 1 and not node.kwargs
    return _is_attribute(node, ("shape",))


def _is_attribute(node: fx.Node, names: tuple[str, ...]) -> bool:
    getting = node.op == "call_function" and node.target is builtins.getattr
    return getting and node.args[1] in names


def _is_sample_count(node: fx.Node, root: nn.Module) -> bool:
    found = _shape_and_index(node)
    if found is None or type(found[1]) is not int or found[1] != 0:
        return False
    return _samples_kept(found[0], root)


def _is_other_size(node: fx.Node) -> bool:
    if _is_attribute(node, ("device", "dtype", "ndim", "is_cuda")):
        return True
    if node.op == "call_method" and node.target in ("dim", "ndimension"):
        return True
    found = _shape_and_index(node)
    if found is None:
        return False
    index = found[1].start if isinstance(found[1], slice) else found[1]
    return isinstance(index, int) and index != 0


def _is_of_sizes(node: fx.Node, of_inputs: set[fx.Node], root: nn.Module) -> bool:
    """Whether sizes alone determine a value: arithmetic on them, a tensor of a size or dtype."""
    return node.op in ("call_function", "call_method") and all(
        _is_sample_count(source, root)
        or _is_other_size(source)
        or _is_of_sizes(source, of_inputs, root)
        for source in node.all_input_nodes
        if source in of_inputs
    )


def _samples_kept(node: Any, root: nn.Module) -> bool:
    """Whether a value's first dimension is surely that of the samples."""
    while isinstance(node, fx.Node):
        if node.op == "placeholder":
            return True
        if node.op == "call_module":
            if isinstance(root.get_submodule(str(node.target)), _CHANGE_SAMPLES):
                return False
        elif node.op in ("call_function", "call_method"):
            name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
            if name in _JOIN and (joined := _joined_beside(node)):
                node = joined[0]
                continue
            if name not in _KEEP_SAMPLES:
                return False
        node = next(iter(node.args), None)
    return False


def _joined_beside(node: fx.Node) -> Sequence[Any]:
    """The values that torch.cat joins, where it surely is not along the samples; else none."""
    values = node.args[0] if node.args else None
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    beside = isinstance(dim, int) and dim > 0  # -1 is the samples where a value has no other
    return values if beside and isinstance(values, list | tuple) else ()
