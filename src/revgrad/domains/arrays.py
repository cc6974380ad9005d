"""Domains from arrays: NumPy arrays, memory maps, torch tensors, sparse matrices, or a tuple or
dict of arrays and tensors."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from revgrad.batch import Inputs
from revgrad.domains.domain import UNNAMED, Domain, Store
from revgrad.domains.labels import as_labels
from revgrad.domains.sparse import SparseStore, is_sparse
from revgrad.domains.weights import ClassWeights
from revgrad.errors import InputError

LAYOUTS = ("auto", "NHWC", "NCHW")

#: Arrays up to this size are searched for numbers that are not finite; memory maps never are.
CHECKED_BYTES = 1 << 30

#: Arrays up to this size are hashed whole; of larger ones, `HASHED_ROWS` evenly spaced rows.
HASHED_BYTES = 1 << 28
HASHED_ROWS = 4096


def from_arrays(
    inputs: Any,
    labels: Any = None,
    *,
    layout: str = "auto",
    classes: Sequence[str] | None = None,
    groups: Any = None,
    weights: Any = None,
    class_weights: ClassWeights | None = None,
    attributes: Mapping[str, Any] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of the samples of an array or tensor, or of a tuple or dict of them.

    Parameters
    ----------
    inputs
        uint8 of 3 dimensions (N, H, W) or 4 (with 1 or 3 channels, or, where the layout is
        said, any number of bands): images. They are kept as NHWC (an NHWC array is shared, not
        copied) and come out as uint8 (n, C, H, W). uint16 of 3, 4 or 5 dimensions: images and
        volumes of 16 bits; they come out as float32 from 0 to 1 (65535), nothing is clipped.
        uint8 of 5 dimensions: volumes (N, C, D, H, W).
        Anything else numeric, also uint8 of other dimensions: kept as it is, so that float
        images are taken as (N, C, H, W), the way a torch network wants them.
        Memory maps stay memory maps, sparse matrices of scipy sparse (batches are dense).
    labels
        class numbers from 0, text or truth values (names of classes), or floats (regression),
        one a sample; None: no labels
    layout
        of 4-dimensional uint8 images: "NHWC", "NCHW", or "auto" by the axis of 1 or 3 channels
    classes
        names of the classes in the order of their numbers; None: of labels that are text, the names
        in sorted order
    groups
        one a sample, numbers or text (a person, a patient, a recording): samples of one group
        are never divided between training and what is held out
    weights, class_weights
        how much each sample's label counts in the label loss, and each class's (see
        `Domain.weighted`)
    attributes
        by name, one value a sample: {"site": …, "age": …} (see `Domain.with_attributes`)
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> images = np.zeros((6, 28, 28, 3), dtype=np.uint8)
    >>> domain = revgrad.from_arrays(images, ["cat", "dog"] * 3)
    >>> domain.shape, domain.classes
    ((3, 28, 28), ('cat', 'dog'))
    """
    if layout not in LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    store: Store
    if is_sparse(inputs):
        store = SparseStore(inputs, name)
    else:
        store = ArrayStore(inputs, layout=layout, name=name)
    values, names = as_labels(labels, name, classes) if labels is not None else (None, classes)
    domain = Domain(store, values, classes=names, groups=groups, attributes=attributes, name=name)
    if weights is None and class_weights is None:
        return domain
    return domain.weighted(weights, by_class=class_weights)


