"""Files that appear whole or not at all, one writer at a time; errors of the disk in one line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from revgrad.errors import RunError

_LOG = logging.getLogger("revgrad")


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside, flush to the disk, rename: a reader sees the old file or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise RunError(disk_error(path, error)) from error


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def disk_error(path: Path, error: OSError) -> str:
    """One line for what the disk refused."""
    if error.errno == errno.ENOSPC:
        return f"the disk is full: {path} could not be written; what was there before is kept"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} can't be written: no permission; choose another folder"
    return f"{path} could not be written: {error.strerror or error}"


@contextlib.contextmanager
def one_at_a_time(path: Path, waiting: str = "") -> Iterator[None]:
    """Hold `path` as a lock where the system can; the file is gone afterwards.

    `waiting` is logged where another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting:
                    _LOG.info(waiting)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            break
        except BaseException:  # Ctrl-C while waiting
            os.close(descriptor)
            raise
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                break
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the holder before us has removed this file: lock the new one
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename itself durable; not every file system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
