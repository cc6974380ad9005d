"""MNIST from its official idx files (LeCun, Cortes, Burges), gz or raw."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from revgrad._system import data_folder
from revgrad.domains.arrays import from_arrays
from revgrad.domains.digits import DIGITS
from revgrad.domains.domain import Domain
from revgrad.errors import DataError, unknown
from revgrad.paper.data.catalogue import missing

MNIST_SPLITS = {"train": "train", "test": "t10k"}

_IMAGES = 2051  # the idx magic numbers: unsigned bytes of three dimensions, and of one
_LABELS = 2049
_PIECE = 1 << 24


def mnist(split: str = "train") -> Domain:
    """MNIST's 60,000 training ("train") or 10,000 test ("test") digits, (1, 28, 28) uint8.

    The files are looked for in `mnist` and `mnist/raw` of the data folder, under their official
    names (`train-images-idx3-ubyte`, also with a dot before idx3), with or without `.gz`.
    """
    if split not in MNIST_SPLITS:
        raise unknown("split of mnist", split, MNIST_SPLITS)
    images_path, labels_path = _find(
        f"{MNIST_SPLITS[split]}-images-idx3-ubyte", f"{MNIST_SPLITS[split]}-labels-idx1-ubyte"
    )
    images = _read_idx(images_path, _IMAGES, (28, 28))
    labels = _read_idx(labels_path, _LABELS, ())
    if len(images) != len(labels):
        raise DataError(
            f"{images_path.name} holds {len(images)} images but {labels_path.name} "
            f"{len(labels)} labels: they don't belong together"
        )
    if labels.size and labels.max() > 9:
        raise DataError(f"{labels_path} holds the label {labels.max()}: digits are 0 to 9")
    return from_arrays(images, labels.astype(np.int64), classes=DIGITS, name="mnist")


def _find(*names: str) -> list[Path]:
    base = data_folder() / "mnist"
    found, missed = [], []
    for name in names:
        dotted = name.replace("-idx", ".idx")
        candidates = (
            folder / f"{one}{suffix}"
            for folder in (base, base / "raw")
            for one in (name, dotted)
            for suffix in ("", ".gz")
        )
        path = next((path for path in candidates if path.is_file()), None)
        if path is None:
            missed.append(name)
        else:
            found.append(path)
    if missed:
        what = f"{' and no '.join(missed)} (or .gz)"
        raise missing("mnist", what, [base, base / "raw"])
    return found


def _read_idx(path: Path, magic: int, shape: tuple[int, ...]) -> np.ndarray:
    """The unsigned bytes of an idx file: (count, *shape)."""
    dimensions = 1 + len(shape)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(4 * (1 + dimensions))
            if len(header) < 4 * (1 + dimensions):
                raise DataError(f"{path} is cut short: its header is not whole")
            found, count, *sides = struct.unpack(f">{1 + dimensions}I", header)
            if found != magic:
                raise DataError(
                    f"{path} is not the idx file it should be: magic {found}, not {magic}"
                )
            if tuple(sides) != shape:
                raise DataError(f"{path} holds images of {'×'.join(map(str, sides))}, not 28×28")
            wanted = count * int(np.prod(shape, dtype=np.int64))
            # In pieces: a header may lie about the count, and a read makes room for all of it.
            data = bytearray()
            while piece := file.read(min(_PIECE, wanted + 1 - len(data))):
                data += piece
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path} is damaged or cut short: {reason}") from None
    if len(data) != wanted:
        what = "is cut short" if len(data) < wanted else "is too long"
        raise DataError(f"{path} {what}: its header says {count} items")
    return np.frombuffer(data, dtype=np.uint8).reshape(count, *shape)
