"""Samples as estimators are given them: one array with `sample_domain`, or an array a domain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from revgrad.errors import InputError


class Labelled(NamedTuple):
    """Source samples with their labels; target samples, where there are any, with theirs, where
    they are meant for training."""

    X: Any
    y: Any
    X_target: Any = None
    y_target: Any = None


def by_domain(X: Any, y: Any, X_target: Any, y_target: Any, sample_domain: Any) -> Labelled:
    """The samples of each domain, however they were given; labels behind `sample_domain` that are
    the target's are dropped unread."""
    if sample_domain is None:
        if X_target is None and y_target is not None:
            raise InputError("y_target holds labels of X_target, which is missing")
        return Labelled(X, y, X_target, y_target)
    if X_target is not None or y_target is not None:
        raise InputError(
            "the target is given twice: by X_target (with y_target), or by sample_domain, not both"
        )
    numbers = domain_numbers(sample_domain, _num_samples(X))
    of_source = numbers > 0
    if not of_source.any():
        raise InputError(
            "sample_domain marks no source sample: positive numbers are source, negative target"
        )
    target = _taken(X, ~of_source) if (~of_source).any() else None
    return Labelled(_taken(X, of_source), None if y is None else _taken(y, of_source), target)


def domain_numbers(sample_domain: Any, samples: int) -> np.ndarray:
    """(n,) whole numbers, positive for source samples and negative for target samples."""
    numbers = np.asarray(sample_domain)
    if numbers.ndim != 1 or len(numbers) != samples:
        raise InputError(
            f"sample_domain needs one number a sample, so {samples}; its shape is {numbers.shape}"
        )
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise InputError(
            f"sample_domain holds numbers, positive for source, negative for target, not "
            f"{numbers.dtype}"
        )
    if (numbers == 0).any():
        raise InputError(
            "sample_domain holds 0, which is neither source (positive) nor target (negative); "
            f"first at sample {int((numbers == 0).argmax())}"
        )
    return numbers


def known_labels(y_target: Any, samples: int, minus_one_is_a_label: bool) -> np.ndarray:
    """(n,) bool: which labels of the target are known. None and NaN are not, nor −1 where no label
    of the source is −1."""
    values = np.asarray(y_target)
    if len(values) != samples:
        raise InputError(f"y_target has {len(values)} labels for {samples} samples of X_target")
    if values.dtype.kind == "f":
        known: np.ndarray = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    elif values.dtype.kind == "O":
        known = np.array([one is not None and one == one for one in values], dtype=bool)
    else:
        known = np.ones(len(values), dtype=bool)
    if not minus_one_is_a_label and values.ndim == 1 and values.dtype.kind in "ifO":
        known &= np.array([not (np.isscalar(one) and one == -1) for one in values], dtype=bool)
    return known


def _taken(values: Any, chosen: np.ndarray) -> Any:
    """The chosen samples of an array, a list, a tensor or a data frame, which stays one."""
    indices = np.flatnonzero(chosen)
    if type(values).__module__.partition(".")[0] == "torch":
        return values[indices]
    return _safe_indexing(values, indices)
