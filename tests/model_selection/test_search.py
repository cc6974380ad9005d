"""The search: what interrupts it, what shares it; no target label takes part."""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad import Callback, Domain, Settings, adapt, from_arrays
from revgrad.diagnostics.recorder import read_evidence
from revgrad.diagnostics.scores import SCORES, Score, score
from revgrad.errors import InputError, MissingExtraError, RunError, UnknownNameError
from revgrad.model_selection import study as study_module
from revgrad.model_selection.search import Search, SearchResult, Train, Trial, best_first
from revgrad.model_selection.space import (
    Configuration,
    LogRange,
    OneOf,
    Space,
    starting_values,
)
from revgrad.model_selection.study import JOURNAL, SharedStudy
from revgrad.recipes import Recipe
from revgrad.training.run import Run
from revgrad.training.session import Interrupted
from revgrad.training.trainer import Trainer
from tiny import Perceptron, checkpoint_digest, seeded, vectors

STEPS = 12
START = Configuration(
    Recipe(
        settings=Settings(steps=STEPS, batch_size=8, device="cpu", evaluate_every=3, log_every=3),
        domain_classifier=(4,),
    ),
    "lower",
)
SPACE: Space = {
    "height": LogRange(0.1, 3.0),
    "learning-rate": LogRange(0.001, 0.1),
    "domain-classifier": OneOf(("4", "8")),
}
SCORE = "mutual-information"


def trainer_of(target: Domain | None = None, *behind: Callback) -> Train:
    """A tiny training on vectors; `behind` come after the search's own callbacks."""
    target = vectors(40, 2, shift=0.7) if target is None else target

    def train(
        configuration: Configuration, folder: Path, number: int, given: Sequence[Callback]
    ) -> None:
        adapt(
            seeded(Perceptron),
            vectors(60, 1),
            target,
            layer=configuration.layer,
            recipe=configuration.recipe,
            held_out=0.3,
            run=folder,
            callbacks=[*given, *behind],
            progress=False,
        )

    return train


def searched(folder: Path, train: Train, trials: int = 3, **changes: Any) -> SearchResult:
    search = Search(folder, SPACE, START, **{"score": SCORE, "pruner": "none", **changes})
    search.work(train, trials)
    return search.result()


