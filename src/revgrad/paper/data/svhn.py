"""SVHN (Netzer et al. 2011): house-number digits, from the official cropped files or `.npz`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from revgrad._system import data_folder
from revgrad.domains.arrays import from_arrays
from revgrad.domains.digits import DIGITS
from revgrad.domains.domain import Domain
from revgrad.domains.npz import labelled_npz
from revgrad.errors import DataError, unknown
from revgrad.paper.data.catalogue import missing

SVHN_SPLITS = ("train", "test", "extra")


def svhn(split: str = "train") -> Domain:
    """SVHN's 73,257 training, 26,032 test or 531,131 extra digits, (3, 32, 32) uint8.

    Read from `svhn/<split>_32x32.mat`, the official file, or `svhn/<split>.npz` of the data folder.
    Where there is neither, `svhn28/<split>.npz` does: the same digits at 28×28. The domain's name,
    "svhn" or "svhn28", says which it was.
    """
    if split not in SVHN_SPLITS:
        raise unknown("split of svhn", split, SVHN_SPLITS)
    base = data_folder()
    official, packed = base / "svhn" / f"{split}_32x32.mat", base / "svhn" / f"{split}.npz"
    small = base / "svhn28" / f"{split}.npz"
    if official.is_file():
        images, labels = _read_mat(official)
        return from_arrays(images, labels, layout="NHWC", classes=DIGITS, name="svhn")
    if packed.is_file():
        return labelled_npz(packed, (3, 32, 32), DIGITS, "svhn")
    if small.is_file():
        return labelled_npz(small, (3, 28, 28), DIGITS, "svhn28")
    name = "svhn-extra" if split == "extra" else "svhn"
    raise missing(name, f"{official.name} (or {packed.name})", [official.parent, small.parent])


def _read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 32, 32, 3) uint8 and labels (N,) of an official file, whose label 10 is digit 0.

    Reading a MATLAB file never runs code, but a damaged one can make its reader raise anything.
    """
    from scipy.io import loadmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content: dict[str, Any] = loadmat(path, variable_names=("X", "y"))
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{path} is damaged, cut short, or no MATLAB 5 file: {lines[0]}") from None
    for key in ("X", "y"):
        if not isinstance(content.get(key), np.ndarray):
            raise DataError(f"{path} has no array {key}: not an official file of SVHN")
    images, labels = content["X"], content["y"]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(
            f"{path}: X must be uint8 (32, 32, 3, N), not {images.dtype} {images.shape}"
        )
    count = images.shape[3]
    if labels.dtype.kind not in "uif" or labels.shape not in ((count, 1), (count,)):
        raise DataError(
            f"{path}: X holds {count} images, but y is {labels.dtype} {labels.shape}, "
            f"not ({count}, 1) labels"
        )
    labels = labels.reshape(-1)
    strange = labels[~np.isin(labels, np.arange(1, 11))]
    if strange.size:
        raise DataError(f"{path} holds the label {strange[0]}: labels are 1 to 10, 10 for digit 0")
    return images.transpose(3, 0, 1, 2), labels.astype(np.int64) % 10
