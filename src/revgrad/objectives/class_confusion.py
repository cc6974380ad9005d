"""Minimum class confusion (MCC, Jin et al. 2020): classes of target samples are kept apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revgrad._distributed import gather_samples, world_size
from revgrad.errors import InputError
from revgrad.objectives.losses import prediction_entropy
from revgrad.objectives.terms import Pass, TermLoss, check_weight


def class_confusion(logits: Tensor, temperature: float) -> Tensor:
    """How much classes are confused in a batch's predictions: (n, k) logits → a number, 0 to 1.

    With p the softmax of logits / temperature and w_i ∝ 1 + e^{−H(p_i)} of mean 1: the matrix
    C = Σ_i w_i p_i p_iᵀ, each of its rows divided by its sum; the mean over classes of what lies
    off the diagonal (their eqs. 1 to 6).
    """
    scaled = logits / temperature
    chances = scaled.softmax(1)
    weights = 1 + (-prediction_entropy(scaled.detach())).exp()
    weights = weights * (len(weights) / weights.sum())
    confused = (weights[:, None] * chances).T @ chances
    shares = confused / confused.sum(1, keepdim=True).clamp(min=torch.finfo(confused.dtype).tiny)
    return (shares.sum() - shares.diagonal().sum()) / logits.shape[1]


@dataclass(frozen=True)
class ClassConfusion:
    """w λ `class_confusion` of the unlabelled samples' predictions.

    It needs no domain classifier, and makes no assumption about how often each class occurs.
    Published over DANN in one code base: +3.5 points on Office-31, +7.2 on Office-Home.

    Attributes
    ----------
    weight
        w
    temperature
        that predictions are softened by

    Examples
    --------
    >>> method = revgrad.Terms((revgrad.Reversal(), revgrad.ClassConfusion()))  # DANN and MCC
    """

    weight: float = 1.0
    temperature: float = 2.5

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if not 0 < self.temperature < float("inf"):
            raise InputError(f"the temperature must be above 0, not {self.temperature}")

    def __call__(self, seen: Pass) -> TermLoss:
        # pairs of classes can't be summed apart: every process gets all samples
        asked = gather_samples(seen.outputs[~seen.batch.labelled])
        if not len(asked):
            nothing = seen.outputs.sum() * 0
            return TermLoss(nothing, nothing)
        confusion = class_confusion(asked, self.temperature) / world_size()
        return TermLoss(self.weight * seen.factor * confusion, confusion)
