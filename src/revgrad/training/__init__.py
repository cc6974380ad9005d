"""The loop and what surrounds it: batches, steps, runs, checkpoints, several processes."""

from revgrad.training.batches import PairedBatches
from revgrad.training.events import EvaluationRecord, Events, Outcome, TrainingRecord
from revgrad.training.runs import Run
from revgrad.training.settings import Settings
from revgrad.training.stopping import Interrupted
from revgrad.training.trainer import Trainer

__all__ = [
    "EvaluationRecord",
    "Events",
    "Interrupted",
    "Outcome",
    "PairedBatches",
    "Run",
    "Settings",
    "Trainer",
    "TrainingRecord",
]
