"""Runs: stopped anywhere and resumed they end the same; damage is noticed, no good state lost."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import revgrad
from forked import Forked
from revgrad import Callback, Constant, Run, Trainer
from revgrad._seals import unsealed, write_sealed
from revgrad._system import sha256
from revgrad.errors import CheckpointError, NonFiniteLossError, RunError
from revgrad.training import Interrupted, TrainingRecord
from revgrad.training.checkpoint import INDEX
from revgrad.training.run import CONFIG, METRICS
from tiny import (
    Images,
    Perceptron,
    checkpoint_digest,
    image_trainer,
    images,
    seeded,
    vectors,
    weights_digest,
)

#: Momentum, an average, BatchNorm, dropout, convolutions in channels_last: all that has a state.
EVERYTHING: dict[str, Any] = {"ema_decay": 0.9, "batch_norm": "target", "weight_decay": 1e-3}


class StopAt(Callback):
    """Sends this process a signal when `step` steps are finished."""

    def __init__(self, step: int, number: int = signal.SIGINT) -> None:
        self.step = step
        self.number = number

    def on_start(self, trainer: Trainer, step: int) -> None:
        self.on_step(trainer, step)

    def on_step(self, trainer: Trainer, step: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), self.number)


def stop_and_resume(folder: Path, step: int, **settings: Any) -> tuple[str, str]:
    """(digest of the checkpoint, digest of the network) after a stop at `step`."""
    with pytest.raises(Interrupted):
        image_trainer(folder, callbacks=(StopAt(step),), **settings).fit()
    saved = Run(folder).checkpoint()
    assert saved is not None
    assert saved.step == step
    resumed = image_trainer(folder, **settings)
    resumed.fit()
    return checkpoint_digest(folder), weights_digest(resumed.adapter)


@pytest.fixture(scope="module")
def preserved_rng(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    found = {}
    for optimiser in ("sgd", "adam"):
        folder = tmp_path_factory.mktemp("preserved_rng") / optimiser
        trainer = image_trainer(folder, optimiser=optimiser, **EVERYTHING)
        trainer.fit()
        assert trainer.channels_last
        found[optimiser] = checkpoint_digest(folder), weights_digest(trainer.adapter)
    return found


@pytest.mark.parametrize("step", range(30))
def test_stopped_at_any_step_it_ends_identical(
    step: int, tmp_path: Path, preserved_rng: dict[str, tuple[str, str]]
) -> None:
    assert stop_and_resume(tmp_path / "run", step, **EVERYTHING) == preserved_rng["sgd"]


@pytest.mark.parametrize("step", [1, 13, 29])
def test_with_adam_too(
    step: int, tmp_path: Path, preserved_rng: dict[str, tuple[str, str]]
) -> None:
    settings = {"optimiser": "adam", **EVERYTHING}
    assert stop_and_resume(tmp_path / "run", step, **settings) == preserved_rng["adam"]


def test_the_digest_sees_a_lost_state(
    tmp_path: Path, preserved_rng: dict[str, tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 30 comparisons can fail: forget the momentum, and they do."""
    monkeypatch.setattr("revgrad.training.trainer.restore_optimiser", lambda *a: None)
    assert stop_and_resume(tmp_path / "run", 10, **EVERYTHING) != preserved_rng["sgd"]


def test_stopped_many_times(tmp_path: Path, preserved_rng: dict[str, tuple[str, str]]) -> None:
    folder = tmp_path / "run"
    for step in (3, 4, 11, 28):
        with pytest.raises(Interrupted):
            image_trainer(folder, callbacks=(StopAt(step),), **EVERYTHING).fit()
    trainer = image_trainer(folder, **EVERYTHING)
    trainer.fit()
    assert (checkpoint_digest(folder), weights_digest(trainer.adapter)) == preserved_rng["sgd"]


def shown(folder: Path) -> list[Any]:
    """Its records but for the clock."""
    return [replace(record, seconds=0) for record in Run(folder).records()]


