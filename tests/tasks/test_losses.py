"""Losses of tasks: each equals a slow sum in float64, and so do the gradients of one step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import Adversarial, Batch, DomainAdapter, DomainClassifier, from_arrays
from revgrad.batch import Samples
from revgrad.errors import InputError
from revgrad.objectives import Supervised
from revgrad.objectives.losses import mean_label_loss
from revgrad.tasks import (
    DenseLabels,
    PositionCrossEntropy,
    choose_task,
    class_logits,
    cross_entropy,
    multi_label_loss,
    squared_error,
)
from revgrad.tasks.losses import binary_cross_entropy, two_logits
from task_cases import CASES, Case

NUMBERED = [case for case in CASES if case.name != "custom"]


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def logistic(logit: float, yes: bool) -> float:
    """−log of the probability of what is the case."""
    return softplus(-logit if yes else logit)


def slow_loss(case: Case, outputs: np.ndarray, labels: np.ndarray) -> float:
    """L_y by its definition, sample by sample."""
    total, count = 0.0, 0
    for sample, label in zip(outputs.tolist(), labels.tolist(), strict=True):
        if case.given == "binary":
            total, count = total + logistic(sample[0], label == 1), count + 1
        elif case.name == "multi-label":
            each = [logistic(z, y == 1) for z, y in zip(sample, label, strict=True)]
            total, count = total + sum(each) / len(each), count + 1
        elif case.name == "ordinal":
            each = [logistic(z, label > j) for j, z in enumerate(sample)]
            total, count = total + sum(each) / len(each), count + 1
        elif case.name.startswith("regression"):
            numbers = label if isinstance(label, list) else [label]
            each = [(z - y) ** 2 for z, y in zip(sample, numbers, strict=True)]
            total, count = total + sum(each) / len(each), count + 1
        elif case.name in ("dense", "sequence"):
            logits = np.array(sample)
            places = np.moveaxis(logits, 0, -1) if case.name == "dense" else logits
            ignored = 255 if case.name == "dense" else -100
            for place, y in zip(
                places.reshape(-1, places.shape[-1]).tolist(), np.ravel(label), strict=True
            ):
                if y != ignored:
                    total += math.log(sum(math.exp(z) for z in place)) - place[int(y)]
                    count += 1
        else:
            total += math.log(sum(math.exp(z) for z in sample)) - sample[label]
            count += 1
    return total / count


def numbers_of(case: Case, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels as numbers."""
    inputs, labels = case.source(samples)
    domain = from_arrays(inputs, labels)
    assert domain.labels is not None
    return inputs, domain.labels


def parts(case: Case) -> tuple[DomainAdapter, Batch, Any]:
    """An adapter in float64, a batch of both domains, and the task's loss."""
    network = case.build().double()
    inputs, labels = numbers_of(case, 6)
    other = case.inputs(5, 2, 0.5)
    as_tensors = [torch.from_numpy(x).double() for x in (inputs, other)]
    if inputs.dtype == np.uint8:
        as_tensors = [x.permute(0, 3, 1, 2) / 255 for x in as_tensors]
    batch = Batch.of(Samples(as_tensors[0], torch.from_numpy(labels)), Samples(as_tensors[1], None))
    with torch.no_grad():
        features = network.get_submodule("lower")(as_tensors[0]).flatten(1).shape[1]
        task = choose_task(labels, network(as_tensors[0][:1]), task=case.task)
    classifier = DomainClassifier(features, hidden=(4,), seed=2).double()
    return DomainAdapter(network, "lower", classifier), batch, task.label_loss


@pytest.mark.parametrize("case", NUMBERED, ids=lambda case: case.name)
def test_the_loss_is_the_slow_sum(case: Case) -> None:
    adapter, batch, loss = parts(case)
    labels = batch.labels[batch.labelled_samples]
    with torch.no_grad():
        outputs = adapter.network(batch.inputs[: len(labels)])  # type: ignore[index]
        found = mean_label_loss(loss, outputs, batch)
    assert found is not None
    assert float(found) == pytest.approx(
        slow_loss(case, outputs.numpy(), labels.numpy()), rel=1e-12
    )


