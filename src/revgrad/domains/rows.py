"""Rows of a store, and the labels there, that need no array of their own.

An index of 10⁹ samples takes 8 GB in every process. Where a domain is that large (more than
`MOST_INDEXED` samples), its rows are all rows, a stretch of a computed permutation, or one such
choice of another; labels are read where they lie, in a memory map.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

import numpy as np

#: Labels that are looked at together when all are looked through.
_AT_ONCE = 1 << 20


class Rows(Protocol):
    """Which row of the store each sample of a domain is; an array of them is one too."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray: ...


class AllRows:
    """Sample i is row i."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray:
        return places

    def __repr__(self) -> str:
        return f"all {self.count}"


class Stretch:
    """Sample i is row start + i of other rows, as of a permutation."""

    def __init__(self, rows: Rows, start: int, stop: int) -> None:
        self.rows, self.start, self.stop = rows, start, stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray:
        return self.rows[places + self.start]

    def __repr__(self) -> str:
        return f"{self.start} to {self.stop} of {self.rows!r}"


class RowsOf:
    """Sample i is row outer[inner[i]]."""

    def __init__(self, outer: Rows, inner: Rows) -> None:
        self.outer, self.inner = outer, inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray:
        return self.outer[self.inner[places]]

    def __repr__(self) -> str:
        return f"{self.inner!r} of {self.outer!r}"


def all_places(rows: Rows) -> np.ndarray:
    """(n,) int64: the rows as an array."""
    return rows if isinstance(rows, np.ndarray) else rows[np.arange(len(rows))]


class LabelColumn:
    """Labels of some rows, one a sample, read when they are asked for: `column[places]`.

    `values` are of all rows of the store: an array, or a memory map, whose file is read where the
    labels lie: through the map, a label here and there would bring in the whole file by and by.
    """

    def __init__(self, values: np.ndarray, rows: Rows) -> None:
        self.values: np.ndarray | FileColumn = FileColumn.of(values) or values
        self.rows = rows
        self.shape = (len(rows), *values.shape[1:])
        self.ndim = values.ndim
        self.dtype = np.dtype(np.int64) if values.dtype.kind in "biu" else values.dtype
        self._ends: tuple[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray:
        found: np.ndarray = self.values[self.rows[places]].astype(self.dtype, copy=False)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self[np.arange(len(self))]
        return found if dtype is None else found.astype(dtype)

    def of(self, rows: Rows) -> LabelColumn:
        """The labels of other rows of the same store."""
        other = object.__new__(LabelColumn)
        changed = {"rows": rows, "shape": (len(rows), *self.shape[1:])}
        other.__dict__.update(self.__dict__ | changed)  # checked, and its ends are known
        return other

    def ends(self) -> tuple[Any, Any]:
        """The smallest and the largest label of the store's rows, in one pass over them."""
        if self._ends is None:
            starts = range(0, len(self.values), _AT_ONCE)
            blocks = (self.values[start : start + _AT_ONCE] for start in starts)
            found = [(block.min(), block.max()) for block in blocks]
            self._ends = min(one for one, _ in found), max(one for _, one in found)
        return self._ends


class FileColumn:
    """The rows of a memory map that were asked for, read from its file."""

    def __init__(self, path: str, offset: int, count: int, shape: Any, dtype: np.dtype) -> None:
        self.path, self.offset, self.count = path, offset, count
        self.row, self.dtype = shape, dtype
        self._size = dtype.itemsize * int(np.prod(shape))
        self._file: int | None = None

    @staticmethod
    def of(values: np.ndarray) -> FileColumn | None:
        """None where it is not a whole map of a file, or where changes may not be in the file."""
        root: Any = values
        while root is not None and not isinstance(root, np.memmap):
            root = getattr(root, "base", None)
        while root is not None and isinstance(root.base, np.memmap):
            root = root.base
        if root is None or root.mode == "c" or root.filename is None or not hasattr(os, "pread"):
            return None
        if not values.flags.c_contiguous:
            return None
        start = root.offset + values.ctypes.data - root.ctypes.data
        return FileColumn(str(root.filename), start, len(values), values.shape[1:], values.dtype)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: np.ndarray | slice, /) -> np.ndarray:
        size, file = self._size, self._opened()
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.count)
            data = bytearray(os.pread(file, size * (stop - start), self.offset + size * start))
        else:
            places = (rows * size + self.offset).tolist()
            data = bytearray().join([os.pread(file, size, place) for place in places])
        return np.frombuffer(data, self.dtype).reshape(-1, *self.row)

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
        return self._file

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_file": None}
