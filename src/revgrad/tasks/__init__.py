"""Tasks: what a network's outputs mean, from the loss to what predict writes."""

from __future__ import annotations

from revgrad.tasks.choice import (
    TASKS,
    choose_task,
    planned_outputs,
    restored_task,
    task_named,
    task_of,
)
from revgrad.tasks.losses import (
    LabelLoss,
    PositionCrossEntropy,
    binary_cross_entropy,
    class_logits,
    cross_entropy,
    loss_sum,
    multi_label_loss,
    ordinal_loss,
    squared_error,
)
from revgrad.tasks.metrics import Evaluation, Meter, Metrics
from revgrad.tasks.numbers import CustomTask, Regression
from revgrad.tasks.one_class import Binary, ClassLabels, Ordinal
from revgrad.tasks.several import DenseLabels, MultiLabel, SequenceLabels
from revgrad.tasks.task import Columns, Task

__all__ = [
    "TASKS",
    "Binary",
    "ClassLabels",
    "Columns",
    "CustomTask",
    "DenseLabels",
    "Evaluation",
    "LabelLoss",
    "Meter",
    "Metrics",
    "MultiLabel",
    "Ordinal",
    "PositionCrossEntropy",
    "Regression",
    "SequenceLabels",
    "Task",
    "binary_cross_entropy",
    "choose_task",
    "class_logits",
    "cross_entropy",
    "loss_sum",
    "multi_label_loss",
    "ordinal_loss",
    "planned_outputs",
    "restored_task",
    "squared_error",
    "task_named",
    "task_of",
]
