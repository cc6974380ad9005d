"""Seals: a checksum inside a file, compared whenever the file is read.

A json object carries the SHA-256 of its other values as its last one, `seal`; a line of a json
lines file the first digits of it; a safetensors file that of its own bytes in its metadata; arrays
of a cache that of all bytes before it, at the end. A text must also be the very text that we would
write, so that no flipped bit passes. What was written without a seal, by hand or by an older
version, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad._system import sha256, write_atomically

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger("revgrad")

SEAL = "seal"
#: Digits of a line's seal: one in four thousand million damaged lines would pass.
_SHORT = 8
_EMPTY = "0" * 64
#: Bytes of a seal that is not text.
_RAW = 32
_DIGITS = re.compile(r"[0-9a-f]{8}|[0-9a-f]{64}")
_IN_METADATA = re.compile(rb'"__metadata__":\{"seal":"([0-9a-f]{64})"\}')

ALTERED = "it was altered or cut short since it was written (SHA-256 differs)"


def sealed_text(values: Mapping[str, Any]) -> str:
    """A json object with its seal, as a file holds it."""
    plain = json.loads(json.dumps(values))  # as it will be read: lists for tuples, text for keys
    return _as_file({**plain, SEAL: _seal_of(plain)})


def write_sealed(path: Path, values: Mapping[str, Any]) -> None:
    """`values` as a sealed json file, whole or not at all."""
    write_atomically(path, sealed_text(values).encode())


def unsealed(text: str, *, required: bool = False) -> dict[str, Any]:
    """The values of a json object without their seal; a ValueError says what is wrong.

    Parameters
    ----------
    required
        whether there must be a seal
    """
    values = _object(text)
    if (required or _is_sealed(values)) and (
        values.get(SEAL) != _seal_of(values) or text != _as_file(values)
    ):
        raise ValueError(ALTERED)
    values.pop(SEAL, None)
    return values


def sealed_line(values: Mapping[str, Any]) -> str:
    """A json object in one line, with a short seal."""
    plain = json.loads(json.dumps(values))
    return json.dumps({**plain, SEAL: _seal_of(plain)[:_SHORT]}) + "\n"


def unsealed_line(line: str, *, required: bool = False) -> dict[str, Any]:
    """The values of one line without their seal; a ValueError says what is wrong.

    Parameters
    ----------
    required
        whether there must be a seal
    """
    values = _object(line)
    if (required or _is_sealed(values)) and (
        values.get(SEAL) != _seal_of(values)[:_SHORT] or line != json.dumps(values) + "\n"
    ):
        raise ValueError(ALTERED)
    values.pop(SEAL, None)
    return values


def sealed_tensors(data: bytes) -> bytes:
    """A safetensors file that was saved with the metadata `SEAL_METADATA`, with its seal."""
    before, _, after = data.partition(_EMPTY.encode())
    return before + sha256(data).encode() + after


#: Metadata of a safetensors file that `sealed_tensors` seals.
SEAL_METADATA = {SEAL: _EMPTY}


def check_tensors(data: bytes) -> None:
    """A ValueError where a sealed safetensors file is not as it was written."""
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    found = _IN_METADATA.search(header)
    if found is None:
        if b"__metadata" in header or SEAL.encode() in header:
            raise ValueError(ALTERED)
        return
    start, end = (8 + at for at in found.span(1))
    if sha256(data[:start] + _EMPTY.encode() + data[end:]) != found[1].decode():
        raise ValueError(ALTERED)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Named arrays (no Python objects) as one sealed file, whole or not at all."""
    import numpy as np  # not for `revgrad --help`

    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    data = buffer.getvalue()
    write_atomically(path, data + hashlib.sha256(data).digest())


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """What `write_arrays` wrote; None, and a warning, where it was altered since: a cache's files
    are made anew. None too where there is no such file."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    plain, seal = data[:-_RAW], data[-_RAW:]
    if hashlib.sha256(plain).digest() != seal:
        log.warning("%s is damaged: it is made anew", path)
        return None
    import numpy as np

    with np.load(io.BytesIO(plain), allow_pickle=False) as found:
        return dict(found)


def marks(path: Path) -> list[int]:
    """What changes with a file: length, times, place on the disk. Large files are compared with
    their seals once for each change of these."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError("its json is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"it holds no json object but a {type(values).__name__}")
    return values


def _is_sealed(values: dict[str, Any]) -> bool:
    """Whether there is a seal, also one whose name was damaged."""
    last = next(reversed(values.values()), None)
    return SEAL in values or (isinstance(last, str) and _DIGITS.fullmatch(last) is not None)


def _seal_of(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps({**values, SEAL: ""}, sort_keys=True).encode())


def _as_file(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"
