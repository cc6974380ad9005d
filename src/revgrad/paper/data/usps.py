"""USPS: 16×16 digits of American envelopes, from `.h5`, `.npz` or LIBSVM's text files."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import numpy as np

from revgrad._system import data_folder
from revgrad.domains.arrays import from_arrays
from revgrad.domains.digits import DIGITS
from revgrad.domains.domain import Domain
from revgrad.domains.npz import labelled_npz
from revgrad.errors import DataError, missing_extra, unknown
from revgrad.paper.data.catalogue import missing

#: The splits, and LIBSVM's names for their files.
USPS_SPLITS = {"train": "usps.bz2", "test": "usps.t.bz2"}

_MOST = 1_000_000  # images; a file that claims more is not USPS


def usps(split: str = "train") -> Domain:
    """USPS's 7,291 training or 2,007 test digits, (1, 16, 16) uint8, white on black as MNIST's.

    Read from `usps/usps.h5` (groups `train` and `test` with `data` (N, 256) from 0 to 1 and
    `target`), `usps/<split>.npz` (images (N, 16, 16) uint8, labels), or LIBSVM's `usps.bz2` and
    `usps.t.bz2`, of the data folder: the first that is there.
    """
    if split not in USPS_SPLITS:
        raise unknown("split of usps", split, USPS_SPLITS)
    base = data_folder() / "usps"
    packed, libsvm = base / f"{split}.npz", base / USPS_SPLITS[split]
    if (base / "usps.h5").is_file():
        pixels, labels = _read_h5(base / "usps.h5", split)
    elif packed.is_file():
        return labelled_npz(packed, (1, 16, 16), DIGITS, "usps")
    elif libsvm.is_file():
        pixels, labels = _read_libsvm(libsvm)
    else:
        raise missing("usps", f"usps.h5, {packed.name} or {libsvm.name}", [base])
    images = np.round(pixels * 255).astype(np.uint8).reshape(-1, 16, 16)
    return from_arrays(images, labels, classes=DIGITS, name="usps")


def _read_h5(path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        import h5py
    except ImportError:
        raise missing_extra("h5py", "data", f"reading {path}") from None
    try:
        with h5py.File(path, "r") as file:
            group = file.get(split)
            sets: list[Any] = [
                group.get(key) if isinstance(group, h5py.Group) else None
                for key in ("data", "target")
            ]
            for key, one in zip(("data", "target"), sets, strict=True):
                if not isinstance(one, h5py.Dataset):
                    raise DataError(f"{path} has no {split}/{key}: not USPS as it is passed on")
                if one.dtype.kind not in "fiu" or not one.shape or one.shape[0] > _MOST:
                    raise DataError(f"{path}: {split}/{key} is {one.dtype} {one.shape}")
            data, target = sets
            if data.ndim != 2 or data.shape[1] != 256 or target.shape != data.shape[:1]:
                raise DataError(
                    f"{path}: {split}/data {data.shape} and {split}/target {target.shape} should "
                    "be (N, 256) and (N,)"
                )
            pixels, labels = data[:].astype(np.float64), target[:]
    except DataError:
        raise
    except Exception as error:  # HDF5 raises nearly anything on damaged files
        raise _damaged(path, error) from None
    return _checked(path, pixels, labels)


def _read_libsvm(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Lines `label index:value …`: labels 1 to 10 for digits 0 to 9, values −1 to 1, zeros left
    out, indices from 1."""
    labels: list[float] = []
    rows: list[np.ndarray] = []
    try:
        with bz2.open(path, "rt", encoding="ascii") as file:
            for line in file:
                if len(rows) == _MOST:
                    raise ValueError(f"more than {_MOST:,} lines")
                label, *pairs = line.split()
                row = np.zeros(256)
                for pair in pairs:
                    index, value = pair.split(":")
                    at = int(index) - 1
                    if not 0 <= at < 256:
                        raise ValueError(f"pixel {index} of 256")
                    row[at] = float(value)
                labels.append(float(label) - 1)
                rows.append(row)
    except (OSError, EOFError, ValueError) as error:
        raise _damaged(path, error) from None
    if not rows:
        raise _damaged(path, ValueError("no lines"))
    return _checked(path, (np.stack(rows) + 1) / 2, np.array(labels))


def _checked(path: Path, pixels: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(pixels):
        raise DataError(f"{path} holds no images")
    # A little more than the range: it was computed in single precision.
    if not (np.isfinite(pixels).all() and pixels.min() > -1e-4 and pixels.max() < 1 + 1e-4):
        raise DataError(
            f"{path} holds pixels from {pixels.min():g} to {pixels.max():g}, out of range"
        )
    strange = labels[~np.isin(labels, np.arange(10))]
    if strange.size:
        raise DataError(f"{path} holds the label of no digit ({strange[0]:g})")
    return pixels.clip(0, 1), labels.astype(np.int64)


def _damaged(path: Path, error: Exception) -> DataError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return DataError(f"{path} is damaged or cut short: {lines[0]}")
