"""`Regression`: one number or several a sample. `CustomTask`: functions of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import isclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from revgrad.errors import InputError
from revgrad.tasks.losses import LabelLoss, squared_error
from revgrad.tasks.metrics import Meter, NoMeter, RegressionMeter
from revgrad.tasks.task import Columns, Task, number_columns, shown_shape


@dataclass(frozen=True)
class Regression(Task):
    """Numbers by the squared error.

    Attributes
    ----------
    shape
        of one sample's label: () or (k,), …; None: as the outputs are
    """

    name: ClassVar[str] = "regression"
    noun: ClassVar[str] = "a regression"
    metrics: ClassVar[tuple[str, ...]] = ("r2", "mean_absolute_error")
    loss_unit: ClassVar[str] = "squared error"
    shape: tuple[int, ...] | None = None

    @property
    def label_loss(self) -> LabelLoss:
        return squared_error

    def completed(self, labels: np.ndarray, classes: tuple[str, ...] | None) -> Task:
        return self if self.shape is not None else replace(self, shape=labels.shape[1:])

    def outputs(self, labels: np.ndarray) -> int:
        return int(np.prod(labels.shape[1:], dtype=int))

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        numbers, given = self.outputs(labels), int(np.prod(shape, dtype=int))
        if self.shape is not None and labels.shape[1:] != self.shape:
            raise InputError(
                f"{name}: labels of shape {labels.shape[1:]} a sample; the regression is of "
                f"{self.shape}"
            )
        if numbers != given:
            hint = ""
            if labels.ndim == 1 and np.array_equal(labels, np.round(labels)):
                hint = "; if the labels are classes, give them as integers"
            raise InputError(
                f"{name}: a regression of {numbers} number{'' if numbers == 1 else 's'} a sample, "
                f"but the network gives {shown_shape(shape)}: one for each number would do{hint}"
            )

    def predictions(self, outputs: Tensor) -> np.ndarray:
        """(n, …) as the labels are."""
        found: np.ndarray = outputs.numpy()
        return found if self.shape is None else found.reshape(len(found), *self.shape)

    def meter(self) -> Meter:
        return RegressionMeter()

    def columns(self, outputs: Tensor) -> Columns:
        return number_columns(outputs.numpy())

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "shape": None if self.shape is None else list(self.shape)}


@dataclass(frozen=True)
class CustomTask(Task):
    """Any outputs and labels, by functions of one's own.

    No file holds functions: after loading a run, give the task again.

    Attributes
    ----------
    loss
        (outputs, labels) → a loss per sample, or their mean
    predict
        outputs → an array with a prediction a sample; without it there are none
    """

    name: ClassVar[str] = "custom"
    noun: ClassVar[str] = "a task of your own"
    metrics: ClassVar[tuple[str, ...]] = ()
    loss_unit: ClassVar[str] = ""
    loss: LabelLoss | None = None
    predict: Callable[[Any], Any] | None = None
    recorded: str = ""  # of a run: what its functions were called

    def __post_init__(self) -> None:
        for name in ("loss", "predict"):
            given = getattr(self, name)
            if given is not None and (isclass(given) or not callable(given)):
                came = given.__name__ if isclass(given) else repr(given)
                takes = "outputs and labels" if name == "loss" else "outputs"
                raise InputError(
                    f"{name} of a task is a function of {takes}, not {came}"
                    + (f": an instance, {came}(), would do" if isclass(given) else "")
                )

    @property
    def label_loss(self) -> LabelLoss:
        if self.loss is None:
            raise self._missing("a loss")
        return self.loss

    def outputs(self, labels: np.ndarray) -> int | None:
        return None

    def check(self, labels: np.ndarray, shape: tuple[int, ...], name: str) -> None:
        """Only the functions know."""

    def predictions(self, outputs: Any) -> np.ndarray:
        if self.predict is None:
            raise self._missing("a prediction function")
        found = self.predict(outputs)
        return found.numpy() if isinstance(found, Tensor) else np.asarray(found)

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        raise InputError("a task of your own has no probabilities: its predict function may give")

    def meter(self) -> Meter:
        return NoMeter()

    def columns(self, outputs: Tensor) -> Columns:
        found = self.predictions(outputs)
        if found.dtype.kind in "US":
            return {"prediction": [str(one) for one in found.reshape(len(found), -1)[:, 0]]}
        return number_columns(found)

    def describe(self) -> dict[str, Any]:
        names = [
            getattr(one, "__qualname__", type(one).__name__)
            for one in (self.loss, self.predict)
            if one is not None
        ]
        return {"name": self.name, "functions": self.recorded or ", ".join(names)}

    def _missing(self, what: str) -> InputError:
        if self.recorded:
            return InputError(
                f"the run's task is your own ({self.recorded}), and a file holds no functions: "
                "give it again, task=CustomTask(loss, predict) or --task module:name"
            )
        return InputError(
            f"the task has no {what.removeprefix('a ')}, so nothing says what outputs mean: "
            "task=CustomTask(loss, predict) would do; outputs(data) gives them as they are"
        )
