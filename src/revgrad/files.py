"""Files that appear whole or not at all, and errors of the disk in one line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from revgrad.errors import RunError


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
