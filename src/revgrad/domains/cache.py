"""Images kept on disk as one memory-mapped `.npy`: built once, committed by one rename.

An entry is a folder `<key>` with `images.npy` (uint8, NHWC), `about.json` and, where the builder
knows labels, `labels.npy`. It is written under another name and renamed when complete, so whatever
stands under its key is whole; a process that is killed leaves only a hidden folder, which a later
build sweeps away.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from revgrad._system import locked
from revgrad.errors import DataError

LOCKS = ".locks"
_BUILDING = ".building-"
_ABANDONED_SECONDS = 24 * 3600


class CachedImages(NamedTuple):
    """images  (rows, height, width, channels) uint8, memory-mapped, read-only
    digest  of the images' content
    about   what the builder noted beside them
    labels  (rows,), where the builder gave the writer some
    """

    images: np.ndarray
    digest: str
    about: dict[str, Any]
    labels: np.ndarray | None = None


class ImageWriter:
    """Writes rows of uint8 images one after the other into an `.npy` file.

    Plain writes, not a memory map: on a full disk a write fails with an error one can report,
    whereas touching a page of a map kills the process.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.rows = 0
        self.labels: np.ndarray | None = None  # kept beside the images where set, one a row
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)
        file.write(self._header())

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
        self._file.write(self._header())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._digest.update(repr((self.rows, *self.shape)).encode())
        return self._digest.hexdigest()

    def _header(self) -> bytes:
        # NumPy pads the header so that the number of rows can grow in place.
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, {"descr": "|u1", "fortran_order": False, "shape": (self.rows, *self.shape)}
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
        labels = writers[0].labels
        if labels is not None:
            np.save(work / "labels.npy", labels)
        note = {"digest": digest, "rows": writers[0].rows, "labels": labels is not None}
        text = json.dumps({**note, "about": about})
        (work / "about.json").write_text(text, encoding="utf-8")
        if entry.exists() and _open(entry) is None:  # damaged: out of the way
            shutil.rmtree(entry, ignore_errors=True)
        os.replace(work, entry)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _open(entry: Path) -> CachedImages | None:
    """The entry, or None where it is missing or damaged."""
    try:
        note = json.loads((entry / "about.json").read_text(encoding="utf-8"))
        images = np.load(entry / "images.npy", mmap_mode="r", allow_pickle=False)
        if images.dtype != np.uint8 or images.ndim != 4 or len(images) != note["rows"]:
            return None
        labels = None
        if note.get("labels"):
            labels = np.load(entry / "labels.npy", allow_pickle=False)
            if len(labels) != len(images):
                return None
        return CachedImages(images, str(note["digest"]), dict(note["about"]), labels)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_BUILDING}*"):
        try:
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue
