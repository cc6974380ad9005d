"""The gradient reversal layer R_λ (§3.2): identity forward, −λ backward, no parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from revgrad.errors import ExportError

#: Why a network with a reversal in it is not exported.
NOT_EXPORTED = (
    "gradient reversal can't be exported (the exported gradient would have the wrong sign): "
    "export the plain network, adapter.network or `revgrad export`"
)


class _ReverseGradient(torch.autograd.Function):
    """R_λ(x) = x, dR_λ/dx = −λ I.

    `setup_context` style with a generated vmap rule, for torch.func. There is no custom jvp:
    torch.compile refuses a Function that has one. The output is a copy, because a view would make
    in-place operations behind the layer fail, and an alias would let them overwrite the features.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float | Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float | Tensor], output: Tensor) -> None:
        _, factor = inputs
        if isinstance(factor, Tensor):  # saved, so that a changing λ needs no new compiled graph
            ctx.save_for_backward(factor)
            ctx.factor = None
        else:
            ctx.factor = factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        factor = ctx.saved_tensors[0] if ctx.factor is None else ctx.factor
        return gradient * -factor, None


# What Function.apply ends in where no transform of torch.func is active. On its way it asks for
# forward's signature at every call, which costs more than the layer itself.
_apply = super(torch.autograd.Function, _ReverseGradient).apply


def reverse_gradient(x: Tensor, factor: float | Tensor = 1.0) -> Tensor:
    """`x` unchanged; gradients flowing back through it are multiplied by −λ, minus `factor`.

    `factor` is a number, or a tensor of no dimensions (under torch.compile one graph then serves
    every λ). It gets no gradient of its own.

    Parameters
    ----------
    x
        features, of any shape
    factor
        λ: a number, or a tensor of no dimensions

    Examples
    --------
    >>> features = torch.ones(2, requires_grad=True)
    >>> revgrad.reverse_gradient(features, 0.5).sum().backward()
    >>> features.grad
    tensor([-0.5000, -0.5000])
    """
    if torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        raise ExportError(NOT_EXPORTED)
    if torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling():
        return _ReverseGradient.apply(x, factor)  # type: ignore[no-any-return,no-untyped-call]
    return _apply(x, factor)  # type: ignore[no-any-return,no-untyped-call]


class GradientReversal(nn.Module):
    """`reverse_gradient` as a layer; `factor`, its λ, stays as it is until you set it anew.

    Parameters
    ----------
    factor
        λ: a number, or a tensor of no dimensions

    Examples
    --------
    >>> reversal = revgrad.GradientReversal(factor=0.5)
    >>> reversal.factor = 1.0  # in your loop, by a schedule such as `RampUp`
    >>> reversal(torch.ones(2))
    tensor([1., 1.])
    """

    factor: float | Tensor

    def __init__(self, factor: float | Tensor = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return reverse_gradient(x, self.factor)

    def extra_repr(self) -> str:
        return f"factor={float(self.factor):g}"
