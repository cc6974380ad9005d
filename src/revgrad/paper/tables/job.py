"""A job: one method on one cell of a table with one seed; where it is kept, what comes out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from revgrad import Callback, Domain, Trainer
from revgrad.paper.tables.budgets import Budget
from revgrad.paper.tables.experiment import Experiment

#: In a job's folder: its record, written when the job is done. (`result.json` is the training's.)
JOB_RECORD = "job.json"

#: (steps done, steps in all): what a job tells while it trains.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
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
        """What computes this job alone, as one could type it."""
        words = ["revgrad", "reproduce", self.experiment.table, "--cell", self.experiment.cell]
        words += ["--method", self.method, "--seeds", str(self.seed), "--budget", self.budget.name]
        if self.experiment.weights is not None:
            folder = self.experiment.source.partition("@")[2]
            words += ["--data", folder] if folder else []
            words += ["--weights", self.experiment.weights]
        return shlex.join(words)


@dataclass(frozen=True)
class Predicted:
    """A method's predictions on the test, and how good they are.

    Attributes
    ----------
    predictions
        (n,) classes of the test's samples, by the method's own classifier
    chosen
        settings that the method chose itself, for the record
    """

    predictions: np.ndarray
    target_accuracy: float
    source_accuracy: float | None
    steps: int
    seconds: float
    target_accuracy_svm: float | None = None
    target_accuracy_oracle: float | None = None
    data: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)


class ProgressCallback(Callback):
    """Passes the number of finished steps on."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_start(self, trainer: Trainer, step: int) -> None:
        self.progress(step, trainer.settings.steps)

    def on_step(self, trainer: Trainer, step: int) -> None:
        if step % 10 == 0 or step == trainer.settings.steps:
            self.progress(step, trainer.settings.steps)


def folder_name(cell: str) -> str:
    """A cell's name as that of a folder: "mnist->mnist-m" → "mnist-to-mnist-m"."""
    plain = cell.replace("->", "-to-").replace("'", "")
    return "".join(c if c.isalnum() or c in "-+" else "-" for c in plain).replace("--", "-")


def accuracy(predictions: np.ndarray, test: Domain) -> float:
    """Share of the predictions that agree with the test's labels."""
    assert test.labels is not None
    return float(np.mean(predictions == test.labels))


def domain_names(source: Domain, test: Domain) -> dict[str, str]:
    """Names of the domains that were read, by their role, for the record."""
    return {"source": source.name, "test": test.name}
