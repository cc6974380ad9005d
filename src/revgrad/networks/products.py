"""Products of matrices in training on a CPU, by oneDNN.

PyTorch multiplies float32 matrices by MKL, which leaves half of the width of AMD's processors
unused; oneDNN, which PyTorch has for its convolutions, uses all of it: twice as fast there, as fast
elsewhere. The same sums, rounded in another order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

#: (inputs, weight, bias, "none", [], "") → inputs @ weight.T + bias; None where PyTorch lacks it.
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
#: Rows and weights below which choosing the way costs more than it saves.
FEWEST_ROWS, FEWEST_WEIGHTS = 16, 1 << 17
#: Multiplications of a matrix below which many are faster in one call of MKL's.
FEWEST_OF_MANY = 1 << 22


def trains_on_cpu(inputs: Tensor, weight: Tensor) -> bool:
    """Whether this is a plain pass of training in float32 on a CPU: with gradients, not compiled,
    traced, transformed or in reduced precision."""
    return (
        torch.is_grad_enabled()
        and inputs.device.type == "cpu"
        and inputs.dtype == weight.dtype == torch.float32
        and len(inputs) >= FEWEST_ROWS
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        and not torch._C._are_functorch_transforms_active()
    )


@torch.fx.wrap  # what it asks of its inputs is asked at every call, not once when it is traced
def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear(inputs, weight, bias)`, by whichever way is faster; without gradients, on another
    device, in another precision and for small layers it is that to the bit."""
    if (
        inputs.ndim == 2
        and weight.numel() >= FEWEST_WEIGHTS
        and inputs.shape[1] == weight.shape[1]  # else the library's own error is the better one
        and trains_on_cpu(inputs, weight)
    ):
        product: Tensor = _Linear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return F.linear(inputs, weight, bias)


def product(one: Tensor, other: Tensor) -> Tensor:
    """(n, k) @ (k, m) of dense matrices, without a gradient of its own."""
    if _ONEDNN is None or one.dtype != torch.float32:
        return one @ other
    found: Tensor = _ONEDNN(one, other.t(), None, "none", [], "")
    return found


def products(one: Tensor, other: Tensor) -> Tensor:
    """(p, n, k) @ (p, k, m) → (p, n, m), without a gradient of its own."""
    count, rows, inner = one.shape
    columns = other.shape[2]
    if _ONEDNN is None or rows * inner * columns < FEWEST_OF_MANY:
        return torch.bmm(one, other)
    found = one.new_empty((count, rows, columns))
    for place, (left, right) in enumerate(zip(one, other, strict=True)):
        found[place] = product(left, right)
    return found


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        found = product(inputs, weight.t())
        return found if bias is None else found.add_(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        # a gradient of this gradient needs products that have one themselves
        times = torch.mm if torch.is_grad_enabled() else product
        wanted = ctx.needs_input_grad
        return (
            times(gradient, weight) if wanted[0] else None,
            times(gradient.t(), inputs) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )
