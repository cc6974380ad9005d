"""The search: what is varied, what interrupts it, what shares it; no target label takes part."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from revgrad import Domain, Events, Settings, adapt, from_arrays, layers
from revgrad.choosing import study as study_module
from revgrad.choosing.configuration import Configuration
from revgrad.choosing.locks import Lock
from revgrad.choosing.searching import Searching, Train
from revgrad.choosing.space import Choice, Range, Space, make_space, starting_values
from revgrad.choosing.study import JOURNAL, SharedStudy
from revgrad.choosing.trials import Search, TrialRow, best_first
from revgrad.cli.train_options import parse_train_options, train_command
from revgrad.diagnostics.kept import read_kept
from revgrad.diagnostics.scores import SCORES, Score, score
from revgrad.domains.digits import digits, digits_m
from revgrad.errors import InputError, MissingExtraError, RunError, UnknownNameError
from revgrad.networks import CompactNetwork, MNISTNetwork
from revgrad.reports.search import TrialPoint, Varied, draw_search
from revgrad.schedules import Annealed, Constant, RampUp
from revgrad.training.runs import Run
from revgrad.training.stopping import Interrupted
from revgrad.training.trainer import Trainer
from shown import Shown
from tiny import Perceptron, checkpoint_digest, seeded, vectors

STEPS = 12
START = Configuration(
    Settings(steps=STEPS, batch=8, device="cpu", evaluate_every=3, log_every=3), "lower", (4,)
)
SPACE: Space = {"height": Range(0.1, 3.0), "rate": Range(0.001, 0.1), "hidden": Choice(("4", "8"))}
SCORE = "mutual-information"


# -- what is varied ----------------------------------------------------------------------------


def found_layers(network: nn.Module) -> Any:
    return layers(network, torch.zeros(2, 3, 28, 28))


def configured(network: nn.Module, **changes: Any) -> Configuration:
    settings = Settings(steps=100, **changes)
    return Configuration(settings, network.layer, tuple(network.domain_hidden))  # type: ignore[arg-type]


def test_everything_that_means_something_is_varied_around_what_is_given() -> None:
    network = MNISTNetwork(seed=0)
    start = configured(network)
    space = make_space(start, network, found_layers(network), "adversarial")
    assert {name: str(what) for name, what in space.items()} == {
        "height": "0.1:3",
        "gamma": "2.5:20",
        "rate": "0.001:0.03",
        "layer": "conv2,pool2,fc3,fc4",
        "hidden": "50,100,200",
        "domain-rate": "0.1:3",
    }
    assert starting_values(space, start) == {
        "height": 1.0,
        "gamma": 10.0,
        "rate": 0.01,
        "layer": "pool2",
        "hidden": "100",
        "domain-rate": 1.0,
    }
    matching = make_space(start, network, found_layers(network), "mean-matching")
    assert list(matching) == ["height", "gamma", "rate", "layer"]
    fixed = replace(start, settings=replace(start.settings, factor=Constant(0.5)))
    assert list(make_space(fixed, network, found_layers(network), "adversarial"))[:2] == [
        *("height", "rate")
    ]
    with_norm = CompactNetwork(seed=0)
    space = make_space(configured(with_norm), with_norm, found_layers(with_norm), "adversarial")
    assert str(space["batch-norm"]) == "joint,separate,target"


def test_what_is_asked_for_is_varied_and_nothing_else() -> None:
    network = MNISTNetwork(seed=0)
    asked = ["seed=3,4", "height=0.5:2", "layer=fc3,pool1", "rate=0.01,0.02", "hidden=8,16x16"]
    space = make_space(configured(network), network, found_layers(network), "adversarial", asked)
    assert space == {
        "height": Range(0.5, 2.0),
        "rate": Choice((0.01, 0.02)),
        "layer": Choice(("fc3", "pool1")),
        "hidden": Choice(("8", "16x16")),
        "seed": Choice(("3", "4")),
    }
    # the default layer, width and seed are not among them: the search begins elsewhere
    assert starting_values(space, configured(network)) == {"height": 1.0, "rate": 0.01}
    alone = make_space(configured(network), network, found_layers(network), "adversarial", ["seed"])
    assert list(alone) == ["seed"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["heigth"], "did you mean 'height'"),
        (["height", "height=1:2"], "twice"),
        (["height="], "names no values"),
        (["height=2:1"], "from a number above 0 to a larger one"),
        (["height=0:1"], "numbers above 0, not '0'"),
        (["rate=fast"], "rate takes numbers above 0, not 'fast'"),
        (["layer=pool1:pool2"], "not the range"),
        (["layer=pol1"], "did you mean 'pool1'"),
        (["layer=fc5"], "can't be cut at 'fc5'"),
        (["hidden=wide"], "100 or 1024x1024"),
        (["seed=-1"], "whole numbers"),
        (["batch-norm"], "no BatchNorm"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(asked: list[str], expected: str) -> None:
    network = MNISTNetwork(seed=0)
    with pytest.raises(InputError, match=expected):
        make_space(configured(network), network, found_layers(network), "adversarial", asked)


def test_what_changes_nothing_is_refused() -> None:
    network = MNISTNetwork(seed=0)
    start = configured(network, factor=Constant(1.0))
    with pytest.raises(InputError, match="λ does not ramp up"):
        make_space(start, network, found_layers(network), "adversarial", ["gamma"])
    with pytest.raises(InputError, match="mean-matching has no domain classifier"):
        make_space(start, network, found_layers(network), "mean-matching", ["hidden=4,8"])


def test_values_go_where_they_belong_and_come_back() -> None:
    network = CompactNetwork(seed=0)
    start = configured(network)
    values: dict[str, float | str] = {
        "height": 0.25,
        "gamma": 5.0,
        "rate": 0.002,
        "layer": "hidden",
        "hidden": "32x16",
        "domain-rate": 0.5,
        "batch-norm": "target",
        "seed": "7",
    }
    changed = start.changed(values)
    assert {name: changed.value(name) for name in values} == values
    assert changed.settings.factor == RampUp(gamma=5.0, height=0.25)
    assert changed.settings.rate == Annealed(initial=0.002)
    assert (changed.settings.domain_rate, changed.settings.seed) == (0.5, 7)
    assert (changed.layer, changed.hidden) == ("hidden", (32, 16))
    constant = replace(
        start, settings=replace(start.settings, factor=Constant(1), rate=Constant(1))
    )
    assert constant.changed({"height": 0.3, "rate": 0.2}).settings.factor == Constant(0.3)
    assert start.changed({"rate": 0.0123456}).value("rate") == 0.0123  # what a command can say


# -- a search ----------------------------------------------------------------------------------


def trainer_of(target: Domain | None = None, *events: Events, **changes: Any) -> Train:
    """A tiny training on vectors; `events` come behind the search's own."""
    target = vectors(40, 2, shift=0.7) if target is None else target

    def train(
        configuration: Configuration, folder: Path, number: int, given: Sequence[Events]
    ) -> None:
        adapt(
            seeded(Perceptron),
            vectors(60, 1),
            target,
            layer=configuration.layer,
            hidden=configuration.hidden,
            settings=replace(configuration.settings, **changes),
            held_out=0.3,
            run=folder,
            events=[*given, *events],
            progress=False,
        )

    return train


