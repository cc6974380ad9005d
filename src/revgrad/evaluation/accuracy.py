"""How good predictions are on labelled data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from revgrad.batches import Inputs
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.evaluation.predicting import outputs
from revgrad.objectives import LabelLoss, cross_entropy


@dataclass(frozen=True)
class Evaluation:
    """Results on one domain's labelled rows. Regression has a loss, but no accuracy."""

    count: int
    loss: float
    accuracy: float | None
    confusion: np.ndarray | None  # [true class, predicted class]: number of rows

    @property
    def per_class(self) -> np.ndarray | None:
        """Accuracy of each class; NaN where it has no rows."""
        if self.confusion is None:
            return None
        with np.errstate(invalid="ignore"):
            shares: np.ndarray = np.diag(self.confusion) / self.confusion.sum(1)
        return shares


def evaluate(
    function: Callable[[Inputs], Any],
    module: nn.Module,
    domain: Domain,
    label_loss: LabelLoss = cross_entropy,
) -> Evaluation:
    """Compare `function`'s outputs with the labels of `domain`, `module` in evaluation mode."""
    labelled = np.flatnonzero(domain.labelled)
    if domain.labels is None or not len(labelled):
        raise InputError(f"{domain.name} has no labels to evaluate against")
    known = domain if len(labelled) == len(domain) else domain.subset(labelled)
    predictions = outputs(function, module, known)
    assert known.labels is not None
    labels = torch.from_numpy(known.labels)
    if known.is_classification:
        check_classes(known, predictions.shape[1])
    loss = float(label_loss(predictions, labels).mean())
    if not known.is_classification:
        return Evaluation(len(known), loss, None, None)
    decided = predictions.argmax(1)
    classes = predictions.shape[1]
    pairs = torch.bincount(labels * classes + decided, minlength=classes * classes)
    accuracy = float((decided == labels).double().mean())
    return Evaluation(len(known), loss, accuracy, pairs.reshape(classes, classes).numpy())


def check_classes(domain: Domain, outputs_: int) -> None:
    """Every label must be one of the network's outputs."""
    count = domain.class_count or 0
    if count > outputs_:
        raise InputError(
            f"{domain.name}: labels are out of range: {count} classes (0 … {count - 1}), but the "
            f"network has {outputs_} outputs"
        )
