"""A file from a server: whole or not at all, asked for again where the server stalls."""

from __future__ import annotations

import hashlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from pathlib import Path

from revgrad._seals import marks, unsealed, write_sealed
from revgrad._system import disk_errors, locked, sha256
from revgrad.errors import DataError

log = logging.getLogger("revgrad")

_BLOCK = 1 << 20
#: Seconds before the second try; each further one waits twice as long.
FIRST_WAIT = 0.5
#: Characters of a file's own name that are kept: file systems allow 255.
_LONGEST_NAME = 100


def fetched(address: str, folder: Path, *, timeout: float = 20.0, retries: int = 3) -> Path:
    """The file of an http address, in `folder`; fetched once, by one process.

    A connection that breaks goes on where it broke, if the server can; the file has its name only
    when it is whole. What was damaged since is fetched anew: its SHA-256 is compared once for each
    change of the file.
    """
    name = address.rstrip("/").rpartition("/")[2].partition("?")[0]
    path = folder / f"{sha256(address.encode())[:16]}-{name[-_LONGEST_NAME:]}"
    with disk_errors(path):
        if _is_whole(path):
            return path
        folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(path.suffix + ".part")
    with locked(path.with_suffix(path.suffix + ".lock"), f"another process fetches {address}"):
        if _is_whole(path):
            return path
        reason = ""
        for attempt in range(retries + 1):
            if attempt:
                log.info("%s: %s; asked for again (%d of %d)", address, reason, attempt, retries)
                time.sleep(FIRST_WAIT * 2 ** (attempt - 1))
            try:
                _fetch(address, part, timeout)
            except urllib.error.HTTPError as error:
                reason = f"the server says {error.code} {error.reason}"
                error.close()
                if error.code == 416:  # what is there already is no beginning of this file
                    part.unlink(missing_ok=True)
                elif error.code < 500:
                    break
            except TimeoutError:
                reason = f"the server was silent for {timeout:g} seconds"
            except (
                OSError,
                ValueError,
                http.client.HTTPException,
            ) as error:  # ValueError: no address
                reason = " ".join(str(getattr(error, "reason", error) or error).split())[:100]
            else:
                with disk_errors(path):
                    part.replace(path)
                    _remember(path, _digest(path))
                return path
    raise DataError(f"{address} can't be fetched: {reason}")


def _is_whole(path: Path) -> bool:
    """Whether the file is there, as it was when it was fetched."""
    if not path.exists():
        return False
    try:
        note = unsealed(_note(path).read_text(encoding="utf-8"), required=True)
    except (OSError, ValueError):
        return False  # nobody knows
    if note["marks"] != marks(path):
        if _digest(path) != note["sha256"]:
            log.warning("%s is damaged: it is fetched anew", path)
            return False
        _remember(path, note["sha256"])
    return True


def _remember(path: Path, digest: str) -> None:
    write_sealed(_note(path), {"sha256": digest, "marks": marks(path)})


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(address: str, part: Path, timeout: float) -> None:
    there = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address)
    if there:
        request.add_header("Range", f"bytes={there}-")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        goes_on = answer.status == 206
        length = answer.headers.get("Content-Length")
        total = None if length is None else int(length) + (there if goes_on else 0)
        with part.open("ab" if goes_on else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
            size = file.tell()
    if total is not None and size < total:
        raise OSError(f"the connection broke after {size} of {total} bytes")
