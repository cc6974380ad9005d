"""L_y alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch, select_samples
from revgrad.objectives.losses import Losses, mean_label_loss
from revgrad.tasks.losses import LabelLoss, cross_entropy


@dataclass(frozen=True)
class Supervised:
    """L_y alone, on whichever samples have labels: source only, or train on target."""

    sums_over_samples: ClassVar[bool] = True

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        if not batch.labelled_count:
            mean_label_loss(self.label_loss, None, batch)  # its sum over processes takes all
            trained = (p for p in adapter.network.parameters() if p.requires_grad)
            nothing = next(trained).sum() * 0.0
            return Losses(nothing, None, None, None)
        inputs = batch.inputs
        if batch.prefix != len(batch.domains):
            inputs = select_samples(inputs, batch.labelled_samples)
        label = mean_label_loss(self.label_loss, adapter.predict(inputs), batch)
        assert label is not None
        return Losses(label, label.detach(), None, None)