def told(search: SearchResult) -> list[tuple[Any, ...]]:
    """Everything that a search came to: parameters, scores, weights to the bit."""
    return [
        (trial.number, trial.state, trial.score, trial.values, checkpoint_digest(trial.folder))
        for trial in search.trials
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    """Three trials, undisturbed."""
    return searched(tmp_path_factory.mktemp("search") / "whole", trainer_of())


def test_trials_are_runs_ranked_by_the_score_of_their_evidence(whole: SearchResult) -> None:
    assert [trial.state for trial in whole.trials] == ["done"] * 3
    assert whole.best is whole.trials[0]
    scores = [trial.score for trial in whole.trials]
    assert scores == sorted(scores, key=lambda value: -(value or 0))
    for trial in whole.trials:
        kept = read_evidence(trial.folder)
        assert kept is not None
        assert kept.end is not None
        assert trial.score == pytest.approx(score(SCORE, kept.end), rel=1e-6)
        config = Run(trial.folder).config
        assert config.settings["adaptation_factor"] == f"ramp-up:10.0,{trial.values['height']}"
        assert (
            config.settings["learning_rate"]
            == f"annealed:{trial.values['learning-rate']},10.0,0.75"
        )
        assert config.domain_classifier == [int(trial.values["domain-classifier"])]
    first = next(trial for trial in whole.trials if trial.number == 0)  # what was given
    assert first.values == {"height": 1.0, "learning-rate": 0.01, "domain-classifier": "4"}
    assert len({str(trial.values) for trial in whole.trials}) == 3


def test_poisoned_target_labels_leave_the_search_bit_identical(
    whole: SearchResult, tmp_path: Path
) -> None:
    good = vectors(40, 2, shift=0.7)
    inputs = good.batch(np.arange(len(good))).inputs
    wrong = from_arrays(inputs.numpy(), 2 - np.asarray(good.labels), name=good.name)
    assert told(searched(tmp_path / "poisoned", trainer_of(wrong))) == told(whole)
    other = vectors(40, 5, shift=0.9)  # and the target's inputs do decide
    assert told(searched(tmp_path / "other", trainer_of(other), trials=1)) != told(whole)[-1:]


class StopAt(Callback):
    """Ends a training in the middle of the trial whose turn it is, once."""

    def __init__(self, trial: int, step: int, how: Callable[[], object]) -> None:
        self.trial, self.step, self.how, self.done = trial, step, how, False

    def on_step(self, trainer: Trainer, step: int) -> None:
        assert trainer.run is not None
        here = trainer.run.folder.name == f"trial-{self.trial:04d}" and step == self.step
        if here and not self.done:
            self.done = True
            self.how()


def test_an_interrupted_search_goes_on_where_it_was(whole: SearchResult, tmp_path: Path) -> None:
    stop = StopAt(1, 5, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match="stopped with 1 of 3 trials done") as stopped:
        searched(tmp_path / "parts", trainer_of(None, stop))
    assert stopped.value.exit_code == 130
    checkpoint = Run(tmp_path / "parts" / "trial-0001").checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 5
    assert told(searched(tmp_path / "parts", trainer_of())) == told(whole)


def test_a_signal_that_comes_before_training_listens_is_not_lost(tmp_path: Path) -> None:
    train = trainer_of()

    def early(configuration: Configuration, folder: Path, number: int, given: Any) -> None:
        if number == 1:
            signal.raise_signal(signal.SIGTERM)  # while data are opened, say
        train(configuration, folder, number, given)

    with pytest.raises(Interrupted) as stopped:
        searched(tmp_path, early)
    assert stopped.value.exit_code == 143
    checkpoint = Run(tmp_path / "trial-0001").checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 0


def test_a_trial_whose_process_died_is_taken_up_again(whole: SearchResult, tmp_path: Path) -> None:
    def die() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        searched(tmp_path / "parts", trainer_of(None, StopAt(2, 8, die)))
    with open(tmp_path / "parts" / JOURNAL, "ab") as journal:
        journal.write(b'{"op_code":8,"half a li')  # killed while it wrote
    again = searched(tmp_path / "parts", trainer_of())
    assert told(again) == told(whole)


def test_a_damaged_journal_is_noticed_and_a_lost_tail_done_again(
    whole: SearchResult, tmp_path: Path
) -> None:
    folder = tmp_path / "search"
    shutil.copytree(whole.folder, folder)
    journal = folder / JOURNAL
    data = journal.read_bytes()
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    chance = np.random.default_rng(0)
    for _ in range(40):
        at = int(chance.integers(ends[-2]))  # in the last line it is a lost tail
        flipped = data[:at] + bytes([data[at] ^ 1 << int(chance.integers(8))]) + data[at + 1 :]
        journal.write_bytes(flipped)
        with pytest.raises(RunError, match=rf"{JOURNAL} is damaged \(line") as caught:
            Search(folder, SPACE, START, score=SCORE, pruner="none")
        assert "\n" not in str(caught.value)
    for end in ends[5 :: len(ends) // 4]:
        journal.write_bytes(data[: end + 1])
        assert told(searched(folder, trainer_of())) == told(whole)


def test_more_trials_go_on_with_a_finished_search(whole: SearchResult, tmp_path: Path) -> None:
    assert len(searched(tmp_path / "more", trainer_of(), trials=2).trials) == 2
    assert told(searched(tmp_path / "more", trainer_of(), trials=3)) == told(whole)


def test_processes_share_trials_and_take_over_what_is_left(tmp_path: Path) -> None:
    one, other = (SharedStudy(tmp_path, SPACE, steps=STEPS) for _ in range(2))
    one.begin_with(starting_values(SPACE, START))
    other.begin_with(starting_values(SPACE, START))  # once is enough
    first, second = one.claim(3), other.claim(3)
    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (0, 1)
    first.lock.release()  # its process is gone
    third = other.claim(3)
    assert third is not None
    assert (third.number, third.resumed, third.values) == (0, True, first.values)
    fourth = one.claim(3)
    assert fourth is not None
    assert (fourth.number, fourth.resumed) == (2, False)
    assert one.claim(3) is None
    one.finish(fourth, 1.5)
    fourth.lock.release()
    assert other.claim(3) is None  # done, and not begun again
    assert [trial.value for trial in other.trials()] == [None, None, 1.5]


def scripted(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> None:
    given = itertools.chain(values, itertools.repeat(0.0))
    monkeypatch.setitem(
        SCORES, "scripted", Score(lambda e: next(given), ("target_logits",), "", "")
    )


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_a_trial_without_prospect_is_given_up(
    pruner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # three evaluations before the end, then the end: good trials, then hopeless ones
    good, bad = [1.0, 2.0, 3.0, 4.0], [-9.0] * 4
    scripted(monkeypatch, [*(good * 6), *(bad * 6)])
    search = searched(tmp_path, trainer_of(), trials=8, score="scripted", pruner=pruner)
    states = {trial.number: trial.state for trial in search.trials}
    assert [states[number] for number in range(4)] == ["done"] * 4
    assert "pruned" in states.values()
    trial = search.of("pruned")[0]
    assert trial.score == -9.0
    assert 0 < trial.step < STEPS
    assert not list(trial.folder.glob("checkpoint*"))
    assert not (trial.folder / "evidence").exists()
    assert (trial.folder / "metrics.jsonl").exists()


def test_a_trial_that_fails_is_named_and_the_search_goes_on(tmp_path: Path) -> None:
    space: Space = {"learning-rate": OneOf((1e38, 0.01))}
    working = Search(tmp_path, space, START, score=SCORE, seed=1)
    working.work(trainer_of(), 6)
    search = working.result()
    assert {trial.state for trial in search.trials} == {"done", "failed"}
    for trial in search.trials:
        assert (trial.state == "failed") == (trial.values["learning-rate"] == 1e38)
    failed = search.of("failed")[0]
    assert failed.failure is not None
    assert "not finite" in failed.failure
    assert search.best is not None
    assert search.best.values["learning-rate"] == 0.01


def test_one_folder_holds_one_search(whole: SearchResult, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is another search \(score: mutual-information there"):
        Search(whole.folder, SPACE, START, score="negative-entropy", pruner="none")
    longer = replace(START, recipe=START.recipe.changed({"steps": 13}))
    with pytest.raises(RunError, match="steps: 12 there, 13 now"):
        Search(whole.folder, SPACE, longer, score=SCORE, pruner="none")
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match=r"not empty \(letter.txt\) and not a search"):
        Search(tmp_path, SPACE, START, score=SCORE)


def test_scores_that_a_training_can_not_give_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"'seed-agreement' needs seed_logits.*can take: trust, estim"
    ):
        Search(tmp_path, SPACE, START, score="seed-agreement")
    with pytest.raises(UnknownNameError, match="no score 'accuracy'"):
        Search(tmp_path, SPACE, START, score="accuracy")
    with pytest.raises(UnknownNameError, match="no pruner 'medan'; did you mean 'median'"):
        Search(tmp_path / "new", SPACE, START, score=SCORE, pruner="medan")


def test_a_missing_optuna_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'revgrad\[tune\]'"):
        Search(tmp_path, SPACE, START, score=SCORE)


def test_trials_are_shown_best_first() -> None:
    def trial(number: int, state: Any, value: float | None, step: int) -> Trial:
        return Trial(number, state, value, step, {}, Path("x"))

    trials = [
        trial(0, "running", None, 0),
        trial(1, "pruned", 9.0, 3),
        trial(2, "done", 1.0, 12),
        trial(3, "failed", None, 0),
        trial(4, "done", 2.0, 12),
        trial(5, "pruned", 1.0, 6),
        trial(6, "done", 2.0, 12),
    ]
    assert [r.number for r in best_first(trials)] == [4, 6, 2, 5, 1, 3, 0]
