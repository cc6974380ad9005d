"""How sure of target rows, and how varied: negative entropy and mutual information."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import entropies, log_probabilities, logits_of


def negative_entropy(target_logits: ArrayLike) -> float:
    """−mean H(softmax) over rows, from −ln k to 0 (Morerio et al. 2018, ICLR).

    Highest where every row is predicted with certainty, also where all are of one class.
    """
    logarithms = log_probabilities(logits_of(target_logits, "target logits"))
    return -float(entropies(np.exp(logarithms), logarithms).mean())


def mutual_information(target_logits: ArrayLike) -> float:
    """H(mean softmax) − mean H(softmax), from 0 to ln k (Bridle et al. 1991; Shi and Sha 2012).

    Of row and predicted class: high where rows are predicted with certainty and the classes are
    alike often, 0 where all rows are predicted the same.
    """
    logarithms = log_probabilities(logits_of(target_logits, "target logits"))
    shares = np.exp(logarithms)
    return float(entropies(shares.mean(0)) - entropies(shares, logarithms).mean())
