"""Generated sets of images: the same bytes with any number of processes, kept memory-mapped.

A generator is a function `make(indices, parameters, context)` whose image i depends on nothing but
i, the parameters and the context. The random numbers of image i come from `uniforms`, `gaussians`
and `raw`, which count instead of remembering: image i's numbers have their own place in the stream,
so it does not matter which images were made before it, in which process, or how many follow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from revgrad.cores import usable_cores
from revgrad.domains.cache import ImageWriter, cached_images, require_space
from revgrad.domains.places import cache_folder
from revgrad.errors import DataError, InputError

#: Images a process makes at a time. It changes the speed, never the images.
BLOCK = 1024

_FORMAT = 1  # of what is kept and of the streams below: a new number generates all sets anew

Made = tuple[np.ndarray, np.ndarray]
Make = Callable[[np.ndarray, Any, Any], Made]


class Generated(NamedTuple):
    """images  (count, height, width, channels) uint8, memory-mapped, read-only
    labels  (count,) int64
    digest  of the images' content
    about   name, count, parameters, inputs and versions, as in `about.json`
    """

    images: np.ndarray
    labels: np.ndarray
    digest: str
    about: dict[str, Any]


def generated(
    name: str,
    count: int,
    parameters: Any,
    make: Make,
    *,
    context: Callable[[], Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Generated:
    """Images 0 … count-1 of a generator; made once and kept in the cache folder.

    parameters  a frozen dataclass of plain values: all that decides what an image looks like
    make        (indices int64 (n,), parameters, context) -> images uint8 (n, height, width,
                channels), labels (n,) int64; a function of a module, so that other processes can
                import it (else there is only this one)
    context     called once, here, if images must be made: what every process then gets as
                `context`, by pickle (rendered glyphs, photographs)
    inputs      hashes of what `context` was made of, by name
    versions    of the generator and of the libraries that have a say in the bytes
    workers     processes; one a core unless said. The bytes don't depend on it.
    progress    a bar, where stderr is a terminal

    Parameters, inputs and versions are part of the entry's key and stand in its `about.json`.
    """
    if not isinstance(count, int) or count < 1:
        raise InputError(f"{name}: the number of images must be 1 or more, not {count!r}")
    if workers is not None and workers < 1:
        raise InputError(f"{name}: workers must be 1 or more, not {workers}")
    about: dict[str, Any] = {
        "name": name,
        "count": count,
        "parameters": dataclasses.asdict(parameters),
        "inputs": dict(inputs or {}),
        "versions": dict(versions or {}),
    }
    text = json.dumps([_FORMAT, about], sort_keys=True)
    key = f"{name}-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
    folder = cache_folder()

    def build(start: Callable[[tuple[int, int, int]], ImageWriter]) -> dict[str, Any]:
        job = _Job(make, parameters, None if context is None else context())
        writer: ImageWriter | None = None
        labels = []
        blocks = _blocks(name, count, job, workers or usable_cores())
        with _bar(count, f"making {name}", progress) as advance, contextlib.closing(blocks):
            for images, its_labels in blocks:
                if writer is None:
                    require_space(folder, count * images[0].nbytes)
                    writer = start(images.shape[1:])
                writer.write(images)
                labels.append(its_labels)
                advance(len(images))
        assert writer is not None
        writer.labels = np.concatenate(labels).astype(np.int64)
        return about

    found = cached_images(folder, key, build)
    if found.labels is None:
        raise DataError(f"the cache entry {folder / key} has no labels: delete it")
    return Generated(found.images, found.labels, found.digest, found.about)


def library_versions(*packages: str) -> dict[str, str]:
    """The installed versions of `packages`, by name."""
    return {package: importlib.metadata.version(package) for package in packages}


# -- random numbers that count -----------------------------------------------------------------


def raw(seed: int, purpose: str, indices: np.ndarray, columns: int) -> np.ndarray:
    """(n, columns) uint64, uniform: row j is a pure function of (seed, purpose, indices[j]).

    With another number of columns all rows are others. The stream is Philox's, keyed by seed and
    purpose; index i begins at the counter i · ⌈columns / 4⌉, for a count yields four numbers.
    """
    counts = -(-columns // 4)
    key = int.from_bytes(hashlib.blake2b(f"{seed} {purpose}".encode(), digest_size=16).digest())
    rows = np.empty((len(indices), 4 * counts), dtype=np.uint64)
    cuts = np.flatnonzero(np.diff(indices) != 1) + 1
    for run in np.split(np.arange(len(indices)), cuts):  # neighbouring indices in one go
        if run.size:
            stream = np.random.Philox(key=key, counter=int(indices[run[0]]) * counts)
            rows[run] = stream.random_raw(run.size * 4 * counts).reshape(run.size, -1)
    return rows[:, :columns]


def uniforms(seed: int, purpose: str, indices: np.ndarray, columns: int) -> np.ndarray:
    """(n, columns) float64 in [0, 1): row j is a pure function of (seed, purpose, indices[j])."""
    numbers: np.ndarray = (raw(seed, purpose, indices, columns) >> np.uint64(11)) * 2.0**-53
    return numbers


def gaussians(seed: int, purpose: str, indices: np.ndarray, columns: int) -> np.ndarray:
    """(n, columns) float32, normal with mean 0 and deviation 1 in 65,536 steps (|x| < 4.4).

    Fast enough for noise on every pixel: four numbers from each 64 random bits, by a table.
    Row j is a pure function of (seed, purpose, indices[j]).
    """
    bits = raw(seed, purpose, indices, -(-columns // 4))
    if sys.byteorder == "big":
        bits = bits.byteswap()
    steps = np.ascontiguousarray(bits).view(np.uint16)[:, :columns]
    return _normal_table()[steps]


@cache
def _normal_table() -> np.ndarray:
    from statistics import NormalDist

    half = [NormalDist().inv_cdf((step + 0.5) / 65536) for step in range(32768, 65536)]
    above = np.array(half, dtype=np.float32)
    return np.concatenate([-above[::-1], above])


# -- several processes -------------------------------------------------------------------------


class _Job(NamedTuple):
    make: Make
    parameters: Any
    context: Any

    def block(self, first: int, end: int) -> Made:
        indices = np.arange(first, end, dtype=np.int64)
        images, labels = self.make(indices, self.parameters, self.context)
        if len(images) != len(indices) or len(labels) != len(indices):
            raise ValueError(f"{len(indices)} wanted: {len(images)} images, {len(labels)} labels")
        return images, labels


def _blocks(name: str, count: int, job: _Job, workers: int) -> Generator[Made, None, None]:
    """All images in blocks, in order."""
    spans = [(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]
    workers = min(workers, len(spans))
    if workers == 1 or "__main__" in (job.make.__module__, type(job.parameters).__module__):
        for span in spans:
            yield job.block(*span)
        return
    idle: SimpleQueue[_Process] = SimpleQueue()
    processes = []
    pending: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="revgrad-generate")

    def ask(span: tuple[int, int]) -> Made:
        process = idle.get()
        try:
            return process.ask(span)
        finally:
            idle.put(process)

    try:
        payload = pickle.dumps(job)
        for _ in range(workers):
            processes.append(_Process(name, payload))
            idle.put(processes[-1])
        for span in spans:
            pending.append(pool.submit(ask, span))
            if len(pending) > 2 * workers:  # few blocks wait in memory
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for process in processes:
            process.close()
        pool.shutdown(wait=True, cancel_futures=True)


class _Process:
    """Another Python that makes blocks when asked.

    Not from multiprocessing: its processes import the user's program again, which so needs an
    `if __name__ == "__main__"`, and a fork of a process with torch's threads may hang.
    """

    _CODE = "from revgrad.domains.generating import work; work()"

    def __init__(self, name: str, payload: bytes) -> None:
        self._name = name
        # One thread each: the processes are the parallelism.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._payload: bytes | None = payload
        self._lock = threading.Lock()

    def ask(self, span: tuple[int, int]) -> Made:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with self._lock:
                if self._payload is not None:  # from the pool's thread, so that all start at once
                    self._process.stdin.write(self._payload)
                    self._payload = None
                pickle.dump(span, self._process.stdin)
                self._process.stdin.flush()
                error, made = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = self._process.wait()
            raise DataError(
                f"a process that made {self._name} ended with exit code {code}: too little memory? "
                "workers=1 makes them in this process"
            ) from None
        if error is not None:
            raise error
        result: Made = made
        return result

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def work() -> None:
    """A worker's life: the job, then spans of indices on stdin; blocks on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C and ends us
    # What a library prints must not get between the blocks.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent is gone
        job: _Job = pickle.load(sys.stdin.buffer)
        while True:
            first, end = pickle.load(sys.stdin.buffer)
            answer: tuple[BaseException | None, Made | None]
            try:
                answer = None, job.block(first, end)
            except Exception as error:
                answer = _picklable(error), None
            pickle.dump(answer, out, protocol=pickle.HIGHEST_PROTOCOL)
            out.flush()


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


@contextmanager
def _bar(total: int, text: str, wanted: bool) -> Iterator[Callable[[int], None]]:
    if not wanted or total <= BLOCK or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, advance=done)
