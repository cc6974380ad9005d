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
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from revgrad._system import cache_folder, progress_bar, usable_cores
from revgrad.domains.cache import ImageWriter, cached_images, require_space
from revgrad.errors import DataError, InputError

#: Images a process makes at a time. It changes the speed, never the images.
BLOCK = 1024

_IDLE_SECONDS = 10  # processes wait as long for the next set, and end

_FORMAT = 1  # of what is kept and of the streams below: a new number generates all sets anew

Made = tuple[np.ndarray, np.ndarray]
Make = Callable[[np.ndarray, Any, Any], Made]


class Generated(NamedTuple):
    """images  (count, height, width, channels) uint8, memory-mapped, read-only

    Attributes
    ----------
    labels
        (count,) int64
    digest
        of the images' content
    about
        name, count, parameters, inputs and versions, as in `about.json`
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

    Parameters, inputs and versions are part of the entry's key and stand in its `about.json`.

    Parameters
    ----------
    parameters
        a frozen dataclass of plain values: all that decides what an image looks like
    make
        (indices int64 (n,), parameters, context) -> images uint8 (n, height, width,
        channels), labels (n,) int64
    context
        called once, here, if images must be made: what every process then gets as
        `context`, by pickle (rendered glyphs, photographs)
    inputs
        hashes of what `context` was made of, by name
    versions
        of the generator and of the libraries that have a say in the bytes
    workers
        processes; one a core unless said. The bytes don't depend on it.
    progress
        a bar, where stderr is a terminal
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
        with progress_bar(f"making {name}", count, progress) as show, contextlib.closing(blocks):
            for images, its_labels in blocks:
                if writer is None:
                    require_space(folder, count * images[0].nbytes)
                    writer = start(images.shape[1:])
                writer.write(images)
                labels.append(its_labels)
                show(writer.rows)
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
    if workers == 1:
        for span in spans:
            yield job.block(*span)
        return
    from joblib import Parallel, delayed, parallel_config

    # loky's processes are new ones that import only what they need: a fork of a process with
    # torch's threads may hang, and multiprocessing's import the user's program again, which so
    # needs an `if __name__ == "__main__"`. One thread each: the processes are the parallelism.
    alone = {"inner_max_num_threads": 1, "idle_worker_timeout": _IDLE_SECONDS}
    with parallel_config("loky", n_jobs=workers, **alone):
        pool = Parallel(return_as="generator", batch_size=1)
    try:
        yield from pool(delayed(job.block)(*span) for span in spans)
    except BrokenProcessPool:
        raise DataError(
            f"a process that made {name} ended: too little memory? workers=1 makes them in this "
            "process"
        ) from None
