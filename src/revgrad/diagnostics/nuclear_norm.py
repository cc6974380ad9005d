"""Nuclear norm of the predictions: sure and varied at once, as one number of the matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import logits_of, probabilities


def prediction_nuclear_norm(target_logits: ArrayLike) -> float:
    """Sum of the singular values of the (n, k) softmax, over √(n·min(n, k)) (Cui et al. 2020).

    The divisor is its largest value: 1 where every row is certain and the classes are alike often,
    √(1/min(n, k)) where all rows are of one class with certainty.
    """
    shares = probabilities(logits_of(target_logits, "target logits"))
    norm = float(np.linalg.svd(shares, compute_uv=False).sum())
    return norm / math.sqrt(len(shares) * min(shares.shape))
