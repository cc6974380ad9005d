"""Weights of a network: their moving average (EMA), the best so far, limits, restoring them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from revgrad._distributed import full_tensor, local
from revgrad.errors import CheckpointError
from revgrad.networks.state_dict import read_state_dict
from revgrad.preprocessing import Preprocessing
from revgrad.training.checkpoint import Checkpoint, tensors_under
from revgrad.training.run import Run


class MovingAverage:
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


@dataclass(frozen=True)
class BestWeights:
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
    def of(tensors: dict[str, Tensor]) -> BestWeights | None:
        """Out of a checkpoint's tensors; None where it keeps none."""
        if "score" not in tensors:
            return None
        weights = tensors_under(tensors, "network")
        return BestWeights(int(tensors["step"]), float(tensors["score"]), weights)


def copied_state(network: nn.Module) -> dict[str, Tensor]:
    """The network's state as it is now, on the CPU, in plain memory order; of a sharded network,
    whole, by all processes together."""
    return {
        name: full_tensor(value.detach()).to("cpu", copy=True).contiguous()
        for name, value in network.state_dict().items()
    }


def parts_of_state(network: nn.Module) -> dict[str, Tensor]:
    """This process's parts of a sharded network's state as it is now, where they are."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def weight_matrices(module: nn.Module) -> list[Tensor]:
    """Weights with an input and an output side: those of linear and convolutional layers."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    return [part.weight for part in module.modules() if isinstance(part, kinds)]


@torch.no_grad()
def limit_norms(weights: list[Tensor], limit: float) -> None:
    """Scale down the weights into every unit (row of a weight) whose l2 norm exceeds `limit`."""
    for weight in map(local, weights):  # divided by units: each is whole on a process
        axes = tuple(range(1, weight.ndim))
        norms = torch.linalg.vector_norm(weight, dim=axes, keepdim=True)
        weight.mul_((limit / norms.clamp(min=1e-12)).clamp(max=1.0))


def restore_weights(network: nn.Module, checkpoint: Checkpoint) -> Preprocessing:
    """Fill `network` with what the run would hand back: the weights its score liked best, else the
    moving average, else the last.

    Returns the preprocessing that belongs in front of it.
    """
    adapter = tensors_under(checkpoint.tensors, "adapter")
    weights = tensors_under(adapter, "network") | tensors_under(checkpoint.tensors, "average")
    best = BestWeights.of(tensors_under(checkpoint.tensors, "best"))
    fill_module(network, weights if best is None else best.weights)
    saved = tensors_under(adapter, "preprocessing")
    if not {"mean", "scale", "per_image"} <= set(saved):
        raise CheckpointError(
            "the run's preprocessing is a module of your own: load its weights with "
            "tensors_under(checkpoint.tensors, 'adapter')"
        )
    return Preprocessing(saved["mean"], saved["scale"], per_image=bool(saved["per_image"]))


def load_initial(network: nn.Module, path: Path) -> None:
    """Start from the weights of a run (a folder) or of a file (.safetensors, .pth)."""
    if path.is_dir():
        checkpoint = Run(path).checkpoint()
        if checkpoint is None:
            raise CheckpointError(f"{path} has no checkpoint to start from")
        restore_weights(network, checkpoint)
        return
    fill_module(network, read_state_dict(path))


def fill_module(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy saved tensors into a module; they must fit."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the checkpoint does not fit this network: {reason}") from error
