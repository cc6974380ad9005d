"""Domains brought together by a distance of their features, without a domain classifier."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revgrad._distributed import gather_samples, sum_over_processes, world_size
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.objectives.discrepancy import coral, median_bandwidths, mmd
from revgrad.objectives.losses import Losses, combined, mean_label_loss
from revgrad.tasks.losses import LabelLoss, cross_entropy


@dataclass(frozen=True)
class MeanMatching:
    """L_y + λ ‖mean of source features − mean of target features‖² (DDC, Tzeng et al. 2014).

    No domain classifier takes part. The means are over all processes' samples.
    """

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        flat = features.flatten(1)
        source, target = batch.source_and_target()
        sums = torch.stack([flat[source].sum(0), flat[target].sum(0)])
        counts = sums.new_tensor(batch.total_sources_and_targets)[:, None]
        means = sum_over_processes(sums) / counts
        # every process computes the whole distance: its share of the sum over processes
        distance = (means[0] - means[1]).square().sum() / world_size()
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, factor * distance, distance, None)


@dataclass(frozen=True)
class KernelMatching:
    """L_y + λ MMD² of the source's and the target's features (DaNN, Ghifary et al. 2014).

    The MMD is that of several Gaussian kernels of widths `bandwidths`; None: multiples of the
    median distance between the batch's samples, so that features may grow or shrink in training.
    No domain classifier takes part. Every process gets all processes' features, whose pairs can't
    be summed apart, so the result is that of one process.

    Attributes
    ----------
    label_loss
        (predictions, labels) → loss; the task's by default
    bandwidths
        of the Gaussian kernels; None: multiples of the median distance in the batch
    unbiased
        leave each sample's kernel with itself out of the means
    """

    label_loss: LabelLoss = cross_entropy
    bandwidths: tuple[float, ...] | None = None
    unbiased: bool = False

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        flat = features.flatten(1)
        source, target = (gather_samples(flat[samples]) for samples in batch.source_and_target())
        widths = median_bandwidths(source, target) if self.bandwidths is None else self.bandwidths
        # every process computes the whole distance: its share of the sum over processes
        distance = mmd(source, target, widths, unbiased=self.unbiased) / world_size()
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, factor * distance, distance, None)


@dataclass(frozen=True)
class CovarianceMatching:
    """L_y + w λ ‖C_S − C_T‖² / 4d², covariances of the features (deep CORAL, Sun & Saenko 2016).

    No domain classifier takes part. Every process gets all processes' features, as in
    `KernelMatching`. The d² in it makes the number small: weights of 1 to 1,000 are usual.

    Attributes
    ----------
    label_loss
        (predictions, labels) → loss; the task's by default
    weight
        w
    """

    label_loss: LabelLoss = cross_entropy
    weight: float = 1.0

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        flat = features.flatten(1)
        source, target = (gather_samples(flat[samples]) for samples in batch.source_and_target())
        distance = coral(source, target) / world_size()
        label = mean_label_loss(self.label_loss, predictions, batch)
        return combined(label, self.weight * factor * distance, distance, None)
