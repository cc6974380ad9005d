"""Getting data sets from the network: mirrors, resume, checksum before the file gets its name.

A download grows as `<file>.part`. It is renamed when its size and checksum are right, so whatever
stands under a set's file name is whole. What a broken connection leaves is taken up again at the
next try where a checksum can tell whether the two halves fit; every other failure leaves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from revgrad._system import Show, data_folder, disk_error, locked, progress_bar
from revgrad.errors import DataError, unknown
from revgrad.paper.data.archives import unpack
from revgrad.paper.data.catalogue import DATA_SETS, DataSet, Remote
from revgrad.version import __version__

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

log = logging.getLogger("revgrad")
_PIECE = 1 << 18
_MOST_UNKNOWN = 8 << 30  # bytes of a file whose size nobody told


class _Failed(Exception):
    """One mirror did not deliver, and why."""


def fetch(name: str, progress: bool = True, *, timeout: float = 30.0) -> Path:
    """Get the data set `name` of `DATA_SETS` into the data folder; the folder that holds it.

    Files that are there and right are left alone. `timeout` is the silence of a server, in
    seconds, that means failure.
    """
    if name not in DATA_SETS:
        raise unknown("data set to fetch", name, DATA_SETS)
    wanted, folder = DATA_SETS[name], data_folder()
    if not wanted.files:
        raise DataError(
            f"{name} can't be fetched by a program: {wanted.by_hand} of the data folder ({folder})"
        )
    if all(found(remote, folder) is not None for remote in wanted.files):
        return folder / wanted.folder  # which may be read-only
    try:
        waiting = f"another process is fetching {name}: waiting for it"
        with locked(folder / ".locks" / name, waiting):
            (folder / wanted.folder).mkdir(parents=True, exist_ok=True)
            _fetch_all(wanted, folder, progress, timeout)
    except OSError as error:
        raise DataError(_refused_by_disk(folder / wanted.folder, error)) from None
    return folder / wanted.folder


def download(remote: Remote, folder: Path, *, progress: bool = True, timeout: float = 30.0) -> Path:
    """Get one file into `folder` (its path there is `remote.file`); mirrors are tried in order."""
    target = folder / remote.file
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _require_space(part, remote)
        failures = []
        with progress_bar(target.name, None, progress, of_bytes=True) as show:
            for url in remote.mirrors:
                try:
                    _download(url, part, remote, show, timeout)
                    os.replace(part, target)
                    return target
                except _Failed as error:
                    failures.append(f"{urlsplit(url).netloc or url} {error}")
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise DataError(_refused_by_disk(target, error)) from None
    if remote.md5 is None:
        part.unlink(missing_ok=True)
    kept = f"; what has come is kept in {part.name} for the next try" if part.exists() else ""
    raise DataError(f"{target.name} could not be fetched: {', '.join(failures)}{kept}")


def checksum(path: Path, kind: str = "md5") -> str:
    """The hexadecimal digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def is_whole(path: Path, remote: Remote) -> bool:
    """True where `path` has the size and checksum that are known of `remote`."""
    try:
        if remote.bytes is not None and path.stat().st_size != remote.bytes:
            return False
        return remote.md5 is None or checksum(path) == remote.md5
    except OSError:
        return False


def found(remote: Remote, folder: Path) -> Path | None:
    """Where `remote`, in any of the forms that do, is in the data folder, whole; else None."""
    if remote.unpacking is not None:
        place = folder / remote.unpacking.folder
        return place if place.is_dir() and any(place.iterdir()) else None
    if (folder / remote.file).is_file() and is_whole(folder / remote.file, remote):
        return folder / remote.file
    for path, md5 in remote.also.items():
        if (folder / path).is_file() and checksum(folder / path) == md5:
            return folder / path
    return None


def _fetch_all(data_set: DataSet, folder: Path, progress: bool, timeout: float) -> None:
    for remote in data_set.files:
        if found(remote, folder) is not None:
            continue
        if (folder / remote.file).exists() and remote.unpacking is None:
            log.warning("%s is not the official file: it is replaced", folder / remote.file)
        try:
            path = folder / remote.file
            # An archive that was fetched but not yet unpacked is not fetched again.
            if remote.unpacking is None or remote.md5 is None or not is_whole(path, remote):
                path = download(remote, folder, progress=progress, timeout=timeout)
        except DataError as error:
            by_hand = f"by hand: {data_set.by_hand} of the data folder ({folder})"
            raise DataError(f"{error}; {by_hand}") from None
        if remote.unpacking is not None:
            wanted = remote.unpacking
            try:
                unpack(
                    path,
                    folder / wanted.folder,
                    inside=wanted.inside,
                    max_bytes=wanted.most_bytes,
                    max_files=wanted.most_files,
                )
            finally:  # what could not be unpacked now never will be
                path.unlink(missing_ok=True)


