"""Partial domain adaptation (PADA, Cao et al. 2018): the target holds some of the source's classes.

Plain reversal makes the domains alike as wholes, so target samples are drawn to classes that the
target does not have. Here a class counts as much as the target's predictions say that it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad._distributed import sum_over_processes
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.objectives.losses import Losses, combined, weighted_label_loss
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, cross_entropy


class PartialDomainClassifier(nn.Module):
    """A domain classifier that remembers how often the target is predicted to be of each class.

    `shares` (classes,) is a moving average over steps and part of a checkpoint, as BatchNorm's
    statistics are.
    """

    shares: Tensor

    def __init__(self, features: int, classes: int, hidden: Sequence[int], seed: int = 0) -> None:
        super().__init__()
        self.hidden = tuple(hidden)
        self.classifier = DomainClassifier(features, hidden=hidden, seed=seed)
        self.register_buffer("shares", torch.full((classes,), 1 / classes))

    def forward(self, features: Tensor) -> Tensor:
        return self.classifier(features)  # type: ignore[no-any-return]

    @torch.no_grad()
    def update(self, shares: Tensor, decay: float) -> None:
        """Take a batch's predicted shares into the average."""
        self.shares.mul_(decay).add_(shares.to(self.shares.dtype), alpha=1 - decay)

    def class_weights(self) -> Tensor:
        """(classes,): each class's share relative to the most frequent class."""
        return self.shares / self.shares.max()


@dataclass(frozen=True)
class PartialAdversarial:
    """L_y + L_d(G_d(R_λ(G_f(x)))), where a source sample weighs γ of its class in both (PADA).

    γ_k is the mean probability of class k over target samples, a moving average over the steps,
    divided by the largest. L_y is the weighted mean over labelled samples; in L_d the weights of
    the source samples are scaled to sum to their number, so that equal weights are plain DANN.

    Parameters
    ----------
    label_loss
        (predictions, labels) → loss; the task's by default
    decay
        of the moving average
    """

    label_loss: LabelLoss = cross_entropy
    decay: float = 0.98

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InputError(f"the decay must lie in [0, 1), not {self.decay}")

    def make_head(
        self, features: int, outputs: int, hidden: tuple[int, ...], seed: int
    ) -> nn.Module:
        """The domain classifier of weighted samples."""
        return PartialDomainClassifier(features, outputs, hidden, seed)

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        head = adapter.domain_classifier
        if not isinstance(head, PartialDomainClassifier):
            raise InputError(
                "method 'partial' keeps class shares in its own head: leave domain_classifier to "
                "it, or give hidden widths"
            )
        features, outputs = adapter(batch, every_sample=True)
        if adapter.training:
            head.update(_predicted_shares(outputs, batch), self.decay)
        weights = head.class_weights().to(features.dtype)
        of_class = weights[batch.labels.clamp(0, len(weights) - 1)]
        of_class = torch.where(batch.labelled, of_class, torch.ones_like(of_class))
        label = self._label_loss(outputs, batch, of_class)
        logits = head(reverse_gradient(features, factor))
        losses = F.binary_cross_entropy_with_logits(
            logits, batch.domains.to(logits.dtype), reduction="none"
        )
        of_source = batch.domains == 0
        total = sum_over_processes((of_class * of_source).sum())
        scaled = torch.where(of_source, of_class * (batch.total_sizes[0] / total), 1.0)
        domain = (losses * scaled).sum() / batch.total_samples
        return combined(label, domain, domain, logits)

    def _label_loss(self, outputs: Tensor, batch: Batch, of_class: Tensor) -> Tensor | None:
        given = torch.ones_like(of_class) if batch.weights is None else batch.weights
        weights = of_class * given * batch.labelled
        total = float(sum_over_processes(weights.sum()))
        predictions = outputs[batch.labelled_samples] if batch.labelled_count else None
        weighted = batch._replace(weights=weights, total_weight=total)
        return weighted_label_loss(self.label_loss, predictions, weighted)


def _predicted_shares(outputs: Tensor, batch: Batch) -> Tensor:
    """(classes,): the mean probability of each class over all processes' unlabelled samples."""
    asked = outputs.detach()[~batch.labelled].softmax(1).sum(0)
    count = batch.total_samples - batch.total_labelled
    return sum_over_processes(asked) / max(count, 1)
