"""`Task`: what a network's outputs mean, decided once, from the loss to the report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from revgrad.errors import InputError
from revgrad.tasks.losses import LabelLoss
from revgrad.tasks.metrics import METRIC_KINDS, Meter, MetricKind

#: Columns of a table of predictions by name, each with a value a sample.
Columns = dict[str, list[str | float]]


@dataclass(frozen=True)
class Task:
    """Loss, predictions, probabilities and metrics of outputs (n, …) and labels (n, …).

    A task is chosen from labels and outputs (`task_of`) or named (`task_named`), then `completed`
    with what the labels say, and recorded with a run (`describe`).

    Attributes
    ----------
    name
        by which `adapt(task=…)` and `--task` know it
    noun
        in a sentence: "this run is a regression"
    one_class
        each sample has one class, and classes have no order: what the verdict can judge
    metrics
        names of its metrics, the one that says most first
    decides
        what accuracy is a share of: samples, labels or positions
    loss_unit
        of its label loss
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    one_class: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    decides: ClassVar[str] = "samples"
    loss_unit: ClassVar[str] = "nats"

    @property
    def label_loss(self) -> LabelLoss:
        """L_y, the loss of outputs for labelled samples."""
        raise NotImplementedError

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes or labels, where there are names."""
        return getattr(self, "classes", None)

    def completed(self, labels: np.ndarray, classes: tuple[str, ...] | None) -> Task:
        """With what the labels (n, …) and their names say; what was given stays."""
        return self

    def outputs(self, labels: np.ndarray) -> int | None:
        """The number of outputs that a network for these labels needs; None: can't be known."""
        raise NotImplementedError

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        """Refuse labels (n, …) of the domain `name` that outputs of `shape` a sample don't fit."""
        raise NotImplementedError

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """A prediction a sample, as labels are given: names, numbers, maps."""
        raise NotImplementedError

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """The probability of every class or label."""
        raise InputError(f"{self.noun} has no classes and so no probabilities: take predict")

    def class_logits(self, outputs: Tensor) -> Tensor:
        """(n, k ≥ 2) logits of each sample's one class."""
        raise InputError(f"logits of one class a sample are asked for; this is {self.noun}")

    def meter(self) -> Meter:
        """A new meter of the task's metrics."""
        raise NotImplementedError

    def metric_kind(self, name: str) -> MetricKind:
        """How a metric of that name is read, of this task."""
        kind = METRIC_KINDS[name]
        if name == "accuracy" and self.decides != "samples":
            return replace(kind, title=f"accuracy of {self.decides}")
        return kind

    def columns(self, outputs: Tensor) -> Columns:
        """Predictions as columns of a table."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """The task as json; `restored_task` makes it again."""
        return {"name": self.name}


def decimals(values: np.ndarray) -> list[str | float]:
    """Shares with six digits behind the point: what a table shows."""
    return [round(float(value), 6) for value in values]


def number_columns(values: np.ndarray) -> Columns:
    """`value`, or `value_0`, `value_1`, … of several numbers a sample."""
    flat = values.reshape(len(values), -1)
    names = ["value"] if flat.shape[1] == 1 else [f"value_{i}" for i in range(flat.shape[1])]
    # seven digits: what a float32 holds
    return {name: [float(f"{value:.7g}") for value in flat[:, i]] for i, name in enumerate(names)}


def with_names(numbers: np.ndarray, classes: tuple[str, ...] | None) -> np.ndarray:
    """Class numbers as the labels came: names where there are any, booleans as booleans."""
    if classes is None:
        return numbers
    if classes == BOOLEANS:
        return numbers.astype(bool)
    found: np.ndarray = np.asarray(classes)[numbers]
    return found


#: Names of the classes of labels that are booleans.
BOOLEANS = ("False", "True")


#: Classes that a network can be asked for: a larger label is a mistake, or a number to predict.
MOST_CLASSES = 1_000_000


def class_count(labels: np.ndarray, classes: tuple[str, ...] | None) -> int:
    """The number of classes: of the names, or the largest label plus one."""
    largest = int(labels.max()) if labels.size else -1
    if largest >= MOST_CLASSES:
        raise InputError(
            f"label {largest} would be class {largest} of as many: class numbers count from 0, to "
            f"{MOST_CLASSES - 1:,} at most; names would do, or numbered anew (numbers to predict "
            "are task='regression')"
        )
    return max(largest + 1, len(classes or ()))


def check_integers(labels: np.ndarray, task: Task, name: str) -> None:
    """Class numbers are integers."""
    if labels.dtype.kind not in "iub":
        raise InputError(
            f"{name}: labels are {labels.dtype}, and {task.noun} takes integers: class numbers "
            "from 0, names or booleans would do (numbers to predict are task='regression')"
        )


def shown_shape(shape: tuple[int, ...]) -> str:
    """Outputs of one sample in words."""
    if len(shape) <= 1:
        count = shape[0] if shape else 1
        return f"{count} output{'' if count == 1 else 's'}"
    return f"outputs of shape {shape}"
