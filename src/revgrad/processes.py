"""How many processes train together, and sums over them. One process: everything is trivial."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
import torch.distributed
from torch import Tensor

_T = TypeVar("_T")


def world_size() -> int:
    """Number of processes that train together."""
    return torch.distributed.get_world_size() if _together() else 1


def rank() -> int:
    """This process's number, from 0."""
    return torch.distributed.get_rank() if _together() else 0


def sum_over_processes(x: Tensor) -> Tensor:
    """The sum of every process's `x`; gradients flow back to each process's own `x`."""
    return _Sum.apply(x) if _together() else x  # type: ignore[no-untyped-call]


def gather_rows(x: Tensor) -> Tensor:
    """Every process's rows of `x`, in the order of the processes, which may hold unequal numbers.

    Gradients of all processes' copies flow back to the process whose rows they are.
    """
    if not _together():
        return x
    counts = torch.zeros(world_size(), dtype=torch.int64, device=x.device)
    counts[rank()] = len(x)
    torch.distributed.all_reduce(counts)
    before, after = int(counts[: rank()].sum()), int(counts[rank() + 1 :].sum())
    shape = x.shape[1:]
    # one process's rows and the others' zeros: a sum puts them side by side
    return sum_over_processes(
        torch.cat([x.new_zeros((before, *shape)), x, x.new_zeros((after, *shape))])
    )


def from_first_process(value: _T) -> _T:
    """Process 0's value, on every process (pickled: for our own processes, never for files)."""
    if not _together():
        return value
    shared = [value if rank() == 0 else None]
    torch.distributed.broadcast_object_list(shared, src=0)
    return cast(_T, shared[0])


def any_process(flag: bool, device: torch.device) -> bool:
    """True on every process where it is True on one."""
    if not _together():
        return flag
    value = torch.tensor(int(flag), device=device)
    torch.distributed.all_reduce(value, op=torch.distributed.ReduceOp.MAX)
    return bool(value)


def _together() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        torch.distributed.all_reduce(total)
        return total
