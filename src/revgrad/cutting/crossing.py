"""Values that cross the cut of a network without a graph, found while it runs.

A graph shows which values computed in front of the layer are used behind it. Without one, every
operation of a run is looked at: a value is "in front" if it was computed from the inputs and not
from the layer's output, "behind" if from the layer's output. An operation on both, or a value from
in front that the network returns, crosses the cut, as in `splitting.py`.

What this can't follow: numbers that leave torch (`x.mean().item()`, sizes), and what the network
keeps in its parameters and buffers, which belong to both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from revgrad.batch import Inputs

#: Operations whose result takes no value from their arguments, only a size, a kind or a device.
_VALUES_UNUSED = frozenset(
    (
        *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
        *("randint_like", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"),
    )
)


def crossing_names(names: Sequence[str]) -> str:
    """Values that cross a cut, for a sentence: "the input 'x' is", "'add', 'mul' are"."""
    listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"{listed} {'is' if len(names) == 1 else 'are'}"


class CrossingWatch(TorchDispatchMode):
    """Inside, notes the values that cross from the front of a layer to what lies behind it.

    Attributes
    ----------
    values
        the values found so far, in words: "the input", "the output of 'fc1'", "'mean'"
    """

    def __init__(self, network: nn.Module, inputs: Inputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: list[str] = []
        self._state = _Storages()
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            self._state.add(tensor, name.rpartition(".")[0])
        self._front, self._behind = _Storages(), _Storages()
        if isinstance(inputs, Tensor):
            self._front.add(inputs, "the input")
        elif isinstance(inputs, dict):
            for name, tensor in inputs.items():
                self._front.add(tensor, f"the input '{name}'")
        else:
            for place, tensor in enumerate(inputs):
                self._front.add(tensor, f"input {place}")

    def hand_on(self, features: Tensor) -> None:
        """From here on, what is computed from these features is behind the layer."""
        self._front.discard(features)
        self._behind.add(features, "")

    def finish(self, output: Any) -> None:
        """Look at the network's output too."""
        self._note(self._front.names(_tensors(output)))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = _tensors((args, kwargs))
        front, behind = self._front.names(given), bool(self._behind.names(given))
        result = func(*args, **(kwargs or {}))
        operation = func.overloadpacket.__name__
        if not (front or behind) or operation in _VALUES_UNUSED:
            return result
        if front and behind:
            self._note(front)
        modules = [name for name in self._state.names(given) if name]  # whose parameters it uses
        name = f"the output of '{modules[0]}'" if modules else f"'{operation}'"
        for tensor in _tensors(result):
            if not self._state.names([tensor]):
                (self._behind if behind else self._front).add(tensor, name)
        return result

    def _note(self, names: Iterable[str]) -> None:
        self.values.extend(name for name in names if name not in self.values)


class _Storages:
    """Tensors, known by the memory they lie in: a view, or a tensor changed in place, is the same.

    Weak references let the memory be freed, and keep its mark from being given to other memory.
    """

    def __init__(self) -> None:
        self._marks: dict[int, tuple[StorageWeakRef, str]] = {}

    def add(self, tensor: Tensor, name: str) -> None:
        """Mark the tensor's memory; where it is marked already, its name stays."""
        reference = _storage(tensor)
        if reference is not None:
            self._marks.setdefault(reference.cdata, (reference, name))

    def discard(self, tensor: Tensor) -> None:
        reference = _storage(tensor)
        if reference is not None:
            self._marks.pop(reference.cdata, None)

    def names(self, tensors: Iterable[Tensor]) -> list[str]:
        """The names under which these tensors were added; those that were not are left out."""
        found = (_storage(tensor) for tensor in tensors)
        marks = (self._marks.get(reference.cdata) for reference in found if reference is not None)
        return [mark[1] for mark in marks if mark is not None]


def _storage(tensor: Tensor) -> StorageWeakRef | None:
    try:
        return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
    except (NotImplementedError, RuntimeError):  # sparse and the like have none
        return None


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in pytree.tree_leaves(values) if isinstance(value, Tensor)]
