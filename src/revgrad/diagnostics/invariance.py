"""Whether a prediction stays when its image is changed a little (Deng et al. 2022, NeurIPS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import logits_of, probabilities
from revgrad.shallow.inputs import Array


def effective_invariance(logits: ArrayLike, changed: ArrayLike) -> Array:
    """(n,): √(p p′) of the predicted class where both rows are predicted alike, else 0.

    logits, changed   (n, classes) of rows as they are and of the same rows changed
    """
    one = probabilities(logits_of(logits, "logits"))
    other = probabilities(logits_of(changed, "logits of changed rows", one))
    rows, predicted = np.arange(len(one)), one.argmax(axis=1)
    alike = other.argmax(axis=1) == predicted
    found: Array = np.where(alike, np.sqrt(one[rows, predicted] * other[rows, predicted]), 0.0)
    return found
