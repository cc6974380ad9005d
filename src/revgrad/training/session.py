"""Surroundings of a training's steps: signals, memory, the step module."""

from __future__ import annotations

import ctypes
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from torch import Tensor, nn

from revgrad._distributed import world_size
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.objectives import Losses, Objective

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_LIMIT = 1 << 30


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop and did, its state saved. `exit_code` is 130 or 143."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = 128 + number


class StopRequest:
    """Remembers the first signal that asked to stop; a second one interrupts at once."""

    def __init__(self) -> None:
        self.number = 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise Interrupted(number, "stopped at once by a second signal; what was saved is kept")
        self.number = number


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Signals are noted inside (in the main thread; elsewhere Python allows no handlers)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request._note) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def keep_large_buffers() -> bool:
    """Let the C library keep large buffers between steps: True where it took both limits.

    glibc returns blocks above its thresholds to the system at every free; activations of some
    megabytes then cost a page fault per 4 KB in each step. Thresholds of 1 GB gain about a fifth.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LIMIT)) and bool(mallopt(_TRIM_THRESHOLD, _LIMIT))


def bare_step(optimiser: torch.optim.Optimizer) -> Callable[[], None]:
    """`optimiser.step` of PyTorch's own without what it puts around: a frame for profilers, breaks
    of a compiled graph. For a small network they cost as much as the step itself. Where somebody
    has registered a hook, the whole."""
    kind = type(optimiser)
    if not kind.__module__.startswith("torch.optim."):
        return optimiser.step
    step = inspect.unwrap(kind.step)

    @torch.no_grad()
    def update() -> None:
        if optimiser._optimizer_step_pre_hooks or optimiser._optimizer_step_post_hooks:
            optimiser.step()
        else:
            step(optimiser)

    return update


class Step(nn.Module):
    """(batch, λ) → losses. Gradients of several processes are averaged, losses are shares of a sum:
    the total is multiplied by the number of processes to make up for it.

    reduced: layers compute in bfloat16, under autocast; weights and losses stay in full.
    """

    def __init__(
        self, adapter: DomainAdapter, objective: Objective, *, reduced: bool = False
    ) -> None:
        super().__init__()
        self.adapter = adapter
        self.objective = objective
        self.reduced = reduced
        self.world = world_size()
        # DistributedDataParallel warns at every start where it looks for unused parameters and
        # finds none, as in most trainings: this one is never used.
        self.unused: nn.Parameter | None = None
        if self.world > 1:
            device = next(adapter.parameters()).device
            self.unused = nn.Parameter(torch.zeros((), device=device))

    def forward(self, batch: Batch, factor: float | Tensor) -> Losses:
        if self.reduced:
            with torch.autocast(batch.domains.device.type, dtype=torch.bfloat16):
                losses = self.objective(self.adapter, batch, factor)
        else:
            losses = self.objective(self.adapter, batch, factor)
        return losses if self.world == 1 else losses._replace(total=losses.total * self.world)
