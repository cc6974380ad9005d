"""The task of labels and outputs: chosen where there is no doubt, else one line that asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import revgrad
from revgrad.errors import InputError, UnknownNameError
from revgrad.tasks import (
    TASKS,
    Binary,
    ClassLabels,
    CustomTask,
    DenseLabels,
    MultiLabel,
    Ordinal,
    Regression,
    SequenceLabels,
    choose_task,
    planned_outputs,
    restored_task,
    task_named,
    task_of,
)

FLOATS = np.linspace(0.3, 4, 12)
NUMBERS = np.arange(12) % 3
YES = np.arange(12) % 2
MAPS = np.arange(12 * 20).reshape(12, 4, 5) % 3


@pytest.mark.parametrize(
    ("labels", "shape", "task"),
    [
        (NUMBERS, (3,), ClassLabels(("a", "b", "c"))),
        (NUMBERS, (7,), ClassLabels(("a", "b", "c"))),
        (YES, (1,), Binary(("a", "b"))),
        (YES, (), Binary(("a", "b"))),
        (YES, (2,), ClassLabels(("a", "b"))),
        (np.eye(3, dtype=int)[NUMBERS], (3,), MultiLabel(("a", "b", "c"))),
        (FLOATS, (1,), Regression(())),
        (FLOATS, (), Regression(())),
        (FLOATS.reshape(6, 2), (2,), Regression((2,))),
        (MAPS, (3, 4, 5), DenseLabels(("a", "b", "c"))),
        (MAPS, (4, 5, 3), SequenceLabels(("a", "b", "c"))),
        (MAPS[:, 0], (3, 5), DenseLabels(("a", "b", "c"))),
        (MAPS[:, 0], (5, 3), SequenceLabels(("a", "b", "c"))),
    ],
)
def test_what_leaves_no_doubt(labels: np.ndarray, shape: tuple[int, ...], task: Any) -> None:
    names = getattr(task, "classes", None)
    assert task_of(labels, shape, names) == task
    assert restored_task(task.describe()) == task


@pytest.mark.parametrize(
    ("labels", "shape", "task", "message"),
    [
        (np.arange(12) % 4, (3,), None, r"source: labels are out of range: 4 classes \(0 … 3\)"),
        (NUMBERS, (1,), None, "3 classes .* but the network has 1 output$"),
        (NUMBERS, (3, 8, 8), None, r"one class a sample, but the network gives outputs of shape"),
        (np.eye(3)[NUMBERS], (3,), None, r"one-hot floats .*labels\.argmax\(1\)"),
        (YES.astype(float), (1,), None, "floats, all of them 0 or 1: give classes as integers"),
        (NUMBERS + 1.0, (4,), None, "1 number a sample.*4 outputs.*give them as integers"),
        (FLOATS.reshape(6, 2), (1,), None, "a regression of 2 numbers a sample.*1 output:"),
        (FLOATS, (3,), "classes", "labels are float64, and a classification takes integers"),
        (FLOATS, (1,), "binary", r"are 0 and 1, one a sample; there is 0\.3"),
        (NUMBERS, (1,), "binary", r"there is 2 \(more classes: task='classes'\)"),
        (YES, (2,), "binary", "takes one logit a sample, and the network gives 2 outputs"),
        (NUMBERS, (3,), "multi-label", r"of shape \(n, labels\).*task='classes'"),
        (MAPS[:, 0], (5,), "multi-label", "labels 0 and 1 .*; 2 among them came"),
        (MAPS[:, 0] % 2, (4,), None, r"labels of \(5,\) and 4 outputs a sample fit no task"),
        (MAPS[:, 0] % 2, (4,), "multi-label", "5 labels a sample, but the network gives 4 outputs"),
        (NUMBERS, (1,), "ordinal", "3 ordered classes, one a sample, need 2 outputs"),
        (MAPS, (3, 8, 8), "dense", r"labels of \(4, 5\) and outputs of \(3, 8, 8\) a sample came"),
        (MAPS[:, None], (3, 4, 5), "dense", r"a sample came: labels\[:, 0\] would do"),
        (np.stack([MAPS, MAPS], 1), (3, 4, 5), "dense", r"one-hot maps, labels\.argmax\(1\)"),
        (MAPS, (2, 4, 5), None, r"a label 2, but the network gives 2 classes.*task='dense:2'"),
        (MAPS * 0 - 100, (3, 4, 5), None, "every label is -100, which is ignored"),
        (NUMBERS, (3, 12), "sequence", "takes labels .* of the same positions"),
        (np.zeros((6, 4), int), (4, 4), None, "say task='dense' or task='sequence'"),
        (NUMBERS, (3,), "clases", "no task 'clases'; did you mean 'classes'?"),
        (NUMBERS, (3,), "dense:many", "take the ignored label as a whole number, as in dense:255"),
        (NUMBERS, (3,), "classes:3", "as in dense:255"),
        (NUMBERS, (3,), 5, "a task is a Task or its name .*, not int"),
    ],
)
def test_wrong_labels_are_one_line(
    labels: np.ndarray, shape: tuple[int, ...], task: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        choose_task(labels, torch.zeros(1, *shape), task=task)
    assert "\n" not in str(caught.value)


def test_several_values_ask_for_the_part() -> None:
    with pytest.raises(InputError, match=r"returns a dict.*output='logits' \(it has a, logits;"):
        choose_task(NUMBERS, {"a": torch.zeros(1, 3), "logits": torch.zeros(1, 3)})
    with pytest.raises(InputError, match=r"returns a tuple, not one tensor.*output=0"):
        choose_task(NUMBERS, (torch.zeros(1, 3),))


def test_a_loss_of_ones_own_takes_what_fits_no_task() -> None:
    def loss(outputs: Any, labels: Any) -> Any:
        return outputs.sum()

    found = choose_task(MAPS[:, 0], torch.zeros(1, 9), label_loss=loss)
    assert found == CustomTask(loss)
    assert choose_task(NUMBERS, torch.zeros(1, 3), label_loss=loss) == ClassLabels()
    with pytest.raises(InputError, match="out of range"):
        choose_task(NUMBERS, torch.zeros(1, 2), label_loss=loss)


def test_names_and_their_tasks() -> None:
    assert list(TASKS) == [
        *("classes", "binary", "multi-label", "regression", "ordinal", "dense", "sequence")
    ]
    assert task_named("dense:255") == DenseLabels(ignored=255)
    assert task_named("sequence:0") == SequenceLabels(ignored=0)
    assert task_named(Ordinal(("a", "b"))) == Ordinal(("a", "b"))


def test_a_task_of_ones_own_is_not_in_a_file() -> None:
    described = CustomTask(max, min).describe()
    assert described == {"name": "custom", "functions": "max, min"}
    again = restored_task(described)
    with pytest.raises(InputError, match=r"your own \(max, min\).*give it again"):
        again.predictions(torch.zeros(1, 1))
    with pytest.raises(InputError, match="give it again"):
        _ = again.label_loss
    with pytest.raises(UnknownNameError, match="no task 'other'"):
        restored_task({"name": "other"})


@pytest.mark.parametrize(
    ("labels", "classes", "task", "outputs"),
    [
        (NUMBERS, None, None, 3),
        (NUMBERS, ("a", "b", "c", "d"), None, 4),
        (YES, None, "binary", 1),
        (np.eye(4, dtype=int), None, None, 4),
        (FLOATS, None, None, 1),
        (FLOATS.reshape(6, 2), None, None, 2),
        (NUMBERS, None, "ordinal", 2),
        (MAPS, None, None, 3),
        (np.where(MAPS == 1, 255, MAPS), None, "dense:255", 3),
        (FLOATS, None, CustomTask(max), 1),
    ],
)
def test_outputs_that_a_network_needs(
    labels: np.ndarray, classes: Any, task: Any, outputs: int
) -> None:
    assert planned_outputs(labels, classes, task) == outputs


@pytest.mark.parametrize(
    ("last", "labels", "word"),
    [
        (nn.Softmax(1), np.arange(40) % 3, "softmax"),
        (nn.Sigmoid(), np.arange(120).reshape(40, 3) % 2, "sigmoid"),
        (nn.Identity(), np.arange(40) % 3, None),
    ],
)
def test_outputs_that_are_probabilities_already_are_said(
    last: nn.Module, labels: np.ndarray, word: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), last)
    options: dict[str, Any] = {"recipe": "paper", "steps": 1, "batch_size": 8, "progress": False}
    revgrad.adapt(network, (inputs, labels), inputs, layer="1", **options)
    said = [one for one in caplog.messages if "probabilities already" in one]
    assert len(said) == (word is not None)
    assert word is None or f"has the {word} inside" in said[0]


def test_more_outputs_than_ordered_classes_are_said(caplog: pytest.LogCaptureFixture) -> None:
    labels = np.array([0, 1, 2])
    with caplog.at_level("INFO", logger="revgrad"):
        Ordinal().check(labels, (2,), "source")
        assert not caplog.messages
        Ordinal().check(labels, (3,), "source")
    assert "3 outputs are for 4 ordered classes, and the labels hold 3" in caplog.text
