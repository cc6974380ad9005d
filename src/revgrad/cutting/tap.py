"""The cut of networks without a graph: run the network itself, with a tap (a hook) on the layer.

The tap keeps the layer's output for all samples as the features and hands on a copy of the chosen
ones, so dropout and BatchNorm behind the layer see these samples only, as in a label predictor.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from revgrad.batch import Inputs, call_on, part_of, sample_count
from revgrad.cutting.crossing import CrossingWatch, crossing_names
from revgrad.errors import CutError, unknown

_ADVICE = "revgrad.layers(network, example) lists the layers that work"
_SHAPES = re.compile(r"size|shape|dimension|batch|match|element|index|broadcast", re.IGNORECASE)


class _Active(threading.local):
    def __init__(self) -> None:
        self.taps: list[_Tap] = []


# A network may run inside a run of itself, or in two threads: the innermost tap of a thread alone
# takes part.
_active = _Active()


class _Stop(BaseException):
    """Ends a forward at the layer; no Exception, lest the network catches it."""

    def __init__(self, tap: _Tap) -> None:
        super().__init__()
        self.tap = tap


class _Tap:
    def __init__(
        self, layer: str, chosen: slice | Tensor | None, count: int, watch: CrossingWatch | None
    ) -> None:
        self.layer = layer
        self.chosen = chosen
        self.count = count
        self.watch = watch
        self.features: Tensor | None = None
        self.handed: Tensor | None = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Tensor | None:
        if not _active.taps or _active.taps[-1] is not self:
            return None
        if self.features is not None:
            raise CutError(f"layer '{self.layer}' is called more than once: can't cut there")
        self.features = check_features(self.layer, output, self.count)
        if self.chosen is None:
            raise _Stop(self)
        self.handed = choose_samples(self.features, self.chosen)
        if not len(self.handed):
            raise _Stop(self)
        if self.watch is not None:
            self.watch.hand_on(self.handed)
        return self.handed


def call_order(network: nn.Module, layers: Sequence[str], inputs: Inputs) -> list[str]:
    """The layers in the order in which they end when the network runs on `inputs`."""
    modules = dict(network.named_modules(remove_duplicate=False))
    ended: list[str] = []
    handles: list[RemovableHandle] = []
    try:
        for layer in layers:
            if layer not in modules:
                raise unknown("layer", layer, (name for name in modules if name))

            def note(*_: Any, layer: str = layer) -> None:
                ended.append(layer)

            handles.append(modules[layer].register_forward_hook(note))
        call_on(network, inputs)
    finally:
        for handle in handles:
            handle.remove()
    gone = next((layer for layer in layers if layer not in ended), None)
    if gone is not None:
        raise CutError(f"layer '{gone}' is never reached; {_ADVICE}")
    return list(dict.fromkeys(ended))


class OtherTaps:
    """Inside, keeps copies of the outputs of further layers of a running network."""

    def __init__(self, network: nn.Module, layers: Sequence[str], count: int) -> None:
        self.network, self.layers, self.count = network, layers, count
        self._found: dict[str, Tensor] = {}
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> OtherTaps:
        for layer in self.layers:
            hook = partial(self._take, layer)
            self._handles.append(self.network.get_submodule(layer).register_forward_hook(hook))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def features(self, at: str) -> tuple[Tensor, ...]:
        """In the order of the layers, all samples of each."""
        gone = next((layer for layer in self.layers if layer not in self._found), None)
        if gone is not None:
            raise CutError(f"layer '{gone}' does not lie in front of '{at}'")
        return tuple(self._found[layer] for layer in self.layers)

    def _take(self, layer: str, module: nn.Module, args: Any, output: Any) -> None:
        if layer in self._found:
            raise CutError(f"layer '{layer}' is called more than once: can't cut there")
        self._found[layer] = check_features(layer, output, self.count).clone()


def check_features(layer: str, output: Any, count: int) -> Tensor:
    """The layer's output if it is one tensor whose first dimension is that of the samples.

    Raises CutError otherwise.
    """
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise CutError(f"layer '{layer}' returns a {kind}, not one tensor: can't cut there")
    if output.is_nested or output.dim() == 0 or output.shape[0] != count:
        came = "a nested tensor" if output.is_nested else f"shape {tuple(output.shape)}"
        raise CutError(
            f"layer '{layer}' gives {came} for {count} samples; features need one row per sample"
        )
    return output


def choose_samples(features: Tensor, chosen: slice | Tensor) -> Tensor:
    """A copy of the chosen samples' features, which operations in place may overwrite."""
    if isinstance(chosen, slice):
        return features[chosen].clone()
    return features[chosen]  # indexing by a mask copies


