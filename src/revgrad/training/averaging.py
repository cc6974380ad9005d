"""A moving average of the weights, for evaluation and for the network that is handed back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """a ← d a + (1 − d) w after every step, with d = min(decay, (1 + t) / (10 + t)) at step t,
    so that the random first weights are soon forgotten."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = network
        self.decay = decay
        self.names = [name for name, _ in network.named_parameters()]
        self.weights = [value.detach().clone() for value in network.parameters()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.weights, list(self.network.parameters()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network holds the average inside, and its own weights again afterwards."""
        own = [value.detach().clone() for value in self.network.parameters()]
        self.hand_over()
        try:
            yield
        finally:
            _copy(own, self.network)

    def hand_over(self) -> None:
        """Put the average into the network."""
        _copy(self.weights, self.network)

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.weights, strict=True))


@torch.no_grad()
def _copy(values: list[Tensor], network: nn.Module) -> None:
    for parameter, value in zip(network.parameters(), values, strict=True):
        parameter.copy_(value)