class ArrayStore:
    """Samples of arrays that share their first dimension.

    `key`, where given, is the fingerprint: caches know their contents' hash already.
    `order`, where given, is the rows' order: row i is the arrays' order[i].
    """

    any_thread = True

    def __init__(
        self,
        inputs: Any,
        *,
        layout: str = "auto",
        name: str = UNNAMED,
        key: str | None = None,
        order: np.ndarray | None = None,
    ) -> None:
        self._key = key
        self._order = order
        self._leaves: _Leaf | tuple[_Leaf, ...] | dict[str, _Leaf]
        if isinstance(inputs, dict):
            self._leaves = {
                str(k): _Leaf(v, layout, f"{name}, input {k!r}") for k, v in inputs.items()
            }
        elif isinstance(inputs, tuple):
            self._leaves = tuple(
                _Leaf(v, layout, f"{name}, input {i}") for i, v in enumerate(inputs)
            )
        else:
            self._leaves = _Leaf(inputs, layout, name)
        leaves = self._all()
        if not leaves:
            raise InputError(f"{name}: an empty {type(inputs).__name__} holds no inputs")
        lengths = sorted({len(leaf.array) for leaf in leaves})
        if len(lengths) > 1:
            raise InputError(f"{name}: inputs of different lengths: {lengths}")
        self._length = lengths[0]
        self.is_resident = not any(leaf.is_mapped for leaf in leaves)

    def _all(self) -> list[_Leaf]:
        if isinstance(self._leaves, dict):
            return list(self._leaves.values())
        return list(self._leaves) if isinstance(self._leaves, tuple) else [self._leaves]

    def __len__(self) -> int:
        return self._length

    def take(self, indices: np.ndarray) -> Inputs:
        indices = indices if self._order is None else self._order[indices]
        if isinstance(self._leaves, _Leaf):
            return self._leaves.take(indices)
        if isinstance(self._leaves, dict):
            return {key: leaf.take(indices) for key, leaf in self._leaves.items()}
        return tuple(leaf.take(indices) for leaf in self._leaves)

    def fingerprint(self) -> str:
        if self._key is not None:
            return self._key
        digest = hashlib.blake2b(digest_size=16)
        if isinstance(self._leaves, dict):
            digest.update(repr(list(self._leaves)).encode())
        for leaf in self._all():
            leaf.hash_into(digest)
        return digest.hexdigest()


class _Leaf:
    """One array. `form`: "plain", or how its uint8 images lie, "NHWC" or "NCHW"."""

    def __init__(self, values: Any, layout: str, name: str) -> None:
        array = as_array(values, name)
        # The plain view of a memory map: the same pages without the subclass's cost per call.
        self.is_mapped = mapped = _is_mapped(array)
        array = array.view(np.ndarray)
        self.form = "plain"
        self._sixteen_bits = array.dtype.kind == "u" and array.dtype.itemsize == 2
        if array.dtype.kind == "u" and array.ndim in (3, 4):
            self.form = "NHWC"
            if len(array) and not array.size:
                raise InputError(f"{name}: images of shape {array.shape} have no pixels")
            if array.ndim == 3:
                array = array[..., None]
            elif image_layout(array.shape, layout, name) == "NCHW":
                if mapped:
                    self.form = "NCHW"
                else:
                    array = array.transpose(0, 2, 3, 1)
        if not mapped:
            array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
            if array.dtype.kind == "f" and array.nbytes <= CHECKED_BYTES:
                _check_finite(array, name)
        self.array = array
        # `take` is the fastest gather, but copies a whole array that is strided or byte-swapped.
        self._direct = array.flags.c_contiguous and array.dtype.isnative

    def take(self, indices: np.ndarray) -> Tensor:
        if self._direct:
            rows = self.array.take(indices, axis=0)
        else:
            rows = np.ascontiguousarray(
                self.array[indices], dtype=self.array.dtype.newbyteorder("=")
            )
        if self._sixteen_bits:
            rows = rows.astype(np.float32) / 65535
        if self.form == "plain":
            return torch.from_numpy(rows)
        if self.form == "NCHW":
            rows = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        return torch.from_numpy(rows).permute(0, 3, 1, 2)

    def hash_into(self, digest: hashlib.blake2b) -> None:
        array = self.array
        digest.update(f"{self.form} {array.shape} {array.dtype.str}".encode())
        if array.nbytes > HASHED_BYTES:
            array = array[np.linspace(0, len(array) - 1, HASHED_ROWS).astype(np.int64)]
        digest.update(np.ascontiguousarray(array).data if array.size else b"")


