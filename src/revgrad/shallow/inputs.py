"""Features and labels as the shallow methods take them, checked once and refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from revgrad.errors import InputError

Array = NDArray[Any]

SHAPES = {2: "(rows, features)", 3: "(images, positions, features)"}


def checked_features(features: ArrayLike, name: str, *, axes: int = 2) -> Array:
    """`features` as a finite floating-point array of `axes` axes; float32 stays float32."""
    found = np.asarray(features)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers, not {found.dtype}")
    if found.ndim != axes or 0 in found.shape:
        raise InputError(f"{name} must have the shape {SHAPES[axes]}, not {found.shape}")
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(np.float64)
    rows = np.flatnonzero(~np.isfinite(found).reshape(len(found), -1).all(axis=1))
    if len(rows):
        raise InputError(f"{name} hold NaN or infinity, first in row {rows[0]}")
    return found


def checked_labels(labels: ArrayLike | None, rows: int, name: str = "source labels") -> Array:
    """`labels` as int64 (rows,), of two classes at least."""
    if labels is None:
        raise InputError(f"{name} are missing: one integer for each of the {rows} rows would do")
    found = np.asarray(labels)
    if found.shape != (rows,):
        raise InputError(f"{name} must have the shape ({rows},), one a row, not {found.shape}")
    if found.dtype.kind not in "iub" and not (
        found.dtype.kind == "f" and np.isfinite(found).all() and (found == np.round(found)).all()
    ):
        raise InputError(f"{name} must be integers, every row labelled; {found.dtype} came")
    found = found.astype(np.int64)
    if len(np.unique(found)) < 2:
        raise InputError(f"{name} hold one class only ({found[0]}); two at least are needed")
    return found


def checked_pair(source: ArrayLike, target: ArrayLike, *, axes: int = 2) -> tuple[Array, Array]:
    """The features of both domains, of the same width."""
    source_found = checked_features(source, "source features", axes=axes)
    target_found = checked_features(target, "target features", axes=axes)
    if source_found.shape[-1] != target_found.shape[-1]:
        raise InputError(
            f"source and target must have the same features; {source_found.shape[-1]} and "
            f"{target_found.shape[-1]} came"
        )
    return source_found, target_found


def checked_components(components: int, limit: int, reason: str) -> int:
    """A number of components from 1 to `limit`; `reason` says what sets the limit."""
    if isinstance(components, bool) or not isinstance(components, int | np.integer):
        raise InputError(f"the number of components must be an integer, not {components!r}")
    if not 1 <= components <= limit:
        raise InputError(f"{components} components can't be had: 1 to {limit} can, {reason}")
    return int(components)
