"""Images kept on disk as one memory-mapped `.npy`: built once, committed by one rename.

An entry is a folder `<key>` with `images.npy` (uint8, NHWC), `about.json` and, where the builder
knows them, `labels.npy` and `order.npy`. It is written under another name and renamed when
complete, so whatever stands under its key is whole; a process that is killed leaves only a hidden
folder, which a later build sweeps away.

`about.json` is sealed and holds the digests of all else. They are compared once for each change of
a file: `checked.json` remembers the files' lengths, times and places on the disk at that time. What
is damaged is built anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from revgrad._seals import marks, unsealed, write_sealed
from revgrad._system import locked, sha256
from revgrad.errors import DataError, RunError

log = logging.getLogger("revgrad")

LOCKS = ".locks"
ABOUT, CHECKED, IMAGES = "about.json", "checked.json", "images.npy"
#: Arrays beside the images that a builder may give its writer.
BESIDE = ("labels", "order", "offsets")
_BUILDING = ".building-"
_ABANDONED_SECONDS = 24 * 3600


class CachedImages(NamedTuple):
    """images  (rows, height, width, channels) uint8, memory-mapped, read-only

    Attributes
    ----------
    digest
        of the images' content
    about
        what the builder noted beside them
    labels
        (rows,), where the builder gave the writer some
    order
        (rows,), a permutation of the rows, where the builder gave the writer one
    offsets
        where each image's bytes begin, and the last one's end, where `images` holds the bytes of
        files, (bytes, 1, 1, 1)
    """

    images: np.ndarray
    digest: str
    about: dict[str, Any]
    labels: np.ndarray | None = None
    order: np.ndarray | None = None
    offsets: np.ndarray | None = None


class ImageWriter:
    """Writes rows of uint8 images one after the other into an `.npy` file.

    Plain writes, not a memory map: on a full disk a write fails with an error one can report,
    whereas touching a page of a map kills the process.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.rows = 0
        self.labels: np.ndarray | None = None  # kept beside the images where set, one a row
        self.order: np.ndarray | None = None
        self.offsets: np.ndarray | None = None
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)
        file.write(npy_header((self.rows, *self.shape)))

    def write(self, images: np.ndarray) -> None:
        """Append `images` (n, height, width, channels)."""
        if images.dtype != np.uint8 or images.shape[1:] != self.shape:
            raise TypeError(f"rows of {self.shape} uint8, not {images.shape[1:]} {images.dtype}")
        data = np.ascontiguousarray(images).data
        self._digest.update(data)
        self._file.write(data)
        self.rows += len(images)

    def finish(self) -> str:
        """Write the header with the true number of rows, reach the disk; the content's digest."""
        self._file.seek(0)
        self._file.write(npy_header((self.rows, *self.shape)))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._digest.update(repr((self.rows, *self.shape)).encode())
        return self._digest.hexdigest()


def npy_header(shape: tuple[int, ...]) -> bytes:
    """The beginning of an `.npy` file of uint8, padded so that the rows can grow in place."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


Builder = Callable[[Callable[[tuple[int, int, int]], ImageWriter]], dict[str, Any]]


def cached_images(folder: Path, key: str, build: Builder) -> CachedImages:
    """The images under `key` in `folder`; where there are none yet, `build` makes them.

    `build(start)` calls `start(shape)` once for the writer, writes all rows and returns what
    to note in `about.json`. Processes that want the same key at the same time wait for the first.
    """
    entry = folder / key
    found = _open(entry)
    if found is not None:
        return found
    try:
        with locked(folder / LOCKS / key, f"another process is making {entry}: waiting for it"):
            found = _open(entry)
            if found is None:
                _sweep(folder)
                _build(folder, entry, build)
                found = _open(entry)
    except OSError as error:
        raise DataError(
            f"can't keep decoded images in {folder}: {error.strerror or error} "
            "(REVGRAD_CACHE or cache= names another folder)"
        ) from None
    if found is None:
        raise DataError(f"the cache entry {entry} can't be read back: is the disk sound?")
    return found


def require_space(folder: Path, wanted: int) -> None:
    """An error before the work where `folder`'s disk can't hold `wanted` more bytes."""
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise DataError(
            f"not enough space in {folder}: {wanted / 1e9:.2f} GB wanted, {free / 1e9:.2f} GB free "
            "(REVGRAD_CACHE or cache= names another folder)"
        )


def _build(folder: Path, entry: Path, build: Builder) -> None:
    work = folder / f"{_BUILDING}{os.getpid()}-{secrets.token_hex(4)}"
    work.mkdir()
    try:
        with (work / "images.npy").open("wb") as file:
            writers: list[ImageWriter] = []

            def start(shape: tuple[int, int, int]) -> ImageWriter:
                writers.append(ImageWriter(file, shape))
                return writers[0]

            about = build(start)
            digest = writers[0].finish()
        seals = {}
        for name in BESIDE:
            array = getattr(writers[0], name)
            if array is not None:
                np.save(work / f"{name}.npy", array)
                seals[name] = sha256((work / f"{name}.npy").read_bytes())
        note = {"digest": digest, "rows": writers[0].rows, "seals": seals, "about": about}
        write_sealed(work / ABOUT, note)
        _remember(work, seals)
        if entry.exists():  # damaged: out of the way
            log.warning("%s is damaged: it is made anew", entry)
            shutil.rmtree(entry, ignore_errors=True)
        os.replace(work, entry)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _open(entry: Path) -> CachedImages | None:
    """The entry, or None where it is missing or damaged."""
    try:
        note = unsealed((entry / ABOUT).read_text(encoding="utf-8"))
        digest, rows, seals = str(note["digest"]), int(note["rows"]), dict(note["seals"])
        images = np.load(entry / IMAGES, mmap_mode="r", allow_pickle=False)
        if images.dtype != np.uint8 or images.ndim != 4 or len(images) != rows:
            return None
        if not _is_remembered(entry, seals):
            if not _is_whole(entry, images, digest, seals):
                return None
            _remember(entry, seals)
        beside = {name: np.load(entry / f"{name}.npy", allow_pickle=False) for name in seals}
        return CachedImages(images, digest, dict(note["about"]), **beside)
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _is_whole(entry: Path, images: np.ndarray, digest: str, seals: dict[str, str]) -> bool:
    """Whether every byte of the entry is as it was written; reads all of it."""
    found = hashlib.blake2b(digest_size=16)
    with (entry / IMAGES).open("rb") as file:
        header = npy_header(images.shape)
        if file.read(len(header)) != header:
            return False
        while block := file.read(1 << 22):
            found.update(block)
    found.update(repr(images.shape).encode())
    return found.hexdigest() == digest and all(
        sha256((entry / f"{name}.npy").read_bytes()) == seal for name, seal in seals.items()
    )


def _marks(entry: Path, seals: dict[str, str]) -> dict[str, list[int]]:
    """Of each file of the entry what changes with it."""
    names = (ABOUT, IMAGES, *(f"{one}.npy" for one in seals))
    return {name: marks(entry / name) for name in names}


def _remember(entry: Path, seals: dict[str, str]) -> None:
    """Note that the files are whole as they are now; in a folder that can't be written, nobody
    remembers and everybody compares."""
    with contextlib.suppress(RunError):
        write_sealed(entry / CHECKED, _marks(entry, seals))


def _is_remembered(entry: Path, seals: dict[str, str]) -> bool:
    try:
        return unsealed((entry / CHECKED).read_text(encoding="utf-8")) == _marks(entry, seals)
    except (OSError, ValueError):
        return False


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_BUILDING}*"):
        try:
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue
