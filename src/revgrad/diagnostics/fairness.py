"""Differences of predictions between the groups that an attribute makes.

Demographic parity asks that each class is predicted equally often in every group; equalised odds
(Hardt et al. 2016) asks it among the samples of each true class. Both are differences of shares: 0
is even, 1 as uneven as can be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array
from revgrad.errors import InputError

#: Groups, and groups within a class, with fewer samples say nothing.
FEWEST_SAMPLES = 10


@dataclass(frozen=True)
class GroupDifferences:
    """The largest difference between two groups, over all classes; None where groups are small.

    Attributes
    ----------
    parity
        of the shares of samples for which a class is predicted
    odds
        of the same among the samples of one true class
    """

    parity: float | None
    odds: float | None


def group_differences(
    predicted: ArrayLike, groups: ArrayLike, labels: ArrayLike | None = None
) -> GroupDifferences:
    """Of predicted classes (n,), groups (n,) and, where they are known, true classes (n,)."""
    said, of = np.asarray(predicted), np.asarray(groups)
    true = None if labels is None else np.asarray(labels)
    if said.shape != of.shape or said.ndim != 1 or (true is not None and true.shape != of.shape):
        raise InputError("predictions, groups and labels must be (n,) of the same samples")
    parity = _difference(said, of)
    if true is None:
        return GroupDifferences(parity, None)
    found = [_difference(said[true == label], of[true == label]) for label in np.unique(true)]
    known = [one for one in found if one is not None]
    return GroupDifferences(parity, max(known, default=None))


def _difference(said: Array, of: Array) -> float | None:
    """The largest difference of a class's share between two groups of enough samples."""
    groups = [said[of == one] for one in np.unique(of)]
    large = [one for one in groups if len(one) >= FEWEST_SAMPLES]
    if len(large) < 2:
        return None
    shares = [[float((one == c).mean()) for one in large] for c in np.unique(said)]
    return max(max(one) - min(one) for one in shares)
