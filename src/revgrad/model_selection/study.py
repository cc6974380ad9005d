"""An Optuna study in a folder: a journal that any number of processes share.

A trial belongs to the process that holds its lock. The system releases the lock when the process
ends, however it ends, so a trial that is "running" and whose lock is free was interrupted: the next
process takes it over, with the same parameters and from its run's last checkpoint. The parameters
of a trial depend on the search's seed, the trial's number and the trials before it; so a search in
one process gives the same trials whether it was interrupted or not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from revgrad._random import derive
from revgrad._seals import sealed_line, unsealed_line
from revgrad._system import Lock, disk_errors, locked, regular
from revgrad.errors import RunError, missing_extra, unknown
from revgrad.model_selection.space import LogRange, Space, Value

if TYPE_CHECKING:
    import optuna

#: In a search's folder: the study, and the locks of its trials.
JOURNAL, HELD = "study.journal", "locks"
PRUNERS = ("median", "hyperband", "none")


def need_optuna() -> None:
    """Refuse a search where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise missing_extra("optuna", "tune", "a search")


@dataclass
class ClaimedTrial:
    """A trial that is this process's, and what its parameters are."""

    trial: optuna.trial.Trial
    values: dict[str, Value]
    resumed: bool
    lock: Lock

    @property
    def number(self) -> int:
        return self.trial.number


class SharedStudy:
    """The study of a folder. Trials of the highest value are the best."""

    def __init__(
        self, folder: Path, space: Space, *, steps: int, pruner: str = "median", seed: int = 0
    ) -> None:
        need_optuna()
        import optuna
        from optuna.storages.journal import JournalStorage

        self.folder, self.space, self.seed = folder, space, seed
        path, giving_up = folder / JOURNAL, _pruner(pruner, steps)
        guard: Any = _JournalLock(folder / HELD / "journal", path)
        with _without_optuna_notes(), disk_errors(folder):
            guard.acquire()  # mends what a killed process left
            guard.release()
            try:
                storage = JournalStorage(cast(Any, _SealedJournal(path, guard)))
                self.study = optuna.create_study(
                    storage=storage,
                    study_name="search",
                    direction="maximize",
                    pruner=giving_up,
                    load_if_exists=True,
                )
            except (OSError, ValueError, KeyError) as error:
                raise RunError(f"{path} can't be read as a study: {error}") from error

    def begin_with(self, values: dict[str, Value]) -> None:
        """The first trial, where there is none yet."""
        with self._turn():
            if not self.trials():
                self.study.enqueue_trial(values)

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        """Every trial, by its number."""
        return self.study.get_trials(deepcopy=False)

    def claim(self, count: int) -> ClaimedTrial | None:
        """A trial to work at: an interrupted one, else a new one; None where `count` are begun."""
        import optuna
        from optuna.trial import TrialState

        with self._turn():
            begun = [trial for trial in self.trials() if trial.state is not TrialState.WAITING]
            for left in begun:
                lock = self._lock_of(left.number)
                if left.state is TrialState.RUNNING and lock.acquire(wait=False):
                    trial = optuna.trial.Trial(self.study, left._trial_id)
                    return ClaimedTrial(trial, self._values(trial), True, lock)
            if len(begun) >= count:
                return None
            trial = self.study.ask()
            lock = self._lock_of(trial.number)
            lock.acquire()
            return ClaimedTrial(trial, self._values(trial), False, lock)

    def finish(self, claimed: ClaimedTrial, score: float) -> None:
        with _without_optuna_notes():
            self.study.tell(claimed.trial, score)

    def prune(self, claimed: ClaimedTrial, failure: str | None = None) -> None:
        """The trial was given up; a failed one too, so that the search keeps away from there."""
        from optuna.trial import TrialState

        with _without_optuna_notes():
            if failure is not None:
                claimed.trial.set_user_attr("failure", failure)
            self.study.tell(claimed.trial, state=TrialState.PRUNED)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One process at a time chooses a trial."""
        with (
            _without_optuna_notes(),
            disk_errors(self.folder),
            locked(self.folder / HELD / "study"),
        ):
            yield

    def _lock_of(self, number: int) -> Lock:
        return Lock(self.folder / HELD / f"trial-{number:04d}")

    def _values(self, trial: optuna.trial.Trial) -> dict[str, Value]:
        """The trial's parameters, each drawn with a seed of its own: a process that was killed
        between two of them has decided nothing about the second."""
        from optuna.samplers import TPESampler

        values: dict[str, Value] = {}
        for place, (name, what) in enumerate(self.space.items()):
            seed = derive(self.seed, trial.number, place) % 2**32
            self.study.sampler = TPESampler(seed=seed)
            if isinstance(what, LogRange):
                values[name] = trial.suggest_float(name, what.low, what.high, log=True)
            else:
                chosen: Any = trial.suggest_categorical(name, list(what.values))
                values[name] = chosen
        return values


class _SealedJournal:
    """Optuna's log in a file, a sealed line an entry: a flipped bit is noticed. Where whole lines
    are missing at the end, the search is as it was before them, and does the same again."""

    def __init__(self, path: Path, lock: _JournalLock) -> None:
        self.path, self.lock = path, lock
        self._begins = [0]  # of each line that has been read, and of the next
        path.touch()

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        number = min(log_number_from, len(self._begins) - 1)
        with open(regular(self.path), "rb") as file:
            file.seek(self._begins[number])
            for line in file:
                if not line.endswith(b"\n"):  # another process is writing it
                    return
                number += 1
                if number == len(self._begins):
                    self._begins.append(self._begins[-1] + len(line))
                try:
                    values = unsealed_line(line.decode(), required=True)
                except ValueError as error:
                    raise RunError(
                        f"{self.path} is damaged (line {number}: {error}): restore it from a copy, "
                        "or begin the search again in another folder"
                    ) from None
                if number > log_number_from:
                    yield values

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self.lock.acquire()
        try:
            with open(self.path, "ab") as file:
                file.write("".join(map(sealed_line, logs)).encode())
                file.flush()
                os.fsync(file.fileno())
        finally:
            self.lock.release()


class _JournalLock(Lock):
    """The lock of a journal, which is mended when it is taken: a line that a killed process left
    half-written would make the next one unreadable."""

    def __init__(self, path: Path, journal: Path) -> None:
        super().__init__(path)
        self.journal = journal

    def acquire(self, *, wait: bool = True) -> bool:
        held = super().acquire(wait=wait)
        if held:
            _cut_half_a_line(self.journal)
        return held


def _cut_half_a_line(path: Path) -> None:
    """Cut a file back to its last line's end."""
    try:
        with open(path, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                return
            file.seek(size - 1)
            if file.read(1) == b"\n":
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return


def _pruner(name: str, steps: int) -> optuna.pruners.BasePruner:
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner

    if name == "median":
        # λ starts at 0: what is seen in the first third says little of it
        return MedianPruner(n_startup_trials=4, n_warmup_steps=steps // 3)
    if name == "hyperband":
        return HyperbandPruner(min_resource=max(steps // 9, 1), max_resource=steps)
    if name == "none":
        return NopPruner()
    raise unknown("pruner", name, PRUNERS)


@contextmanager
def _without_optuna_notes() -> Iterator[None]:
    """Optuna's own notes are not shown: each trial gets a line of ours."""
    logger = logging.getLogger("optuna")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
