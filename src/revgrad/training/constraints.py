"""Limits on weights: the l2-norm restriction of appendix C (after Srivastava et al. 2014)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def weight_matrices(module: nn.Module) -> list[Tensor]:
    """Weights with an input and an output side: those of linear and convolutional layers."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    return [part.weight for part in module.modules() if isinstance(part, kinds)]


@torch.no_grad()
def limit_norms(weights: list[Tensor], limit: float) -> None:
    """Scale down the weights into every unit (row of a weight) whose l2 norm exceeds `limit`."""
    for weight in weights:
        axes = tuple(range(1, weight.ndim))
        norms = torch.linalg.vector_norm(weight, dim=axes, keepdim=True)
        weight.mul_((limit / norms.clamp(min=1e-12)).clamp(max=1.0))
