"""Mistakes on the command line, and signals: one line each, and the exit code that says so."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import revgrad
from revgrad import Settings, cli
from revgrad.cli.predictions import no_formula
from revgrad.cli.train_options import TrainOptions
from revgrad.errors import InputError, RunError, UnknownNameError
from revgrad.objectives import Losses
from revgrad.training import Interrupted
from revgrad.training.metrics import RunningMeans
from revgrad.training.session import stop_request
from tiny import Perceptron, environment, seeded, vectors

GIVEN: dict[str, Any] = {"source": ["digits"], "target": ["digits-m"], "output": Path("run")}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threads", 100_000),
        ("threads", -5),
        ("held_out", float("nan")),
        ("held_out", -1.0),
        ("evidence_samples", -1),
    ],
)
def test_options_out_of_bounds(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"--{option.replace('_', '-')} takes"):
        TrainOptions(**{**GIVEN, option: value}).check()


@pytest.mark.parametrize("name", ["learning_rate", "adaptation_factor"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), lambda p: 0.5 - p])
def test_schedules_out_of_bounds(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=r"must be (a )?finite"):
        Settings(**{name: value})


def test_a_device_without_numbers() -> None:
    with pytest.raises(InputError, match="device 'meta' can't be used here"):
        adapted(device="meta")


def adapted(**changes: Any) -> revgrad.Adapted:
    small = {
        "recipe": "paper",
        "steps": 6,
        "batch_size": 16,
        "device": "cpu",
        "domain_classifier": (6,),
    }
    domains = vectors(60, 1), vectors(60, 2, 1.0)
    return revgrad.adapt(
        seeded(Perceptron), *domains, layer="lower", progress=False, **{**small, **changes}
    )


def test_a_score_that_nobody_knows() -> None:
    with pytest.raises(UnknownNameError, match="no score 'zzz'"):
        adapted(score="zzz")


def test_a_disk_too_full_for_a_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where evidence is to lie; and what nobody thought of is one line of the command."""
    real = os.mkdir

    def full(path: Any, *given: Any, **named: Any) -> None:
        if Path(path).name == "evidence":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", full)
        with pytest.raises(RunError, match=r"the disk is full: .*evidence could not be written"):
            adapted(run=tmp_path / "run")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stopped:
        cli._run()
    assert stopped.value.code == 1
    said = "revgrad: the disk is full: some/file could not be written"
    assert capsys.readouterr().err.startswith(said)


class StopAt(revgrad.Callback):
    def on_step(self, trainer: Any, step: int) -> None:
        if step == 3:
            signal.raise_signal(signal.SIGTERM)


def test_other_evidence_on_resume_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        adapted(run=run, evidence_samples=20, callbacks=[StopAt()])
    with pytest.raises(RunError, match=r"began with evidence of (6 source|20 target)"):
        adapted(run=run, evidence_samples=5)
    assert adapted(run=run, evidence_samples=20).result is not None


class StopInTheLastEvaluation(revgrad.Callback):
    def on_evaluation(self, trainer: Any, record: Any) -> None:
        signal.raise_signal(signal.SIGINT)


def test_a_signal_in_the_last_evaluation_stops_before_the_baseline(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="all 6 steps are saved") as caught:
        adapted(run=tmp_path / "run", baseline=True, callbacks=[StopInTheLastEvaluation()])
    assert caught.value.exit_code == 130
    assert not (tmp_path / "run" / "baseline").exists()
    assert (tmp_path / "run" / "result.json").exists()
    again = adapted(run=tmp_path / "run", baseline=True)  # goes on with what is left
    assert again.baseline is not None


def test_a_second_signal_stops_at_once() -> None:
    with stop_request() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted, match="second signal") as caught:
            signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 143


IN_C = """
import ctypes, signal
from revgrad import cli

def command():
    code = b"import signal; signal.raise_signal({number})"
    ctypes.pythonapi.PyRun_String.restype = ctypes.py_object
    ctypes.pythonapi.PyRun_String(code, 257, *map(ctypes.py_object, ({{}}, {{}})))

class Early(cli.Commands):
    def make_context(self, *given, **named):
        signal.raise_signal({number})

cli.COMMANDS["demo"] = "__main__:command"
if {early}:
    cli.app.info.cls = Early
cli.main()
"""


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_code_that_c_runs(early: bool, number: int, code: int, tmp_path: Path) -> None:
    """Python would end by the signal itself; and, while options are read, typer without a word."""
    (tmp_path / "ours.py").write_text(IN_C.format(number=int(number), early=early))
    words = [sys.executable, "-m", "ours", "demo"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=15
    )
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr) == (code, f"revgrad: {word}\n")


DESTRUCTOR = """
import signal, time
from revgrad import cli

class Struck:
    def __del__(self):
        signal.raise_signal({number})

def command():
    Struck()
    time.sleep({seconds})
    print("went on")

cli.COMMANDS["demo"] = "__main__:command"
cli.main()
"""


@pytest.mark.parametrize("seconds", [0, 20])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_strikes_in_a_destructor(seconds: int, number: int, code: int) -> None:
    """Python prints what is raised there and goes on."""
    program = DESTRUCTOR.format(seconds=seconds, number=int(number))
    words = [sys.executable, "-c", program, "demo"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=15)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr) == (code, f"revgrad: {word}\n")
    assert not (seconds and done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_training_is_one_line(number: int, code: int, tmp_path: Path) -> None:
    """While torch is imported, which takes seconds."""
    program = "from revgrad.cli import main\nprint('begun', flush=True)\nmain()"
    words = [
        "train",
        "--recipe",
        "paper",
        "--source",
        "digits",
        "--target",
        "digits-m",
        "-o",
        str(tmp_path / "run"),
    ]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.5)
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == code, said
    assert len(said.splitlines()) <= 1, said


def test_a_training_that_never_logs_remembers_few_steps() -> None:
    """And its sums are those of one that remembers all, to the last digit."""
    means, values = RunningMeans(torch.device("cpu")), np.random.default_rng(0).random(2000)
    for value in values:
        loss = torch.tensor(value, dtype=torch.float32)
        logits, domains = torch.tensor([[value - 0.5]]), torch.tensor([1])
        means.add(Losses(loss, loss, loss, logits), domains, True)
        assert len(means.steps) <= 256
    expected = 0.0
    for value in values.astype(np.float32):  # one after the other, in double precision
        expected += float(value)
    found = means.sums()
    assert found.label == expected
    assert (found.label_steps, found.samples) == (2000, 2000)
    assert found.right == (values.astype(np.float32) > 0.5).sum()
    assert means.sums() == found


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_formula_is_a_text(cell: str) -> None:
    assert no_formula(cell) == f"'{cell}"
    assert no_formula("plain") == "plain"
    assert no_formula(-1.0) == -1.0
