"""The task of labels and outputs: chosen from them, by name, or from a run's record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from revgrad.errors import InputError, unknown
from revgrad.tasks.losses import LabelLoss, cross_entropy, squared_error
from revgrad.tasks.numbers import CustomTask, Regression
from revgrad.tasks.one_class import Binary, ClassLabels, Ordinal
from revgrad.tasks.several import DenseLabels, MultiLabel, SequenceLabels
from revgrad.tasks.task import Task, shown_shape

#: Tasks by name: what `adapt(task=…)` and `revgrad train --task` take.
TASKS: dict[str, Callable[[], Task]] = {
    one.name: one
    for one in (ClassLabels, Binary, MultiLabel, Regression, Ordinal, DenseLabels, SequenceLabels)
}
_ALL = ", ".join(TASKS)


def task_named(given: Task | str) -> Task:
    """A task itself, or by its name; `dense:255` and `sequence:0` name the ignored label too."""
    if isinstance(given, Task):
        return given
    if not isinstance(given, str):
        raise InputError(f"a task is a Task or its name ({_ALL}), not {type(given).__name__}")
    name, _, ignored = given.partition(":")
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    if not ignored:
        return TASKS[name]()
    kinds = {"dense": DenseLabels, "sequence": SequenceLabels}
    try:
        return kinds[name](ignored=int(ignored))
    except (KeyError, ValueError):
        raise InputError(
            f"'{given}' is no task: dense and sequence take the ignored label as a whole number, "
            "as in dense:255"
        ) from None


def task_of(
    labels: np.ndarray,
    shape: tuple[int, ...],
    classes: tuple[str, ...] | None = None,
    name: str = "source",
) -> Task:
    """The task that labels (n, …) and outputs of `shape` a sample leave no doubt about.

    Integers are classes (one output: binary), floats a regression; a matrix of 0 and 1 with as many
    outputs is multi-label; maps of integers are dense labels or, with the classes last, sequences.
    Where several would do, an InputError asks for the name.
    """
    task = (_of_floats if labels.dtype.kind == "f" else _of_integers)(labels, shape, name)
    found = task.completed(labels, classes)
    found.check(labels, shape, name)
    return found


def choose_task(
    labels: np.ndarray,
    outputs: Any,
    *,
    task: Task | str | None = None,
    label_loss: LabelLoss | None = None,
    classes: tuple[str, ...] | None = None,
    name: str = "source",
) -> Task:
    """The task that was asked for, or that labels and an example of outputs (1, …) say.

    A label loss of one's own makes a `CustomTask` where neither fits.
    """
    ours = label_loss is None or label_loss in (cross_entropy, squared_error)
    if task is not None:
        found = task_named(task).completed(labels, classes)
        if isinstance(found, CustomTask):
            return found
        found.check(labels, _shape_of(outputs), name)
        return found
    if not isinstance(outputs, Tensor) and not ours:
        return CustomTask(label_loss)
    try:
        return task_of(labels, _shape_of(outputs), classes, name)
    except InputError:
        class_numbers = labels.dtype.kind != "f" and labels.ndim == 1
        if ours or (class_numbers and isinstance(outputs, Tensor) and outputs.ndim == 2):
            raise
        return CustomTask(label_loss)


def planned_outputs(
    labels: np.ndarray, classes: tuple[str, ...] | None, task: Task | str | None
) -> int:
    """Outputs that a network for these labels should have, before there is a network."""
    if task is None:
        if labels.dtype.kind == "f":
            task = Regression()
        elif labels.ndim == 2 and np.isin(labels, (0, 1)).all():
            task = MultiLabel()
        else:
            task = ClassLabels() if labels.ndim == 1 else DenseLabels()
    return task_named(task).completed(labels, classes).outputs(labels) or 1


def restored_task(described: dict[str, Any]) -> Task:
    """The task of a run's record."""
    values = dict(described)
    name = values.pop("name", None)
    if name == CustomTask.name:
        return CustomTask(recorded=str(values.get("functions", "")) or "unnamed")
    if name not in TASKS:
        raise unknown("task", str(name), TASKS)
    for key in ("classes", "shape"):
        if values.get(key) is not None:
            values[key] = tuple(values[key])
    made: Any = TASKS[name]
    try:
        task: Task = made(**values)
    except TypeError:
        raise InputError(f"the task {described} can't be read: it has fields unknown") from None
    return task


def _of_floats(labels: np.ndarray, shape: tuple[int, ...], name: str) -> Task:
    if labels.size and np.isin(labels, (0, 1)).all():
        if labels.ndim == 2 and labels.shape[1] > 1 and (labels.sum(1) == 1).all():
            raise InputError(
                f"{name}: labels are one-hot floats of shape {labels.shape}: give class numbers, "
                "labels.argmax(1), or say task='multi-label' or task='regression'"
            )
        raise InputError(
            f"{name}: labels are floats, all of them 0 or 1: give classes as integers, or say "
            "task='binary', task='multi-label' or task='regression'"
        )
    return Regression()


def _of_integers(labels: np.ndarray, shape: tuple[int, ...], name: str) -> Task:
    if labels.ndim == 1:
        one = shape in ((), (1,))
        return Binary() if one and np.isin(labels, (0, 1)).all() else ClassLabels()
    positions = labels.shape[1:]
    if positions == (1,) and shape != (1,):
        raise InputError(
            f"{name}: labels are a column, of shape {labels.shape}: one class a sample is (n,), so "
            "y.ravel() would do"
        )
    maps, sequence = shape[1:] == positions, shape[:-1] == positions
    if maps and sequence:
        raise InputError(
            f"{name}: labels of {positions} and outputs of {shape} a sample fit dense labels "
            "(classes first) and sequences (classes last): say task='dense' or task='sequence'"
        )
    if maps or sequence:
        return DenseLabels() if maps else SequenceLabels()
    if shape == positions and len(shape) == 1:
        return MultiLabel()
    raise InputError(
        f"{name}: labels of {positions} and {shown_shape(shape)} a sample fit no task: "
        "multi-label wants as many outputs as labels, dense labels (n, classes, …), sequences "
        "(n, length, classes), numbers to predict are floats"
    )


def _shape_of(outputs: Any) -> tuple[int, ...]:
    """Of one sample's outputs."""
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the network returns a {type(outputs).__name__}, not one tensor: say which part is "
            f"meant, {_parts(outputs)}"
        )
    return tuple(outputs.shape[1:])


def _parts(outputs: Any) -> str:
    keys = list(outputs) if isinstance(outputs, dict) else []
    if keys:
        one = "logits" if "logits" in keys else keys[0]
        return f"output='{one}' (it has {', '.join(keys)}; --output-part)"
    if isinstance(outputs, tuple | list) and outputs:
        shapes = [tuple(one.shape[1:]) if isinstance(one, Tensor) else "?" for one in outputs]
        shown = ", ".join(f"{place}: {one}" for place, one in enumerate(shapes))
        return f"output=0, or another place (--output-part 0; a sample's parts are {shown})"
    return "output=0 (a name of a dict or attribute, or a place of a tuple)"
