"""Tasks of several labels a sample: `MultiLabel`, `DenseLabels`, `SequenceLabels`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from revgrad.errors import InputError
from revgrad.tasks.losses import LabelLoss, PositionCrossEntropy, multi_label_loss
from revgrad.tasks.metrics import ConfusionCounts, Meter, Metrics, MultiLabelMeter
from revgrad.tasks.task import (
    Columns,
    Task,
    check_integers,
    class_count,
    decimals,
    shown_shape,
    with_names,
)

#: Labels of this value are left out unless another is said: torch's own custom.
IGNORED = -100


@dataclass(frozen=True)
class MultiLabel(Task):
    """Any number of k labels, each yes or no by a logit of its own: outputs and labels (n, k).

    Attributes
    ----------
    classes
        the labels' names
    """

    name: ClassVar[str] = "multi-label"
    noun: ClassVar[str] = "a multi-label classification"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact_match", "accuracy")
    decides: ClassVar[str] = "labels"
    classes: tuple[str, ...] | None = None

    @property
    def label_loss(self) -> LabelLoss:
        return multi_label_loss

    def completed(self, labels: np.ndarray, classes: tuple[str, ...] | None) -> Task:
        return self if self.classes is not None else replace(self, classes=classes)

    def outputs(self, labels: np.ndarray) -> int:
        return int(np.prod(labels.shape[1:]))

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
            strange = labels[~np.isin(labels, (0, 1))]
            came = f"{strange.flat[0]} among them" if strange.size else f"shape {labels.shape}"
            raise InputError(
                f"{name}: a multi-label classification takes labels 0 and 1 of shape (n, labels); "
                f"{came} came (one class a sample: task='classes')"
            )
        if shape != labels.shape[1:]:
            raise InputError(
                f"{name}: {labels.shape[1]} labels a sample, but the network gives "
                f"{shown_shape(shape)}: one for each label would do"
            )
        if self.classes is not None and len(self.classes) != labels.shape[1]:
            raise InputError(
                f"{name}: {labels.shape[1]} labels a sample, but {len(self.classes)} names"
            )

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """(n, k) bool."""
        found: np.ndarray = (outputs > 0).numpy()
        return found

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """(n, k): of each label by itself."""
        found: np.ndarray = outputs.sigmoid().numpy()
        return found

    def meter(self) -> Meter:
        return MultiLabelMeter()

    def columns(self, outputs: Tensor) -> Columns:
        """The labels that are predicted, and the probability of each."""
        yes, shares = self.predictions(outputs), self.probabilities(outputs)
        names = self.classes or tuple(str(number) for number in range(shares.shape[1]))
        labels: list[str | float] = [
            " ".join(name for name, said in zip(names, line, strict=True) if said) for line in yes
        ]
        each = {f"probability_{name}": decimals(shares[:, i]) for i, name in enumerate(names)}
        return {"labels": labels, **each}

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "classes": self.classes and list(self.classes)}


@dataclass(frozen=True)
class DenseLabels(Task):
    """A class at every position of a map of any shape: labels (n, …), outputs (n, classes, …).

    Attributes
    ----------
    classes
        names; None: numbers
    ignored
        the label of positions that have none: no loss, no metric
    """

    name: ClassVar[str] = "dense"
    noun: ClassVar[str] = "a dense prediction"
    metrics: ClassVar[tuple[str, ...]] = ("mean_iou", "accuracy")
    decides: ClassVar[str] = "positions"
    axis: ClassVar[int] = 1
    classes: tuple[str, ...] | None = None
    ignored: int = IGNORED

    @property
    def label_loss(self) -> LabelLoss:
        return PositionCrossEntropy(self.ignored, self.axis)

    def completed(self, labels: np.ndarray, classes: tuple[str, ...] | None) -> Task:
        return self if self.classes is not None else replace(self, classes=classes)

    def outputs(self, labels: np.ndarray) -> int:
        return class_count(labels[labels != self.ignored], self.classes)

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        check_integers(labels, self, name)
        wanted = "(n, classes, …)" if self.axis == 1 else "(n, …, classes)"
        where = shape[1:] if self.axis == 1 else shape[:-1]
        if labels.ndim < 2 or len(shape) != labels.ndim or where != labels.shape[1:]:
            raise InputError(
                f"{name}: {self.noun} takes labels (n, …) and outputs {wanted} of the same "
                f"positions; labels of {labels.shape[1:]} and outputs of {shape} a sample came"
                f"{_remedy(labels.shape[1:], where)}"
            )
        known = labels[labels != self.ignored]
        if not known.size:
            raise InputError(
                f"{name}: every label is {self.ignored}, which is ignored: there is nothing to "
                "learn from"
            )
        outputs = shape[0] if self.axis == 1 else shape[-1]
        strange = known[(known < 0) | (known >= outputs)]
        if strange.size:
            value = strange.flat[0]
            raise InputError(
                f"{name}: there is a label {value}, but the network gives {outputs} classes (0 … "
                f"{outputs - 1}); where it marks positions without a label, "
                f"task='{self.name}:{value}' leaves them out"
            )

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """(n, …) class numbers."""
        found: np.ndarray = outputs.argmax(self.axis).numpy()
        return found

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Of every class at every position, in the shape of the outputs."""
        found: np.ndarray = outputs.softmax(self.axis).numpy()
        return found

    def meter(self) -> Meter:
        return _PositionMeter(self)

    def columns(self, outputs: Tensor) -> Columns:
        raise InputError(
            "predictions of dense labels are maps, which no table holds: write them to an .npz file"
        )

    def describe(self) -> dict[str, Any]:
        names = self.classes and list(self.classes)
        return {"name": self.name, "classes": names, "ignored": self.ignored}


@dataclass(frozen=True)
class SequenceLabels(DenseLabels):
    """A class at every position of a sequence: labels (n, length), outputs (n, length, classes).

    Sequences of unequal length are padded with the `ignored` label.
    """

    name: ClassVar[str] = "sequence"
    noun: ClassVar[str] = "a sequence labelling"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "mean_iou")
    axis: ClassVar[int] = -1

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """(n, length): names where the classes have names."""
        return with_names(outputs.argmax(self.axis).numpy(), self.classes)

    def columns(self, outputs: Tensor) -> Columns:
        """`class_0`, `class_1`, …: one for each position."""
        found = self.predictions(outputs).reshape(len(outputs), -1)
        return {f"class_{i}": [str(one) for one in found[:, i]] for i in range(found.shape[1])}


class _PositionMeter(ConfusionCounts):
    def __init__(self, task: DenseLabels) -> None:
        super().__init__()
        self.task = task

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        known = labels != self.task.ignored
        decided = outputs.argmax(self.task.axis)[known]
        self.count(labels[known].long(), decided, outputs.shape[self.task.axis])

    def result(self) -> Metrics:
        return Metrics(accuracy=self.accuracy, confusion=self.counts, mean_iou=self.mean_iou)


def _remedy(labels: tuple[int, ...], positions: tuple[int, ...]) -> str:
    """What would do for maps with one dimension too many, for a sentence."""
    if not labels or labels[1:] != positions:
        return ""
    if labels[0] == 1:
        return ": labels[:, 0] would do"
    return ": of one-hot maps, labels.argmax(1) would do"
