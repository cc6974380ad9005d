"""Label losses: L_y of every task, each a function of (outputs, labels)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad.errors import InputError

#: (outputs for the labelled samples, their labels) → a loss per sample, or their mean. A loss that
#: has a method `positions(labels)`, as `PositionCrossEntropy`, gives each sample's sum instead.
LabelLoss = Callable[[Any, Tensor], Tensor]


def cross_entropy(predictions: Tensor, labels: Tensor) -> Tensor:
    """Mean over the samples of the multinomial logistic loss, the paper's L_y (§4)."""
    return F.cross_entropy(predictions, labels)


def squared_error(predictions: Tensor, labels: Tensor) -> Tensor:
    """Squared error per sample, for regression."""
    if predictions.numel() != labels.numel():
        raise InputError(
            f"the network's output has shape {tuple(predictions.shape)}, the labels "
            f"{tuple(labels.shape)}: the squared error needs one output per number of a label"
        )
    return (predictions.reshape(labels.shape) - labels).square()


def binary_cross_entropy(predictions: Tensor, labels: Tensor) -> Tensor:
    """Binomial logistic loss of one logit a sample, (n,) or (n, 1), and labels 0 and 1: (n,)."""
    logits = predictions.reshape(labels.shape)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")


def multi_label_loss(predictions: Tensor, labels: Tensor) -> Tensor:
    """Binomial logistic loss of every label, (n, k) logits and labels 0 and 1: (n, k)."""
    return F.binary_cross_entropy_with_logits(
        predictions, labels.to(predictions.dtype), reduction="none"
    )


def ordinal_loss(predictions: Tensor, labels: Tensor) -> Tensor:
    """Binomial logistic loss of every threshold j, "is the class above j?": (n, k − 1).

    The logits are (n, k − 1), the labels class numbers 0 … k − 1 (Frank & Hall 2001).
    """
    thresholds = torch.arange(predictions.shape[1], device=labels.device)
    above = (labels[:, None] > thresholds).to(predictions.dtype)
    return F.binary_cross_entropy_with_logits(predictions, above, reduction="none")


@dataclass(frozen=True)
class PositionCrossEntropy:
    """Multinomial logistic loss at every position of a map or sequence of class numbers.

    Calling it gives the sum over each sample's positions, (n,). The objective divides by the number
    of positions that are not `ignored`, over the whole batch and all processes.

    Attributes
    ----------
    axis
        of the classes in the outputs: 1 (maps, (n, classes, …)) or −1 (sequences)
    """

    ignored: int
    axis: int

    def __call__(self, predictions: Tensor, labels: Tensor) -> Tensor:
        logits = predictions.movedim(self.axis, 1)
        losses = F.cross_entropy(logits, labels, ignore_index=self.ignored, reduction="none")
        return losses.flatten(1).sum(1)

    def positions(self, labels: Tensor) -> Tensor:
        """(n,): the positions of each sample that have a label."""
        return (labels != self.ignored).flatten(1).sum(1)


def two_logits(logits: Tensor) -> Tensor:
    """One logit a sample, (n,) or (n, 1), as those of two classes, (n, 2): the same shares."""
    one = logits.reshape(len(logits), -1)
    return torch.cat([torch.zeros_like(one), one], dim=1)


def class_logits(outputs: Any, label_loss: LabelLoss, purpose: str) -> Tensor:
    """(n, k ≥ 2) logits of each sample's class, as the loss understands the outputs.

    Where they are no such logits, an InputError says that `purpose` is for classes.
    """
    if label_loss is binary_cross_entropy:
        return two_logits(outputs)
    others = (squared_error, multi_label_loss, ordinal_loss)
    is_other = label_loss in others or isinstance(label_loss, PositionCrossEntropy)
    if is_other or not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] < 2:
        kind = tuple(outputs.shape[1:]) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"{purpose} is for classes, one a sample; the network gives {kind}")
    return outputs


def loss_sum(label_loss: LabelLoss, outputs: Any, labels: Tensor) -> tuple[float, int]:
    """A loss over samples as (sum, number of what it is the sum of): samples, or positions."""
    values = label_loss(outputs, labels).double()
    positions = getattr(label_loss, "positions", None)
    if positions is not None:
        return float(values.sum()), int(positions(labels).sum())
    if values.ndim > 1:
        values = values.flatten(1).mean(1)
    return float(values.mean()) * len(labels), len(labels)
