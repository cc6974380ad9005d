"""What a training run tells those who listen: few events, each with a typed record.

A callback subclasses `Events` and overrides what it wants. Events see the trainer and may read
anything; they never change the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer


@dataclass(frozen=True)
class TrainingRecord:
    """Means over the steps since the last record; `step` counts finished steps."""

    step: int
    label_loss: float | None
    domain_loss: float | None
    domain_accuracy: float | None
    factor: float
    rate: float
    seconds: float


@dataclass(frozen=True)
class EvaluationRecord:
    """Accuracy (regression: loss) on held-out source and, where given, labelled target test;
    `score`: what the trainer's scorer said, where it has one."""

    step: int
    source_accuracy: float | None
    source_loss: float | None
    target_accuracy: float | None
    target_loss: float | None
    seconds: float
    score: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How training ended; `last` is the evaluation of the weights that were handed back."""

    steps: int
    last: EvaluationRecord | None
    seconds: float


class Events:
    """Override what you need; each does nothing by default."""

    def on_start(self, trainer: Trainer, step: int) -> None:
        """Training starts (or resumes) at `step`."""

    def on_step(self, trainer: Trainer, step: int) -> None:
        """`step` steps are finished. Called every step: keep it cheap."""

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        """Every `log_every` steps."""

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        """Every `evaluate_every` steps and at the end."""

    def on_checkpoint(self, trainer: Trainer, step: int) -> None:
        """A checkpoint is safely on disk."""

    def on_end(self, trainer: Trainer, outcome: Outcome) -> None:
        """Training is complete (not called when interrupted)."""
