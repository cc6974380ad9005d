"""Label shift: how often the classes occur in the target, seen through the model's mistakes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.certainty import total_variation
from revgrad.diagnostics.inputs import Array, logits_of_both, shares_of


@dataclass(frozen=True, eq=False)
class LabelShift:
    """Shares of the classes, (k,), and how far they are apart.

    Attributes
    ----------
    distance
        total variation of the two, 0 to 1
    noise
        what `distance` would be on average where nothing differs but the draw of the
        samples; infinite where the model does not tell the classes apart, so that nothing
        is known
    """

    source_shares: Array
    target_shares: Array
    distance: float
    noise: float


def estimate_label_shift(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike
) -> LabelShift:
    """Black box shift estimation (Lipton et al. 2018, ICML): C w = μ for the classes' weights w.

    C_ij = P_S[predicted i, label j], μ_i = P_T[predicted i], w_j = P_T[j] / P_S[j], solved for
    w ≥ 0 by least squares. Right where the domains' samples of a class look alike to the model;
    else its mistakes on the target are taken for shares.
    """
    from scipy.optimize import nnls

    source, labels, target = logits_of_both(source_logits, source_labels, target_logits)
    classes = source.shape[1]
    joint = np.zeros((classes, classes))
    np.add.at(joint, (source.argmax(axis=1), labels), 1 / len(labels))
    predicted = shares_of(target.argmax(axis=1), classes)
    shares = shares_of(labels, classes)
    weights, _ = nnls(joint, predicted)
    estimated = weights * shares
    total = float(estimated.sum())
    # every target sample predicted as a class that no source sample is: nothing to go by
    estimated = estimated / total if total > 0 else predicted
    noise = _noise(joint, shares, len(labels), len(target))
    return LabelShift(shares, estimated, total_variation(shares, estimated), noise)


def _noise(joint: Array, shares: Array, source_count: int, target_count: int) -> float:
    """Mean total variation of two draws of the same shares, as the confusion magnifies it."""
    there = shares > 0
    conditional = joint[:, there] / shares[there]
    smallest = float(np.linalg.svd(conditional, compute_uv=False).min())
    # the mean of |normal| is √(2/π) of its deviation
    deviations = np.sqrt(shares * (1 - shares) * (1 / source_count + 1 / target_count))
    spread = float(math.sqrt(2 / math.pi) * deviations.sum() / 2)
    return spread / smallest if smallest > 1e-9 else math.inf
