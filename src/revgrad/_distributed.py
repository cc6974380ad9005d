"""Several processes that train together: ranks, sums over ranks, the process group, the device.

`torchrun` starts the processes, DistributedDataParallel joins their gradients. With one process
everything here is trivial.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import torch
import torch.distributed
from torch import Tensor, nn

from revgrad.errors import InputError

_T = TypeVar("_T")
_Found = TypeVar("_Found")
_Done = TypeVar("_Done")
#: Whether all processes make the same passes now, which can be divided among them.
_SHARING: ContextVar[bool] = ContextVar("sharing", default=False)
#: Numbers the process groups that this process has joined.
_GROUPS = itertools.count()


def world_size() -> int:
    """Number of processes that train together."""
    return torch.distributed.get_world_size() if _together() else 1


def rank() -> int:
    """This process's number, from 0."""
    return torch.distributed.get_rank() if _together() else 0


def sum_over_processes(x: Tensor) -> Tensor:
    """The sum of every process's `x`; gradients flow back to each process's own `x`."""
    return _Sum.apply(x) if _together() else x  # type: ignore[no-untyped-call]


def gather_samples(x: Tensor) -> Tensor:
    """Every process's samples of `x`, in the order of the processes; numbers may be unequal.

    Gradients of all processes' copies flow back to the process whose samples they are.
    """
    if not _together():
        return x
    counts = torch.zeros(world_size(), dtype=torch.int64, device=x.device)
    counts[rank()] = len(x)
    torch.distributed.all_reduce(counts)
    before, after = int(counts[: rank()].sum()), int(counts[rank() + 1 :].sum())
    shape = x.shape[1:]
    # one process's samples and the others' zeros: a sum puts them side by side
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


@contextmanager
def sharing_out() -> Iterator[None]:
    """Inside, passes over a domain are divided among the processes, and each gets all results.

    Every process must enter, and do the same there: who is alone waits for the others.
    """
    token = _SHARING.set(_together())
    try:
        yield
    finally:
        _SHARING.reset(token)


def is_sharing() -> bool:
    """Whether passes are divided among the processes now."""
    return _SHARING.get() and _together()


def share_out(
    run: Callable[[_T], _Found], finish: Callable[[_Found], _Done], work: Sequence[_T]
) -> list[_Done]:
    """`finish(run(one))` for each of `work`, in order; divided among the processes where they are
    `sharing_out`.

    Then all of them `run` equally often, as a network whose weights are sharded needs: who has
    less to do runs its first piece again, for nothing.
    """
    if not is_sharing():
        return [finish(run(one)) for one in work]
    world = world_size()
    own = work[rank() :: world]
    found = [finish(run(one)) for one in own]
    if len(own) * world < len(work):
        run(work[0])
    parts = from_every_process(found)
    return [parts[i % world][i // world] for i in range(len(work))]


def from_every_process(value: _T) -> list[_T]:
    """Every process's value, in their order, on each of them, where they are `sharing_out`."""
    if not is_sharing():
        return [value]
    parts: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(parts, value)
    return parts


def share_buffers(module: nn.Module) -> None:
    """Process 0's buffers (BatchNorm's statistics), on every process."""
    if _together():
        for buffer in module.buffers():
            torch.distributed.broadcast(buffer, src=0)


def is_sharded(x: Any) -> bool:
    """Whether a tensor is divided among the processes, or a module has such parameters."""
    if isinstance(x, nn.Module):
        return any(is_sharded(value) for value in x.parameters())
    return hasattr(x, "placements")


def local(x: Tensor) -> Tensor:
    """This process's part of a tensor that is divided among the processes; else all of it."""
    return cast(Any, x).to_local() if is_sharded(x) else x


def full_tensor(x: Tensor) -> Tensor:
    """A tensor that is divided among the processes, whole on each of them; else itself."""
    return cast(Any, x).full_tensor() if is_sharded(x) else x


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


def started_by_torchrun() -> bool:
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def choose_device(wanted: str) -> torch.device:
    """`auto`: cuda (this process's own card), mps, cpu, whichever there is first."""
    local = int(os.environ.get("LOCAL_RANK", 0))
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", local % torch.cuda.device_count())
        if torch.backends.mps.is_available() and not started_by_torchrun():
            return torch.device("mps")
        return torch.device("cpu")
    try:
        device = torch.device(wanted)
        if device.type == "meta":
            raise NotImplementedError("it holds no numbers")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]  # PyTorch may name every backend
        raise InputError(
            f"device '{wanted}' can't be used here ({reason}); 'auto' or 'cpu' would do"
        ) from error
    if wanted == "cuda":
        return torch.device("cuda", local % torch.cuda.device_count())
    return device


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Join the other processes where torchrun started this one; leave them at the end."""
    if not started_by_torchrun() or torch.distributed.is_initialized():
        yield
        return
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "nccl" if choose_device(device).type == "cuda" else "gloo"
    # After a restart, and in a second group of the same processes (a baseline's), torchrun's store
    # still holds the addresses of the group before, and gloo would wait for an answer from there:
    # each group gets keys of its own.
    attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}.{next(_GROUPS)}"
    store, rank, world = next(rendezvous("env://"))
    torch.distributed.init_process_group(
        backend,
        store=PrefixStore(f"revgrad attempt {attempt}", store),
        rank=rank,
        world_size=world,
    )
    group = torch.distributed.group.WORLD
    try:
        yield
        # Nobody leaves before all are done; then a moment for gloo's thread to let go of the last
        # tensor: where Python ends meanwhile, that thread aborts the process.
        torch.distributed.barrier()
        time.sleep(0.1)
    except BaseException:
        # Where a peer died in the middle of a step, gloo's destructor can wait for a thread of its
        # own that waits for Python's lock, for ever: such a group is left to the process's end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        raise
    finally:
        torch.distributed.destroy_process_group()


def without_exchange(step: nn.Module) -> AbstractContextManager[None]:
    """Inside, gradients stay each process's own and are added to, as parts of a batch are."""
    exchange = getattr(step, "no_sync", None)
    return nullcontext() if exchange is None else cast(AbstractContextManager[None], exchange())


def distribute(step: nn.Module) -> nn.Module:
    """`step` itself for one process; for several, wrapped so that backward averages gradients.

    A process whose samples have no label leaves the label predictor without a gradient in that
    step, and some objectives never use the domain classifier: hence find_unused_parameters.
    """
    if world_size() == 1:
        return step
    # gradients lie in the memory that is exchanged: no copy there and back
    return nn.parallel.DistributedDataParallel(
        step, find_unused_parameters=True, gradient_as_bucket_view=True
    )
