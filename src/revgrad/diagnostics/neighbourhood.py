"""Soft neighbourhood density: are target rows surrounded by many that look the same?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import logits_of, probabilities
from revgrad.errors import InputError

#: Temperature of the paper.
TEMPERATURE = 0.05
#: Numbers of the similarity matrix held at once: small enough for a processor's cache.
BLOCK = 2**19


def soft_neighbourhood_density(
    target_logits: ArrayLike, *, temperature: float = TEMPERATURE
) -> float:
    """Mean entropy of a row's neighbours, from 0 to ln(n − 1) (Saito et al. 2021, ICCV).

    With f the rows' softmax, scaled to length 1: P_ij = exp(f_i·f_j/τ) / Σ_{l≠i} exp(f_i·f_l/τ)
    for j ≠ i, and the mean over i of −Σ_j P_ij log P_ij. Memory grows with n, not n². The value
    grows with the number of rows: compare models on the same ones.
    """
    shares = probabilities(logits_of(target_logits, "target logits"))
    n = len(shares)
    if n < 2:
        raise InputError("soft neighbourhood density needs two target rows or more; 1 came")
    if not temperature > 0:
        raise InputError(f"the temperature must be above 0, not {temperature}")
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    rows = max(BLOCK // n, 1)
    total = 0.0
    for start in range(0, n, rows):
        block = unit[start : start + rows] @ unit.T
        block /= temperature
        here = np.arange(len(block))
        block[here, start + here] = -np.inf  # a row is not its own neighbour
        block -= block.max(axis=1, keepdims=True)
        weights = np.exp(block)
        block[here, start + here] = 0.0  # 0 · −∞ in the sum below
        sums = weights.sum(axis=1)
        # −Σ P log P with log P = block − log(sums)
        total += float((np.log(sums) - np.einsum("ij,ij->i", weights, block) / sums).sum())
    return total / n
