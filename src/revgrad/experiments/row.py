"""One row of a table for one seed: what to compute, where it is kept, what comes out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from revgrad.experiments.budgets import Budget
from revgrad.experiments.experiment import Experiment
from revgrad.training.events import Events
from revgrad.training.trainer import Trainer

#: (steps done, steps in all): what a row tells while it trains.
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Row:
    """One method on one cell with one seed and budget; its folder is a run's where one is trained.

    `experiment` is the cell as published; `cell` is how the budget runs it.
    """

    experiment: Experiment
    method: str
    seed: int
    budget: Budget
    output: Path

    @property
    def cell(self) -> Experiment:
        return self.budget.applied(self.experiment)

    @property
    def folder(self) -> Path:
        where = self.output / self.budget.name / folder_name(self.experiment.cell)
        return where / f"{self.method}-{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.experiment.cell} {self.method} {self.seed}"

    @property
    def command(self) -> str:
        """What computes this row alone, as one could type it."""
        words = ["revgrad", "reproduce", self.experiment.table, "--cell", self.experiment.cell]
        words += ["--method", self.method, "--seeds", str(self.seed), "--budget", self.budget.name]
        return shlex.join(words)


@dataclass(frozen=True)
class Answers:
    """What a method says at the end: the class of every test input, and how well that is.

    predictions   (n,) of the test, by the method's own classifier
    """

    predictions: np.ndarray
    target_accuracy: float
    source_accuracy: float | None
    steps: int
    seconds: float
    target_accuracy_svm: float | None = None
    target_accuracy_oracle: float | None = None
    data: dict[str, str] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)  # what the method itself chose


class Reporting(Events):
    """Passes the number of finished steps on."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_start(self, trainer: Trainer, step: int) -> None:
        self.report(step, trainer.settings.steps)

    def on_step(self, trainer: Trainer, step: int) -> None:
        if step % 10 == 0 or step == trainer.settings.steps:
            self.report(step, trainer.settings.steps)


def folder_name(cell: str) -> str:
    """A cell's name as that of a folder: "mnist->mnist-m" → "mnist-to-mnist-m"."""
    plain = cell.replace("->", "-to-").replace("'", "")
    return "".join(c if c.isalnum() or c in "-+" else "-" for c in plain).replace("--", "-")


def accuracy(predictions: np.ndarray, labels: np.ndarray | None) -> float:
    """Share of the predictions that are right."""
    assert labels is not None
    return float(np.mean(predictions == labels))
