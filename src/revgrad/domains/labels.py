"""Labels as people give them: class numbers, names, truth values, numbers of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from revgrad.errors import InputError, some


class Labels(NamedTuple):
    """Labels as numbers, one a sample, and the classes' names where there are names."""

    values: np.ndarray
    classes: tuple[str, ...] | None = None


def as_labels(labels: Any, name: str, classes: Sequence[str] | None = None) -> Labels:
    """Labels given as a list, array, tensor or column of a frame.

    Text and single truth values are names of classes: they become numbers in the order of
    `classes`, or, where none are given, in sorted order ("False", "True"). All other labels are
    left as they are, for `Domain` to check.
    """
    values = _array(labels, name)
    given = None if classes is None else tuple(classes)
    if values.dtype.kind == "b" and values.ndim == 1:
        names, numbers = np.array(["False", "True"]), values.astype(np.int64)
        if given is not None and len(given) == 2 and set(given) != {"False", "True"}:
            return Labels(numbers, given)  # the two classes by the user's own names
    elif values.dtype.kind == "U":
        if values.ndim != 1:
            raise InputError(f"{name}: names of classes must be one a sample, not {values.shape}")
        names, numbers = np.unique(values, return_inverse=True)
    else:
        return Labels(values, given)
    found = tuple(str(one) for one in names)
    if given is None:
        return Labels(numbers, found)
    place = {one: number for number, one in enumerate(given)}
    strange = [one for one in found if one not in place]
    if strange:
        raise InputError(
            f"{name}: labels of classes that are not among the given {len(given)}: {some(strange)} "
            f"(classes={some(given)})"
        )
    return Labels(np.array([place[one] for one in found], dtype=np.int64)[numbers], given)


def _array(labels: Any, name: str) -> np.ndarray:
    """The labels as an array; text as str, objects as what they hold."""
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu()
        if labels.dtype == torch.bfloat16:
            labels = labels.float()
    try:
        values = np.asarray(labels)
    except ValueError:
        raise InputError(f"{name}: labels must be one number or one vector a sample") from None
    if values.ndim == 0:
        shown = repr(labels) if len(repr(labels)) < 60 else f"a {type(labels).__name__}"
        raise InputError(f"{name}: labels must be one a sample, not the single value {shown}")
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{name}: labels of bytes must be text in UTF-8") from None
    if values.dtype.kind == "U" and not isinstance(labels, np.ndarray):
        # NumPy makes text of numbers that stand beside text
        values = np.empty(len(values), dtype=object) if values.ndim == 1 else values
        if values.dtype.kind == "O":
            values[:] = list(labels)
    return _unboxed(values, name) if values.dtype.kind in "OT" else values


def _unboxed(values: np.ndarray, name: str) -> np.ndarray:
    """An array of Python objects as one of text or numbers; missing and mixed ones are refused."""
    flat = values.ravel().tolist()
    missing = [i for i, one in enumerate(flat) if one is None or one != one]
    if missing:
        raise InputError(
            f"{name}: {len(missing)} of {len(flat)} labels are missing, the first in sample "
            f"{missing[0]}: leave those samples out (of a target, all labels: without_labels())"
        )
    kinds = sorted({type(one).__name__ for one in flat})
    if all(isinstance(one, str) for one in flat):
        return values.astype(np.str_)
    if any(isinstance(one, str) for one in flat) or not flat:
        raise InputError(
            f"{name}: labels of several kinds ({', '.join(kinds) or 'none'}): all text or all "
            "numbers would do"
        )
    try:
        return np.array(flat).reshape(values.shape)
    except ValueError:
        raise InputError(f"{name}: labels must be one number or one vector a sample") from None
