"""Information maximisation with pseudo-labels (SHOT, Liang et al. 2020): the target alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revgrad._distributed import sum_over_processes, world_size
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.losses import Losses, mean_label_loss, prediction_entropy
from revgrad.tasks.losses import cross_entropy


@dataclass(frozen=True)
class InformationMaximisation:
    """mean H(p) − H(mean p) + β L_y: sure predictions, spread over the classes.

    p are the predicted probabilities of a batch's samples and L_y the cross-entropy with their
    pseudo-labels, which come as labels (`revgrad.source_free`). Both entropies together are the
    mutual information of samples and predictions, with its sign changed.

    Parameters
    ----------
    label_weight
        β
    """

    label_weight: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.label_weight < float("inf"):
            raise InputError(f"the label weight must be 0 or more, not {self.label_weight}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        _, outputs = adapter(batch, every_sample=True)
        unsure = prediction_entropy(outputs).sum() / batch.total_samples
        # the mean prediction is of all processes' samples, and each of them takes its share
        mean = sum_over_processes(outputs.softmax(1).sum(0)) / batch.total_samples
        tiny = torch.finfo(mean.dtype).tiny
        spread = -(mean * mean.clamp(min=tiny).log()).sum() / world_size()
        predictions = outputs[batch.labelled_samples] if batch.labelled_count else None
        label = mean_label_loss(cross_entropy, predictions, batch)
        total = unsure - spread
        return Losses(
            total=total if label is None else total + self.label_weight * label,
            label=None if label is None else label.detach(),
            domain=None,
            domain_logits=None,
        )
