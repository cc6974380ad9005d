"""Domains from any map-style torch dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from revgrad.batch import Inputs, concatenate, tensors_of
from revgrad.domains.arrays import ArrayStore, image_layout
from revgrad.domains.domain import UNNAMED, Domain, Store
from revgrad.domains.image_files import Unreadable, pixels
from revgrad.domains.labels import as_labels
from revgrad.errors import InputError

_PASS = 256  # items read at a time in the pass over a dataset
_PROBES = 32  # items that stand for the contents in the fingerprint


def from_dataset(
    dataset: Any,
    *,
    classes: Sequence[str] | None = None,
    labels: bool = True,
    cache: bool = False,
    collate: Callable[[list[Any]], Any] | None = None,
    groups: Any = None,
    attributes: Mapping[str, Any] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of a map-style dataset, whose items are `x` or `(x, y)`.

    `x` is a tensor (images: C, H, W), an array (uint8 images: H, W, or with 1 or 3 channels at
    either end), a Pillow image, a list of numbers, or a tuple or dict of tensors and arrays.

    Parameters
    ----------
    dataset
        anything with a length and items by number
    labels
        True: an item of two parts is (x, y). The labels are read here, in one pass over the
        dataset: only an item shows what transforms make of its target.
        False: no pass and no labels; of an item whose second of two parts is a single number
        the first is taken, any other tuple is an input of several parts.
    cache
        True: keep the inputs of that pass in memory, so that later epochs run no Python code
        per sample. Random transforms are then frozen: use `Domain.augmented` for those.
    groups, attributes
        one a sample, as `from_arrays` takes them
    classes
        the classes' names; None: `dataset.classes` where that is a list of names
    collate
        the dataset's own function from a list of items to inputs, or to (inputs, labels); inputs
        are a tensor, or a tuple or dict of tensors, of one shape whatever the batch (padding goes
        to a fixed length: `revgrad.domains.pad_series(…, length=…)`)
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> items = [(torch.zeros(3, 8, 8), number % 2) for number in range(10)]
    >>> revgrad.from_dataset(items).shape
    (3, 8, 8)
    """
    _check_map_style(dataset, name)
    if classes is None:
        names = getattr(dataset, "classes", None)
        if isinstance(names, list | tuple) and all(isinstance(one, str) for one in names):
            classes = names
    if collate is None and type(dataset) is TensorDataset and len(dataset.tensors) <= 2:
        inputs, *rest = dataset.tensors
        if labels or not rest or rest[0].ndim == 1:
            held = ArrayStore(inputs, layout="NCHW", name=name)
            own = rest[0] if rest and labels else None
            return _labelled(held, own, classes, groups, attributes, name)
    store = DatasetStore(dataset, labels=labels, name=name, collate=collate)
    if collate is not None and len(store) > 1:  # padded to a batch's longest, shapes would vary
        alone, many = store.take(np.arange(1)), store.take(np.arange(min(len(store), _PASS)))
        _check_alike([alone, many], f"{name}, by its collate function")
    if not len(store) or not (labels or cache):
        return _labelled(store, None, classes, groups, attributes, name)

    parts: list[Inputs] = []
    values: list[np.ndarray] = []
    for start in range(0, len(store), _PASS):
        where = np.arange(start, min(start + _PASS, len(store)))
        part, found = store.read_batch(where, inputs=cache)
        if labels and found is not None:
            values.append(found)
        if cache and part is not None:
            parts.append(part)
    targets = None
    if values:
        shapes = {value.shape[1:] for value in values}
        if len(shapes) > 1 or sum(map(len, values)) != len(store):
            raise InputError(f"{name}: some items have a label of another shape, or none")
        targets = np.concatenate(values)
    kept: DatasetStore | ArrayStore = store
    if cache:
        _check_alike(parts, name)
        kept = ArrayStore(concatenate(parts), layout="NCHW", name=name)
    return _labelled(kept, targets, classes, groups, attributes, name)


def _labelled(
    store: Store,
    labels: Any,
    classes: Sequence[str] | None,
    groups: Any,
    attributes: Mapping[str, Any] | None,
    name: str,
) -> Domain:
    values, names = as_labels(labels, name, classes) if labels is not None else (None, classes)
    return Domain(store, values, classes=names, groups=groups, attributes=attributes, name=name)


