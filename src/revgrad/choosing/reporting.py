"""What a trial tells its study at each evaluation: the label-free score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from revgrad.diagnostics.kept import EvidenceKeeper
from revgrad.diagnostics.scores import SCORES
from revgrad.training.events import EvaluationRecord, Events, Outcome

if TYPE_CHECKING:
    import optuna

    from revgrad.diagnostics.evidence import Evidence
    from revgrad.training.trainer import Trainer


class ScoreReporter(Events):
    """Reports the score of each evaluation's evidence; ends a training that has no prospect.

    `score` is that of the weights handed back, once training has ended; not a number where the
    network's outputs were not finite. It stands behind the run's `EvidenceKeeper`, which gathers
    the evidence: no target label takes part.
    """

    def __init__(self, trial: optuna.trial.Trial, score: str) -> None:
        self.trial, self.name = trial, score
        self.score = math.nan
        self._known = set(_frozen(trial).intermediate_values)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        import optuna

        if record.step in self._known or record.step >= trainer.settings.steps:
            return  # a resumed trial comes by again; the end is told as the trial's value
        score = self._of(_evidence(trainer))
        if math.isnan(score):
            return
        self.trial.report(score, record.step)
        if self.trial.should_prune():
            raise optuna.TrialPruned(f"at step {record.step}")

    def on_end(self, trainer: Trainer, outcome: Outcome) -> None:
        self.score = self._of(_evidence(trainer))

    def _of(self, evidence: Evidence | None) -> float:
        entry = SCORES[self.name]
        if evidence is None or not evidence.has(*entry.needs):
            return math.nan
        return float(entry.function(evidence))


def _evidence(trainer: Trainer) -> Evidence | None:
    keeper = next((e for e in trainer.events if isinstance(e, EvidenceKeeper)), None)
    return None if keeper is None else keeper.latest


def _frozen(trial: optuna.trial.Trial) -> optuna.trial.FrozenTrial:
    return next(t for t in trial.study.get_trials(deepcopy=False) if t.number == trial.number)
