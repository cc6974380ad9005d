"""Information maximisation (SHOT) against slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from test_objectives import data, number
from torch import nn

from revgrad import DomainAdapter, InformationMaximisation
from revgrad.errors import InputError
from tiny import Perceptron, seeded


def test_it_is_its_loops() -> None:
    batch = data(source=6, target=0)
    ours = DomainAdapter(seeded(Perceptron, 1, torch.float64), "lower", nn.Identity())
    outputs = ours.network(batch.inputs)
    chances = [[number(p) for p in row.softmax(0)] for row in outputs]
    unsure = sum(-p * math.log(p) for row in chances for p in row) / 6
    means = [sum(row[k] for row in chances) / 6 for k in range(3)]
    spread = -sum(p * math.log(p) for p in means)
    label = -sum(math.log(chances[i][int(batch.labels[i])]) for i in range(6)) / 6
    found = InformationMaximisation(0.3)(ours, batch, 1.0)
    assert number(found.total) == pytest.approx(unsure - spread + 0.3 * label, abs=1e-12)
    assert number(found.label) == pytest.approx(label, abs=1e-12)
    assert found.domain is None


def test_its_gradient_is_that_of_differences() -> None:
    batch = data(source=6, target=0)
    ours = DomainAdapter(seeded(Perceptron, 1, torch.float64), "lower", nn.Identity())
    objective = InformationMaximisation(0.3)
    objective(ours, batch, 1.0).total.backward()  # type: ignore[no-untyped-call]
    weight = ours.network.lower.weight
    assert isinstance(weight, torch.Tensor)
    assert weight.grad is not None
    for place in ((0, 0), (2, 3), (4, 1)):
        totals = []
        for change in (1e-6, -1e-6):
            with torch.no_grad():
                weight[place] += change
                totals.append(number(objective(ours, batch, 1.0).total))
                weight[place] -= change
        expected = (totals[0] - totals[1]) / 2e-6
        assert number(weight.grad[place]) == pytest.approx(expected, abs=1e-8)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(InputError, match="0 or more, not -1"):
        InformationMaximisation(-1.0)
