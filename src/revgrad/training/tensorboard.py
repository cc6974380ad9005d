"""The scalars of a run as TensorBoard's event files: `tensorboard --logdir RUN/tensorboard`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad.errors import RunError, missing_extra
from revgrad.files import disk_error
from revgrad.training.events import EvaluationRecord, Events, Outcome, TrainingRecord

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

#: Where a record's numbers are shown, by the record's own names.
TRAINING_TAGS = {
    "label_loss": "training/L_y",
    "domain_loss": "training/L_d",
    "domain_accuracy": "training/domain accuracy",
    "factor": "schedules/λ",
    "rate": "schedules/μ",
}
EVALUATION_TAGS = {
    "source_accuracy": "held-out source/accuracy",
    "source_loss": "held-out source/loss",
    "score": "label-free score/score",
    "target_accuracy": "target test, never used/accuracy",
    "target_loss": "target test, never used/loss",
}


class TensorBoardScalars(Events):
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

        try:
            self._writer = SummaryWriter(str(self.folder), purge_step=step + 1, flush_secs=20)
        except OSError as error:
            raise RunError(disk_error(self.folder, error)) from error

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        self._write(record, TRAINING_TAGS)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        self._write(record, EVALUATION_TAGS)

    def on_end(self, trainer: Trainer, outcome: Outcome) -> None:
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
