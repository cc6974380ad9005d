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
        # weights that two layers share under both their names, as in the network's state_dict
        named = dict(network.named_parameters(remove_duplicate=False))
        self.names = list(named)
        self.weights = [value.detach().clone() for value in named.values()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.weights, _parameters(self.network), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network holds the average inside, and its own weights again afterwards."""
        own = [value.detach().clone() for value in _parameters(self.network)]
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


def _parameters(network: nn.Module) -> list[Tensor]:
    return [value for _, value in network.named_parameters(remove_duplicate=False)]


@torch.no_grad()
def _copy(values: list[Tensor], network: nn.Module) -> None:
    for parameter, value in zip(_parameters(network), values, strict=True):
        parameter.copy_(value)
