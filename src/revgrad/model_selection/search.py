"""A search for the best training by a label-free score, in a folder that processes share.

    OUTPUT/search.json       what is searched: the same folder refuses another search
    OUTPUT/study.journal     Optuna's journal: parameters and scores
    OUTPUT/trial-0007/       a run like any other

Starting the same search again goes on with it; starting it twice at once shares its trials.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from revgrad._seals import unsealed, write_sealed
from revgrad._system import disk_errors, locked, read_file
from revgrad.diagnostics.recorder import EVIDENCE_FOLDER, EvidenceRecorder
from revgrad.diagnostics.scores import SCORES
from revgrad.errors import InputError, NonFiniteLossError, RunError, unknown
from revgrad.model_selection.space import (
    Configuration,
    Space,
    Value,
    describe_space,
    show_value,
    starting_values,
)
from revgrad.model_selection.study import HELD, PRUNERS, ClaimedTrial, SharedStudy, need_optuna
from revgrad.training.callbacks import Callback, EvaluationRecord, TrainingResult
from revgrad.training.checkpoint import INDEX
from revgrad.training.run import Run, differences, there_and_now
from revgrad.training.session import Interrupted, StopRequest, stop_request
from revgrad.training.settings import RESUME_MAY_CHANGE

if TYPE_CHECKING:
    import optuna

    from revgrad.diagnostics.evidence import Evidence
    from revgrad.training.trainer import Trainer

#: In a search's folder: what is searched.
IDENTITY = "search.json"
#: Evidence that a training by itself never has: no score of a search may need it.
NOT_GATHERED = frozenset({"source_only_logits", "checkpoint_logits", "seed_logits"})
#: Settings that may differ when a search goes on. Trials are given up at evaluations: when one
#: evaluates is part of the search.
MAY_CHANGE = RESUME_MAY_CHANGE - {"evaluate_every"}

State = Literal["done", "pruned", "failed", "running"]
#: As a table lists them.
STATES: tuple[State, ...] = ("done", "pruned", "failed", "running")

#: (configuration, the run's folder, trial number, callbacks) → trains with these callbacks, in
#: front of them an `EvidenceRecorder`, as `adapt(…, run=folder, callbacks=callbacks)` does.
Train = Callable[[Configuration, Path, int, Sequence[Callback]], None]

log = logging.getLogger("revgrad")


@dataclass(frozen=True)
class Trial:
    """One training of a search.

    Attributes
    ----------
    score
        at the end of training; of a pruned trial, its last
    step
        how far it came
    values
        of what was varied
    source_accuracy
        on held-out source, at the last evaluation
    """

    number: int
    state: State
    score: float | None
    step: int
    values: dict[str, Value]
    folder: Path
    source_accuracy: float | None = None
    seconds: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class SearchResult:
    """Where a search is kept, what it varies, and its trials, the best first."""

    folder: Path
    score: str
    steps: int
    space: Space
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The finished trial of the highest score, the first of several."""
        return next((trial for trial in self.trials if trial.state == "done"), None)

    def of(self, state: State) -> list[Trial]:
        """The trials in that state."""
        return [trial for trial in self.trials if trial.state == state]


class Search:
    """A search that can be worked at and looked at; building it joins what the folder holds.

    Parameters
    ----------
    start
        the training that is varied; it is the first trial
    score
        of `SCORES`, of those that an evaluation's evidence suffices for
    pruner
        "median", "hyperband" or "none": when a trial is given up early
    seed
        of the search, not of the trainings
    identity
        what else the search is (data, network, …), for the folder to refuse others
    """

    def __init__(
        self,
        folder: Path | str,
        space: Space,
        start: Configuration,
        *,
        score: str,
        pruner: str = "median",
        seed: int = 0,
        identity: dict[str, Any] | None = None,
    ) -> None:
        need_optuna()
        check_score(score)
        if pruner not in PRUNERS:
            raise unknown("pruner", pruner, PRUNERS)
        if not space:
            raise InputError("there is nothing to vary: name a parameter")
        self.folder, self.space, self.start, self.score = Path(folder), space, start, score
        settings = start.recipe.settings
        whole = {
            **(identity or {}),
            **start.recipe.describe(),
            **{name: v for name, v in settings.describe().items() if name not in MAY_CHANGE},
            "layer": start.layer,
            "domain classifier": list(start.widths),
            "score": score,
            "pruner": pruner,
            "search seed": seed,
            "varied": describe_space(space),
        }
        with disk_errors(self.folder), locked(self.folder / HELD / "folder"):
            _write_or_refuse(self.folder, whole)
        self.study = SharedStudy(self.folder, space, steps=settings.steps, pruner=pruner, seed=seed)
        self.study.begin_with(starting_values(space, start))

    def configuration(self, trial: Trial) -> Configuration:
        """The training that a trial stands for."""
        return self.start.changed(trial.values)

    def work(self, train: Train, trials: int, *, go_on: Callable[[], bool] = lambda: True) -> None:
        """Train until `trials` are begun in all processes together, and none is left half-done.

        A trial whose loss becomes infinite is given up and the search goes on; any other error
        ends the work, and the trial waits to be taken up again.
        """
        if trials < 1:
            raise InputError(f"a search has one trial or more, not {trials}")
        with stop_request() as stop:
            while go_on():
                if stop.number:
                    raise Interrupted(stop.number, self.stopped(trials))
                claimed = self.study.claim(trials)
                if claimed is None:
                    return
                try:
                    self._try(claimed, train, _EarlySignal(stop))
                except Interrupted as interrupted:
                    text = self.stopped(trials)
                    raise Interrupted(interrupted.exit_code - 128, text) from None
                finally:
                    claimed.lock.release()

    def result(self) -> SearchResult:
        """The trials so far, the best first."""
        trials = (self._read(trial) for trial in self.study.trials())
        begun = [trial for trial in trials if trial.state != "running" or trial.values]
        steps = self.start.recipe.settings.steps
        return SearchResult(self.folder, self.score, steps, self.space, best_first(begun))

    def stopped(self, trials: int) -> str:
        """What to say when the work was interrupted."""
        done = sum(trial.state != "running" for trial in self.result().trials)
        return (
            f"stopped with {done} of {trials} trials done, saved in {self.folder}; the same "
            "command goes on from there"
        )

    def folder_of(self, number: int) -> Path:
        """The folder of a trial's run."""
        return self.folder / f"trial-{number:04d}"

    def _try(self, claimed: ClaimedTrial, train: Train, early_signal: Callback) -> None:
        import optuna

        number, folder = claimed.number, self.folder_of(claimed.number)
        configuration = self.start.changed(claimed.values)
        values = {name: configuration.value(name) for name in self.space}
        shown = ", ".join(f"{name} {show_value(value)}" for name, value in values.items())
        log.info("trial %d %s: %s", number, "goes on" if claimed.resumed else "begins", shown)
        reporter = ScoreReporter(claimed.trial, self.score)
        try:
            train(configuration, folder, number, (reporter, early_signal))
            if math.isnan(reporter.score):
                raise NonFiniteLossError("the network's outputs are not finite at the end")
        except optuna.TrialPruned as pruned:
            self.study.prune(claimed)
            _delete_weights_and_evidence(folder)
            log.info("trial %d is given up %s", number, pruned)
        except NonFiniteLossError as error:
            self.study.prune(claimed, str(error))
            log.info("trial %d failed: %s", number, error)
        else:
            self.study.finish(claimed, reporter.score)
            log.info("trial %d ends with %s %.4f", number, self.score, reporter.score)

    def _read(self, trial: optuna.trial.FrozenTrial) -> Trial:
        from optuna.trial import TrialState

        failure = trial.user_attrs.get("failure")
        states: dict[TrialState, State] = {TrialState.COMPLETE: "done", TrialState.PRUNED: "pruned"}
        state: State = "failed" if failure else states.get(trial.state, "running")
        reported = trial.intermediate_values
        step = self.start.recipe.settings.steps if state == "done" else max(reported, default=0)
        configuration = self.start.changed(trial.params)
        values = {name: configuration.value(name) for name in self.space if name in trial.params}
        folder = self.folder_of(trial.number)
        evaluations = [r for r in Run(folder).records() if isinstance(r, EvaluationRecord)]
        last = evaluations[-1] if evaluations else None
        return Trial(
            number=trial.number,
            state=state,
            score=trial.value if state == "done" else reported.get(step),
            step=step,
            values={name: value for name, value in values.items() if value is not None},
            folder=folder,
            source_accuracy=None if last is None else last.source_accuracy,
            seconds=None if last is None else last.seconds,
            failure=failure,
        )