def run_tapped(
    network: nn.Module,
    layer: str,
    inputs: Inputs,
    chosen: slice | Tensor | None,
    *,
    watched: bool = True,
    part: str | int | None = None,
) -> tuple[Tensor, Any | None]:
    """(features of all samples, the network's output on the chosen ones; None where none is).

    `watched` looks at every operation and raises a CutError where a value computed in front of the
    layer is used behind it: slow, and needed once, as every run does the same. Without it, only
    what does not fit the number of chosen samples is seen.

    Parameters
    ----------
    part
        the part of the network's output that is meant; what others hold is no matter
    """
    watch = CrossingWatch(network, inputs) if watched and chosen is not None else None
    tap = _Tap(layer, chosen, sample_count(inputs), watch)
    handle = network.get_submodule(layer).register_forward_hook(tap)
    _active.taps.append(tap)
    try:
        with nullcontext() if watch is None else watch:
            output = part_of(call_on(network, inputs), part)
    except _Stop as stop:
        if stop.tap is not tap:
            raise
        assert tap.features is not None
        return tap.features, None
    except (RuntimeError, ValueError, IndexError) as error:
        if watch is not None:
            _refuse_crossing(layer, watch)
        if tap.handed is not None and _is_crossing(error, tap.count, len(tap.handed)):
            raise CutError(
                f"behind layer '{layer}' the network failed on {len(tap.handed)} of "
                f"{tap.count} samples, most likely as other tensors cross the cut "
                f"({str(error).strip().splitlines()[0]}); {_ADVICE}"
            ) from error
        raise
    finally:
        _active.taps.pop()
        handle.remove()
    if tap.features is None or tap.handed is None:
        raise CutError(f"layer '{layer}' is never reached; {_ADVICE}")
    if output is tap.handed:
        raise CutError(
            f"layer '{layer}' gives the network's output: no label predictor is left behind it"
        )
    if watch is not None:
        watch.finish(output)
        _refuse_crossing(layer, watch)
    _check_count(output, tap)
    return tap.features, output


def _refuse_crossing(layer: str, watch: CrossingWatch) -> None:
    if watch.values:
        raise CutError(
            f"can't cut at layer '{layer}': {crossing_names(watch.values)} used behind it as well; "
            f"{_ADVICE}"
        )


def _is_crossing(error: Exception, count: int, chosen: int) -> bool:
    ours = isinstance(error, CutError | torch.OutOfMemoryError)
    return chosen != count and not ours and _SHAPES.search(str(error)) is not None


def _check_count(output: Any, tap: _Tap) -> None:
    assert tap.handed is not None
    chosen = len(tap.handed)
    if chosen == tap.count:
        return
    for value in pytree.tree_leaves(output):
        if not isinstance(value, Tensor) or value.dim() == 0 or value.shape[0] == chosen:
            continue
        if value.shape[0] == tap.count or isinstance(output, Tensor):
            raise CutError(
                f"behind layer '{tap.layer}' the network gives {value.shape[0]} samples for "
                f"{chosen} chosen ones: other values cross the cut; {_ADVICE}"
            )
