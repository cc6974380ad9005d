"""Small jobs of the paper's tables, and what their trainings are given."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from torch import nn

from revgrad import Domain, Preprocessing, Recipe, Settings
from revgrad.paper.tables.budgets import BUDGETS
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.table1 import TABLE1
from revgrad.training.record import Record

TINY = BUDGETS["tiny"]
#: A few steps: enough to differ from other trainings, too few to learn.
SHORT = replace(
    TINY,
    steps={"mnist": 6, "svhn": 2, "gtsrb": 2, "compact": 2, "bottleneck": 6},
    samples=200,
    test_samples=100,
)
MNIST_M = TABLE1[0]


def check_record(record: Record, budget: str) -> None:
    """Its accuracies are shares, its budget is in words."""
    assert record.target_accuracy is not None
    for value in (record.target_accuracy, record.target_accuracy_svm, record.source_accuracy):
        assert value is None or (math.isfinite(value) and 0 <= value <= 1)
    assert record.budget.endswith(budget)


def job_folder(output: Path, cell: str, method: str) -> Path:
    return output / "tiny" / cell.replace("->", "-to-") / f"{method}-0"


class Training(NamedTuple):
    """What one training was given, and the network's weights before it."""

    recipe: Recipe
    source: Domain
    target: Domain | None
    held_out: Domain
    preprocessing: Preprocessing | None
    weights: list[np.ndarray]

    @property
    def settings(self) -> Settings:
        return self.recipe.settings


def trainings_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """A list that every training of `module` is added to as it begins."""
    found: list[Training] = []
    real = module.adapt

    def watched(network: nn.Module, source: Domain, target: Domain | None, **given: Any) -> Any:
        weights = [one.detach().numpy().copy() for one in network.parameters() if one.ndim > 1]
        prepare = given.get("preprocessing")
        held_out = given["held_out"]
        found.append(Training(given["recipe"], source, target, held_out, prepare, weights))
        return real(network, source, target, **given)

    monkeypatch.setattr(module, "adapt", watched)
    return found


def job(experiment: Any, method: str, output: Path = Path(), seed: int = 0, **budget: Any) -> Job:
    """A job of the short budget, or of one that differs from it."""
    return Job(experiment, method, seed, replace(SHORT, **budget), output)
