"""Sparse matrices (scipy): kept sparse, dense a batch at a time."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from revgrad.batch import Inputs
from revgrad.errors import InputError


def is_sparse(values: Any) -> bool:
    """Whether `values` is a sparse matrix or array of scipy; scipy is not imported to see it."""
    return type(values).__module__.startswith("scipy.sparse") and hasattr(values, "tocsr")


class SparseStore:
    """Samples of a sparse matrix (n, features). What is zero stays zero: inputs are not centred."""

    #: Taken as they are: subtracting a mean would make of every zero a number.
    prepared = True
    is_resident = True

    def __init__(self, matrix: Any, name: str) -> None:
        if len(matrix.shape) != 2:
            raise InputError(f"{name}: a sparse input must be (n, features), not {matrix.shape}")
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"{name}: a sparse input must hold numbers, not {matrix.dtype}")
        rows = matrix.tocsr()
        if rows.dtype.kind != "f" or rows.dtype == np.float16:
            rows = rows.astype(np.float32)
        finite = np.isfinite(rows.data)
        if not finite.all():
            place = int(np.searchsorted(rows.indptr, int(finite.argmin()), side="right")) - 1
            raise InputError(
                f"{name}: inputs hold numbers that are not finite, first in row {place}"
            )
        self.matrix = rows

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, indices: np.ndarray) -> Inputs:
        return torch.from_numpy(self.matrix[indices].toarray())

    def fingerprint(self) -> str:
        rows = self.matrix.copy()
        rows.sum_duplicates()  # one order of the same numbers
        digest = hashlib.blake2b(f"sparse {rows.shape} {rows.dtype.str}".encode(), digest_size=16)
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            digest.update(np.ascontiguousarray(part).data if part.size else b"")
        return digest.hexdigest()