def as_array(values: Any, name: str) -> np.ndarray:
    """`values` (array or tensor) as a NumPy array of a kind torch can hold, or an InputError."""
    if isinstance(values, Tensor):
        _check_plain(values, name)
        tensor = values.detach().cpu()
        array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    elif isinstance(values, np.ndarray):
        array = values
    else:
        raise InputError(
            f"{name}: inputs must be a NumPy array or a torch tensor (or a tuple or dict of them), "
            f"not {type(values).__name__}"
        )
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"{name}: inputs must be numbers torch can hold, not dtype {array.dtype}")
    sixteen = array.dtype.itemsize == 2 and array.ndim in (3, 4, 5)  # images and volumes
    if array.dtype.kind == "u" and array.dtype != np.uint8 and not sixteen:
        raise InputError(
            f"{name}: torch can't compute with {array.dtype}: convert to uint8 (images), "
            "a signed integer or float32"
        )
    if array.ndim == 0:
        raise InputError(f"{name}: inputs must have one row a sample, not a single number")
    return array


def _check_plain(values: Tensor, name: str) -> None:
    """A tensor whose numbers can be read, one array of them."""
    if values.is_meta:
        raise InputError(f"{name}: the tensor is on the meta device and holds no numbers")
    if values.is_nested:
        raise InputError(
            f"{name}: a nested tensor is not read: from_series takes a list of series of unequal "
            "lengths, to_padded_tensor(0.0) makes one array"
        )
    if values.layout != torch.strided:
        raise InputError(
            f"{name}: a sparse tensor is not read: X.to_dense() would do, or a sparse matrix of "
            "scipy, whose batches alone are dense"
        )


def image_layout(shape: tuple[int, ...], layout: str, name: str) -> str:
    """Which of "NHWC" and "NCHW" 4-dimensional uint8 images of `shape` are."""
    at = {"NHWC": shape[3], "NCHW": shape[1]}
    if layout == "auto":
        fitting = [key for key, channels in at.items() if channels in (1, 3)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InputError(
                f"{name}: images of shape {shape} could be read both ways: "
                'say layout="NHWC" or layout="NCHW"'
            )
        layout = "NHWC" if shape[3] <= shape[1] else "NCHW"
        if at[layout] == 4:
            raise InputError(
                f"{name}: images of shape {shape} have 4 channels (RGBA?): 1 (grey) or 3 (colour) "
                "would do, so drop or composite the alpha channel first; four bands, if they are "
                f'meant, are said by layout="{layout}"'
            )
        raise InputError(
            f"{name}: images of shape {shape} need 1 (grey) or 3 (colour) channels, not "
            f'{at[layout]}, read as {layout}; images of more bands need layout="{layout}" said '
            f"(--layout {layout})"
        )
    return layout


def likely_layout(shape: tuple[int, ...], channels: int | None) -> str:
    """The layout in which arrays of `shape` hold images of so many channels; "auto": as always."""
    if channels in (None, 1, 3) or len(shape) != 4:
        return "auto"
    fitting = [key for key, axis in (("NHWC", 3), ("NCHW", 1)) if shape[axis] == channels]
    return fitting[0] if len(fitting) == 1 else "auto"


def _is_mapped(array: np.ndarray) -> bool:
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap | mmap.mmap):
            return True
        base = getattr(base, "base", None)
    return False


def _check_finite(array: np.ndarray, name: str) -> None:
    rows = max(1, (1 << 24) // max(1, array.nbytes // max(1, len(array))))
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        finite = np.isfinite(block)
        if not finite.all():
            bad = ~finite.reshape(len(block), -1).all(axis=1)
            raise InputError(
                f"{name}: inputs hold numbers that are not finite, first in row "
                f"{start + int(bad.argmax())}"
            )