class ScoreReporter(Callback):
    """Reports the score of each evaluation's evidence; ends a training that has no prospect.

    `score` is that of the weights handed back, once training has ended; not a number where the
    network's outputs were not finite. It stands behind the run's `EvidenceRecorder`, which gathers
    the evidence: no target label takes part.
    """

    def __init__(self, trial: optuna.trial.Trial, score: str) -> None:
        self.trial, self.name = trial, score
        self.score = math.nan
        every = trial.study.get_trials(deepcopy=False)
        before = next(one for one in every if one.number == trial.number)
        self._reported = set(before.intermediate_values)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        import optuna

        if record.step in self._reported or record.step >= trainer.settings.steps:
            return  # a resumed trial comes by again; the end is told as the trial's value
        score = self._of(_latest_evidence(trainer))
        if math.isnan(score):
            return
        self.trial.report(score, record.step)
        if self.trial.should_prune():
            raise optuna.TrialPruned(f"at step {record.step}")

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        self.score = self._of(_latest_evidence(trainer))

    def _of(self, evidence: Evidence | None) -> float:
        entry = SCORES[self.name]
        if evidence is None or not evidence.has(*entry.needs):
            return math.nan
        return float(entry.function(evidence))


def best_first(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """Finished ones by score, then the pruned that came farthest, failed ones, running ones."""

    def key(trial: Trial) -> tuple[float, ...]:
        score = -math.inf if trial.score is None else trial.score
        far = trial.step if trial.state == "pruned" else 0
        return (STATES.index(trial.state), -far, -score, trial.number)

    return tuple(sorted(trials, key=key))


def check_score(name: str) -> None:
    """Refuse a score that is none, or that an evaluation's evidence does not suffice for."""
    if name not in SCORES:
        raise unknown("score", name, SCORES)
    lacking = [field for field in SCORES[name].needs if field in NOT_GATHERED]
    if lacking:
        fit = [n for n, entry in SCORES.items() if not set(entry.needs) & NOT_GATHERED]
        raise InputError(
            f"the score '{name}' needs {', '.join(lacking)}, which one training does not have; "
            f"a search can take: {', '.join(fit)}"
        )


class _EarlySignal(Callback):
    """A signal that came before training listened to signals stops it at its first step."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop

    def on_start(self, trainer: Trainer, step: int) -> None:
        if self.stop.number:
            signal.raise_signal(self.stop.number)


def _latest_evidence(trainer: Trainer) -> Evidence | None:
    keeper = next((e for e in trainer.callbacks if isinstance(e, EvidenceRecorder)), None)
    return None if keeper is None else keeper.latest


def _write_or_refuse(folder: Path, identity: dict[str, Any]) -> None:
    """Write what the search is; where the folder holds one already, refuse another."""
    path, now = folder / IDENTITY, json.loads(json.dumps(identity))
    if not path.exists():
        stranger = next((p.name for p in folder.iterdir() if p.name != HELD), None)
        if stranger is not None:
            raise RunError(
                f"{folder} is not empty ({stranger}) and not a search: choose a new or an empty "
                "folder"
            )
        write_sealed(path, now)
        return
    try:
        there = unsealed(read_file(path).decode())
    except (OSError, ValueError) as error:
        raise RunError(f"{path} can't be read: {error}") from error
    if found := differences([there, now]):
        raise RunError(
            f"{folder} is another search ({there_and_now(found)}): choose another folder, or the "
            "same options to go on with it"
        )


def _delete_weights_and_evidence(folder: Path) -> None:
    """Of a trial that was given up, which keeps its metrics."""
    (folder / INDEX).unlink(missing_ok=True)  # first: it must not name what is gone
    for path in folder.glob("checkpoint-*.safetensors"):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / EVIDENCE_FOLDER, ignore_errors=True)
