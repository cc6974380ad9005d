"""Callbacks of a training: the records they get, the progress bar, TensorBoard's scalars.

A callback subclasses `Callback` and overrides what it wants. It sees the trainer and may read
anything; it never changes the weights.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from revgrad._system import disk_errors, progress_display, terminal
from revgrad.domains.attributes import DOMAIN
from revgrad.errors import missing_extra
from revgrad.tasks.metrics import METRIC_KINDS, Metrics, shown_metrics

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer


#: Where a record's numbers are shown, by the record's own names.
TRAINING_TAGS = {
    "label_loss": "training/L_y",
    "domain_loss": "training/L_d",
    "domain_accuracy": "training/domain accuracy",
    "adaptation_factor": "schedules/λ",
    "learning_rate": "schedules/μ",
}
EVALUATION_TAGS = {
    "source_accuracy": "held-out source/accuracy",
    "source_loss": "held-out source/loss",
    "score": "label-free score/score",
    "target_accuracy": "target test, never used/accuracy",
    "target_loss": "target test, never used/loss",
}


class TrainingEnded(Exception):
    """Raised by a callback's `on_evaluation`, on the first process: the training ends there, on all
    of them. It is pickled for the others."""


@dataclass(frozen=True)
class TrainingRecord:
    """Means over the steps since the last record; `step` counts finished steps.

    Attributes
    ----------
    adversary_losses, adversary_scores
        by name, where there are adversaries beside one domain classifier: each one's loss, and how
        well it tells its attribute: the share of samples told right; of a number, the share of its
        variance explained
    """

    step: int
    label_loss: float | None
    domain_loss: float | None
    domain_accuracy: float | None
    adaptation_factor: float
    learning_rate: float
    seconds: float
    adversary_losses: dict[str, float] = field(default_factory=dict)
    adversary_scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationRecord:
    """Results on held-out source and, where given, labelled target test.

    Attributes
    ----------
    source_accuracy, target_accuracy
        share of decisions that are right; None of a regression
    source_metrics, target_metrics
        the task's further metrics by name: r2, mean_absolute_error, mean_iou, f1, …
    score
        what the trainer's scorer said, where it has one
    """

    step: int
    source_accuracy: float | None
    source_loss: float | None
    target_accuracy: float | None
    target_loss: float | None
    seconds: float
    score: float | None = None
    source_metrics: dict[str, float] = field(default_factory=dict)
    target_metrics: dict[str, float] = field(default_factory=dict)

    def figures(self, side: Literal["source", "target"]) -> dict[str, float]:
        """All metrics by name, accuracy first where there is one; empty where none were taken."""
        accuracy = self.source_accuracy if side == "source" else self.target_accuracy
        further = self.source_metrics if side == "source" else self.target_metrics
        return {**({} if accuracy is None else {"accuracy": accuracy}), **further}

    def loss(self, side: Literal["source", "target"]) -> float | None:
        """The loss on a side, "source" or "target"."""
        return self.source_loss if side == "source" else self.target_loss


def further_metrics(found: Metrics) -> dict[str, float]:
    """What a record holds beside accuracy and loss."""
    return {name: value for name, value in found.figures.items() if name != "accuracy"}


@dataclass(frozen=True)
class TrainingResult:
    """The end of a training.

    Attributes
    ----------
    last
        the evaluation of the weights that were handed back
    evaluations
        all of them, of this process
    """

    steps: int
    last: EvaluationRecord | None
    seconds: float
    evaluations: tuple[EvaluationRecord, ...] = ()


class Callback:
    """Told of the events of a training: override what you need, each method does nothing.

    Attributes
    ----------
    every_process
        of several processes the first one alone tells its callbacks, unless this is True: then
        all do, at the same moments, and passes over a domain (`evaluate`, `gather_evidence`, …)
        are divided among them, each getting all results. Files are for the first to write

    Examples
    --------
    >>> class Print(revgrad.Callback):
    ...     def on_evaluation(self, trainer, record):
    ...         print(record.step, record.source_accuracy)
    >>> revgrad.adapt(network, source, target, callbacks=[Print()])  # doctest: +SKIP
    """

    every_process = False

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

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        """Training is complete (not called when interrupted)."""


def training_line(record: TrainingRecord) -> str:
    """One line of a training record, as the bar shows it."""
    parts = []
    if record.label_loss is not None:
        parts.append(f"L_y {record.label_loss:.3f}")
    if record.domain_loss is not None:
        parts.append(f"L_d {record.domain_loss:.3f}")
    if record.domain_accuracy is not None:
        parts.append(f"domain acc {record.domain_accuracy:.2f}")
    told = record.adversary_scores.items()
    parts += [f"{name} {value:.2f}" for name, value in told if name != DOMAIN]
    return "  ".join([*parts, f"λ {record.adaptation_factor:.2f}", f"μ {record.learning_rate:.4f}"])


def evaluation_line(record: EvaluationRecord) -> str:
    """One line of an evaluation record."""
    parts = [f"step {record.step}"]
    sides: tuple[tuple[Literal["source", "target"], str], ...] = (
        ("source", "held-out source"),
        ("target", "target test (shown, never used)"),
    )
    for side, shown in sides:
        found, loss = record.figures(side), record.loss(side)
        if not found and loss is not None:
            found = {"loss": loss}
        if found:
            parts.append(f"{shown} {shown_metrics(found)}")
    return "  ".join(parts)


class ProgressBar(Callback):
    """A bar on a terminal; elsewhere one plain line at each evaluation."""

    def __init__(self, label: str = "training") -> None:
        self.label = label
        self.progress: Any = None
        self.console: Any = None

    def on_start(self, trainer: Trainer, step: int) -> None:
        from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

        self.console = terminal()
        self.began, self.first = time.monotonic(), step
        if not self.console.is_terminal:
            return
        self.progress = progress_display(
            self.console,
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[losses]}"),
        )
        self.task = self.progress.add_task(
            self.label, total=trainer.settings.steps, completed=step, speed="", losses=""
        )
        self.progress.start()

    def on_step(self, trainer: Trainer, step: int) -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=step)

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        if self.progress is not None:
            samples = (record.step - self.first) * sum(trainer.batches.sizes)
            speed = samples / max(time.monotonic() - self.began, 1e-9)
            self.progress.update(
                self.task, losses=training_line(record), speed=f"{speed:.0f} samples/s"
            )

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        if self.console is not None:
            print_to = self.progress.console if self.progress is not None else self.console
            line = f"{self.label}  {evaluation_line(record)}"
            print_to.print(line)

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back; safe to call twice."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


class TensorBoardScalars(Callback):
    """Writes each record's numbers at its step; those that a run does not have are left out.

    A resumed run goes on in a new file of the same folder. What an interrupted one had written
    after the checkpoint it resumes from is marked as past, and TensorBoard no longer shows it.
    """

    def __init__(self, folder: Path | str) -> None:
        if find_spec("tensorboard") is None:
            raise missing_extra("tensorboard", "tensorboard", "writing scalars for TensorBoard")
        self.folder = Path(folder)
        self._writer: Any = None

    def on_start(self, trainer: Trainer, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # heavy: only where it is used

        with disk_errors(self.folder):
            self._writer = SummaryWriter(str(self.folder), purge_step=step + 1, flush_secs=20)

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        self._write(record, TRAINING_TAGS)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        self._write(record, EVALUATION_TAGS)

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        self.close()

    def close(self) -> None:
        """Everything is on disk afterwards; safe to call twice."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, record: TrainingRecord | EvaluationRecord, tags: dict[str, str]) -> None:
        if self._writer is None:
            return
        for name, tag in tags.items():
            value = getattr(record, name)
            if value is not None:
                self._writer.add_scalar(tag, value, record.step)
        if isinstance(record, TrainingRecord):
            for name, value in record.adversary_losses.items():
                self._writer.add_scalar(f"adversaries/{name}, loss", value, record.step)
            for name, value in record.adversary_scores.items():
                self._writer.add_scalar(f"adversaries/{name}, told", value, record.step)
        if isinstance(record, EvaluationRecord):
            for place, found in (
                ("held-out source", record.source_metrics),
                ("target test, never used", record.target_metrics),
            ):
                for name, value in found.items():
                    title = METRIC_KINDS[name].title if name in METRIC_KINDS else name
                    tag = f"{place}/{title}"
                    self._writer.add_scalar(tag, value, record.step)
