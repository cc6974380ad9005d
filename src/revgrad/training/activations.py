"""Activation checkpointing: blocks of the feature extractor run again in the backward pass, so
that what they compute inside need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from revgrad.adapter import DomainAdapter
from revgrad.cutting import cut
from revgrad.errors import InputError
from revgrad.networks.batch_norm import batch_norms


def blocks(network: nn.Module, layer: str) -> list[nn.Module]:
    """The largest parts that are not plain containers and neither hold the layer nor are one
    operation alone."""
    found: list[nn.Module] = []

    def walk(module: nn.Module, name: str) -> None:
        for own, child in module.named_children():
            full = f"{name}.{own}" if name else own
            holds = layer == full or layer.startswith(f"{full}.")
            if not list(child.children()):
                continue
            plain = isinstance(child, nn.Sequential | nn.ModuleList | nn.ModuleDict)
            deep = any(list(part.children()) for part in child.children())
            if holds or (plain and (deep or not isinstance(child, nn.Sequential))):
                walk(child, full)
            else:
                found.append(child)

    walk(network, "")
    return found


class CheckpointedActivations:
    """An adapter whose network's blocks are checkpointed in training passes `within` it.

    The random numbers of a block's second run are those of its first, and BatchNorm keeps the
    statistics of one run only: the gradients are the same.
    """

    def __init__(self, adapter: DomainAdapter) -> None:
        self._norms: list[Any] = batch_norms(adapter.network)
        self.blocks = blocks(adapter.network, adapter.layer)
        if not self.blocks:
            raise InputError(
                f"checkpoint_activations: {type(adapter.network).__name__} has no blocks (modules "
                "of several layers) to run again; micro_batch= saves memory with any network"
            )
        # a traced feature extractor goes around the blocks: a tap runs the network's own forward
        adapter.cut = cut(adapter.network, adapter.layer, tap=True, output=adapter.output)

    @contextmanager
    def within(self) -> Iterator[None]:
        forwards = [block.forward for block in self.blocks]
        for block, forward in zip(self.blocks, forwards, strict=True):
            block.forward = self._checkpointed(forward)
        try:
            yield
        finally:
            for block in self.blocks:
                del block.forward  # the class's own again

    @contextmanager
    def _second_run(self, tracking: list[bool]) -> Iterator[None]:
        """BatchNorm as in the first run, but writing its statistics into copies."""
        before = [norm.track_running_stats for norm in self._norms]
        kept = [(norm, dict(norm._buffers)) for norm in self._norms]
        try:
            for norm, mode in zip(self._norms, tracking, strict=True):
                norm.track_running_stats = mode
                for name, buffer in norm._buffers.items():
                    norm._buffers[name] = None if buffer is None else buffer.clone()
            yield
        finally:
            for norm, mode in zip(self._norms, before, strict=True):
                norm.track_running_stats = mode
            for norm, buffers in kept:
                norm._buffers.update(buffers)

    def _checkpointed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            tracking = [norm.track_running_stats for norm in self._norms]
            return nullcontext(), self._second_run(tracking)

        def run(*values: Any, **named: Any) -> Any:
            return checkpoint(forward, *values, use_reentrant=False, context_fn=contexts, **named)

        return run
