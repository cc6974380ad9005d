"""`revgrad tune`: from a command that trains to the command that trains the best."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from revgrad.domains.digits import digits, digits_m
from revgrad.training.run import Run
from shown import Shown
from tiny import checkpoint_digest

SCORE = "mutual-information"
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
WORDS = "--source s.npz --target {} --network searched:small --layer 2 --domain-classifier 8"
WORDS += " --steps 10 --batch-size 16 --evaluate-every 5 --device cpu --quiet"
WORDS += f" --score {SCORE}"


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred digits, and two hundred over photographs; once with wrong labels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "searched.py").write_text(MODULE)
    samples = np.random.default_rng(0).permutation(1000)[:200]
    for name, domain in (("s", digits("test")), ("t", digits_m("test"))):
        images = domain.batch(samples).inputs.permute(0, 2, 3, 1).numpy()
        labels = np.asarray(domain.labels)[samples]
        np.savez(tmp_path / f"{name}.npz", images=images.squeeze(), labels=labels)
        if name == "t":
            np.savez(tmp_path / "poisoned.npz", images=images, labels=(labels + 3) % 10)
    return tmp_path


@pytest.mark.slow
def test_from_a_command_to_the_command_that_trains_the_best(
    searched: Path, call: Callable[..., Shown]
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
    assert (searched / "s/search.md").read_text().count("\n") == 5
    assert (searched / "s/search.png").read_bytes().startswith(b"\x89PNG")

    # the command trains the very same network
    assert command[:2] == ["revgrad", "train"]
    trained = call(*command[1:], "--quiet")
    assert trained.code == 0, trained.err
    best = searched / "s" / f"trial-{number:04d}"
    assert checkpoint_digest(searched / "s/best") == checkpoint_digest(best)
    # the target test is that of the network that came out, and was not looked at in training
    evaluated = call("evaluate", best, "t.npz", "--network", "searched:small", "--json")
    accuracy = json.loads(evaluated.out)["accuracy"]
    assert float(table[0]["target test"]) == pytest.approx(accuracy, abs=6e-5)
    assert all(getattr(r, "target_accuracy", None) is None for r in Run(best).records())


@pytest.mark.slow
def test_poisoned_target_labels_leave_the_command_s_search_as_it_is(
    searched: Path, call: Callable[..., Shown]
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
    assert good["values"].keys() == {
        "height",
        "gamma",
        "learning-rate",
        "layer",
        "domain-classifier",
        "domain-lr-factor",
    }


@pytest.mark.slow
def test_several_processes_share_one_search(searched: Path, call: Callable[..., Shown]) -> None:
    words = ["tune", "--trials", "4", "-o", "s", "--workers", "2", "--vary", "height", "--json"]
    shown = call(*words, *WORDS.format("t.npz").replace("small", "together").split())
    assert shown.code == 0, shown.err
    trials = json.loads(shown.out)["trials"]
    assert sorted(row["number"] for row in trials) == [0, 1, 2, 3]
    assert {row["state"] for row in trials} <= {"done", "pruned"}
    assert len(list(searched.glob("at-work-*"))) == 2  # both took trials


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--sorce", "s.npz"], "no option '--sorce'; did you mean '--source'"),
        (["--trails", "3"], "no option '--trails'; did you mean '--trials'"),
        (["--method", "source-only"], "method 'source-only' does not"),
        (["--method", "train-on-target"], "method 'train-on-target' does not"),
        (["--held-out", "0"], "--held-out above 0"),
        (["--evidence-samples", "0"], "--evidence-samples"),
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
    searched: Path, call: Callable[..., Shown], words: list[str], expected: str
) -> None:
    shown = call("tune", *WORDS.format("t.npz").split(), "-o", "s", *words)
    assert shown.code == 2
    assert expected in shown.line
    assert not list(searched.glob("s/trial*"))


def test_a_missing_target_or_layer_is_said(searched: Path, call: Callable[..., Shown]) -> None:
    words = ["tune", "--source", "s.npz", "--network", "searched:small", "-o", "s"]
    assert "--target is missing" in call(*words).line
    assert "name the layer to start from" in call(*words, "--target", "t.npz").line
    assert "Missing option '--source'" in call("tune", "-o", "s").line


def test_a_config_file_works_as_for_train(searched: Path, call: Callable[..., Shown]) -> None:
    (searched / "run.toml").write_text(
        'source = "s.npz"\ntarget = "t.npz"\nnetwork = "searched:small"\nlayer = "2"\n'
        'domain-classifier = [8]\nsteps = 4\nbatch-size = 8\nevaluate-every = 2\ndevice = "cpu"\n'
        'trials = 1\nvary = ["height", "learning-rate=0.01,0.02"]\n'
    )
    words = ["tune", "--config", "run.toml", "-o", "s"]
    shown = call(*words, "--score", SCORE, "--quiet", "--json")
    assert shown.code == 0, shown.err
    assert Run(searched / "s/trial-0000").config.settings["steps"] == 4
    assert Run(searched / "s/trial-0000").config.settings["evaluate_every"] == 2
    [trial] = json.loads(shown.out)["trials"]
    assert trial["values"].keys() == {"height", "learning-rate"}
    assert "--config" not in json.loads(shown.out)["command"]
