"""Batches in the order of the steps, read ahead where that helps.

A batch is a pure function of (seed, step), so it does not matter who reads it, or when: training is
bit for bit the same with a thread that reads one batch ahead, with any number of worker processes,
and without either.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from revgrad._system import usable_cores
from revgrad.batch import Batch, tensors_of
from revgrad.domains.domain import Domain, says
from revgrad.errors import DataError, RevgradError
from revgrad.training.paired_batches import PairedBatches

log = logging.getLogger("revgrad")

#: Batches that each worker process reads ahead.
AHEAD = 2
#: Bytes of batches in memory that are read together, and how many at most: for a small network
#: reading one by one costs a fifth of its step.
_BYTES_TOGETHER, _MOST_TOGETHER = 1 << 19, 32
#: Steps after which it is said, once, that training waits for its data; and the share of time.
_LOOKED_AT, _WAITING = 50, 0.3


class BatchReader:
    """`batch(step)` for rising steps below `end`; another order works too, and costs what was read
    ahead.

    Attributes
    ----------
    prefetch
        True: a thread reads the batch of step t + 1 while t trains; False: never; None: where it
        can help: data that is not in memory, or a device beside the CPU. Reading that draws from
        global generators (a Dataset, an augmentation) is never done by a thread, whose draws would
        mix with the training's: it takes workers
    workers
        processes that read whole batches in turn, for Datasets, augmentations and files that are
        decoded as they come; data in memory needs none
    """

    def __init__(
        self,
        batches: PairedBatches,
        end: int,
        device: torch.device,
        *,
        prefetch: bool | None = None,
        workers: int = 0,
    ) -> None:
        self.batches = batches
        self.end = end
        self.pinned = device.type == "cuda"
        self.workers = workers if is_heavy(batches) else 0
        if workers and not self.workers and batches.rank == 0:
            log.info("the data lies in memory or in a memory map: workers would not help")
        self.threaded = not self.workers and _thread_helps(batches, device, prefetch)
        self._next = -1  # the step that is being read ahead
        resident = all(says(domain.store, "is_resident") for domain in batches.domains)
        self._together = 0 if resident and not self.threaded else 1  # 0: not yet known
        self._block: list[Batch] = []  # what was read together, the last first
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[Batch] | None = None
        self._loaded: Iterator[Batch | RevgradError] | None = None
        self._count_of_batches, self._began, self._waited = 0, 0.0, 0.0

    def batch(self, step: int) -> Batch:
        """This process's part of the batch at `step`, in pinned memory beside a CUDA device."""
        start = time.perf_counter()
        if self.workers:
            batch = self._from_workers(step)
        elif self.threaded:
            batch = self._from_thread(step)
        elif self._together == 1:
            batch = self._read(step)
        else:
            batch = self._from_block(step)
        self._count(start, time.perf_counter())
        return batch

    def _count(self, start: float, now: float) -> None:
        """Say, once, that training waits for its data, where workers would help."""
        self._began = self._began or start
        self._waited += now - start
        self._count_of_batches += 1
        if self._count_of_batches != _LOOKED_AT or self.workers or self.batches.rank:
            return
        share = self._waited / max(now - self._began, 1e-9)
        if share > _WAITING and is_heavy(self.batches):
            log.info(
                "%.0f %% of the time training waits for its data: workers=%d (--workers %d) would "
                "read ahead",
                *(100 * share, max(usable_cores(), 2), max(usable_cores(), 2)),
            )

    def close(self) -> None:
        """Ends thread and processes; a batch that is asked for later starts them again."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._pending = self._loaded = None
        self._next = -1
        self._block = []

    def _read(self, step: int) -> Batch:
        return self._pinned(self.batches.batch(step))

    def _pinned(self, batch: Batch) -> Batch:
        return batch.map(torch.Tensor.pin_memory) if self.pinned else batch

    def _from_block(self, step: int) -> Batch:
        if not self._together:
            batch = self._read(step)
            size = sum(one.nbytes for one in tensors_of(batch.inputs))
            self._together = min(max(_BYTES_TOGETHER // max(size, 1), 1), _MOST_TOGETHER)
            return batch
        if step != self._next or not self._block:
            count = min(self._together, max(self.end - step, 1))
            self._block = [self._pinned(one) for one in self.batches.several(step, count)][::-1]
        self._next = step + 1
        return self._block.pop()

    def _from_thread(self, step: int) -> Batch:
        if self._pending is not None and self._next == step:
            batch = self._pending.result()
        else:
            if self._pending is not None:
                with contextlib.suppress(Exception):  # of a batch that nobody wants any more
                    self._pending.result()
            batch = self._read(step)
        self._pending, self._next = None, step + 1
        if self._next < self.end:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="revgrad-prefetch")
            self._pending = self._pool.submit(self._read, self._next)
        return batch

    def _from_workers(self, step: int) -> Batch:
        if self._loaded is None or self._next != step:
            self._loaded = self._started(step)
        self._next = step + 1
        try:
            batch = next(self._loaded)
        except (RuntimeError, OSError, EOFError) as error:
            if not _is_of_a_dead_worker(error):
                raise
            self.close()
            raise DataError(
                f"a worker that read the batch of step {step} died ({_reason(error)}); fewer "
                "workers need less memory"
            ) from None
        if isinstance(batch, RevgradError):
            self.close()
            raise batch
        return batch

    def _started(self, step: int) -> Iterator[Batch | RevgradError]:
        self._loaded = None  # ends the workers that were before
        with warnings.catch_warnings(), _own_handler_of_children():
            # more workers than cores are fine where they wait for a disk or a server
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            loader = DataLoader(
                _Steps(self.batches, step, self.end),
                batch_size=None,
                collate_fn=_as_it_is,
                num_workers=self.workers,
                prefetch_factor=AHEAD,
                pin_memory=self.pinned,
                worker_init_fn=_leave_signals_to_the_parent,
                generator=torch.Generator(),  # else the global one would be drawn from
                # on Linux a copy of this process, whatever Python's default: nothing is pickled
                multiprocessing_context="fork" if sys.platform.startswith("linux") else None,
            )
            return iter(loader)


def is_heavy(batches: PairedBatches) -> bool:
    """Whether worker processes would help: code of the user's runs, or files are decoded."""
    return bool(batches.random) or not all(_is_light(one) for one in batches.domains)