class DatasetStore:
    """Items of a map-style dataset, read one by one (or by `__getitems__`, where it has that)."""

    #: Its items may draw from global generators: training seeds them before it reads.
    runs_user_code = True

    def __init__(
        self,
        dataset: Any,
        *,
        labels: bool = True,
        name: str = UNNAMED,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.dataset = dataset
        self._collate = collate
        self._labels = labels
        self._name = name
        self._length = len(dataset)
        self._many = callable(getattr(dataset, "__getitems__", None))
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return self._length

    def take(self, indices: np.ndarray) -> Inputs:
        inputs, _ = self.read_batch(indices, inputs=True)
        assert inputs is not None
        return inputs

    def read_batch(
        self, indices: np.ndarray, *, inputs: bool
    ) -> tuple[Inputs | None, np.ndarray | None]:
        """The inputs, where they are asked for, and the labels, where the items have them."""
        if self._collate is not None:
            return _collated(self._collate(self._items(indices)), len(indices), self._name)
        xs, ys = self.read(indices)
        labels = _stack_labels(ys, indices, self._name) if self._labels and ys is not None else None
        return (_collate(xs, indices, self._name) if inputs else None), labels

    def read(self, indices: np.ndarray) -> tuple[list[Any], list[Any] | None]:
        """The items' inputs, and their labels where items are (x, y)."""
        items = self._items(indices)
        paired = [self._is_pair(item) for item in items]
        if any(paired) != all(paired):
            raise InputError(f"{self._name}: some items are (x, y) and some are x alone")
        if not paired[0]:
            return items, None
        return [item[0] for item in items], [item[1] for item in items]

    def _items(self, indices: np.ndarray) -> list[Any]:
        numbers: list[int] = indices.tolist()
        if self._many:
            items = list(self.dataset.__getitems__(numbers))
        else:
            items = [self.dataset[i] for i in numbers]
        if not items:
            raise InputError(f"{self._name}: can't read a batch of no items from a dataset")
        return items

    def _is_pair(self, item: Any) -> bool:
        if not isinstance(item, tuple | list) or len(item) != 2 or _is_vector(item):
            return False
        return self._labels or _is_number(item[1])

    def fingerprint(self) -> str:
        """Of the kind, the length and some items; of items that come out differently each time
        (random transforms) only their shapes."""
        if self._fingerprint is None:
            digest = hashlib.blake2b(digest_size=16)
            kind = type(self.dataset)
            digest.update(f"{kind.__module__}.{kind.__qualname__} {len(self)}".encode())
            if len(self):
                count = min(_PROBES, len(self))
                where = np.linspace(0, len(self) - 1, count).astype(np.int64)
                once, again = tensors_of(self.take(where)), tensors_of(self.take(where))
                for first, second in zip(once, again, strict=True):
                    digest.update(f"{tuple(first.shape)} {first.dtype}".encode())
                    if torch.equal(first, second):
                        digest.update(first.contiguous().numpy().tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def _check_map_style(dataset: Any, name: str) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise InputError(
            f"{name} can only be iterated over: a map-style dataset, with __len__ and "
            "__getitem__, is wanted (read it into arrays for from_arrays)"
        )
    try:
        len(dataset)
    except (TypeError, NotImplementedError):
        raise InputError(f"{name} has no length: a map-style dataset is wanted") from None


def _collated(batch: Any, count: int, name: str) -> tuple[Inputs, np.ndarray | None]:
    """Inputs and labels of what a collate function of the user's own gave."""
    inputs, labels = batch, None
    if isinstance(batch, tuple | list) and len(batch) == 2 and not isinstance(batch[0], str):
        second = batch[1]
        if not isinstance(second, Tensor) or second.ndim <= 1 or not isinstance(batch[0], Tensor):
            inputs, labels = batch
    if isinstance(inputs, list):
        inputs = tuple(inputs)
    if hasattr(inputs, "items") and not isinstance(inputs, dict):
        inputs = dict(inputs.items())  # transformers' BatchEncoding
    parts = [inputs] if isinstance(inputs, Tensor) else None
    if isinstance(inputs, dict):
        parts = list(inputs.values())
    elif isinstance(inputs, tuple):
        parts = list(inputs)
    if not parts or not all(isinstance(one, Tensor) and len(one) == count for one in parts):
        raise InputError(
            f"{name}: the collate function must give a tensor, or a tuple or dict of tensors, of "
            f"{count} samples for {count} items, or (inputs, labels); it gave "
            f"{type(inputs).__name__}"
        )
    if labels is None:
        return inputs, None
    values = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if len(values) != count:
        raise InputError(
            f"{name}: the collate function gave {len(values)} labels for {count} items"
        )
    return inputs, values


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor | np.ndarray):
        return value.ndim == 0
    return isinstance(value, int | float | np.number)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_number, value))


