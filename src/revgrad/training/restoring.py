"""Weights out of a checkpoint, into a network of the same shape."""

from __future__ import annotations

from torch import nn

from revgrad.errors import CheckpointError
from revgrad.preprocessing import Preprocessing
from revgrad.training.checkpoints import Checkpoint, tensors_under


def restore_weights(network: nn.Module, checkpoint: Checkpoint) -> Preprocessing:
    """Fill `network` (with the weights' moving average where the run kept one).

    Returns the preprocessing that belongs in front of it.
    """
    adapter = tensors_under(checkpoint.tensors, "adapter")
    weights = tensors_under(adapter, "network") | tensors_under(checkpoint.tensors, "average")
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the checkpoint does not fit this network: {reason}") from error
    saved = tensors_under(adapter, "preprocessing")
    if not {"mean", "scale", "per_image"} <= set(saved):
        raise CheckpointError(
            "the run's preprocessing is a module of your own: load its weights with "
            "tensors_under(checkpoint.tensors, 'adapter')"
        )
    return Preprocessing(saved["mean"], saved["scale"], per_image=bool(saved["per_image"]))
