"""Arrays of features, logits and labels: checked once, float64 from there on; and their softmax,
entropy and shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from revgrad.errors import InputError

Array = NDArray[Any]

_Field = TypeVar("_Field")
_FEATURE_SHAPES = {2: "(samples, features)", 3: "(images, positions, features)"}


def checked_features(features: ArrayLike, name: str, *, axes: int = 2) -> Array:
    """`features` as a finite floating-point array of `axes` axes; float32 stays float32."""
    found = np.asarray(features)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers, not {found.dtype}")
    if found.ndim != axes or 0 in found.shape:
        raise InputError(f"{name} must have the shape {_FEATURE_SHAPES[axes]}, not {found.shape}")
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(np.float64)
    _refuse_non_finite(found, name)
    return found


def checked_labels(labels: ArrayLike | None, count: int, name: str = "source labels") -> Array:
    """`labels` as int64 (count,), of two classes at least."""
    if labels is None:
        raise InputError(
            f"{name} are missing: one integer for each of the {count} samples would do"
        )
    found = np.asarray(labels)
    if found.shape != (count,):
        raise InputError(f"{name} must have the shape ({count},), one a sample, not {found.shape}")
    if found.dtype.kind not in "iub" and not (
        found.dtype.kind == "f" and np.isfinite(found).all() and (found == np.round(found)).all()
    ):
        raise InputError(f"{name} must be integers, every sample labelled; {found.dtype} came")
    found = found.astype(np.int64)
    if len(np.unique(found)) < 2:
        raise InputError(f"{name} hold one class only ({found[0]}); two at least are needed")
    return found


def flat_features(features: ArrayLike, name: str) -> Array:
    """(n, d) finite features in float64; more axes, as of a feature map, are flattened."""
    found = np.asarray(features)
    if found.ndim > 2 and 0 not in found.shape:
        found = found.reshape(len(found), -1)
    checked: Array = checked_features(found, name).astype(np.float64, copy=False)
    return checked


def flat_pair(source: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """The features of both domains, each by `flat_features`, of the same width."""
    return equally_wide(
        flat_features(source, "source features"), flat_features(target, "target features")
    )


def equally_wide(source: Array, target: Array) -> tuple[Array, Array]:
    """The features of both domains, where they are of the same width."""
    if source.shape[-1] != target.shape[-1]:
        raise InputError(
            f"source and target must have the same features; {source.shape[-1]} and "
            f"{target.shape[-1]} came"
        )
    return source, target


def checked_logits(logits: ArrayLike, name: str, like: Array | None = None) -> Array:
    """(n, classes) finite logits in float64, of two classes at least; `like`: of the same shape."""
    found = np.asarray(logits)
    if found.dtype.kind not in "fiu" or found.ndim != 2 or found.shape[0] < 1 or found.shape[1] < 2:
        raise InputError(
            f"{name} must be numbers of shape (samples, classes), two classes at least; "
            f"{found.dtype} of shape {found.shape} came"
        )
    if like is not None and found.shape != like.shape:
        raise InputError(
            f"{name} must be of the same samples and classes as the others, {like.shape}; "
            f"{found.shape} came"
        )
    _refuse_non_finite(found, name)
    checked: Array = found.astype(np.float64, copy=False)
    return checked


def labelled_logits(logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """The held-out source's logits and labels; every label is one of the outputs."""
    found = checked_logits(logits, "source logits")
    return found, labels_of_outputs(labels, len(found), found.shape[1])


def labels_of_outputs(labels: ArrayLike, count: int, outputs: int) -> Array:
    """The held-out source's labels, each the number of one of the network's outputs."""
    found = checked_labels(labels, count)
    if found.min() < 0 or found.max() >= outputs:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InputError(
            f"source labels must lie in 0 … {outputs - 1}, as there are {outputs} outputs; "
            f"{wrong} came"
        )
    return found


def logits_of_both(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike
) -> tuple[Array, Array, Array]:
    """The held-out source's logits and labels, and the target's logits, of the same classes."""
    source, labels = labelled_logits(source_logits, source_labels)
    target = checked_logits(target_logits, "target logits")
    if source.shape[1] != target.shape[1]:
        raise InputError(
            f"source and target logits must be of the same classes; {source.shape[1]} and "
            f"{target.shape[1]} came"
        )
    return source, labels, target


def alike_logits(all_logits: Sequence[ArrayLike], name: str, fewest: int = 2) -> list[Array]:
    """Several models' logits of the same samples."""
    if len(all_logits) < fewest:
        raise InputError(f"{name}: {fewest} at least are needed, {len(all_logits)} came")
    first = checked_logits(all_logits[0], name)
    return [first, *(checked_logits(more, name, first) for more in all_logits[1:])]


def log_probabilities(logits: Array) -> Array:
    """log softmax of every sample."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found


def probabilities(logits: Array) -> Array:
    """softmax of every sample."""
    found: Array = np.exp(log_probabilities(logits))
    return found


def entropies(shares: Array, logarithms: Array | None = None) -> Array:
    """Entropy in nats along the last axis; 0 log 0 is 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(shares) if logarithms is None else logarithms
    found: Array = -np.where(shares > 0, shares * np.where(shares > 0, logs, 0.0), 0.0).sum(axis=-1)
    return found


def shares_of(classes: Array, count: int) -> Array:
    """Share of each of `count` classes among the samples."""
    found: Array = np.bincount(classes, minlength=count) / len(classes)
    return found


def given(value: _Field | None) -> _Field:
    """A field of evidence that was asked for before, by `needs`."""
    assert value is not None
    return value


def _refuse_non_finite(values: Array, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if len(bad):
        raise InputError(f"{name} hold NaN or infinity, first in sample {bad[0]}")
