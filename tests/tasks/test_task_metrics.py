"""Metrics of tasks: equal slow computations (and scikit-learn's), however samples are divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from revgrad.tasks import (
    Binary,
    ClassLabels,
    DenseLabels,
    MultiLabel,
    Ordinal,
    Regression,
    SequenceLabels,
    Task,
)
from revgrad.tasks.metrics import Metrics

RANDOM = torch.Generator().manual_seed(0)


def outputs(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RANDOM)


def whole_numbers(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=RANDOM)


def measured(task: Task, given: torch.Tensor, labels: torch.Tensor, at_once: int) -> Metrics:
    meter = task.meter()
    for start in range(0, len(labels), at_once):
        meter.add(given[start : start + at_once], labels[start : start + at_once])
    return meter.result()


@pytest.mark.parametrize("at_once", [1, 7, 50])
class TestMetrics:
    def test_classes(self, at_once: int) -> None:
        given, labels = outputs(50, 4), whole_numbers(4, 50)
        found = measured(ClassLabels(), given, labels, at_once)
        right = sum(int(row.argmax()) == int(y) for row, y in zip(given, labels, strict=True))
        assert found.figures == {"accuracy": right / 50}
        expected = sk.confusion_matrix(labels, given.argmax(1), labels=range(4))
        assert (found.confusion == expected).all()

    def test_binary(self, at_once: int) -> None:
        given, labels = outputs(50, 1), whole_numbers(2, 50)
        found = measured(Binary(), given, labels, at_once)
        decided = [int(value > 0) for value in given[:, 0].tolist()]
        assert found.figures == {"accuracy": sk.accuracy_score(labels, decided)}
        assert (found.confusion == sk.confusion_matrix(labels, decided)).all()

    def test_ordinal(self, at_once: int) -> None:
        given, labels = outputs(50, 3), whole_numbers(4, 50)
        found = measured(Ordinal(), given, labels, at_once)
        decided = []
        for row in torch.sigmoid(given).tolist():
            above, share = 0, 1.0
            for value in row:  # shares of being above never rise
                share = min(share, value)
                above += share > 0.5
            decided.append(above)
        far = [abs(a - int(b)) for a, b in zip(decided, labels, strict=True)]
        assert found.accuracy == sk.accuracy_score(labels, decided)
        assert found.mean_absolute_error == pytest.approx(sum(far) / 50, rel=1e-12)

    @pytest.mark.parametrize("numbers", [(), (3,)])
    def test_regression(self, at_once: int, numbers: tuple[int, ...]) -> None:
        labels = outputs(50, *numbers).double() + 1e6  # far from 0: sums of squares would cancel
        given = labels + 0.5 * outputs(50, *numbers)
        given = given[:, None] if not numbers else given
        found = measured(Regression(), given, labels, at_once)
        flat = given.reshape(labels.shape)
        assert found.figures == pytest.approx(
            {
                "r2": sk.r2_score(labels, flat),
                "mean_absolute_error": sk.mean_absolute_error(labels, flat),
            },
            rel=1e-9,
        )

    def test_multi_label(self, at_once: int) -> None:
        given, labels = outputs(50, 5), whole_numbers(2, 50, 5)
        labels[:, 4], given[:, 4] = 0, -1.0  # neither there nor predicted: it says nothing
        found = measured(MultiLabel(), given, labels, at_once)
        yes = (given > 0).int()
        assert found.figures == pytest.approx(
            {
                "accuracy": float((yes == labels).double().mean()),
                "f1": sk.f1_score(labels[:, :4], yes[:, :4], average="macro"),
                "exact_match": sk.accuracy_score(labels, yes),
            }
        )

    @pytest.mark.parametrize("task", [DenseLabels(ignored=255), SequenceLabels(ignored=255)])
    def test_positions(self, at_once: int, task: DenseLabels) -> None:
        labels = whole_numbers(4, 50, 3, 2)
        labels[::3, 1] = 255
        given = outputs(50, 4, 3, 2)
        given[:, 3] = torch.where(labels == 3, given[:, 3], -9.0)
        decided = given.argmax(1)
        if task.axis == -1:
            given = given.movedim(1, -1)
        found = measured(task, given, labels, at_once)
        known = labels != 255
        truth, said = labels[known].numpy(), decided[known].numpy()
        shares = []
        for number in range(4):
            both = sum((truth == number) & (said == number))
            either = sum((truth == number) | (said == number))
            shares += [both / either] if either else []
        assert found.figures == pytest.approx(
            {"accuracy": float((truth == said).mean()), "mean_iou": float(np.mean(shares))}
        )
        assert (found.confusion == sk.confusion_matrix(truth, said, labels=range(4))).all()


def test_labels_that_are_all_alike() -> None:
    same = torch.full((6,), 2.0)
    assert measured(Regression(), same[:, None], same, 4).r2 == 1.0
    assert measured(Regression(), same[:, None] + 1, same, 4).r2 == 0.0


def test_probabilities_of_ordered_classes_are_shares() -> None:
    given = outputs(40, 3)
    shares = Ordinal().probabilities(given)
    assert shares.shape == (40, 4)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    median = [(np.cumsum(row) < 0.5 - 1e-9).sum() for row in shares.astype(np.float64)]
    assert Ordinal().predictions(given).tolist() == median
