"""Weights out of a checkpoint, into a network of the same shape."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from revgrad.errors import CheckpointError
from revgrad.preprocessing import Preprocessing
from revgrad.training.best import Best
from revgrad.training.checkpoints import Checkpoint, tensors_under
from revgrad.training.runs import Run


def restore_weights(network: nn.Module, checkpoint: Checkpoint) -> Preprocessing:
    """Fill `network` with what the run would hand back: the weights its score liked best, else the
    moving average, else the last.

    Returns the preprocessing that belongs in front of it.
    """
    adapter = tensors_under(checkpoint.tensors, "adapter")
    weights = tensors_under(adapter, "network") | tensors_under(checkpoint.tensors, "average")
    best = Best.of(tensors_under(checkpoint.tensors, "best"))
    fill(network, weights if best is None else best.weights)
    saved = tensors_under(adapter, "preprocessing")
    if not {"mean", "scale", "per_image"} <= set(saved):
        raise CheckpointError(
            "the run's preprocessing is a module of your own: load its weights with "
            "tensors_under(checkpoint.tensors, 'adapter')"
        )
    return Preprocessing(saved["mean"], saved["scale"], per_image=bool(saved["per_image"]))


def load_initial(network: nn.Module, path: Path) -> None:
    """Start from the weights of a run (a folder) or of a `.safetensors` file."""
    if path.is_dir():
        checkpoint = Run(path).checkpoint()
        if checkpoint is None:
            raise CheckpointError(f"{path} has no checkpoint to start from")
        restore_weights(network, checkpoint)
        return
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} can't be read as safetensors: {error}") from error
    fill(network, weights)


def fill(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy saved tensors into a module; they must fit."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the checkpoint does not fit this network: {reason}") from error
