"""Certainty, variety and stability of predictions, label-free: entropy, mutual information, nuclear
norm, neighbourhood density, agreement, class balance, invariance; and the held-out source's error,
losses and temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import (
    Array,
    alike_logits,
    checked_logits,
    entropies,
    labelled_logits,
    labels_of_outputs,
    log_probabilities,
    probabilities,
    shares_of,
)
from revgrad.errors import InputError, unknown

#: Temperature of soft neighbourhood density, as in its paper.
TEMPERATURE = 0.05
#: Numbers of the similarity matrix held at once: small enough for a processor's cache.
SIMILARITY_BLOCK = 2**19
#: How a sample's loss is counted.
LOSSES = ("error", "cross-entropy")
#: Temperatures of a calibration beyond these are not tried: a model without errors would have 0.
LOWEST, HIGHEST = 0.05, 20.0


def negative_entropy(target_logits: ArrayLike) -> float:
    """−mean H(softmax) over samples, from −ln k to 0 (Morerio et al. 2018, ICLR).

    Highest where every sample is predicted with certainty, also where all are of one class.
    """
    logarithms = log_probabilities(checked_logits(target_logits, "target logits"))
    return -float(entropies(np.exp(logarithms), logarithms).mean())


def mutual_information(target_logits: ArrayLike) -> float:
    """H(mean softmax) − mean H(softmax), from 0 to ln k (Bridle et al. 1991; Shi and Sha 2012).

    Of sample and predicted class: high where samples are predicted with certainty and the classes
    are alike often, 0 where all samples are predicted the same.
    """
    logarithms = log_probabilities(checked_logits(target_logits, "target logits"))
    shares = np.exp(logarithms)
    return float(entropies(shares.mean(0)) - entropies(shares, logarithms).mean())


def prediction_nuclear_norm(target_logits: ArrayLike) -> float:
    """Sum of the singular values of the (n, k) softmax, over √(n·min(n, k)) (Cui et al. 2020).

    The divisor is its largest value: 1 where every sample is certain and the classes are alike
    often, √(1/min(n, k)) where all samples are of one class with certainty.
    """
    shares = probabilities(checked_logits(target_logits, "target logits"))
    norm = float(np.linalg.svd(shares, compute_uv=False).sum())
    return norm / math.sqrt(len(shares) * min(shares.shape))


def soft_neighbourhood_density(
    target_logits: ArrayLike, *, temperature: float = TEMPERATURE
) -> float:
    """Mean entropy of a sample's neighbours, from 0 to ln(n − 1) (Saito et al. 2021, ICCV).

    With f the samples' softmax, scaled to length 1: P_ij = exp(f_i·f_j/τ) / Σ_{l≠i} exp(f_i·f_l/τ)
    for j ≠ i, and the mean over i of −Σ_j P_ij log P_ij. Memory grows with n, not n². The value
    grows with the number of samples: compare models on the same ones.
    """
    shares = probabilities(checked_logits(target_logits, "target logits"))
    n = len(shares)
    if n < 2:
        raise InputError("soft neighbourhood density needs two target samples or more; 1 came")
    if not temperature > 0:
        raise InputError(f"the temperature must be above 0, not {temperature}")
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    height = max(SIMILARITY_BLOCK // n, 1)
    total = 0.0
    for start in range(0, n, height):
        block = unit[start : start + height] @ unit.T
        block /= temperature
        here = np.arange(len(block))
        block[here, start + here] = -np.inf  # a sample is not its own neighbour
        block -= block.max(axis=1, keepdims=True)
        weights = np.exp(block)
        block[here, start + here] = 0.0  # 0 · −∞ in the sum below
        sums = weights.sum(axis=1)
        # −Σ P log P with log P = block − log(sums)
        total += float((np.log(sums) - np.einsum("ij,ij->i", weights, block) / sums).sum())
    return total / n


def agreement(one_logits: ArrayLike, other_logits: ArrayLike) -> float:
    """Share of the samples that two models predict alike."""
    one, other = alike_logits([one_logits, other_logits], "the two models' logits")
    return float((one.argmax(axis=1) == other.argmax(axis=1)).mean())


def stability(checkpoint_logits: Sequence[ArrayLike]) -> float:
    """Mean agreement of each checkpoint with the one before it: 1 where nothing moves any more."""
    found = alike_logits(checkpoint_logits, "checkpoints' logits")
    predicted = [logits.argmax(axis=1) for logits in found]
    return float(np.mean([(one == other).mean() for one, other in pairwise(predicted)]))


def seed_agreement(all_logits: Sequence[ArrayLike]) -> float:
    """Mean agreement over all pairs of models that differ in their seed only."""
    found = alike_logits(all_logits, "seeds' logits")
    predicted = [logits.argmax(axis=1) for logits in found]
    return float(np.mean([(one == other).mean() for one, other in combinations(predicted, 2)]))


def class_balance(target_logits: ArrayLike, source_labels: ArrayLike) -> float:
    """`−½ Σ |share predicted − share in the source|`: from −1, nothing in common, to 0, the same.

    The negative total variation of the two distributions of classes. It is high for a good model
    where the target holds the classes in the source's proportions, and only there.
    """
    shares = predicted_shares(target_logits)
    labels = labels_of_outputs(source_labels, len(np.asarray(source_labels)), len(shares))
    return -total_variation(shares, shares_of(labels, len(shares)))


def predicted_shares(target_logits: ArrayLike) -> Array:
    """(k,): share of the samples that are predicted as each class."""
    logits = checked_logits(target_logits, "target logits")
    return shares_of(logits.argmax(axis=1), logits.shape[1])


def effective_classes(shares: Array) -> float:
    """exp of the entropy: k where k classes are alike often, 1 where there is but one."""
    return math.exp(float(entropies(shares)))


def total_variation(one: Array, other: Array) -> float:
    """Half the sum of the absolute differences of two distributions."""
    return float(np.abs(one - other).sum() / 2)


def effective_invariance(logits: ArrayLike, changed: ArrayLike) -> Array:
    """(n,): √(p p′) of the predicted class where both are predicted alike, else 0.

    Parameters
    ----------
    logits, changed
        (n, classes) of samples as they are and of the same samples changed
    """
    one = probabilities(checked_logits(logits, "logits"))
    other = probabilities(checked_logits(changed, "logits of changed samples", one))
    predicted = one.argmax(axis=1)
    alike = other.argmax(axis=1) == predicted
    where = np.arange(len(one)), predicted
    found: Array = np.where(alike, np.sqrt(one[where] * other[where]), 0.0)
    return found


def source_losses(source_logits: ArrayLike, source_labels: ArrayLike, loss: str = "error") -> Array:
    """(m,): 1 where the prediction is wrong and 0 elsewhere, or −log of the label's softmax."""
    logits, labels = labelled_logits(source_logits, source_labels)
    if loss == "error":
        wrong: Array = (logits.argmax(axis=1) != labels).astype(np.float64)
        return wrong
    if loss == "cross-entropy":
        found: Array = -log_probabilities(logits)[np.arange(len(labels)), labels]
        return found
    raise unknown("loss", loss, LOSSES)


def source_error(source_logits: ArrayLike, source_labels: ArrayLike) -> float:
    """Share of held-out source samples that are predicted wrong."""
    return float(source_losses(source_logits, source_labels).mean())


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
