"""Logits, features and labels as the diagnostics take them: checked once, float64 from there on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from revgrad.errors import InputError
from revgrad.shallow.inputs import Array, checked_features, checked_labels


def features_of(features: ArrayLike, name: str) -> Array:
    """(n, d) finite features in float64; more axes, as of a feature map, are flattened."""
    found = np.asarray(features)
    if found.ndim > 2 and 0 not in found.shape:
        found = found.reshape(len(found), -1)
    checked: Array = checked_features(found, name).astype(np.float64, copy=False)
    return checked


def pair_of(source: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """The features of both domains, equally wide."""
    one, other = features_of(source, "source features"), features_of(target, "target features")
    if one.shape[1] != other.shape[1]:
        raise InputError(
            f"source and target must have the same features; {one.shape[1]} and {other.shape[1]} "
            "came"
        )
    return one, other


def logits_of(logits: ArrayLike, name: str, like: Array | None = None) -> Array:
    """(n, classes) finite logits in float64, of two classes at least; `like`: of the same shape."""
    found = np.asarray(logits)
    if found.dtype.kind not in "fiu" or found.ndim != 2 or found.shape[0] < 1 or found.shape[1] < 2:
        raise InputError(
            f"{name} must be numbers of shape (rows, classes), two classes at least; "
            f"{found.dtype} of shape {found.shape} came"
        )
    if like is not None and found.shape != like.shape:
        raise InputError(
            f"{name} must be of the same rows and classes as the others, {like.shape}; "
            f"{found.shape} came"
        )
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(bad):
        raise InputError(f"{name} hold NaN or infinity, first in row {bad[0]}")
    checked: Array = found.astype(np.float64, copy=False)
    return checked


def labelled_logits(logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """The held-out source's logits and labels; every label is one of the outputs."""
    found = logits_of(logits, "source logits")
    answers = checked_labels(labels, len(found))
    if answers.min() < 0 or answers.max() >= found.shape[1]:
        wrong = answers.min() if answers.min() < 0 else answers.max()
        raise InputError(
            f"source labels must lie in 0 … {found.shape[1] - 1}, as there are {found.shape[1]} "
            f"outputs; {wrong} came"
        )
    return found, answers


def alike_logits(all_logits: Sequence[ArrayLike], name: str, fewest: int = 2) -> list[Array]:
    """Several models' logits of the same rows."""
    if len(all_logits) < fewest:
        raise InputError(f"{name}: {fewest} at least are needed, {len(all_logits)} came")
    first = logits_of(all_logits[0], name)
    return [first, *(logits_of(more, name, first) for more in all_logits[1:])]


def log_probabilities(logits: Array) -> Array:
    """log softmax of every row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found


def probabilities(logits: Array) -> Array:
    """softmax of every row."""
    found: Array = np.exp(log_probabilities(logits))
    return found


def entropies(shares: Array, logarithms: Array | None = None) -> Array:
    """Entropy in nats along the last axis; 0 log 0 is 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(shares) if logarithms is None else logarithms
    found: Array = -np.where(shares > 0, shares * np.where(shares > 0, logs, 0.0), 0.0).sum(axis=-1)
    return found


def shares_of(classes: Array, count: int) -> Array:
    """Share of each of `count` classes among the rows."""
    found: Array = np.bincount(classes, minlength=count) / len(classes)
    return found
