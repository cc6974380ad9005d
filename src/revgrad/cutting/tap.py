"""The way for networks without a graph: run the network itself, with a tap on the layer.

The tap keeps the layer's output of all rows as the features and hands a copy of the chosen rows
on, so what comes behind the layer (dropout, BatchNorm) sees these rows only, as behind a cut.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from revgrad.batches import Inputs, call_on, row_count
from revgrad.errors import CutError

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
    def __init__(self, layer: str, rows: slice | Tensor | None, count: int) -> None:
        self.layer = layer
        self.rows = rows
        self.count = count
        self.features: Tensor | None = None
        self.handed: Tensor | None = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Tensor | None:
        if not _active.taps or _active.taps[-1] is not self:
            return None
        if self.features is not None:
            raise CutError(f"layer '{self.layer}' is called more than once: can't cut there")
        self.features = check_features(self.layer, output, self.count)
        if self.rows is None:
            raise _Stop(self)
        self.handed = choose_rows(self.features, self.rows)
        if not len(self.handed):
            raise _Stop(self)
        return self.handed


def check_features(layer: str, output: Any, count: int) -> Tensor:
    """The layer's output if it is one tensor with one row per sample, else a CutError."""
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise CutError(f"layer '{layer}' returns a {kind}, not one tensor: can't cut there")
    if output.is_nested or output.dim() == 0 or output.shape[0] != count:
        came = "a nested tensor" if output.is_nested else f"shape {tuple(output.shape)}"
        raise CutError(
            f"layer '{layer}' gives {came} for {count} samples; features need one row per sample"
        )
    return output


def choose_rows(features: Tensor, rows: slice | Tensor) -> Tensor:
    """A copy of these rows, which operations in place behind the cut may overwrite."""
    if isinstance(rows, slice):
        return features[rows].clone()
    return features[rows]  # indexing by a mask copies


def run_tapped(
    network: nn.Module, layer: str, inputs: Inputs, rows: slice | Tensor | None
) -> tuple[Tensor, Any | None]:
    """(features of all rows, the network's output on the chosen rows; None where no row is)."""
    tap = _Tap(layer, rows, row_count(inputs))
    handle = network.get_submodule(layer).register_forward_hook(tap)
    _active.taps.append(tap)
    try:
        output = call_on(network, inputs)
    except _Stop as stop:
        if stop.tap is not tap:
            raise
        assert tap.features is not None
        return tap.features, None
    except (RuntimeError, ValueError, IndexError) as error:
        if tap.handed is not None and _is_crossing(error, tap.count, len(tap.handed)):
            raise CutError(
                f"behind layer '{layer}' the network failed on {len(tap.handed)} of "
                f"{tap.count} rows, most likely as other tensors cross the cut "
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
    _check_rows(output, tap)
    return tap.features, output


def _is_crossing(error: Exception, count: int, chosen: int) -> bool:
    ours = isinstance(error, CutError | torch.OutOfMemoryError)
    return chosen != count and not ours and _SHAPES.search(str(error)) is not None


def _check_rows(output: Any, tap: _Tap) -> None:
    assert tap.handed is not None
    chosen = len(tap.handed)
    if chosen == tap.count:
        return
    for value in pytree.tree_leaves(output):
        if not isinstance(value, Tensor) or value.dim() == 0 or value.shape[0] == chosen:
            continue
        if value.shape[0] == tap.count or isinstance(output, Tensor):
            raise CutError(
                f"behind layer '{tap.layer}' the network gives {value.shape[0]} rows for {chosen} "
                f"chosen ones: other tensors cross the cut; {_ADVICE}"
            )
