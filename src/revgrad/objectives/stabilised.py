"""Gradient reversal that waits for the classes: DANN whose λ follows what is learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from revgrad._distributed import sum_over_processes
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.losses import Losses, combined, domain_loss, mean_label_loss
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, cross_entropy


@dataclass(frozen=True)
class Stabilised:
    """L_y + L_d(G_d(R_λw(G_f(x)))) with w the `learned_share` of this batch.

    λ acts as far as the classes are learned: not at all while L_y is at chance, in full once it is
    below `learned` of chance. Should the reversal tear the classes apart again, L_y rises and the
    reversal lets go. w is a function of the batch and the weights, so that a resumed run needs no
    state. It is meant for a domain classifier of normalised features (`Recipe.normalise`), as in
    the recipe "stabilised".

    Attributes
    ----------
    label_loss
        (predictions, labels) → loss; the task's by default
    learned
        the share of chance below which the classes count as learned
    """

    label_loss: LabelLoss = cross_entropy
    learned: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.learned < 1:
            raise InputError(f"learned is a share of chance, 0 to 1, not {self.learned}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        label = mean_label_loss(self.label_loss, predictions, batch)
        relative = relative_loss(label, predictions, batch, features)
        learned = learned_share(relative, self.learned)
        logits = adapter.domain_classifier(reverse_gradient(features, factor * learned))
        domain = domain_loss(logits, batch.domains, batch.total_samples)
        return combined(label, domain, domain, logits)


def relative_loss(label: Tensor | None, predictions: Any, batch: Batch, like: Tensor) -> Tensor:
    """L_y of all processes over what chance has, the logarithm of the number of classes; in the
    type of `like`. Of a regression, whose chance nobody knows: 0."""
    here = like.new_zeros(())
    if label is not None and _is_of_classes(predictions, batch):
        here = label.detach().to(like.dtype) / math.log(predictions.shape[1])
    return sum_over_processes(here)  # every process takes part, also one that holds no label


def learned_share(relative: Tensor, learned: float) -> Tensor:
    """Share of the classes that is learned: from 0 where the relative loss is 1 or above, to 1
    where it is `learned` or below."""
    return ((1 - relative) / (1 - learned)).clamp(0.0, 1.0)


def _is_of_classes(predictions: Any, batch: Batch) -> bool:
    wide = isinstance(predictions, Tensor) and predictions.ndim == 2 and predictions.shape[1] > 1
    return wide and batch.labels.ndim == 1 and not batch.labels.is_floating_point()
