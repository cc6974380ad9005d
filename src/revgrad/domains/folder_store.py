"""Folders of images that are too large to keep decoded: read and decoded as training asks for them,
from one file of all their bytes, or from the files themselves."""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import get_worker_info

from revgrad._system import progress_bar, usable_cores
from revgrad.batch import Inputs
from revgrad.domains.cache import CachedImages, ImageWriter
from revgrad.domains.image_files import (
    Size,
    Unreadable,
    decoded,
    resize,
)
from revgrad.domains.threads import in_order
from revgrad.errors import DataError, unknown

log = logging.getLogger("revgrad")

#: Where the images of a folder are kept: pixels of one size, the files' bytes in one file, or not.
STORAGES = ("auto", "decoded", "compressed", "files")
#: Decoded images up to so many bytes are kept without a question; beyond that, and compressed, at
#: most this share of the disk's free space.
ALWAYS_DECODED, SHARE_OF_DISK = 2 << 30, 0.5
#: Bytes at a file's beginning and at its end by which images are put in order.
_ENDS = 4096
_TASK = 16  # files a thread looks at, or decodes, at a time


class Needs(NamedTuple):
    """Bytes on the disk that images need decoded and compressed, and how many are free."""

    decoded: int
    compressed: int
    free: int

    def storage(self) -> str:
        """Where images of that size are kept best."""
        room = SHARE_OF_DISK * self.free
        if self.decoded <= ALWAYS_DECODED or self.decoded <= min(room, 2 * self.compressed):
            return "decoded"
        if self.compressed <= room:
            return "compressed"
        return "files"


def chosen_storage(wanted: str, folder: Path, needs: Needs, size: Size, cache: Path) -> str:
    """The storage that is wanted; of "auto" what the sizes say, in a line where not decoded."""
    if wanted not in STORAGES:
        raise unknown("storage", wanted, STORAGES)
    if wanted != "auto":
        return wanted
    storage = needs.storage()
    if storage != "decoded":
        how = (
            f"their bytes are kept in one file ({_gigabytes(needs.compressed)})"
            if storage == "compressed"
            else "they are read from their files"
        )
        log.info(
            "%s: decoded at %d×%d the images would take %s of %s free in %s; %s and decoded as "
            "they come: workers=%d (--workers %d) decodes ahead",
            *(folder, *size, _gigabytes(needs.decoded), _gigabytes(needs.free), cache, how),
            *(max(usable_cores(), 2),) * 2,
        )
    return storage


def free_space(folder: Path) -> int:
    """Bytes that are free on a folder's disk, whether the folder exists yet or not."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def write_bytes(
    folder: Path,
    paths: Sequence[str],
    *,
    channels: int,
    size: Size,
    fit: str,
    keep: bool,
    checked: bool,
    progress: bool,
    start: Callable[[tuple[int, int, int]], ImageWriter],
) -> dict[str, Any]:
    """Write the files' bytes one after the other, or, unless they are to be kept, a digest of each.

    Parameters
    ----------
    checked
        whether each is decoded once, so that those which can't be are known
    """
    writer = start((1, 1, 1 if keep else 16))
    bad: dict[str, str] = {}
    lengths: list[int] = []
    digests: list[bytes] = []

    def look(paths: Sequence[str]) -> list[tuple[str, bytes, bytes, str]]:
        found = []
        for path in paths:
            try:
                ends = _ends(folder / path)
                data = _whole(folder / path) if keep or checked else b""
                if checked:
                    decoded(data, channels)
                reason = ""
            except Unreadable as error:
                ends, data, reason = b"", b"", str(error)
            digest = hashlib.blake2b(ends, digest_size=16).digest()
            found.append((path, data if keep else b"", digest, reason))
        return found

    tasks = [paths[i : i + _TASK] for i in range(0, len(paths), _TASK)]
    with progress_bar(f"reading {folder.name}", len(paths), progress) as show:
        for number, found in enumerate(in_order(look, tasks), start=1):
            for path, data, digest, reason in found:
                if reason:
                    bad[path] = reason
                    continue
                digests.append(digest)
                lengths.append(len(data))
                row = np.frombuffer(data if keep else digest, np.uint8)
                writer.write(row.reshape(-1, *writer.shape))
            show(min(number * _TASK, len(paths)))
    writer.order = np.array(sorted(range(len(digests)), key=digests.__getitem__), dtype=np.int64)
    writer.offsets = np.cumsum([0, *lengths])
    described = repr((sorted(digests), channels, size, fit)).encode()
    return {
        "folder": str(folder.resolve()),
        "corrupt": bad,
        "contents": hashlib.blake2b(described, digest_size=16).hexdigest(),
        "channels": channels,
        "size": list(size),
    }


class FolderStore:
    """Images that are decoded when they are asked for.

    Parameters
    ----------
    files
        in the order of the index
    found
        what `write_bytes` wrote; with bytes of the files, or without
    """

    def __init__(self, folder: Path, files: Sequence[str], found: CachedImages, fit: str) -> None:
        assert found.order is not None
        self.folder, self.fit = folder, fit
        self.files = list(files)  # by the index's rows, before they are put in order
        self._found = found
        self._order = found.order
        self.size: Size = (int(found.about["size"][0]), int(found.about["size"][1]))
        self.channels = int(found.about["channels"])
        self._kept = found.images.shape[3] == 1

    def __len__(self) -> int:
        return len(self._order)

    def take(self, indices: np.ndarray) -> Inputs:
        rows = self._order[np.asarray(indices, dtype=np.int64)].tolist()
        images = np.empty((len(rows), *self.size, self.channels), np.uint8)

        def decode(places: range) -> None:
            for place in places:
                images[place] = self._image(rows[place])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, about oddities that are handled
            if len(rows) <= _TASK or get_worker_info() is not None:  # workers are many already
                decode(range(len(rows)))
            else:
                tasks = [range(i, min(i + _TASK, len(rows))) for i in range(0, len(rows), _TASK)]
                for _ in in_order(decode, tasks):
                    pass
        return torch.from_numpy(images).permute(0, 3, 1, 2)

    def _image(self, row: int) -> np.ndarray:
        path = self.folder / self.files[row]
        try:
            if self._kept:
                assert self._found.offsets is not None
                start, end = self._found.offsets[row : row + 2].tolist()
                data = self._found.images[start:end].tobytes()
            else:
                data = _whole(path)
            image = decoded(data, self.channels, at_least=self.size)
        except Unreadable as error:
            raise DataError(
                f'{path} can\'t be read: {error}; corrupt="skip" (--corrupt skip) looks at all '
                "images first and leaves such out"
            ) from None
        return resize(image, self.size, self.fit)

    def fingerprint(self) -> str:
        contents: str = self._found.about["contents"]
        return contents


def _whole(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def _ends(path: Path) -> bytes:
    """A file's beginning, its end and its length, by which images are told apart."""
    try:
        with open(path, "rb") as file:
            start = file.read(_ENDS)
            length = file.seek(0, 2)
            file.seek(max(length - _ENDS, 0))
            return start + file.read() + length.to_bytes(8, "little")
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def _gigabytes(count: int) -> str:
    digits = 1 if count >= 1e9 else max(1, 1 - math.floor(math.log10(max(count, 1) / 1e9)))
    return f"{count / 1e9:.{digits}f} GB"