def _collate(items: Sequence[Any], indices: np.ndarray, name: str) -> Inputs:
    """One nested tensor from the items' inputs, of which `indices` are the numbers."""
    first = items[0]
    if isinstance(first, dict):
        keys = list(first)
        if any(not isinstance(item, dict) or list(item) != keys for item in items):
            raise InputError(f"{name}: items are dicts of different keys")
        return {
            str(key): _stack([item[key] for item in items], indices, f"{name}, {key!r}", part=True)
            for key in keys
        }
    if isinstance(first, tuple | list) and not _is_vector(first):
        if any(not isinstance(item, tuple | list) or len(item) != len(first) for item in items):
            raise InputError(f"{name}: items are tuples of different lengths")
        return tuple(
            _stack([item[i] for item in items], indices, f"{name}, part {i}", part=True)
            for i in range(len(first))
        )
    return _stack(items, indices, name)


def _stack(values: Sequence[Any], indices: np.ndarray, name: str, part: bool = False) -> Tensor:
    if part and _is_number(values[0]):
        raise InputError(
            f"{name} of item {indices[0]} is a single number: items must be x or (x, y), x being a "
            "tensor or a tuple or dict of tensors"
        )
    layout = "NCHW"  # tensors and what we made of Pillow images
    rows = []
    for value, index in zip(values, indices, strict=True):
        if isinstance(value, Tensor):
            rows.append(value.detach().cpu())
        elif hasattr(value, "getbands") and hasattr(value, "convert"):
            rows.append(_from_pillow(value, f"{name}, item {index}"))
        elif isinstance(value, np.ndarray | np.number | int | float) or _is_vector(value):
            array = np.asarray(value)
            if array.dtype == np.float64 and not isinstance(value, np.ndarray | np.number):
                array = array.astype(np.float32)  # Python numbers, as torch itself takes them
            if array.dtype.kind not in "biuf":
                raise InputError(f"{name}: item {index} is of dtype {array.dtype}, not numbers")
            if isinstance(value, np.ndarray):
                layout = "auto"
            rows.append(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))
        else:
            raise InputError(
                f"{name}: item {index} is of type {type(value).__name__}: a tensor, an array, a "
                "Pillow image or numbers are wanted"
            )
    for row, index in zip(rows, indices, strict=True):
        if row.shape != rows[0].shape or row.dtype != rows[0].dtype:
            raise InputError(
                f"{name}: items differ: item {indices[0]} is {tuple(rows[0].shape)} "
                f"{rows[0].dtype}, item {index} is {tuple(row.shape)} {row.dtype}"
            )
    stacked = torch.stack(rows)
    if stacked.dtype != torch.uint8 or stacked.ndim not in (3, 4):
        return stacked
    if stacked.ndim == 3:
        return stacked[:, None]
    if image_layout(tuple(stacked.shape), layout, name) == "NHWC":
        return stacked.permute(0, 3, 1, 2)
    return stacked.contiguous(memory_format=torch.channels_last)


def _from_pillow(image: Any, name: str) -> Tensor:
    grey = image.mode in ("1", "L") or image.mode.startswith("I")
    try:
        values = pixels(image, 1 if grey else 3)
    except Unreadable as error:
        raise InputError(f"{name} can't be used: {error}") from None
    return torch.from_numpy(np.array(values)).permute(2, 0, 1)


def _stack_labels(values: Sequence[Any], indices: np.ndarray, name: str) -> np.ndarray:
    arrays = [_label(value, index, name) for value, index in zip(values, indices, strict=True)]
    if len({array.shape for array in arrays}) > 1:
        raise InputError(f"{name}: labels differ in shape")
    return np.stack(arrays)


def _label(value: Any, index: int, name: str) -> np.ndarray:
    """One item's label as an array of numbers, or a class's name."""
    array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "biuf" and not isinstance(value, str):
        raise InputError(
            f"{name}: the label of item {index} is {value!r}: a class number, a class's name or "
            "floats are wanted (labels=False reads no labels)"
        )
    return array


def _check_alike(parts: Sequence[Inputs], name: str) -> None:
    def kinds(part: Inputs) -> str:
        return ", ".join(f"{tuple(one.shape[1:])} {one.dtype}" for one in tensors_of(part))

    for part in parts:
        if type(part) is not type(parts[0]) or kinds(part) != kinds(parts[0]):
            raise InputError(
                f"{name}: items differ: some are {kinds(parts[0])}, some {kinds(part)}"
            )
