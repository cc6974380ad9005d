"""Losses that objectives are made of: L_y, L_d, and the type they return."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad._distributed import sum_over_processes
from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.tasks.losses import LabelLoss, cross_entropy


class AdversaryLoss(NamedTuple):
    """What one adversary of several shows of a step: shares of sums over all processes, detached.

    `right`: samples told right; of a number, Σ (1 − squared error), whose mean is the share of its
    variance that is explained. `known`: this process's samples that have a value.
    """

    loss: Tensor
    right: Tensor
    known: int


class Losses(NamedTuple):
    """One step's losses; `total` is minimised, the rest is shown."""

    total: Tensor
    label: Tensor | None  # L_y, detached
    domain: Tensor | None  # L_d or another discrepancy of the domains, detached
    domain_logits: Tensor | None  # the domain classifier's output, detached
    adversaries: tuple[AdversaryLoss, ...] = ()  # where they are more than one domain classifier


class Objective(Protocol):
    """Anything that turns a batch into losses."""

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses: ...


def domain_loss(logits: Tensor, domains: Tensor, total: int) -> Tensor:
    """Sum over samples of the binomial cross-entropy of one logit, (n,) or (n, 1), or of k logits
    (n, k), divided by `total`, the number of samples of all processes."""
    logits = in_full(_without_width_one(logits))
    if logits.ndim > 2:
        raise InputError(
            f"the domain classifier gives {tuple(logits.shape)}, and one logit a sample is wanted, "
            f"(n,) or (n, 1): of one a position, nn.AdaptiveAvgPool{logits.ndim - 2}d(1) and "
            "nn.Flatten() behind it make the mean"
        )
    alone = len(domains) == total  # a mean then; it costs one operation less than a sum divided
    reduction = "mean" if alone else "sum"
    if logits.ndim == 1:
        targets = domains.to(logits.dtype)
        value = F.binary_cross_entropy_with_logits(logits, targets, reduction=reduction)
    else:
        value = F.cross_entropy(logits, domains, reduction=reduction)
    return value if alone else value / total


def in_full(values: Any) -> Any:
    """Outputs of reduced precision as float32: losses are computed in full."""
    reduced = isinstance(values, Tensor) and values.dtype in (torch.bfloat16, torch.float16)
    return values.float() if reduced else values


def domain_decisions(logits: Tensor) -> Tensor:
    """The domain that each sample's logits say."""
    logits = _without_width_one(logits)
    return (logits > 0).long() if logits.ndim == 1 else logits.argmax(1)


def _without_width_one(logits: Tensor) -> Tensor:
    """A classifier that ends in a linear layer of one unit gives (n, 1): one logit a sample."""
    return logits[:, 0] if logits.ndim == 2 and logits.shape[1] == 1 else logits


def prediction_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of the softmax of each sample's logits, (n, k) → (n,)."""
    logarithms = F.log_softmax(logits, dim=1)
    return -(logarithms.exp() * logarithms).sum(1)


def mean_label_loss(label_loss: LabelLoss, predictions: Any, batch: Batch) -> Tensor | None:
    """L_y of this process's labelled samples over all processes' count; None where it has none.

    The count is of samples or, of a loss that has `positions`, of labelled positions: these are
    known from the labels alone, and every process takes part in their sum.
    """
    predictions = in_full(predictions)
    if batch.weights is not None:
        return weighted_label_loss(label_loss, predictions, batch)
    labels = batch.labels[batch.labelled_samples]
    positions = getattr(label_loss, "positions", None)
    if positions is not None:
        total = batch.total_positions
        if total is None:
            total = sum_over_processes(positions(labels).sum().float())
        if predictions is None:
            return None
        return label_loss(predictions, labels).sum() / total.clamp(min=1)
    if predictions is None:
        return None
    values = label_loss(predictions, labels)
    if not isinstance(values, Tensor):
        raise InputError(
            f"the label loss gave a {type(values).__name__}: it must be a tensor, one value per "
            "sample or their mean"
        )
    if values.ndim == 0:  # a mean over this process's samples
        share = len(labels) / batch.total_labelled
        return values if share == 1.0 else values * share
    if values.shape[0] != len(labels):
        raise InputError(
            f"the label loss gave shape {tuple(values.shape)} for {len(labels)} samples: it must "
            "return one value per sample, or their mean"
        )
    per_row = values if values.ndim == 1 else values.flatten(1).mean(1)
    return per_row.sum() / batch.total_labelled


def weighted_label_loss(label_loss: LabelLoss, predictions: Any, batch: Batch) -> Tensor | None:
    """Σ w ℓ of this process's labelled samples over all processes' Σ w; None where it has none.

    Of a loss that has `positions`, every position weighs as much as its sample.
    """
    assert batch.weights is not None
    assert batch.total_weight is not None
    where = batch.labelled_samples
    labels, weights = batch.labels[where], batch.weights[where]
    positions = getattr(label_loss, "positions", None)
    if positions is not None:
        total = batch.total_positions
        if total is None:
            total = sum_over_processes((positions(labels) * weights).sum())
        if predictions is None:
            return None
        sums = label_loss(predictions, labels)
        return (sums * weights.to(sums.dtype)).sum() / torch.where(total > 0, total, 1.0)
    if predictions is None:
        return None
    if label_loss is cross_entropy:
        values = F.cross_entropy(predictions, labels, reduction="none")
    else:
        values = label_loss(predictions, labels)
    if values.ndim == 0 or values.shape[0] != len(labels):
        raise InputError(
            f"the label loss gave shape {tuple(values.shape)} for {len(labels)} samples: weights "
            "need one value per sample (reduction='none')"
        )
    per_sample = values if values.ndim == 1 else values.flatten(1).mean(1)
    return (per_sample * weights.to(per_sample.dtype)).sum() / (batch.total_weight or 1.0)


def combined(label: Tensor | None, term: Tensor, shown: Tensor, logits: Tensor | None) -> Losses:
    """L_y plus the domains' `term`; `shown` is the domains' loss as people want to read it."""
    return Losses(
        total=term if label is None else label + term,
        label=None if label is None else label.detach(),
        domain=shown.detach(),
        domain_logits=None if logits is None else logits.detach(),
    )
