"""Locks that the system takes back when their process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from revgrad.errors import RunError
from revgrad.files import disk_error

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Whether processes can see which trials others are at.
LOCKS = fcntl is not None


class Lock:
    """A file that one process at a time holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Hold it; False where another process does and we don't `wait`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(disk_error(self.path, error)) from error
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                os.close(handle)
                return False
            except BaseException:
                os.close(handle)
                raise
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def held(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


class JournalLock(Lock):
    """The lock of a journal, which is mended when it is taken: a line that a killed process left
    half-written would make the next one unreadable."""

    def __init__(self, path: Path, journal: Path) -> None:
        super().__init__(path)
        self.journal = journal

    def acquire(self, *, wait: bool = True) -> bool:
        held = super().acquire(wait=wait)
        if held:
            _cut_half_a_line(self.journal)
        return held


def _cut_half_a_line(path: Path) -> None:
    """Cut a file back to its last line's end."""
    try:
        with open(path, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                return
            file.seek(size - 1)
            if file.read(1) == b"\n":
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return