def _is_light(domain: Domain) -> bool:
    """In memory, or a memory map: reading is a copy."""
    return says(domain.store, "is_resident") or says(domain.store, "any_thread")


def _thread_helps(batches: PairedBatches, device: torch.device, wanted: bool | None) -> bool:
    if wanted is False or batches.random:
        return False
    if wanted:
        return True
    stores = [domain.store for domain in batches.domains]
    waits = not all(says(store, "is_resident") for store in stores)
    safe = all(says(store, "any_thread") or says(store, "is_resident") for store in stores)
    return safe and (device.type != "cpu" or (waits and usable_cores() > 1))


class _Steps(Dataset[Any]):
    """The batches of the steps from `first` on, as a map-style dataset for DataLoader's workers."""

    def __init__(self, batches: PairedBatches, first: int, end: int) -> None:
        self.batches, self.first, self.end = batches, first, end

    def __len__(self) -> int:
        return max(self.end - self.first, 1)

    def __getitem__(self, number: int) -> Batch | RevgradError:
        try:
            return self.batches.batch(self.first + number)
        except RevgradError as error:  # one line stays one line; others come with their traceback
            return error


def _as_it_is(batch: Any) -> Any:
    return batch


def _leave_signals_to_the_parent(worker: int) -> None:
    """Ctrl-C reaches all processes of a terminal: the one that trains saves, then ends these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _own_handler_of_children() -> Iterator[None]:
    """DataLoader's handler of SIGCHLD would raise anywhere, also in the middle of an update;
    without it a dead worker is seen when its batch is asked for, between two steps."""
    if not hasattr(signal, "SIGCHLD") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def _is_of_a_dead_worker(error: Exception) -> bool:
    """DataLoader's own word, or its connection to the worker broke; not what the data raised."""
    told = str(error)
    broken = isinstance(error, ConnectionError | EOFError) and not told.startswith("Caught ")
    return broken or told.startswith("DataLoader worker")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).split(". ")[0].rstrip(".")[:160]