@pytest.mark.parametrize("case", NUMBERED, ids=lambda case: case.name)
def test_gradients_of_a_step_are_those_by_hand(case: Case) -> None:
    """∂L_y/∂θ − λ ∂L_d/∂θ_f: finite differences of the slow sums, in float64."""
    adapter, batch, loss = parts(case)
    factor, step = 0.7, 1e-6
    Adversarial(loss)(adapter, batch, factor).total.backward()
    random = np.random.default_rng(0)
    for name, parameter in adapter.network.named_parameters():
        direction = torch.from_numpy(random.normal(size=tuple(parameter.shape)))
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step * direction)
                values.append(slow_parts(case, adapter, batch))
                parameter.sub_(sign * step * direction)
        label, domain = ((a - b) / (2 * step) for a, b in zip(*values, strict=True))
        expected = label - factor * domain if name.startswith("lower") else label
        assert parameter.grad is not None
        assert float((parameter.grad * direction).sum()) == pytest.approx(expected, abs=2e-8), name


def slow_parts(case: Case, adapter: DomainAdapter, batch: Batch) -> tuple[float, float]:
    """(L_y, L_d) by their definitions."""
    inputs, labels = batch.inputs, batch.labels[batch.labelled_samples]
    assert isinstance(inputs, Tensor)
    outputs = adapter.network(inputs[: len(labels)]).numpy()
    lower = adapter.network.get_submodule("lower")
    logits = adapter.domain_classifier(lower(inputs)).reshape(-1).tolist()
    each = [logistic(z, d == 1) for z, d in zip(logits, batch.domains.tolist(), strict=True)]
    return slow_loss(case, outputs, labels.numpy()), sum(each) / len(each)


def test_positions_are_counted_over_the_batch_not_over_each_sample() -> None:
    """Of two samples with 1 and 3 labelled positions, each position weighs the same."""
    logits = torch.tensor([[[2.0, 0, 0, 0], [0, 0, 0, 0]], [[0, 1.0, 0, 3], [0, 0, 0, 0]]])
    labels = torch.tensor([[0, -100, -100, -100], [-100, 1, 1, 0]])
    loss = DenseLabels().label_loss
    batch = Batch.of(Samples(torch.zeros(2, 1), labels))
    found = mean_label_loss(loss, logits, batch)
    expected = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)
    assert found is not None
    torch.testing.assert_close(found, expected)


def test_a_batch_without_a_labelled_position_has_no_loss() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lower, self.upper = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.upper(self.lower(x))

    adapter = DomainAdapter(Network(), "lower", DomainClassifier(8, hidden=(2,)))
    labels = torch.full((3, 2), -100)
    batch = Batch.of(Samples(torch.randn(3, 2, 4), labels))
    losses = Supervised(PositionCrossEntropy(-100, -1))(adapter, batch, 0.0)
    assert losses.total.item() == 0.0
    losses.total.backward()
    assert float(adapter.network.upper.weight.grad.abs().sum()) == 0  # type: ignore[union-attr,operator]


def test_one_logit_is_that_of_two_classes() -> None:
    logits, labels = torch.randn(9, 1, dtype=torch.float64), torch.arange(9) % 2
    both = two_logits(logits)
    torch.testing.assert_close(
        binary_cross_entropy(logits, labels).mean(), cross_entropy(both, labels)
    )
    torch.testing.assert_close(both.softmax(1)[:, 1], logits.sigmoid()[:, 0])
    assert class_logits(logits, binary_cross_entropy, "x").equal(both)


@pytest.mark.parametrize("loss", [squared_error, multi_label_loss, DenseLabels().label_loss])
def test_outputs_of_other_tasks_are_no_classes(loss: Any) -> None:
    with pytest.raises(InputError, match="the entropy is for classes"):
        class_logits(torch.zeros(3, 4), loss, "the entropy")
