"""He initialisation, a pure function of a seed."""

from __future__ import annotations

from math import sqrt
from typing import TypeVar

import torch
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def initialise(module: AnyModule, seed: int) -> AnyModule:
    """Draw the weights of convolutions and linear layers anew, in place; returns `module`.

    Weights are normal with variance 2/fan_in (He et al. 2015: what keeps the scale of activations
    through ReLUs), biases zero. The last layer is followed by no ReLU, so its variance is 1/fan_in:
    logits start at the scale of the features, not twice it. Layers are visited in the order
    of `named_modules`; all numbers come from one generator of its own, so the result depends on
    nothing but the seed and the shapes, and PyTorch's global generator is not touched.

    A layer is known by its own `weight` of two or more dimensions, embeddings aside; that finds the
    layers of a `torch.fx.GraphModule` too, where tracing may leave only the parameters of a layer.
    Normalisation layers and other parameters stay as they are.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = [layer for _, layer in module.named_modules() if _is_weighted(layer)]
    for layer in layers:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        gain = 1.0 if layer is layers[-1] else sqrt(2.0)
        # Drawn contiguous in single precision on the CPU: the same numbers for every memory format,
        # device and (but for rounding) dtype.
        values = torch.randn(weight.shape, generator=generator, dtype=torch.float32)
        with torch.no_grad():
            weight.copy_(values.mul_(gain / sqrt(_fan_in(layer, weight))))
            if isinstance(bias := getattr(layer, "bias", None), Tensor):
                bias.zero_()
    return module


def _is_weighted(layer: nn.Module) -> bool:
    own = layer._parameters.get("weight")
    return own is not None and own.dim() >= 2 and not isinstance(layer, nn.Embedding)


def _fan_in(layer: nn.Module, weight: Tensor) -> int:
    transposed = isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d)
    inputs = weight.shape[0] if transposed else weight.shape[1]
    return int(inputs * weight[0, 0].numel())
