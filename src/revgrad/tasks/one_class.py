"""Tasks of one class a sample: `ClassLabels`, `Binary` (one logit), `Ordinal` (ordered classes)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from revgrad.errors import InputError
from revgrad.tasks.losses import (
    LabelLoss,
    binary_cross_entropy,
    cross_entropy,
    ordinal_loss,
    two_logits,
)
from revgrad.tasks.metrics import ConfusionCounts, Meter, MetricKind, Metrics
from revgrad.tasks.task import (
    Columns,
    Task,
    check_integers,
    class_count,
    decimals,
    shown_shape,
    with_names,
)

log = logging.getLogger("revgrad")


@dataclass(frozen=True)
class _OneClass(Task):
    """What the three have in common: numbers decided, names given back, confusion counted.

    Attributes
    ----------
    classes
        names, in the order of the class numbers; None: the numbers are the names
    """

    classes: tuple[str, ...] | None = None

    def completed(self, labels: np.ndarray, classes: tuple[str, ...] | None) -> Task:
        return self if self.classes is not None else replace(self, classes=classes)

    def numbers(self, outputs: Tensor) -> Tensor:
        """(n,) class numbers."""
        raise NotImplementedError

    def shares(self, outputs: Tensor) -> Tensor:
        """(n, classes) probabilities."""
        raise NotImplementedError

    def predictions(self, outputs: Tensor) -> np.ndarray:
        return with_names(self.numbers(outputs).numpy(), self.classes)

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        found: np.ndarray = self.shares(outputs).numpy()
        return found

    def meter(self) -> Meter:
        return _ClassMeter(self)

    def columns(self, outputs: Tensor) -> Columns:
        numbers, shares = self.numbers(outputs).numpy(), self.probabilities(outputs)
        names = self.classes or tuple(str(number) for number in range(shares.shape[1]))
        return {
            "class": [names[number] for number in numbers],
            "confidence": decimals(shares[np.arange(len(shares)), numbers]),
        }

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "classes": self.classes and list(self.classes)}


@dataclass(frozen=True)
class ClassLabels(_OneClass):
    """A logit for each class; the most likely one is predicted."""

    name: ClassVar[str] = "classes"
    noun: ClassVar[str] = "a classification"
    one_class: ClassVar[bool] = True

    @property
    def label_loss(self) -> LabelLoss:
        return cross_entropy

    def outputs(self, labels: np.ndarray) -> int:
        return class_count(labels, self.classes)

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        check_integers(labels, self, name)
        if labels.ndim != 1:
            raise InputError(
                f"{name}: labels of shape {labels.shape}: a classification has one class a sample "
                "(several: task='multi-label', 'dense' or 'sequence')"
            )
        if len(shape) > 1:
            raise InputError(
                f"{name}: one class a sample, but the network gives {shown_shape(shape)} a sample: "
                "a logit for each class would do, (n, classes)"
            )
        count, outputs = class_count(labels, self.classes), shape[0] if shape else 1
        if count > outputs or outputs < 2:
            raise InputError(
                f"{name}: labels are out of range: {count} classes (0 … {count - 1}), but the "
                f"network has {shown_shape(shape)}"
            )

    def numbers(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)

    def shares(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(1)

    def class_logits(self, outputs: Tensor) -> Tensor:
        return outputs


@dataclass(frozen=True)
class Binary(_OneClass):
    """Two classes by one logit, that of the second: outputs (n,) or (n, 1)."""

    name: ClassVar[str] = "binary"
    noun: ClassVar[str] = "a binary classification"
    one_class: ClassVar[bool] = True

    @property
    def label_loss(self) -> LabelLoss:
        return binary_cross_entropy

    def outputs(self, labels: np.ndarray) -> int:
        return 1

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        if labels.ndim != 1 or not np.isin(labels, (0, 1)).all() or len(self.classes or ()) > 2:
            strange = labels[~np.isin(labels, (0, 1))]
            came = f"there is {strange.flat[0]}" if strange.size else f"of shape {labels.shape}"
            if len(self.classes or ()) > 2:
                came = f"there are {len(self.classes or ())} classes"
            raise InputError(
                f"{name}: labels of a binary classification are 0 and 1, one a sample; {came} "
                "(more classes: task='classes')"
            )
        if shape not in ((), (1,)):
            raise InputError(
                f"{name}: a binary classification takes one logit a sample, and the network gives "
                f"{shown_shape(shape)} (a logit for each class: task='classes')"
            )

    def numbers(self, outputs: Tensor) -> Tensor:
        return (outputs.reshape(-1) > 0).long()

    def shares(self, outputs: Tensor) -> Tensor:
        return two_logits(outputs).softmax(1)

    def class_logits(self, outputs: Tensor) -> Tensor:
        return two_logits(outputs)


@dataclass(frozen=True)
class Ordinal(_OneClass):
    """Ordered classes by k − 1 logits, each of "the class is above j" (Frank & Hall 2001).

    Probabilities of being above j that rise with j are lowered to the one before. The median class
    is predicted: of all, it is expected to be nearest.
    """

    name: ClassVar[str] = "ordinal"
    noun: ClassVar[str] = "an ordinal regression"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "mean_absolute_error")

    @property
    def label_loss(self) -> LabelLoss:
        return ordinal_loss

    def outputs(self, labels: np.ndarray) -> int:
        return max(class_count(labels, self.classes) - 1, 1)

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        check_integers(labels, self, name)
        count = class_count(labels, self.classes)
        if labels.ndim != 1 or len(shape) != 1 or shape[0] < count - 1:
            raise InputError(
                f"{name}: {count} ordered classes, one a sample, need {count - 1} outputs (each "
                f"says whether the class is above); labels of shape {labels.shape} and "
                f"{shown_shape(shape)} came"
            )
        if shape[0] >= count:
            log.info(
                "%s: %d outputs are for %d ordered classes, and the labels hold %d: for these, %d "
                "outputs would do",
                *(name, shape[0], shape[0] + 1, count, count - 1),
            )

    def numbers(self, outputs: Tensor) -> Tensor:
        return (_above(outputs) > 0.5).sum(1)

    def metric_kind(self, name: str) -> MetricKind:
        kind = super().metric_kind(name)
        return replace(kind, unit="in classes") if name == "mean_absolute_error" else kind

    def shares(self, outputs: Tensor) -> Tensor:
        above = _above(outputs)
        edges = torch.ones_like(above[:, :1])
        return torch.cat([edges, above], 1) - torch.cat([above, torch.zeros_like(edges)], 1)


def _above(outputs: Tensor) -> Tensor:
    """(n, k − 1): the probability that the class is above 0, 1, …; never rising."""
    return outputs.sigmoid().cummin(1).values


class _ClassMeter(ConfusionCounts):
    def __init__(self, task: _OneClass) -> None:
        super().__init__()
        self.task = task

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        classes = self.task.shares(outputs[:1]).shape[1]
        self.count(labels.long(), self.task.numbers(outputs), classes)

    def result(self) -> Metrics:
        ordered = isinstance(self.task, Ordinal)
        return Metrics(
            accuracy=self.accuracy,
            confusion=self.counts,
            mean_absolute_error=self.mean_distance if ordered else None,
        )
