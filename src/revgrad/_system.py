"""Files, locks, cores, folders and the terminal of this machine.

Files appear whole or not at all; errors of the disk are one line.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from revgrad.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

log = logging.getLogger("revgrad")

#: Fewer pieces of work than these are done before a bar could be read.
MANY = 500


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside, flush to the disk, rename: a reader sees the old file or the new one."""
    with _replaced(path) as file:
        file.write(data)


def copy_atomically(source: Path, path: Path) -> None:
    """A file's bytes under another name, at once as `write_atomically` writes."""
    with _replaced(path) as file, open(source, "rb") as data:
        shutil.copyfileobj(data, file, 1 << 20)


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` to write to; it takes the name when its bytes are on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        sync(path.parent)
    except BaseException as error:  # Ctrl-C too
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise RunError(disk_error(path, error)) from error
        raise


def regular(path: Path) -> Path:
    """The path, but for what is there and no regular file, an OSError: a pipe would make its reader
    wait for ever, and a device never ends."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    return path


def read_file(path: Path) -> bytes:
    """The bytes of a regular file."""
    return regular(path).read_bytes()


def disk_error(path: Path, error: OSError) -> str:
    """One line for what the disk refused."""
    if error.errno == errno.ENOSPC:
        return f"the disk is full: {path} could not be written; what was there before is kept"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} can't be written: no permission; choose another folder"
    return f"{path} could not be written: {error.strerror or error}"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the disk refuses at `path` is a RunError of one line."""
    try:
        yield
    except OSError as error:
        raise RunError(disk_error(path, error)) from error


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable; not every file system lets a folder be
    opened."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def named(text: str) -> Any:
    """What "module:name" or "module:class.method" means; the module is imported now."""
    module, _, name = text.partition(":")
    return reduce(getattr, name.split("."), import_module(module))


def usable_cores() -> int:
    """Those that this process may run on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def data_folder() -> Path:
    """The folder of data sets: `REVGRAD_DATA`, else the platform's cache folder for revgrad."""
    return _from_environment("REVGRAD_DATA") or _platform_cache()


def cache_folder() -> Path:
    """The folder of decoded and generated images: `REVGRAD_CACHE`, else `decoded` in the
    platform's cache folder for revgrad. It may be deleted at any time; it is made anew."""
    return _from_environment("REVGRAD_CACHE") or _platform_cache() / "decoded"


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


def _platform_cache() -> Path:
    if sys.platform == "win32":
        base = _from_environment("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = _from_environment("XDG_CACHE_HOME") or Path.home() / ".cache"
    return base / "revgrad"


class Lock:
    """A file that one process at a time holds.

    The system releases it when its holder ends, however that ends. The file itself stays: whoever
    deleted it would let those who wait for it and those who come later hold one each.
    """

    def __init__(self, path: Path) -> None:
        from filelock import FileLock

        self.path = path
        # not bound to a thread: Optuna may take a lock in one and give it back in another
        self._lock = FileLock(path, thread_local=False)

    def acquire(self, *, wait: bool = True) -> bool:
        """Hold it; False where another process does and we don't `wait`. Disk errors come out."""
        from filelock import Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(blocking=wait, poll_interval=0.01)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        self._lock.release()


@contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[None]:
    """Hold the lock `path`; where another process does, wait for it, and log `waiting`."""
    lock = Lock(path)
    if not lock.acquire(wait=False):
        if waiting:
            log.info(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def terminal(quiet: bool = False) -> Console:
    """Where notes and progress are shown: stderr, so that stdout holds results alone."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)


def progress_display(where: Console, *columns: ProgressColumn, transient: bool = False) -> Progress:
    """Bars on a terminal: a text, the bar, then `columns`; `transient`: erased at the end."""
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        *columns,
        console=where,
        refresh_per_second=4,
        transient=transient,
    )


class Show(Protocol):
    """Shows how much is done; and of how much, where that was not known at the beginning."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress_bar(
    text: str, total: int | None, wanted: bool = True, *, of_bytes: bool = False
) -> Iterator[Show]:
    """A bar, where stderr is a terminal and there is much to do; gone when all is done."""
    if not wanted or not sys.stderr.isatty() or (total is not None and total < MANY):
        yield lambda done, total=None: None
        return
    from rich import progress

    columns: tuple[ProgressColumn, ...] = (progress.MofNCompleteColumn(),)
    if of_bytes:
        columns = (progress.DownloadColumn(), progress.TransferSpeedColumn())
    remaining = progress.TimeRemainingColumn()
    with progress_display(terminal(), *columns, remaining, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)