def searched(folder: Path, train: Train, trials: int = 3, **changes: Any) -> Search:
    searching = Searching(folder, SPACE, START, **{"score": SCORE, "pruner": "none", **changes})
    searching.work(train, trials)
    return searching.result()


def told(search: Search) -> list[tuple[Any, ...]]:
    """Everything that a search came to: parameters, scores, weights to the bit."""
    return [
        (row.number, row.state, row.score, row.values, checkpoint_digest(row.folder))
        for row in search.rows
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Three trials, undisturbed."""
    return searched(tmp_path_factory.mktemp("search") / "whole", trainer_of())


def test_trials_are_runs_ranked_by_the_score_of_their_evidence(whole: Search) -> None:
    assert [row.state for row in whole.rows] == ["done"] * 3
    assert whole.best is whole.rows[0]
    scores = [row.score for row in whole.rows]
    assert scores == sorted(scores, key=lambda value: -(value or 0))
    for row in whole.rows:
        kept = read_kept(row.folder)
        assert kept is not None
        assert kept.end is not None
        assert row.score == pytest.approx(score(SCORE, kept.end), rel=1e-6)
        config = Run(row.folder).config
        assert config.settings["factor"] == f"ramp-up:10.0,{row.values['height']}"
        assert config.settings["rate"] == f"annealed:{row.values['rate']},10.0,0.75"
        assert config.domain_hidden == [int(row.values["hidden"])]
    first = next(row for row in whole.rows if row.number == 0)  # what was given
    assert first.values == {"height": 1.0, "rate": 0.01, "hidden": "4"}
    assert len({str(row.values) for row in whole.rows}) == 3


def test_poisoned_target_labels_leave_the_search_bit_identical(
    whole: Search, tmp_path: Path
) -> None:
    good = vectors(40, 2, shift=0.7)
    inputs = good.batch(np.arange(len(good))).inputs
    wrong = from_arrays(inputs.numpy(), 2 - np.asarray(good.labels), name=good.name)
    assert told(searched(tmp_path / "poisoned", trainer_of(wrong))) == told(whole)
    other = vectors(40, 5, shift=0.9)  # and the target's inputs do decide
    assert told(searched(tmp_path / "other", trainer_of(other), trials=1)) != told(whole)[-1:]


class StopAt(Events):
    """Ends a training in the middle of the trial whose turn it is, once."""

    def __init__(self, trial: int, step: int, how: Callable[[], object]) -> None:
        self.trial, self.step, self.how, self.done = trial, step, how, False

    def on_step(self, trainer: Trainer, step: int) -> None:
        assert trainer.run is not None
        here = trainer.run.folder.name == f"trial-{self.trial:04d}" and step == self.step
        if here and not self.done:
            self.done = True
            self.how()


def test_an_interrupted_search_goes_on_where_it_was(whole: Search, tmp_path: Path) -> None:
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


def test_a_trial_whose_process_died_is_taken_up_again(whole: Search, tmp_path: Path) -> None:
    def die() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        searched(tmp_path / "parts", trainer_of(None, StopAt(2, 8, die)))
    with open(tmp_path / "parts" / JOURNAL, "ab") as journal:
        journal.write(b'{"op_code":8,"half a li')  # killed while it wrote
    again = searched(tmp_path / "parts", trainer_of())
    assert told(again) == told(whole)


def test_more_trials_go_on_with_a_finished_search(whole: Search, tmp_path: Path) -> None:
    assert len(searched(tmp_path / "more", trainer_of(), trials=2).rows) == 2
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
    states = {row.number: row.state for row in search.rows}
    assert [states[number] for number in range(4)] == ["done"] * 4
    assert "pruned" in states.values()
    row = search.of("pruned")[0]
    assert row.score == -9.0
    assert 0 < row.step < STEPS
    assert not list(row.folder.glob("checkpoint*"))
    assert not (row.folder / "evidence").exists()
    assert (row.folder / "metrics.jsonl").exists()


def test_a_trial_that_fails_is_named_and_the_search_goes_on(tmp_path: Path) -> None:
    space: Space = {"rate": Choice((1e38, 0.01))}
    searching = Searching(tmp_path, space, START, score=SCORE, seed=1)
    searching.work(trainer_of(), 6)
    search = searching.result()
    assert {row.state for row in search.rows} == {"done", "failed"}
    for row in search.rows:
        assert (row.state == "failed") == (row.values["rate"] == 1e38)
    failed = search.of("failed")[0]
    assert failed.failure is not None
    assert "not finite" in failed.failure
    assert search.best is not None
    assert search.best.values["rate"] == 0.01


def test_one_folder_holds_one_search(whole: Search, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is another search \(score: mutual-information there"):
        Searching(whole.folder, SPACE, START, score="negative-entropy", pruner="none")
    longer = replace(START, settings=replace(START.settings, steps=13))
    with pytest.raises(RunError, match="steps: 12 there, 13 now"):
        Searching(whole.folder, SPACE, longer, score=SCORE, pruner="none")
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match=r"not empty \(letter.txt\) and not a search"):
        Searching(tmp_path, SPACE, START, score=SCORE)


def test_scores_that_a_training_can_not_give_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'seed-agreement' needs seed_logits.*can take: estim"):
        Searching(tmp_path, SPACE, START, score="seed-agreement")
    with pytest.raises(UnknownNameError, match="no score 'accuracy'"):
        Searching(tmp_path, SPACE, START, score="accuracy")
    with pytest.raises(UnknownNameError, match="no pruner 'medan'; did you mean 'median'"):
        Searching(tmp_path / "new", SPACE, START, score=SCORE, pruner="medan")


def test_a_missing_optuna_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'revgrad\[tune\]'"):
        Searching(tmp_path, SPACE, START, score=SCORE)


def test_a_lock_is_one_holder_s(tmp_path: Path) -> None:
    one, other = Lock(tmp_path / "x" / "lock"), Lock(tmp_path / "x" / "lock")
    assert one.acquire()
    assert not other.acquire(wait=False)
    one.release()
    assert other.acquire(wait=False)


def test_trials_are_shown_best_first() -> None:
    def row(number: int, state: Any, value: float | None, step: int) -> TrialRow:
        return TrialRow(number, state, value, step, {}, Path("x"))

    rows = [
        row(0, "running", None, 0),
        row(1, "pruned", 9.0, 3),
        row(2, "done", 1.0, 12),
        row(3, "failed", None, 0),
        row(4, "done", 2.0, 12),
        row(5, "pruned", 1.0, 6),
        row(6, "done", 2.0, 12),
    ]
    assert [r.number for r in best_first(rows)] == [4, 6, 2, 5, 1, 3, 0]


def test_the_picture_is_drawn_of_whatever_there_is(tmp_path: Path) -> None:
    varied = [Varied("rate"), Varied("layer", ("a-very-long-name", "b")), Varied("x", ("0.1",))]
    points = [
        TrialPoint(0, 0.5, True, {"rate": 0.1, "layer": "b", "x": 0.1}),
        TrialPoint(1, 0.2, False, {"rate": 0.01, "layer": "b"}),
    ]
    for name, some in (("none", []), ("pruned", points[1:]), ("all", points)):
        draw_search(tmp_path / f"{name}.png", "score", some, varied)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


# -- the command -------------------------------------------------------------------------------

MODULE = """
import multiprocessing, os, time
from pathlib import Path
from torch import nn

calls = 0

def together(classes, channels):
    # in a process of a search: its first trial waits for the other process's first
    global calls
    calls += 1
    if multiprocessing.parent_process() is not None and calls == 2:  # the first lists the layers
        Path(f"at-work-{os.getpid()}").touch()
        until = time.monotonic() + 200
        while len(list(Path().glob("at-work-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
    return small(classes, channels)

def small(classes, channels):
    return nn.Sequential(
        nn.Conv2d(channels, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16),
        nn.ReLU(), nn.Linear(16, classes),
    )
"""
WORDS = "--source s.npz --target {} --network searched:small --layer 2 --hidden 8 --steps 10"
WORDS += " --batch 16 --evaluate-every 5 --device cpu --score mutual-information --quiet"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred digits, and two hundred over photographs; once with wrong labels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "searched.py").write_text(MODULE)
    rows = np.random.default_rng(0).permutation(1000)[:200]
    for name, domain in (("s", digits("test")), ("t", digits_m("test"))):
        images = domain.batch(rows).inputs.permute(0, 2, 3, 1).numpy()
        labels = np.asarray(domain.labels)[rows]
        np.savez(tmp_path / f"{name}.npz", images=images.squeeze(), labels=labels)
        if name == "t":
            np.savez(tmp_path / "poisoned.npz", images=images, labels=(labels + 3) % 10)
    return tmp_path


def test_from_a_command_to_the_command_that_trains_the_best(
    place: Path, call: Callable[..., Shown]
) -> None:
    words = ["tune", "--trials", "3", "-o", "s", "--vary", "height", "--vary", "layer=2,4"]
    shown = call(*words, *WORDS.format("t.npz").split(), "--test", "t.npz")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0].split()[-4:] == ["source", "seconds", "target", "test"]
    command = shlex.split(lines[-1])
    number = int(lines[1].split()[0])
    assert f"trial {number}, a run in s/trial-{number:04d}" in lines[-2]

    with open("s/search.csv") as file:
        table = list(csv.DictReader(file))
    assert [row["trial"] for row in table] == [line.split()[0] for line in lines[1:4]]
    scores = [float(row["mutual-information"]) for row in table]
    assert scores == sorted(scores, reverse=True)
    assert (place / "s/search.md").read_text().count("\n") == 5
    assert (place / "s/search.png").read_bytes().startswith(b"\x89PNG")

    # the command trains the very same network
    assert command[:2] == ["revgrad", "train"]
    trained = call(*command[1:], "--quiet")
    assert trained.code == 0, trained.err
    best = place / "s" / f"trial-{number:04d}"
    assert checkpoint_digest(place / "s/best") == checkpoint_digest(best)
    # the target test is that of the network that came out, and was not looked at in training
    evaluated = call("evaluate", best, "t.npz", "--network", "searched:small", "--json")
    accuracy = json.loads(evaluated.out)["accuracy"]
    assert float(table[0]["target test"]) == pytest.approx(accuracy, abs=6e-5)
    assert all(getattr(r, "target_accuracy", None) is None for r in Run(best).records())


def test_poisoned_target_labels_leave_the_command_s_search_as_it_is(
    place: Path, call: Callable[..., Shown]
) -> None:
    found = []
    for target in ("t.npz", "poisoned.npz"):
        words = ["tune", "--trials", "2", "-o", f"of-{target}", "--test", target, "--json"]
        shown = call(*words, *WORDS.format(target).split())
        assert shown.code == 0, shown.err
        found.append(json.loads(shown.out)["trials"])
    for good, bad in zip(*found, strict=True):
        assert good["target_accuracy"] != bad["target_accuracy"]  # the labels are wrong indeed
        same = ("number", "state", "score", "step", "values", "source_accuracy")
        assert [good[name] for name in same] == [bad[name] for name in same]
        digests = [checkpoint_digest(row["folder"]) for row in (good, bad)]
        assert digests[0] == digests[1]
    assert good["values"].keys() == {"height", "gamma", "rate", "layer", "hidden", "domain-rate"}


def test_several_processes_share_one_search(place: Path, call: Callable[..., Shown]) -> None:
    words = ["tune", "--trials", "4", "-o", "s", "--workers", "2", "--vary", "height", "--json"]
    shown = call(*words, *WORDS.format("t.npz").replace("small", "together").split())
    assert shown.code == 0, shown.err
    trials = json.loads(shown.out)["trials"]
    assert sorted(row["number"] for row in trials) == [0, 1, 2, 3]
    assert {row["state"] for row in trials} <= {"done", "pruned"}
    assert len(list(place.glob("at-work-*"))) == 2  # both took trials


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--sorce", "s.npz"], "no option '--sorce'; did you mean '--source'"),
        (["--trails", "3"], "no option '--trails'; did you mean '--trials'"),
        (["--method", "source-only"], "method 'source-only' does not"),
        (["--method", "train-on-target"], "method 'train-on-target' does not"),
        (["--held-out", "0"], "--held-out above 0"),
        (["--evidence", "0"], "--evidence"),
        (["--trials", "0"], "--trials takes 1 or more"),
        (["--workers", "0"], "--workers takes 1 or more"),
        (["--steps", "many"], "Invalid value for '--steps'"),
        (["--pruner", "scissors"], "no pruner 'scissors'"),
        (["--score", "stability"], "'stability' needs checkpoint_logits"),
        (["--vary", "lambda"], "no parameter to vary 'lambda'"),
        (["--vary", "batch-norm"], "the network has no BatchNorm"),
    ],
)
def test_mistakes_are_one_line(
    place: Path, call: Callable[..., Shown], words: list[str], expected: str
) -> None:
    shown = call("tune", *WORDS.format("t.npz").split(), "-o", "s", *words)
    assert shown.code == 2
    assert expected in shown.line
    assert not list(place.glob("s/trial*"))


def test_a_missing_target_or_layer_is_said(place: Path, call: Callable[..., Shown]) -> None:
    words = ["tune", "--source", "s.npz", "--network", "searched:small", "-o", "s"]
    assert "--target is missing" in call(*words).line
    assert "name the layer to start from" in call(*words, "--target", "t.npz").line
    assert "Missing option '--source'" in call("tune", "-o", "s").line


def test_a_config_file_works_as_for_train(place: Path, call: Callable[..., Shown]) -> None:
    (place / "run.toml").write_text(
        'source = "s.npz"\ntarget = "t.npz"\nnetwork = "searched:small"\nlayer = "2"\n'
        'hidden = [8]\nsteps = 4\nbatch = 8\nevaluate-every = 2\ndevice = "cpu"\n'
    )
    words = ["tune", "--config", "run.toml", "--trials", "1", "-o", "s", "--vary", "height"]
    shown = call(*words, "--score", SCORE, "--quiet", "--json")
    assert shown.code == 0, shown.err
    assert Run(place / "s/trial-0000").config.settings["steps"] == 4
    assert Run(place / "s/trial-0000").config.settings["evaluate_every"] == 2
    assert "--config" not in json.loads(shown.out)["command"]


def test_a_command_says_its_options_again(tmp_path: Path) -> None:
    words = "--source 'my data' --target t --per-image --rate 0.5 --hidden 8,4 --clip 0.25"
    options, given = parse_train_options(shlex.split(words), tmp_path / "run")
    assert {"source", "target", "per_image", "rate", "hidden", "clip", "run"} == given
    again, _ = parse_train_options(shlex.split(train_command(options))[2:], tmp_path / "other")
    assert {**again, "run": None} == {**options, "run": None}
