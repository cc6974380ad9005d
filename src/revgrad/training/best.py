"""The weights that a score liked best so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from revgrad.training.checkpoints import tensors_under


@dataclass(frozen=True)
class Best:
    """A network's state after `step` steps, and its score."""

    step: int
    score: float
    weights: dict[str, Tensor]

    def tensors(self) -> dict[str, Tensor]:
        """As a checkpoint keeps it."""
        numbers = {
            "step": torch.tensor(self.step),
            "score": torch.tensor(self.score, dtype=torch.float64),
        }
        return {**numbers, **{f"network.{name}": value for name, value in self.weights.items()}}

    @staticmethod
    def of(tensors: dict[str, Tensor]) -> Best | None:
        """Out of a checkpoint's tensors; None where it keeps none."""
        if "score" not in tensors:
            return None
        weights = tensors_under(tensors, "network")
        return Best(int(tensors["step"]), float(tensors["score"]), weights)


def copied(network: nn.Module) -> dict[str, Tensor]:
    """The network's state as it is now, on the CPU, in plain memory order."""
    return {
        name: value.detach().to("cpu", copy=True).contiguous()
        for name, value in network.state_dict().items()
    }
