"""A search for the best training by a label-free score, in a folder that processes share.

    OUTPUT/search.json       what is searched: the same folder refuses another search
    OUTPUT/study.journal     Optuna's journal: parameters and scores
    OUTPUT/trial-0007/       a run like any other

Starting the same search again goes on with it; starting it twice at once shares its trials.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad.choosing.configuration import Configuration
from revgrad.choosing.locks import Lock
from revgrad.choosing.matching import must_match
from revgrad.choosing.reporting import ScoreReporter
from revgrad.choosing.space import Space, describe_space, starting_values
from revgrad.choosing.study import HELD, PRUNERS, Claimed, SharedStudy, need_optuna
from revgrad.choosing.trials import Search, State, TrialRow, best_first, show_value
from revgrad.diagnostics.kept import FOLDER as EVIDENCE
from revgrad.diagnostics.scores import SCORES
from revgrad.errors import InputError, NonFiniteLossError, RunError, unknown
from revgrad.files import disk_error
from revgrad.training.checkpoints import INDEX
from revgrad.training.events import EvaluationRecord, Events
from revgrad.training.runs import Run
from revgrad.training.stopping import Interrupted, StopRequest, stop_request

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

log = logging.getLogger("revgrad")

#: Evidence that a training by itself never has: no score of a search may need it.
NOT_GATHERED = frozenset({"source_only_logits", "checkpoint_logits", "seed_logits"})

#: (configuration, the run's folder, trial number, events) → trains with these events, in front of
#: them an `EvidenceKeeper`, as `adapt(…, run=folder, events=events)` does.
Train = Callable[[Configuration, Path, int, Sequence[Events]], None]
#: Settings that may differ when a search goes on: no score depends on them.
_FREE = frozenset({"device", "log_every", "checkpoint_every"})


class Searching:
    """A search that can be worked at and looked at; building it joins what the folder holds.

    start      the training that is varied; it is the first trial
    score      of `SCORES`, of those that an evaluation's evidence suffices for
    pruner     "median", "hyperband" or "none": when a trial is given up early
    seed       of the search, not of the trainings
    describe   what else the search is (data, network, …), for the folder to refuse another
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
        describe: dict[str, Any] | None = None,
    ) -> None:
        need_optuna()
        check_score(score)
        if pruner not in PRUNERS:
            raise unknown("pruner", pruner, PRUNERS)
        if not space:
            raise InputError("there is nothing to vary: name a parameter")
        self.folder, self.space, self.start, self.score = Path(folder), space, start, score
        settings = start.settings.describe()
        identity = {
            **(describe or {}),
            **{name: value for name, value in settings.items() if name not in _FREE},
            "layer": start.layer,
            "hidden": list(start.hidden),
            "score": score,
            "pruner": pruner,
            "search seed": seed,
            "varied": describe_space(space),
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(disk_error(self.folder, error)) from error
        with Lock(self.folder / HELD / "folder").held():
            must_match(self.folder, identity)
        steps = start.settings.steps
        self.study = SharedStudy(self.folder, space, steps=steps, pruner=pruner, seed=seed)
        self.study.begin_with(starting_values(space, start))

    def configuration(self, row: TrialRow) -> Configuration:
        return self.start.changed(row.values)

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
                    self._try(claimed, train, _PassOn(stop))
                except Interrupted as interrupted:
                    text = self.stopped(trials)
                    raise Interrupted(interrupted.exit_code - 128, text) from None
                finally:
                    claimed.lock.release()

    def result(self) -> Search:
        """The trials so far, the best first."""
        rows = (self._row(trial) for trial in self.study.trials())
        begun = [row for row in rows if row.state != "running" or row.values]
        steps = self.start.settings.steps
        return Search(self.folder, self.score, steps, self.space, best_first(begun))

    def folder_of(self, number: int) -> Path:
        return self.folder / f"trial-{number:04d}"

    def _try(self, claimed: Claimed, train: Train, pass_on: Events) -> None:
        import optuna

        number, folder = claimed.number, self.folder_of(claimed.number)
        configuration = self.start.changed(claimed.values)
        shown = self._shown(configuration)
        log.info("trial %d %s: %s", number, "goes on" if claimed.resumed else "begins", shown)
        reporter = ScoreReporter(claimed.trial, self.score)
        try:
            train(configuration, folder, number, (reporter, pass_on))
            if math.isnan(reporter.score):
                raise NonFiniteLossError("the network's outputs are not finite at the end")
        except optuna.TrialPruned as pruned:
            self.study.prune(claimed)
            _thin(folder)
            log.info("trial %d is given up %s", number, pruned)
        except NonFiniteLossError as error:
            self.study.prune(claimed, str(error))
            log.info("trial %d failed: %s", number, error)
        else:
            self.study.finish(claimed, reporter.score)
            log.info("trial %d ends with %s %.4f", number, self.score, reporter.score)

    def _shown(self, configuration: Configuration) -> str:
        values = {name: configuration.value(name) for name in self.space}
        return ", ".join(f"{name} {show_value(value)}" for name, value in values.items())

    def stopped(self, trials: int) -> str:
        """What to say when the work was interrupted."""
        done = sum(row.state != "running" for row in self.result().rows)
        return (
            f"stopped with {done} of {trials} trials done, saved in {self.folder}; the same "
            "command goes on from there"
        )

    def _row(self, trial: Any) -> TrialRow:
        from optuna.trial import TrialState

        failure = trial.user_attrs.get("failure")
        states: dict[Any, State] = {TrialState.COMPLETE: "done", TrialState.PRUNED: "pruned"}
        state: State = "failed" if failure else states.get(trial.state, "running")
        reported = trial.intermediate_values
        step = self.start.settings.steps if state == "done" else max(reported, default=0)
        score = trial.value if state == "done" else reported.get(step)
        configuration = self.start.changed(trial.params)
        values = {name: configuration.value(name) for name in self.space if name in trial.params}
        folder = self.folder_of(trial.number)
        evaluations = [r for r in Run(folder).records() if isinstance(r, EvaluationRecord)]
        last = evaluations[-1] if evaluations else None
        return TrialRow(
            number=trial.number,
            state=state,
            score=score,
            step=step,
            values={name: value for name, value in values.items() if value is not None},
            folder=folder,
            source_accuracy=None if last is None else last.source_accuracy,
            seconds=None if last is None else last.seconds,
            failure=failure,
        )


class _PassOn(Events):
    """A signal that came before training listened to signals stops it at its first step."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop

    def on_start(self, trainer: Trainer, step: int) -> None:
        if self.stop.number:
            signal.raise_signal(self.stop.number)


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


def _thin(folder: Path) -> None:
    """A trial that was given up keeps its metrics; its weights and evidence are of no use."""
    (folder / INDEX).unlink(missing_ok=True)  # first: it must not name what is gone
    for path in folder.glob("checkpoint-*.safetensors"):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / EVIDENCE, ignore_errors=True)
