"""The loop and what surrounds it: batches, steps, runs, checkpoints, several processes."""

from revgrad.training.callbacks import Callback, EvaluationRecord, TrainingRecord, TrainingResult
from revgrad.training.paired_batches import PairedBatches
from revgrad.training.run import Provenance, Run
from revgrad.training.session import Interrupted
from revgrad.training.settings import Settings
from revgrad.training.trainer import Trainer

__all__ = [
    "Callback",
    "EvaluationRecord",
    "Interrupted",
    "PairedBatches",
    "Provenance",
    "Run",
    "Settings",
    "Trainer",
    "TrainingRecord",
    "TrainingResult",
]
