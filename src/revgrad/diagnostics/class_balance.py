"""Are the classes as often predicted on the target as they occur in the source?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import entropies, logits_of, shares_of
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array, checked_labels


def class_balance(target_logits: ArrayLike, source_labels: ArrayLike) -> float:
    """−½ Σ |share predicted − share in the source|: from −1, nothing in common, to 0, the same.

    The negative total variation of the two distributions of classes. It is high for a good model
    where the target holds the classes in the source's proportions, and only there.
    """
    shares = predicted_shares(target_logits)
    labels = checked_labels(source_labels, len(np.asarray(source_labels)))
    if labels.min() < 0 or labels.max() >= len(shares):
        raise InputError(
            f"source labels must lie in 0 … {len(shares) - 1}, as there are {len(shares)} outputs"
        )
    return -total_variation(shares, shares_of(labels, len(shares)))


def predicted_shares(target_logits: ArrayLike) -> Array:
    """(k,): share of the rows that are predicted as each class."""
    logits = logits_of(target_logits, "target logits")
    return shares_of(logits.argmax(axis=1), logits.shape[1])


def effective_classes(shares: Array) -> float:
    """exp of the entropy: k where k classes are alike often, 1 where there is but one."""
    return math.exp(float(entropies(shares)))


def total_variation(one: Array, other: Array) -> float:
    """Half the sum of the absolute differences of two distributions."""
    return float(np.abs(one - other).sum() / 2)
