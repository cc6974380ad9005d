"""Appendix A of the paper: a loss for the domain classifier, another for the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from torch.func import functional_call

from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.losses import (
    Losses,
    combined,
    domain_loss,
    mean_label_loss,
)
from revgrad.tasks.losses import LabelLoss, cross_entropy


@dataclass(frozen=True)
class TwoLosses:
    """Appendix A: the domain classifier minimises L_d+, the feature extractor L_d−.

    Attributes
    ----------
    pair
        "reversal": (L_d, −λ L_d), which gives the same updates as gradient reversal; "swapped":
        (L_d, λ L_d with the domains swapped), Goodfellow et al.'s, whose gradient is stronger while
        the domains are easily told apart
    label_loss
        (predictions, labels) → loss; the task's by default
    """

    pair: Literal["reversal", "swapped"] = "swapped"
    sums_over_samples: ClassVar[bool] = True

    label_loss: LabelLoss = cross_entropy

    def __post_init__(self) -> None:
        if self.pair not in ("reversal", "swapped"):
            raise InputError(f"TwoLosses takes the pair 'reversal' or 'swapped', not {self.pair!r}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        classifier = adapter.domain_classifier
        logits = classifier(features.detach())
        plus = domain_loss(logits, batch.domains, batch.total_samples)
        frozen = {name: value.detach() for name, value in classifier.named_parameters()}
        seen = functional_call(classifier, frozen, (features.clone(),))
        if self.pair == "reversal":
            minus = -domain_loss(seen, batch.domains, batch.total_samples)
        else:
            if seen.ndim != 1:
                raise InputError("the swapped-label pair is for two domains; use pair='reversal'")
            minus = domain_loss(seen, 1 - batch.domains, batch.total_samples)
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, plus + factor * minus, plus, logits)
