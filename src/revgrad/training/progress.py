"""The progress bar: step, L_y, L_d, domain accuracy, λ, μ, images/s, time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from revgrad.training.events import EvaluationRecord, Events, Outcome, TrainingRecord

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer


def describe(record: TrainingRecord) -> str:
    """One line of a training record, as the bar shows it."""
    parts = []
    if record.label_loss is not None:
        parts.append(f"L_y {record.label_loss:.3f}")
    if record.domain_loss is not None:
        parts.append(f"L_d {record.domain_loss:.3f}")
    if record.domain_accuracy is not None:
        parts.append(f"domain acc {record.domain_accuracy:.2f}")
    return "  ".join([*parts, f"λ {record.factor:.2f}", f"μ {record.rate:.4f}"])


def describe_evaluation(record: EvaluationRecord) -> str:
    """One line of an evaluation record."""
    parts = [f"step {record.step}"]
    for name in ("source", "target"):
        accuracy = getattr(record, f"{name}_accuracy")
        loss = getattr(record, f"{name}_loss")
        shown = "held-out source" if name == "source" else "target test (shown, never used)"
        if accuracy is not None:
            parts.append(f"{shown} accuracy {accuracy:.4f}")
        elif loss is not None:
            parts.append(f"{shown} loss {loss:.4f}")
    return "  ".join(parts)


class ProgressBar(Events):
    """A bar on a terminal; elsewhere one plain line at each evaluation."""

    def __init__(self, label: str = "training") -> None:
        self.label = label
        self.progress: Any = None
        self.console: Any = None

    def on_start(self, trainer: Trainer, step: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.console = Console(stderr=True)
        self.began, self.first = time.monotonic(), step
        if not self.console.is_terminal:
            return
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[losses]}"),
            console=self.console,
            refresh_per_second=4,
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
            rows = (record.step - self.first) * sum(trainer.batches.sizes)
            speed = rows / max(time.monotonic() - self.began, 1e-9)
            self.progress.update(self.task, losses=describe(record), speed=f"{speed:.0f} images/s")

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        if self.console is not None:
            print_to = self.progress.console if self.progress is not None else self.console
            line = f"{self.label}  {describe_evaluation(record)}"
            print_to.print(line, highlight=False, soft_wrap=True)

    def on_end(self, trainer: Trainer, outcome: Outcome) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back; safe to call twice."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
