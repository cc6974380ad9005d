"""Event files, read back by TensorBoard's own reader."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import pytest

from revgrad import Callback
from revgrad.errors import MissingExtraError
from revgrad.training import callbacks
from revgrad.training.callbacks import EvaluationRecord, TensorBoardScalars, TrainingRecord
from revgrad.training.trainer import Trainer
from tiny import image_trainer, images


def read(folder: Path) -> dict[str, dict[int, float]]:
    """Every scalar by its tag, as step → value; a step must not come twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, dict[int, float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader's own
        reader = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
        reader.Reload()
        for tag in reader.Tags()["scalars"]:
            events = reader.Scalars(tag)
            found[tag] = {event.step: event.value for event in events}
            assert len(found[tag]) == len(events), tag
    return found


class Listening(Callback):
    def __init__(self) -> None:
        self.training: list[TrainingRecord] = []
        self.evaluations: list[EvaluationRecord] = []

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        self.training.append(record)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        self.evaluations.append(record)


class Stop(Exception):
    pass


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer, step: int) -> None:
        if step == self.step:
            raise Stop


def trainer_with(folder: Path, *callbacks: Callback, **changes: Any) -> Trainer:
    values = {"steps": 12, "log_every": 2, "evaluate_every": 4, "checkpoint_every": 6, **changes}
    return image_trainer(
        folder, callbacks=callbacks, held_out=images(12, 5), test=images(12, 6), **values
    )


def test_every_number_of_the_records_is_in_the_event_files(tmp_path: Path) -> None:
    listening = Listening()
    scalars = TensorBoardScalars(tmp_path / "run" / "tensorboard")
    trainer_with(tmp_path / "run", scalars, listening).fit()
    found = read(tmp_path / "run" / "tensorboard")
    expected: dict[str, dict[int, float]] = {}
    for names, records in (
        (callbacks.TRAINING_TAGS, listening.training),
        (callbacks.EVALUATION_TAGS, listening.evaluations),
    ):
        for name, tag in names.items():
            values = {record.step: getattr(record, name) for record in records}
            if any(value is not None for value in values.values()):
                expected[tag] = values
    assert set(found) == set(expected)
    assert {"training/L_y", "training/L_d", "schedules/λ", "schedules/μ"} <= set(found)
    for tag, values in expected.items():
        assert found[tag] == pytest.approx(values, rel=1e-6), tag
    assert list(found["training/L_d"]) == [2, 4, 6, 8, 10, 12]
    assert list(found["held-out source/accuracy"]) == [4, 8, 12]


def test_a_resumed_run_goes_on_at_its_step_and_shows_nothing_twice(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trainer_with(whole, TensorBoardScalars(whole / "tensorboard")).fit()
    with pytest.raises(Stop):  # after the evaluation of step 8, before the checkpoint of 12
        trainer_with(parts, TensorBoardScalars(parts / "tensorboard"), StopAt(9)).fit()
    assert list(read(parts / "tensorboard")["training/L_y"]) == [2, 4, 6, 8]
    trainer_with(parts, TensorBoardScalars(parts / "tensorboard")).fit()
    assert len(list((parts / "tensorboard").iterdir())) == 2
    assert read(parts / "tensorboard") == read(whole / "tensorboard")


def test_a_missing_package_is_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'revgrad\[tensorboard\]'"):
        TensorBoardScalars("anywhere")


def test_nothing_heavy_is_imported_before_training_starts() -> None:
    tree = ast.parse(Path(callbacks.__file__).read_text())
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not any(name and name.startswith(("torch", "tensorboard")) for name in modules)
