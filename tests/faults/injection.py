"""Faults at chosen moments of a process: at its n-th write, or after a time."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What happens to a process.

    kind  "none", "kill", "term", "int" or "full" (every write from then on fails)
    at    the write (an open, a write, a flush to the disk, a rename, …) it happens at, from 1
    after the seconds it happens after, done by the parent; not both
    """

    kind: str = "none"
    at: int | None = None
    after: float | None = None


NOTHING = Fault()
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}


class Writes:
    """Counts every change of a file that this process asks for, and acts at the n-th."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.count = fault, 0

    def happen(self) -> None:
        self.count += 1
        fault = self.fault
        if fault.at is None or self.count < fault.at:
            return
        if fault.kind == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.count == fault.at and fault.kind in SIGNALS:
            os.kill(os.getpid(), SIGNALS[fault.kind])

    def install(self) -> None:
        """In a process that will end with it: nothing is put back."""
        for name in ("fsync", "replace", "rename", "mkdir", "truncate"):
            setattr(os, name, self._counted(getattr(os, name)))
        real = io.open

        def opened(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+") or isinstance(file, int):
                return real(file, mode, *more, **named)
            self.happen()
            return _Watched(real(file, mode, *more, **named), self)

        io.open = builtins.open = opened  # type: ignore[assignment]

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.happen()
            return function(*given, **named)

        return counted


class _Watched:
    """An open file whose writes are counted."""

    def __init__(self, file: Any, writes: Writes) -> None:
        self._file, self._writes = file, writes

    def write(self, data: Any) -> Any:
        self._writes.happen()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Watched:
        self._file.__enter__()
        return self

    def __exit__(self, *given: Any) -> Any:
        return self._file.__exit__(*given)

    def __iter__(self) -> Any:
        return iter(self._file)
