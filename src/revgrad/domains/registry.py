"""Domains of what people have: a name, a path, arrays, a torch dataset.

`name` or `name:split` opens a named data set, beside paths of folders and `.npz` files.

A new data set is a function of a split that returns a `Domain`, and one line in `DOMAINS`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from revgrad._system import named
from revgrad.domains.arrays import from_arrays, likely_layout
from revgrad.domains.common_shape import resized
from revgrad.domains.domain import UNNAMED, Domain
from revgrad.domains.encoded import Encoder
from revgrad.domains.folder import from_folder
from revgrad.domains.frame import TABLE_FILES, from_frame, from_text_file
from revgrad.domains.image_files import EXTENSIONS
from revgrad.domains.labels import as_labels
from revgrad.domains.npz import from_npz
from revgrad.domains.shards import from_shards, is_shards
from revgrad.domains.sparse import is_sparse
from revgrad.domains.table import is_frame
from revgrad.domains.text import from_texts, is_texts
from revgrad.domains.torch_dataset import from_dataset
from revgrad.errors import InputError, UnknownNameError, some, unknown

log = logging.getLogger("revgrad")

#: The named domains: "module:function" of a split, imported when asked for.
DOMAINS: dict[str, str] = {
    "mnist": "revgrad.paper.data.mnist:mnist",
    "mnist-m": "revgrad.paper.synthetic.mnist_m:mnist_m",
    "svhn": "revgrad.paper.data.svhn:svhn",
    "syn-numbers": "revgrad.paper.synthetic.syn_numbers:syn_numbers",
    "gtsrb": "revgrad.paper.data.gtsrb:gtsrb",
    "syn-signs": "revgrad.paper.synthetic.syn_signs:syn_signs",
    "usps": "revgrad.paper.data.usps:usps",
    "office31": "revgrad.paper.data.office:office31",
    "office-caltech10": "revgrad.paper.data.office:office_caltech10",
    "digits": "revgrad.domains.digits:digits",
    "digits-m": "revgrad.domains.digits:digits_m",
    "watch": "revgrad.domains.watch:watch",
    "sentences": "revgrad.domains.sentences:sentences",
}


def open_domain(
    text: str,
    *,
    label: str | Sequence[str] | None = None,
    groups: str | None = None,
    weights: str | None = None,
    layout: str = "auto",
    channels: int | None = None,
    attributes: Sequence[str] = (),
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    text_column: str | None = None,
    tokenizer: Any = None,
    **folder_options: Any,
) -> Domain:
    """The domain a user means by `text`.

    Shards: a tar file, an http address, a pattern of them ("train-{000..099}.tar"; `from_shards`);
    "name" or "name:split" of `DOMAINS` (the split is "train" unless said), the path of an `.npz`
    file, of a table (`.csv`, `.tsv`, `.parquet`; `label` is the column of its labels), or of an
    image folder, which `folder_options` go to (see `from_folder`). Of these, `size` and `fit` also
    bring images of named domains and `.npz` files to one size. A name
    comes before a folder of that name: `./mnist` means the folder.

    Parameters
    ----------
    text
        a name, a path, an address or a pattern
    label
        of a table, the column of its labels, or several of numbers
    groups, weights
        columns of a table, or arrays of an `.npz` file, that are the samples' groups and weights
    layout, channels
        of the images of an `.npz` file (see `from_npz`)
    drop, categorical
        columns of a table that are left out, and those of numbers that are names
    text_column, tokenizer
        of a table, the one column that is read, as `from_texts` reads texts; None: all columns are
    attributes
        the same that are attributes of the samples; of a folder, names for its levels above the
        classes
    folder_options
        `size`, `fit`, `corrupt`, … of `from_folder`

    Examples
    --------
    >>> revgrad.open_domain("mnist:test")  # doctest: +SKIP
    >>> revgrad.open_domain("measurements.csv", label="ill")  # doctest: +SKIP
    """
    name, _, split = text.partition(":")
    if text_column is not None and Path(text).suffix.lower() not in TABLE_FILES:
        raise InputError(f"{text} is no table with a column '{text_column}' of texts")
    if name in DOMAINS:
        _refuse_columns(text, groups, weights)
        if attributes:
            raise InputError(f"{text} has no attributes to name '{attributes[0]}'")
        opened: Callable[[str], Domain] = named(DOMAINS[name])
        return _sized(opened(split or "train"), folder_options)
    if is_shards(text):
        _refuse_columns(text, groups, weights)
        read = {k: v for k, v in folder_options.items() if k in ("size", "fit", "classes")}
        unread = folder_options.get("labels") is False
        column = label if label is None or isinstance(label, str) else ",".join(label)
        return from_shards(text, label=column, labels=not unread, name=text, **read)
    path = Path(text).expanduser()
    if path.suffix.lower() == ".npz" and not path.is_dir():
        unread = folder_options.get("labels") is False
        return _sized(
            from_npz(
                path,
                layout=layout,
                channels=channels,
                labels=not unread,
                groups=groups,
                weights=weights,
                attributes=attributes,
            ),
            folder_options,
        )
    if path.suffix.lower() in TABLE_FILES:
        unread = folder_options.get("labels") is False
        own = None if unread else label
        if text_column is not None:
            known = folder_options.get("classes")
            return from_text_file(
                path, text_column, own, groups=groups, tokenizer=tokenizer, classes=known
            )
        return from_frame(
            path,
            own,
            groups=groups,
            weights=weights,
            attributes=attributes,
            drop=drop,
            categorical=categorical,
        )
    for role, columns in (("to drop", drop), ("of categories", categorical)):
        if columns:
            raise InputError(f"{text} is no table with columns {role}: {some(list(columns))}")
    if path.is_dir():
        _refuse_columns(text, groups, weights)
        return from_folder(path, attributes=attributes, **folder_options)
    if path.exists():
        raise InputError(
            f"{text} is a file, but neither a folder of images nor an .npz file nor a table "
            f"({', '.join(TABLE_FILES)})"
        )
    if "/" in text or "\\" in text or text.startswith((".", "~")):
        raise InputError(f"no file or folder {text}")
    error = unknown("domain", name, DOMAINS)
    raise UnknownNameError(f"{error}; the path of an image folder or an .npz file would do too")


def _refuse_columns(text: str, groups: str | None, weights: str | None) -> None:
    """Columns are of tables and of .npz files."""
    for role, column in (("groups", groups), ("weights", weights)):
        if column is not None:
            raise InputError(
                f"{text} has no columns: {role} '{column}' are of a table (.csv, .parquet) or an "
                f".npz file; from Python, from_arrays(…, {role}=…) takes them"
            )


def as_domain(
    data: Any,
    name: str,
    *,
    like: Encoder | None = None,
    channels: int | None = None,
    **folder_options: Any,
) -> Domain:
    """A domain of whatever holds a user's data, called `name` where it has no name yet.

    - `Domain`: itself
    - `str`: a name or path, as `open_domain` takes it with the `folder_options`
    - `Path`: the same, but never a name of `DOMAINS`
    - `data frame`: of pandas or polars, as `from_frame` takes it
    - `list of strings`: texts, as `from_texts` takes them
    - array, memory map, sparse matrix, tensor, list of numbers (nested), anything NumPy can read:
      inputs without labels, as `from_arrays` takes them; of a list, Python floats become float32
    - `(X, y)`: inputs and labels of equal length: a tuple of two always, a list of
      two where the two differ in shape (else it is two inputs); y is (n,),
      (n, outputs) or maps of class numbers, None means no labels
    - `torch Dataset`: as `from_dataset` takes it, and so any other sequence of items `x` or
      `(x, y)`
    - `DataLoader`: its dataset; revgrad draws batches itself

    Inputs of several parts are a dict of arrays, and with labels (dict, y) or ((X1, X2), y); a
    tuple of two is (X, y), so two parts without labels are `from_arrays((X1, X2))`.

    Of the options, `size` and `fit` bring uint8 images of all but a Domain to one size.

    Parameters
    ----------
    like
        the encoder of the source, where that holds raw samples (frames, texts, series): other
        data than a Domain or a path are then read as the same kind
    channels
        that images have, where that is known: arrays of many bands need no layout said then
    """
    if isinstance(data, Domain):
        return data.renamed(name) if data.name == UNNAMED else data
    if isinstance(data, Path):
        data = os.path.join(".", data.expanduser())  # a name of DOMAINS would have no "/"
    if isinstance(data, str):
        return open_domain(data, channels=channels, **folder_options)
    if isinstance(data, DataLoader):
        log.info(
            "%s: of the DataLoader only its dataset is used: revgrad draws the batches itself "
            "(batch_size=, augmentation by Domain.augmented)",
            name,
        )
        data = data.dataset
    if like is not None:
        inputs, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
        return like.read(inputs, None if folder_options.get("labels") is False else labels, name)
    unread = folder_options.get("labels") is False
    return _sized(_of_values(data, name, unread, channels), folder_options)


def _of_values(data: Any, name: str, unread: bool, channels: int | None) -> Domain:
    if isinstance(data, tuple) or _is_listed_pair(data):
        if len(data) != 2:
            raise InputError(
                f"{name}: a tuple of {len(data)} is neither inputs nor (X, y): inputs of several "
                "parts are a dict of arrays, or from_arrays((X1, X2, …))"
            )
        inputs, labels = data
        return _of_pair(inputs, None if unread else labels, name, channels)
    if is_frame(data):
        return from_frame(data, name=name)
    if is_texts(data):
        _refuse_files(data, name)
        return from_texts(data, name=name)
    if is_sparse(data):
        return from_arrays(data, name=name)
    if isinstance(data, dict):
        return from_arrays({key: _array(part, name) for key, part in data.items()}, name=name)
    if isinstance(data, Dataset) or _is_items(data):
        return from_dataset(data, labels=not (unread and _is_numbered(data)), name=name)
    array = _array(data, name)
    return from_arrays(array, layout=_layout(array, channels), name=name)


def _layout(inputs: Any, channels: int | None) -> str:
    """Of arrays; inputs of several parts say theirs by `from_arrays`."""
    nested = isinstance(inputs, Tensor) and inputs.is_nested  # has no shape
    if nested or not hasattr(inputs, "shape"):
        return "auto"
    return likely_layout(tuple(inputs.shape), channels)


def _of_pair(inputs: Any, labels: Any, name: str, channels: int | None) -> Domain:
    if is_frame(inputs):
        return from_frame(inputs, labels, name=name)
    if is_texts(inputs):
        _refuse_files(inputs, name)
        return from_texts(inputs, labels, name=name)
    if isinstance(inputs, dict):
        inputs = {key: _array(part, name) for key, part in inputs.items()}
    elif isinstance(inputs, tuple):
        inputs = tuple(_array(part, name) for part in inputs)
    else:
        inputs = _array(inputs, name)
    layout = _layout(inputs, channels)
    if labels is None:
        return from_arrays(inputs, layout=layout, name=name)
    values, classes = as_labels(labels, name)
    if getattr(inputs, "ndim", 0) == 1 and values.ndim > 1 and values.dtype.kind == "f":
        raise InputError(
            f"{name}: a pair is (X, y), and these are of shapes {tuple(inputs.shape)} and "
            f"{values.shape}: is it (y, X)?"
        )
    images = values.ndim == 4 and values.shape == np.shape(inputs)  # two of them, not labels
    if values.ndim > 2 and (values.dtype.kind == "f" or images):
        raise InputError(
            f"{name}: a tuple of two is (X, y), but labels of shape {values.shape} are "
            "neither (n,), (n, outputs) nor maps of class numbers; such labels: from_arrays(X, y); "
            "one-hot maps: y.argmax(1); inputs of two parts: from_arrays((X1, X2))"
        )
    return from_arrays(inputs, values, layout=layout, classes=classes, name=name)


def _array(values: Any, name: str) -> Any:
    """`values` as an array or a tensor, of any dtype; an InputError names what is neither."""
    if isinstance(values, Tensor | np.ndarray) or is_sparse(values):
        return values
    try:
        if isinstance(values, list | tuple) and values and isinstance(values[0], Tensor):
            return torch.stack(list(values))
        if isinstance(values, list | tuple) or hasattr(values, "__array__"):
            array = np.asarray(values)
            floats = isinstance(values, list | tuple) and array.dtype == np.float64
            return array.astype(np.float32) if floats else array
    except (TypeError, ValueError, RuntimeError):  # ragged
        raise InputError(
            f"{name}: a {type(values).__name__} whose members differ in shape or kind can't "
            "become one array (series of unequal lengths: revgrad.from_series(X, y))"
        ) from None
    raise InputError(
        f"{name}: data of type {type(values).__name__} can't be read: an array, a tensor, (X, y), "
        "a torch Dataset, a Domain, or the path or name of a data set would do"
    )


def _refuse_files(texts: Any, name: str) -> None:
    """Names of image files are no texts to learn from."""
    if all(os.path.splitext(str(one))[1].lower() in EXTENSIONS for one in texts):
        raise InputError(
            f"{name}: a list of image files ({texts[0]}, …) is not read: give the path of their "
            "folder, with a subfolder per class where they have labels"
        )


def _is_listed_pair(data: Any) -> bool:
    """Whether a list is [X, y]: two of equal length that differ in shape, so not two inputs."""
    if not isinstance(data, list) or len(data) != 2:
        return False
    try:
        one, other = np.shape(data[0]), np.shape(data[1])
    except ValueError:
        return False
    return len(one) > 0 and len(other) > 0 and one[0] == other[0] and one != other


def _is_numbered(data: Any) -> bool:
    """Whether the items of a dataset are (x, number), so that the number need not be read."""
    first = data[0] if len(data) else None
    if not isinstance(first, tuple | list) or len(first) != 2:
        return False
    return np.ndim(first[1]) == 0 and np.ndim(first[0]) > 0


def _is_items(data: Any) -> bool:
    """Whether `data` is a sequence of items for `from_dataset`, rather than of numbers."""
    if isinstance(data, list):
        first = data[0] if data else None
        paired = isinstance(first, tuple) and any(np.ndim(part) for part in first)
        return paired or isinstance(first, dict) or hasattr(first, "getbands")
    arraylike = hasattr(data, "__array__") or isinstance(data, bytes | bytearray)
    return not arraylike and hasattr(type(data), "__getitem__") and hasattr(type(data), "__len__")


def _sized(domain: Domain, options: dict[str, Any]) -> Domain:
    size = options.get("size")
    return domain if size is None else resized(domain, size, options.get("fit", "crop"))