# -- one file from one mirror -----------------------------------------------------------------


def _download(url: str, part: Path, remote: Remote, show: Show, timeout: float) -> None:
    """Bring `part` to the whole, checked file; `_Failed` where this mirror can't."""
    if remote.md5 is None:  # nothing could tell whether an old beginning fits
        part.unlink(missing_ok=True)
    had = part.stat().st_size if part.exists() else 0
    if remote.bytes is None or had != remote.bytes:
        had = _receive(url, part, remote, had, show, timeout)
    if is_whole(part, remote):
        return
    part.unlink()
    if had:  # the old beginning may be to blame, or the file has changed: once more from the start
        _receive(url, part, remote, 0, show, timeout)
        if is_whole(part, remote):
            return
        part.unlink()
    raise _Failed("sent a file with the wrong checksum, which was deleted")


def _receive(url: str, part: Path, remote: Remote, had: int, show: Show, timeout: float) -> int:
    """Read `url` into `part`, going on after its first `had` bytes; how many of them were used."""
    with _asked(url, had, timeout) as response:
        if had and not _goes_on_at(response, had):
            had = 0
        announced = _announced(response, had)
        if None not in (announced, remote.bytes) and announced != remote.bytes:
            raise _Failed(f"offers {announced:,} bytes instead of {remote.bytes:,}")
        wanted = remote.bytes if announced is None else announced
        most = _MOST_UNKNOWN if wanted is None else wanted
        have = had
        with part.open("ab" if had else "wb") as file:
            show(have, wanted)
            while piece := _read(response):
                have += len(piece)
                if have > most:
                    break
                file.write(piece)
                show(have, wanted)
            file.flush()
            os.fsync(file.fileno())
    if have > most:
        part.unlink()
        raise _Failed(f"sends more than the {most:,} bytes it should")
    if wanted is not None and have < wanted:
        raise _Failed(f"stopped after {have:,} of {wanted:,} bytes")
    return had


@contextlib.contextmanager
def _asked(url: str, had: int, timeout: float) -> Iterator[Any]:
    """The response to a request for `url` from byte `had` on; a failure to connect is `_Failed`."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    if urlsplit(url).scheme not in ("http", "https"):
        raise _Failed(f"({url}) is not an http or https address")
    # Compression on the way would make the sizes lie.
    headers = {"User-Agent": f"revgrad/{__version__}", "Accept-Encoding": "identity"}
    if had:
        headers["Range"] = f"bytes={had}-"
    try:
        response = _opener().open(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and had:  # nothing after what we have: perhaps it shrank
            with _asked(url, 0, timeout) as response:
                yield response
            return
        raise _Failed(f"answered {error.code} {error.reason}") from None
    except URLError as error:
        raise _Failed(f"can't be reached ({_reason(error.reason)})") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _Failed(f"can't be reached ({_reason(error)})") from None
    with response:
        yield response


def _opener() -> OpenerDirector:
    """http and https only: neither an address nor a redirect leads to a file of this machine."""
    from urllib import request

    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.UnknownHandler),
        *(request.HTTPRedirectHandler, request.HTTPDefaultErrorHandler, request.HTTPErrorProcessor),
    ):
        opener.add_handler(handler())
    return opener


def _read(response: Any) -> bytes:
    from http.client import HTTPException, IncompleteRead

    try:
        return bytes(response.read(_PIECE))
    except IncompleteRead as error:
        return bytes(error.partial)
    except (OSError, HTTPException, ValueError) as error:
        raise _Failed(f"broke off ({_reason(error)})") from None


def _goes_on_at(response: Any, had: int) -> bool:
    """True where the server sends the rest from byte `had` on, not the whole."""
    told = response.headers.get("Content-Range", "")
    return response.status == 206 and str(told).startswith(f"bytes {had}-")


def _announced(response: Any, had: int) -> int | None:
    length = response.headers.get("Content-Length", "")
    return had + int(length) if length.isdecimal() else None


def _reason(error: Any) -> str:
    text = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
    return str(text.splitlines()[0])


def _require_space(part: Path, remote: Remote) -> None:
    """The error of a full disk before the work, where the size is known."""
    have = part.stat().st_size if part.exists() else 0
    if remote.bytes is not None and shutil.disk_usage(part.parent).free < remote.bytes - have:
        raise OSError(errno.ENOSPC, "No space left on device")


def _refused_by_disk(path: Path, error: OSError) -> str:
    return f"{disk_error(path, error)} (REVGRAD_DATA names another data folder)"
