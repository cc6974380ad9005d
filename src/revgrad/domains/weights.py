"""Weights of samples in the label loss, given one by one or by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from revgrad.errors import InputError, some

#: "balanced", a weight for each class by its name or number, or one for each in their order.
ClassWeights = str | Mapping[Any, float] | Sequence[float]


def sample_weights(weights: Any, samples: int, name: str) -> np.ndarray:
    """Weights (n,) as float32, checked: finite, none below 0, not all 0."""
    values = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else weights)
    if values.ndim != 1 or len(values) != samples:
        raise InputError(f"{name}: {samples} inputs but weights of shape {values.shape}")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"{name}: weights must be finite numbers, 0 or more")
    if samples and not (values > 0).any():
        raise InputError(f"{name}: all weights are 0: there is nothing to learn from")
    return values.astype(np.float32)


def class_weights(
    weights: ClassWeights, labels: np.ndarray, classes: Sequence[str] | None, name: str
) -> np.ndarray:
    """The weight of each sample by its class.

    "balanced": n / (classes × samples of the class), so that all classes weigh alike.
    """
    if labels.dtype.kind not in "biu" or labels.ndim != 1:
        raise InputError(f"{name}: class weights need one class label a sample")
    count = len(classes) if classes is not None else int(labels.max()) + 1
    if isinstance(weights, str):
        if weights != "balanced":
            raise InputError(f'{name}: class_weights is "balanced" or numbers, not {weights!r}')
        present, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return (len(labels) / (len(present) * sizes))[numbers]
    if isinstance(weights, Mapping):
        names = {one: number for number, one in enumerate(classes or ())}
        found = {names.get(key, key): value for key, value in weights.items()}
        strange = [key for key in weights if names.get(key, key) not in range(count)]
        if strange:
            known = some([str(one) for one in classes or range(count)])
            raise InputError(
                f"{name}: class_weights has a weight for {strange[0]!r}, but there is no class "
                f"{strange[0]!r}; there are: {known}"
            )
        gone = sorted(set(np.unique(labels).tolist()) - set(found))
        if gone:
            shown = gone[0] if classes is None else classes[gone[0]]
            raise InputError(f"{name}: class_weights has none for class {shown!r}")
        return np.array([float(found[one]) for one in labels.tolist()])
    if len(weights) != count:
        raise InputError(f"{name}: {len(weights)} class weights for {count} classes")
    each: np.ndarray = np.asarray(weights, dtype=np.float64)[labels]
    return each
