"""Gradient reversal, and predictions that hold when a target sample is changed a little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad._distributed import sum_over_processes, world_size
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.jitter import Jitter
from revgrad.objectives.losses import (
    Losses,
    combined,
    domain_loss,
    mean_label_loss,
)
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, class_logits, cross_entropy

_LITTLE = Jitter()


@dataclass(frozen=True)
class AdversarialConsistency:
    """L_y + L_d(G_d(R_ρλ(G_f(x)))) + w λ L_c − s λ H(p̄), all on samples that `augment` has changed.

    λ rises in training and lets the target in as the classes take shape; `reversal` is ρ, `weight`
    w, `spread` s.

    L_c: where the network is sure of an unlabelled image as it is (the likeliest class has at least
    probability `threshold`), the changed image must be of that class too; the cross-entropy of
    these, summed, over the number of unlabelled samples (Sohn et al. 2020; for domain adaptation
    French et al. 2018, Berthelot et al. 2022). Classes spread from target images that look like the
    source's to their neighbours, where mixing the domains alone may join the wrong classes.

    H(p̄): the entropy of the unlabelled samples' mean prediction (Krause et al. 2010, Liang et al.
    2020). Without it a class can be lost whole: on SVHN → MNIST every 6 became a 4 and every 9 a 7.
    It leans to classes of equal frequency; where the target's are very unequal, lower it.

    BatchNorm normalises the changed samples as the adapter's policy says; the statistics kept for
    inference are those of the unlabelled samples as they are, which is what inference will see.
    For classes only, and inputs of one tensor: images (`Jitter`), vectors or series (`Noise`).

    Attributes
    ----------
    weight
        w, of the consistency
    threshold
        the probability from which a prediction is taken as a label
    reversal
        ρ, of the reversal
    spread
        s, of the entropy of the mean prediction
    augment
        the change that a sample's class must survive
    label_loss
        (predictions, labels) → loss; the task's by default
    """

    weight: float = 1.0
    threshold: float = 0.95
    reversal: float = 0.01
    spread: float = 0.2
    augment: Callable[[Tensor], Tensor] = _LITTLE
    label_loss: LabelLoss = cross_entropy

    def __post_init__(self) -> None:
        for name in ("weight", "reversal", "spread"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not 0 <= self.threshold <= 1:
            raise InputError(f"the threshold is a probability, 0 to 1, not {self.threshold}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        if not isinstance(batch.inputs, Tensor):
            raise InputError("consistency is for inputs of one tensor: images, vectors or series")
        unlabelled = ~batch.labelled
        count = batch.total_samples - batch.total_labelled
        here = bool(unlabelled.any())  # another process may hold them all
        if here:
            with torch.no_grad():
                known = self._logits(adapter.predict(batch.inputs[unlabelled]))
                sure, classes = known.softmax(1).max(1)
        changed = batch._replace(inputs=self.augment(batch.inputs))
        with adapter.keeping_statistics(here):
            features, outputs = adapter(changed, every_sample=True)
        classes_of_all = self._logits(outputs)
        logits = adapter.domain_classifier(reverse_gradient(features, self.reversal * factor))
        domain = domain_loss(logits, batch.domains, batch.total_samples)
        predictions = outputs[batch.labelled_samples] if batch.labelled_count else None
        label = mean_label_loss(self.label_loss, predictions, batch)
        term = domain
        if count:
            asked = classes_of_all[unlabelled]
            term = term - self.spread * factor * _spread(asked, count)
            if here:
                losses = F.cross_entropy(asked, classes, reduction="none")
                agreed = (losses * (sure >= self.threshold)).sum() / count
                term = term + self.weight * factor * agreed
        return combined(label, term, domain, logits)

    def _logits(self, outputs: Tensor) -> Tensor:
        return class_logits(outputs, self.label_loss, "consistency of predictions")


def _spread(logits: Tensor, count: int) -> Tensor:
    """Entropy of the mean prediction over the `count` samples of all processes: this process's.

    A class that no sample has any probability of counts as if it had a little: its gradient would
    be infinite.
    """
    mean = sum_over_processes(logits.softmax(1).sum(0)) / count
    entropy: Tensor = torch.special.entr(mean.clamp(min=1e-8)).sum()
    return entropy / world_size()
