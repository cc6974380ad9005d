"""Groups of samples that belong together: of one person, one patient, one recording.

A split that divides a group measures how well the group is remembered, not how well the network
does on others: groups are held out whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from revgrad.errors import InputError


def group_numbers(groups: Any, samples: int, name: str) -> np.ndarray:
    """Groups (n,) of numbers or text as int64; the numbers mean nothing but which are the same."""
    values = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
    if values.ndim != 1:
        raise InputError(f"{name}: groups must be one a sample, (n,), not of shape {values.shape}")
    if len(values) != samples:
        raise InputError(f"{name}: {samples} inputs but {len(values)} groups")
    if values.dtype == np.int64:
        return values
    if values.dtype.kind not in "biuUS":
        text = [str(one) for one in values.tolist()]
        missing = [i for i, one in enumerate(values.tolist()) if one is None or one != one]
        if missing:
            raise InputError(
                f"{name}: the group of sample {missing[0]} is missing: every sample needs one"
            )
        values = np.array(text)
    numbers: np.ndarray = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def whole_groups(groups: np.ndarray, fraction: float, seed: int, name: str) -> np.ndarray:
    """(n,) bool: the samples of groups drawn at random, about `fraction` of all samples.

    Of the groups in random order the first k are taken, k as comes nearest to the fraction; at
    least one group is taken and one left.
    """
    found, sizes = np.unique(groups, return_counts=True)
    if len(found) < 2:
        raise InputError(
            f"{name}: all samples are of one group, so none can be held out without dividing it: "
            "hold out nothing (held_out=0), or give other data (held_out=…)"
        )
    order = np.random.default_rng(seed).permutation(len(found))
    ends = np.cumsum(sizes[order])[:-1]
    count = int(np.abs(ends - fraction * len(groups)).argmin()) + 1
    return np.isin(groups, found[order[:count]])
