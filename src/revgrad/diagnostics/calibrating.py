"""Confidences that mean what they say, on the source at least: one temperature for all logits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import labelled_logits, log_probabilities

#: Temperatures beyond these are not tried: a model without errors would have 0.
LOWEST, HIGHEST = 0.05, 20.0


def source_temperature(source_logits: ArrayLike, source_labels: ArrayLike) -> float:
    """The T > 0 whose softmax(logits / T) has the least cross-entropy (Guo et al. 2017, §4.2)."""
    from scipy.optimize import minimize_scalar

    logits, labels = labelled_logits(source_logits, source_labels)
    where = np.arange(len(labels)), labels

    # convex in 1/T, so it has one minimum in log T as well
    def loss(log_temperature: float) -> float:
        return -float(log_probabilities(logits / math.exp(log_temperature))[where].mean())

    limits = math.log(LOWEST), math.log(HIGHEST)
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-6})
    return math.exp(float(found.x))
