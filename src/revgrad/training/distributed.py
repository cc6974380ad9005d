"""More than one process: `torchrun` starts them, DistributedDataParallel joins their gradients."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed
from torch import nn

from revgrad.errors import InputError
from revgrad.processes import world_size


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
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device '{wanted}' can't be used here ({reason}); 'auto' or 'cpu' would do"
        ) from error
    if wanted == "cuda":
        return torch.device("cuda", local % torch.cuda.device_count())
    return device


@contextmanager
def together(device: str) -> Iterator[None]:
    """Join the other processes where torchrun started this one; leave them at the end."""
    if not started_by_torchrun() or torch.distributed.is_initialized():
        yield
        return
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "nccl" if choose_device(device).type == "cuda" else "gloo"
    # After a restart torchrun's default store still holds the addresses of the processes before,
    # and gloo would try to connect to them: each attempt gets keys of its own.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
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
    except BaseException:
        # Where a peer died in the middle of a step, gloo's destructor can wait for a thread of its
        # own that waits for Python's lock, for ever: such a group is left to the process's end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        raise
    finally:
        torch.distributed.destroy_process_group()


def distribute(step: nn.Module) -> nn.Module:
    """`step` itself for one process; for several, wrapped so that backward averages gradients.

    A process whose rows have no label leaves the label predictor without a gradient in that step,
    and some objectives never use the domain classifier: hence find_unused_parameters.
    """
    if world_size() == 1:
        return step
    return nn.parallel.DistributedDataParallel(step, find_unused_parameters=True)
