"""Published estimates of target accuracy by confidence: COT, MaNo, energy, class-wise thresholds.

Each is a pure function of logits (and of the source's labels, where it needs them); none reads a
target label. `studies/trust` judges them beside one another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.certainty import source_temperature
from revgrad.diagnostics.inputs import (
    Array,
    checked_logits,
    logits_of_both,
    probabilities,
    shares_of,
)


def transported_confidence(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike
) -> float:
    """COT (Lu et al. 2023): 1 − the least mean cost of moving target predictions to labels that
    occur as often as in the source.

    The cost of a sample with probabilities p at the class y is ‖p − e_y‖_∞ = 1 − p_y. Unlike the
    mean confidence it falls where a class is predicted more often than it occurs. Probabilities
    are calibrated by the source's temperature.
    """
    from scipy.optimize import linear_sum_assignment

    source, labels, target = logits_of_both(source_logits, source_labels, target_logits)
    shares = probabilities(target / source_temperature(source, labels))
    n = len(shares)
    places = np.repeat(
        np.arange(shares.shape[1]), apportioned(shares_of(labels, shares.shape[1]), n)
    )
    cost = 1 - shares[:, places]
    samples, chosen = linear_sum_assignment(cost)
    return float(1 - cost[samples, chosen].mean())


def apportioned(shares: Array, count: int) -> Array:
    """Whole numbers in these shares that sum to `count`: the largest remainders are rounded up."""
    exact = shares * count
    found: Array = np.floor(exact).astype(np.int64)
    left = count - int(found.sum())
    found[np.argsort(-(exact - found), kind="stable")[:left]] += 1
    return found


def matrix_norm(target_logits: ArrayLike, power: float = 4.0) -> float:
    """MaNo (Xie et al. 2024): (mean over samples and classes of q^p)^(1/p), p = 4.

    q is the softmax; where the network is unsure (mean −log softmax, over classes, below 5) the
    Taylor expansion 1 + x + x²/2 of exp in its place, which trusts large logits less.
    """
    logits = checked_logits(target_logits, "target logits")
    centred = logits - logits.max(axis=1, keepdims=True)
    logarithms = centred - np.log(np.exp(centred).sum(axis=1, keepdims=True))
    if float(-logarithms.mean()) > 5:
        q = np.exp(logarithms)
    else:
        raised = 1 + logits + logits**2 / 2
        q = raised / raised.sum(axis=1, keepdims=True)
    return float((q**power).mean() ** (1 / power))


def mean_energy(target_logits: ArrayLike) -> float:
    """Mean log Σ exp of the logits (Liu et al. 2020; Peng et al. 2024): high where samples are like
    those of training."""
    logits = checked_logits(target_logits, "target logits")
    largest = logits.max(axis=1)
    return float((largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))).mean())


def classwise_confidence(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike
) -> float:
    """Mean calibrated confidence, a temperature for each predicted class (in the manner of MOVAL,
    Li et al. 2022): the one at which the class's mean confidence on the source is its accuracy."""
    source, labels, target = logits_of_both(source_logits, source_labels, target_logits)
    whole = source_temperature(source, labels)
    of_source, of_target = source.argmax(axis=1), target.argmax(axis=1)
    total = 0.0
    for label in np.unique(of_target):
        own, asked = source[of_source == label], target[of_target == label]
        accuracy = float((labels[of_source == label] == label).mean()) if len(own) else None
        enough = accuracy is not None and len(own) >= 10 and 0 < accuracy < 1
        temperature = _matching(own, accuracy) if enough and accuracy is not None else whole
        total += float(probabilities(asked / temperature).max(axis=1).sum())
    return total / len(target)


def _matching(logits: Array, accuracy: float) -> float:
    """The temperature at which the mean largest softmax is this; it falls as temperature rises."""
    low, high = 0.05, 20.0
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        if probabilities(logits / middle).max(axis=1).mean() > accuracy:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))
