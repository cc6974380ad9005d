"""A file from a server: whole or not at all, asked for again where the server stalls."""

from __future__ import annotations

import hashlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from pathlib import Path

from revgrad._system import locked
from revgrad.errors import DataError

log = logging.getLogger("revgrad")

_BLOCK = 1 << 20
#: Seconds before the second try; each further one waits twice as long.
FIRST_WAIT = 0.5


def fetched(address: str, folder: Path, *, timeout: float = 20.0, retries: int = 3) -> Path:
    """The file of an http address, in `folder`; fetched once, by one process.

    A connection that breaks goes on where it broke, if the server can; the file has its name only
    when it is whole.
    """
    name = address.rstrip("/").rpartition("/")[2].partition("?")[0]
    path = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{name}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(path.suffix + ".part")
    with locked(path.with_suffix(path.suffix + ".lock"), f"another process fetches {address}"):
        if path.exists():
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
            except (OSError, http.client.HTTPException) as error:
                reason = " ".join(str(getattr(error, "reason", error) or error).split())[:100]
            else:
                part.replace(path)
                return path
    raise DataError(f"{address} can't be fetched: {reason}")


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
