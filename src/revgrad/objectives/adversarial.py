"""Gradient reversal: the paper's objective, and with the entropy of target predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.losses import (
    Losses,
    combined,
    domain_loss,
    mean_label_loss,
    prediction_entropy,
)
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, class_logits, cross_entropy


@dataclass(frozen=True)
class Adversarial:
    """L_y + L_d(G_d(R_λ(G_f(x)))), the paper's pseudo-objective (§3.2).

    Its gradient gives the updates upd1–upd3: λ scales what reaches the feature extractor,
    and never the domain classifier's own gradient.
    """

    sums_over_samples: ClassVar[bool] = True

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        logits = adapter.domain_classifier(reverse_gradient(features, factor))
        domain = domain_loss(logits, batch.domains, batch.total_samples)
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, domain, domain, logits)


@dataclass(frozen=True)
class AdversarialEntropy:
    """L_y + L_d(G_d(R_λ(G_f(x)))) + `entropy` · H(G_y(G_f(x))) of the unlabelled samples.

    H is the entropy of the predicted classes (Grandvalet & Bengio 2004; with gradient reversal: Shu
    et al. 2018). Minimising it moves the border between classes out of where target samples lie,
    which mixing the domains alone leaves open. For classes only.

    Attributes
    ----------
    entropy
        weight of the entropy
    label_loss
        (predictions, labels) → loss; the task's by default
    """

    sums_over_samples: ClassVar[bool] = True

    entropy: float = 0.03
    label_loss: LabelLoss = cross_entropy

    def __post_init__(self) -> None:
        if not 0 <= self.entropy < float("inf"):
            raise InputError(f"the weight of the entropy must be 0 or more, not {self.entropy}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, outputs = adapter(batch, every_sample=True)
        classes = class_logits(outputs, self.label_loss, "the entropy of predictions")
        logits = adapter.domain_classifier(reverse_gradient(features, factor))
        domain = domain_loss(logits, batch.domains, batch.total_samples)
        unlabelled = classes[~batch.labelled]
        count = max(batch.total_samples - batch.total_labelled, 1)
        entropy = prediction_entropy(unlabelled).sum() / count
        predictions = outputs[batch.labelled_samples] if batch.labelled_count else None
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, domain + self.entropy * entropy, domain, logits)