def test_records_that_span_a_stop_are_of_all_their_steps(tmp_path: Path) -> None:
    """To the last digit: stopped within a window, and with checkpoints in it."""
    image_trainer(tmp_path / "whole", log_every=7, checkpoint_every=0).fit()
    image_trainer(tmp_path / "saved", log_every=7, checkpoint_every=5).fit()
    for step in (3, 4, 16, 28):
        with pytest.raises(Interrupted):
            image_trainer(
                tmp_path / "run", log_every=7, checkpoint_every=0, callbacks=(StopAt(step),)
            ).fit()
    image_trainer(tmp_path / "run", log_every=7, checkpoint_every=0).fit()
    assert len(shown(tmp_path / "whole")) == 5
    assert shown(tmp_path / "run") == shown(tmp_path / "whole") == shown(tmp_path / "saved")


def test_a_checkpoint_of_a_version_that_kept_no_sums_is_gone_on_from(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        image_trainer(tmp_path / "run", log_every=7, callbacks=(StopAt(10),)).fit()
    run = Run(tmp_path / "run")
    saved = run.checkpoint()
    assert saved is not None
    older = {k: v for k, v in saved.tensors.items() if not k.startswith("window.")}
    assert len(older) == len(saved.tensors) - 1
    run.save(replace(saved, tensors=older))
    trainer = image_trainer(tmp_path / "run", log_every=7)
    trainer.fit()
    assert [r.step for r in shown(tmp_path / "run")] == [7, 14, 21, 28, 30]


def test_a_finished_run_gives_its_result_again(tmp_path: Path) -> None:
    settings = {"held_out": images(9, 6), **EVERYTHING}
    first = image_trainer(tmp_path / "run", **settings)
    outcome = first.fit()
    before = (tmp_path / "run" / METRICS).read_bytes()
    second = image_trainer(tmp_path / "run", **settings)
    again = second.fit()
    assert again.last == outcome.last
    assert weights_digest(second.adapter) == weights_digest(first.adapter)
    assert (tmp_path / "run" / METRICS).read_bytes() == before


@pytest.mark.parametrize(("every", "before", "after"), [(4, [4, 8], [12, 16]), (5, [5, 10], [15])])
def test_metrics_are_cut_back_to_the_checkpoint(
    every: int, before: list[int], after: list[int], tmp_path: Path
) -> None:
    """After a crash at step 17 the run goes on from 10: records of later steps are made again."""

    class Crash(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == 17:
                raise ZeroDivisionError

    settings = {"checkpoint_every": 10, "log_every": every, **EVERYTHING}
    with pytest.raises(ZeroDivisionError):
        image_trainer(tmp_path / "run", callbacks=(Crash(),), **settings).fit()
    run = Run(tmp_path / "run")
    assert [r.step for r in run.records()] == before + after
    with open(run.folder / METRICS, "a") as file:
        file.write('{"kind": "training", "st')  # killed in the middle of a line
    seen: list[list[int]] = []

    class Look(Callback):
        def on_start(self, trainer: Trainer, step: int) -> None:
            seen.append([step, *(r.step for r in trainer.run.records())])  # type: ignore[union-attr]

    image_trainer(tmp_path / "run", callbacks=(Look(),), **settings).fit()
    assert seen == [[10, *before]]
    records = run.records()
    assert [r.step for r in records] == sorted({*range(every, 31, every), 30})
    assert all(isinstance(record, TrainingRecord) for record in records)
    json.loads((run.folder / METRICS).read_text().splitlines()[-1])


def test_a_crash_before_the_first_checkpoint_starts_anew(tmp_path: Path) -> None:
    class Crash(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        image_trainer(tmp_path / "a", callbacks=(Crash(),)).fit()
    image_trainer(tmp_path / "a").fit()
    image_trainer(tmp_path / "b").fit()
    assert checkpoint_digest(tmp_path / "a") == checkpoint_digest(tmp_path / "b")


def test_checkpoint_every_and_display_settings_may_change(
    tmp_path: Path, preserved_rng: dict[str, tuple[str, str]]
) -> None:
    with pytest.raises(Interrupted):
        image_trainer(tmp_path / "run", callbacks=(StopAt(7),), **EVERYTHING).fit()
    image_trainer(tmp_path / "run", checkpoint_every=3, log_every=0, **EVERYTHING).fit()
    assert checkpoint_digest(tmp_path / "run") == preserved_rng["sgd"][0]


# -- what is refused ------------------------------------------------------------------------------


def line(caught: Any) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_more_steps_are_refused_with_the_reason_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_trainer(tmp_path / "run").fit()
    before = checkpoint_digest(tmp_path / "run")
    arguments = [
        "revgrad",
        "train",
        "--recipe",
        "paper",
        "--steps",
        "60",
        "--output",
        str(tmp_path / "run"),
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(RunError, match="30 steps; 60 would change the progress") as caught:
        image_trainer(tmp_path / "run", steps=60).fit()
    text = line(caught)
    assert f"revgrad train --recipe paper --steps 60 --output {tmp_path / 'run'}-continued" in text
    assert text.endswith(f"--init {tmp_path / 'run'}")
    assert checkpoint_digest(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batch_size": 14}, "batch_size: 12 there, 14 now"),
        ({"seed": 3}, "seed: 0 there, 3 now"),
        ({"learning_rate": Constant(0.5)}, "rate: annealed:0.01,10.0,0.75 there, constant:0.5 now"),
        ({"ema_decay": 0.5}, "ema_decay: None there, 0.5 now"),
        ({"layer": "conv2"}, "layer: flat there, conv2 now"),
        ({"objective": revgrad.TwoLosses()}, "method: "),
        ({"source": images(41, 1)}, "source data: "),
        ({"target": images(30, 3, 40)}, "target data: "),
        ({"batch_size": 14, "seed": 1, "momentum": 0.5}, "momentum: 0.9 there, 0.5 now"),
    ],
)
def test_another_configuration_is_refused_by_name(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    image_trainer(tmp_path / "run", steps=2).fit()
    before = checkpoint_digest(tmp_path / "run")
    with pytest.raises(RunError, match="another configuration") as caught:
        image_trainer(tmp_path / "run", **{"steps": 2, **change}).fit()
    assert named in line(caught)
    assert checkpoint_digest(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"domain_classifier": (9,)}, "domain classifier: [6] there, [9] now"),
        ({"preprocessing": "per-image"}, "per image"),
    ],
)
def test_another_classifier_or_preprocessing_is_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    def train(**more: Any) -> None:
        data = images(40, 1), images(30, 2, 40)
        settings = {
            "recipe": "paper",
            "layer": "flat",
            "domain_classifier": (6,),
            "steps": 2,
            "batch_size": 8,
            "progress": False,
        }
        revgrad.adapt(seeded(Images), *data, run=tmp_path / "run", **{**settings, **more})

    train()
    with pytest.raises(RunError, match="another configuration") as caught:
        train(**change)
    assert named in line(caught)


def test_a_name_with_an_address_is_the_same_in_every_process() -> None:
    class Odd:
        def __call__(self, adapter: Any, batch: Any, factor: Any) -> Any:
            raise NotImplementedError

    one, two = Odd(), Odd()
    assert repr(one) != repr(two)
    identities = [image_trainer(objective=odd).config.identity() for odd in (one, two)]
    assert identities[0] == identities[1]
    assert "0x" not in str(image_trainer().config)


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(RunError, match=r"not empty \(thesis.txt\) and not a run"):
        image_trainer(tmp_path).fit()
    assert (tmp_path / "thesis.txt").read_text() == "dear"


@pytest.mark.parametrize("place", ["file/run", "file", "/proc/revgrad-run"])
def test_a_folder_that_can_not_be_written_is_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="writ") as caught:
        image_trainer(tmp_path / place).fit()
    line(caught)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "second.py"
    script.write_text(
        "import sys\n"
        "from tiny import image_trainer\n"
        "from revgrad import RevgradError\n"
        "try:\n"
        "    image_trainer(sys.argv[1]).fit()\n"
        "except RevgradError as error:\n"
        "    print(error)\n"
        "    sys.exit(7)\n"
    )
    folder = tmp_path / "run"
    found: list[tuple[int | None, str, str]] = []

    class Second(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == 5:
                process = Forked(script, str(folder))
                out, err = process.communicate()
                found.append((process.returncode, out, err))

    image_trainer(folder, callbacks=(Second(),)).fit()
    assert found[0][0] == 7, found[0]
    assert "is being written by another process" in found[0][1]
    image_trainer(tmp_path / "alone").fit()
    assert checkpoint_digest(folder) == checkpoint_digest(tmp_path / "alone")


# -- damage ---------------------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    image_trainer(tmp_path / "run", steps=2).fit()
    return tmp_path / "run"


def tensor_file(folder: Path) -> Path:
    (found,) = folder.glob("checkpoint-*.safetensors")
    return found


def refused(folder: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match) as caught:
        Run(folder).checkpoint()
    line(caught)
    with pytest.raises(CheckpointError, match=match):
        image_trainer(folder, steps=2).fit()


@pytest.mark.parametrize("place", [0, 8, 60, 0.3, 0.5, 0.9, -1])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_noticed(place: float, bit: int, finished: Path) -> None:
    path = tensor_file(finished)
    data = bytearray(path.read_bytes())
    index = int(place * len(data)) if isinstance(place, float) else place
    data[index] ^= 1 << bit
    path.write_bytes(data)
    refused(finished, "was altered")


def test_a_flipped_bit_anywhere_in_the_index_is_noticed(finished: Path) -> None:
    path = finished / INDEX
    good, before = path.read_bytes(), checkpoint_digest(finished)
    for position in range(len(good)):
        data = bytearray(good)
        data[position] ^= 1 << position % 7
        path.write_bytes(data)
        with pytest.raises(CheckpointError):
            Run(finished).checkpoint()
    path.write_bytes(good)
    assert checkpoint_digest(finished) == before


@pytest.mark.parametrize(
    ("key", "value"), [("step", 1), ("seconds", 99.0), ("optimiser", {"state": {}, "groups": []})]
)
def test_an_altered_number_in_the_index_is_noticed(key: str, value: Any, finished: Path) -> None:
    path = finished / INDEX
    index = json.loads(path.read_text())
    assert index[key] != value
    path.write_text(json.dumps({**index, key: value}))
    refused(finished, "was altered")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7", '{"step": 3}', "\x00\xff"])
def test_an_index_that_is_none(text: str, finished: Path) -> None:
    (finished / INDEX).write_bytes(text.encode("latin-1"))
    refused(finished, "is not a checkpoint's index|can't be read")


def test_another_format_is_named(finished: Path) -> None:
    write_sealed(finished / INDEX, {**unsealed((finished / INDEX).read_text()), "format": 99})
    refused(finished, "has format 99")


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_tensor_file(share: float, finished: Path) -> None:
    path = tensor_file(finished)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    refused(finished, "was altered")


def test_a_missing_tensor_file(finished: Path) -> None:
    tensor_file(finished).unlink()
    refused(finished, "can't be read: No such file")


@pytest.mark.parametrize("name", ["../evil.safetensors", "/etc/passwd", "..", "", "a/b", ".", 5])
def test_an_index_that_names_a_file_elsewhere(name: Any, finished: Path) -> None:
    (finished.parent / "evil.safetensors").write_bytes(tensor_file(finished).read_bytes())
    index = unsealed((finished / INDEX).read_text())
    write_sealed(finished / INDEX, {**index, "file": name})  # by someone who can seal
    refused(finished, "is not a checkpoint's index")


def test_a_pickle_is_never_executed(finished: Path) -> None:
    """Even where the index vouches for it."""
    ran = finished.parent / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {ran}",)

    bomb = pickle.dumps(Bomb())
    index = json.loads((finished / INDEX).read_text())
    (finished / index["file"]).write_bytes(bomb)
    refused(finished, "was altered")
    vouched = {**unsealed((finished / INDEX).read_text()), "sha256": sha256(bomb)}
    write_sealed(finished / INDEX, vouched)
    refused(finished, "is not a safetensors file")
    (finished / INDEX).write_bytes(bomb)
    refused(finished, "is not a checkpoint's index|can't be read")
    (finished / CONFIG).write_bytes(bomb)
    with pytest.raises(RunError, match="can't be read"):
        Run(finished).config  # noqa: B018
    assert not ran.exists()


def test_a_checkpoint_of_another_network_is_refused(finished: Path) -> None:
    with pytest.raises(CheckpointError, match="does not fit this network") as caught:
        revgrad.load(finished, Perceptron())
    line(caught)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        revgrad.load(tmp_path)
    assert Run(tmp_path).checkpoint() is None


# -- the disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("later", [0, 1])
def test_a_full_disk_keeps_the_last_good_checkpoint(
    call: str, later: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full while the tensors are written (later = 0), or while their index is (later = 1)."""
    folder, real = tmp_path / "run", getattr(os, call)

    class Fill(Callback):
        def on_checkpoint(self, trainer: Trainer, step: int) -> None:
            if step == 10:
                calls = iter(range(100))

                def full(*args: Any) -> Any:
                    if call == "fsync" and os.path.isdir(f"/proc/self/fd/{args[0]}"):
                        return real(*args)
                    if next(calls) >= later:
                        raise OSError(errno.ENOSPC, "No space left on device")
                    return real(*args)

                monkeypatch.setattr(os, call, full)

    with pytest.raises(RunError, match="the disk is full") as caught:
        image_trainer(folder, checkpoint_every=5, callbacks=(Fill(),)).fit()
    line(caught)
    monkeypatch.undo()
    saved = Run(folder).checkpoint()
    assert saved is not None
    assert saved.step == 10
    assert not list(folder.glob(".*.part"))
    image_trainer(folder, checkpoint_every=5).fit()
    image_trainer(tmp_path / "alone").fit()
    assert checkpoint_digest(folder) == checkpoint_digest(tmp_path / "alone")
    assert len(list(folder.glob("*.safetensors"))) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_while_metrics_are_written(tmp_path: Path) -> None:
    class Fill(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == 15:
                run = trainer.run
                assert run is not None
                assert run._metrics is not None
                run._metrics.close()
                run._metrics = None
                (run.folder / METRICS).unlink()
                (run.folder / METRICS).symlink_to("/dev/full")

    with pytest.raises(RunError, match="the disk is full"):
        image_trainer(tmp_path / "run", checkpoint_every=5, callbacks=(Fill(),)).fit()
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step == 15


# -- signals --------------------------------------------------------------------------------------

TRAINING = """
import sys, time
from tiny import image_trainer
from revgrad import Callback
from revgrad.training import Interrupted

class Slowly(Callback):
    def on_step(self, trainer, step):
        print(step, flush=True)
        time.sleep(0.02)

try:
    image_trainer(sys.argv[1], ema_decay=0.9, callbacks=(Slowly(),)).fit()
except Interrupted as stopped:
    print(stopped, flush=True)
    sys.exit(stopped.exit_code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_exit(number: int, code: int, tmp_path: Path) -> None:
    script, folder = tmp_path / "training.py", tmp_path / "run"
    script.write_text(TRAINING)
    process = Forked(script, str(folder))
    process.wait_for("4")
    process.send_signal(number)
    rest, _ = process.communicate()
    assert process.returncode == code
    saved = Run(folder).checkpoint()
    assert saved is not None
    assert 4 <= saved.step < 30
    assert f"stopped at step {saved.step} of 30, saved in {folder}; the same command" in rest
    image_trainer(folder, ema_decay=0.9).fit()
    image_trainer(tmp_path / "alone", ema_decay=0.9).fit()
    assert checkpoint_digest(folder) == checkpoint_digest(tmp_path / "alone")


def test_exit_codes_and_handlers(tmp_path: Path) -> None:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with pytest.raises(Interrupted) as caught:
            image_trainer(tmp_path / f"{code}", callbacks=(StopAt(2, number),)).fit()
        assert caught.value.exit_code == code
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_ctrl_c_interrupts_at_once(tmp_path: Path) -> None:
    class Twice(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)

    with pytest.raises(Interrupted, match="at once by a second signal") as caught:
        image_trainer(tmp_path / "run", callbacks=(Twice(),)).fit()
    assert caught.value.exit_code == 130
    assert Run(tmp_path / "run").checkpoint() is None  # it did not wait to save


# -- numbers that are not finite ------------------------------------------------------------------


def test_a_loss_that_is_not_finite_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    class Poison(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == 12:
                with torch.no_grad():
                    trainer.adapter.network.out.weight[0, 0] = float("nan")

    settings = {"checkpoint_every": 5, "ema_decay": 0.9}
    with pytest.raises(NonFiniteLossError, match="not finite at step 12") as caught:
        image_trainer(tmp_path / "run", callbacks=(Poison(),), **settings).fit()
    assert caught.value.exit_code == 3
    assert "the checkpoint of step 10 is kept" in line(caught)
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step == 10
    assert all(bool(value.isfinite().all()) for value in saved.tensors.values())
    image_trainer(tmp_path / "run", **settings).fit()
    image_trainer(tmp_path / "alone", **settings).fit()
    assert checkpoint_digest(tmp_path / "run") == checkpoint_digest(tmp_path / "alone")


@pytest.mark.parametrize("at", [10, 30])
def test_weights_that_are_not_finite_never_replace_good_ones(at: int, tmp_path: Path) -> None:
    """A finite loss can have a gradient that is not: the next checkpoint must not be written."""

    class Poison(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            if step == at:
                with torch.no_grad():
                    trainer.adapter.domain_classifier.fc1_d.weight[0, 0] = float("inf")

    with pytest.raises(NonFiniteLossError, match=f"not finite after {at} steps") as caught:
        image_trainer(tmp_path / "run", checkpoint_every=5, callbacks=(Poison(),)).fit()
    assert caught.value.exit_code == 3
    line(caught)
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step == at - 5


def test_a_real_divergence(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLossError, match="smaller learning_rate"):
        revgrad.adapt(
            *(seeded(Perceptron), vectors(40, 1), vectors(40, 2)),
            recipe="paper",
            layer="lower",
            domain_classifier=(6,),
            steps=200,
            learning_rate=Constant(1e12),
            checkpoint_every=1,
            progress=False,
            run=tmp_path / "run",
        )
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is None or all(bool(v.isfinite().all()) for v in saved.tensors.values())


# -- what a run is for ----------------------------------------------------------------------------


def test_load_gives_the_network_that_was_handed_back(tmp_path: Path) -> None:
    result = revgrad.adapt(
        *(seeded(Perceptron), vectors(40, 1), vectors(40, 2)),
        recipe="paper",
        layer="lower",
        domain_classifier=(6,),
        steps=9,
        ema_decay=0.8,
        progress=False,
        run=tmp_path / "run",
    )
    loaded = revgrad.load(tmp_path / "run", seeded(Perceptron, 8))
    assert weights_digest(loaded.network) == weights_digest(result.network)
    assert torch.equal(loaded.outputs(vectors(9, 5)), result.outputs(vectors(9, 5)))


def test_another_number_of_threads_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Interrupted):
        image_trainer(tmp_path / "run", callbacks=(StopAt(3),)).fit()
    path = tmp_path / "run" / CONFIG
    config = unsealed(path.read_text())
    config["machine"]["threads"] = 64
    write_sealed(path, config)
    with caplog.at_level("WARNING", logger="revgrad"):
        image_trainer(tmp_path / "run").fit()
    assert "began with threads 64 and goes on with 1" in caplog.text


def test_tensors_that_no_index_names_are_swept_away(tmp_path: Path) -> None:
    """A kill right after the last checkpoint's rename leaves the one before, and no later save."""
    run = tmp_path / "run"
    settings = {"steps": 4, "checkpoint_every": 2}
    image_trainer(run, **settings).fit()
    [tensors] = run.glob("*.safetensors")
    before = tensors.read_bytes()
    (run / "checkpoint-00000002-deadbeef.safetensors").write_bytes(b"old")
    (run / ".checkpoint.json.1.part").write_bytes(b"half")
    (run / "evidence").mkdir(exist_ok=True)
    (run / "evidence" / ".attributes.safetensors.1.part").write_bytes(b"half")
    image_trainer(run, **settings).fit()
    assert [path.name for path in run.glob("*.safetensors")] == [tensors.name]
    assert tensors.read_bytes() == before
    assert not list(run.rglob(".*.part"))


@dataclass(frozen=True)
class Brighter:
    """An augmentation that says what it is."""

    most: int

    def __call__(self, inputs: Any, generator: torch.Generator) -> Any:
        added = torch.randint(self.most, (len(inputs), 1, 1, 1), generator=generator)
        return (inputs + added).clamp(max=255).to(torch.uint8)


def test_a_domain_s_augmentation_is_part_of_the_run(tmp_path: Path) -> None:
    """Recorded, and another one refused on resume: it would be another training."""
    plain, folder = images(30, 2, shift=40), tmp_path / "run"
    image_trainer(folder, steps=2, target=plain.augmented(Brighter(9))).fit()
    config = Run(folder).config
    assert config.domains["target"]["augmentation"] == "Brighter(most=9)"
    assert "augmentation" not in config.domains["source"]
    for other in (plain, plain.augmented(Brighter(8)), plain.augmented(lambda x, g: x)):
        with pytest.raises(RunError, match="target augmentation"):
            image_trainer(folder, steps=2, target=other).fit()
    image_trainer(folder, steps=2, target=plain.augmented(Brighter(9))).fit()
