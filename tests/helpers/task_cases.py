"""One small case of every task: data of two domains, a network, and what is expected of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.tasks import CustomTask, Task


class Pixels(nn.Module):
    """A class at every pixel: (n, 3, 8, 8) → (n, classes, 8, 8)."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.lower = nn.Conv2d(3, 6, 3, padding=1)
        self.upper = nn.Conv2d(6, classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.upper(torch.relu(self.lower(images)))


class Steps(nn.Module):
    """A class at every step of a series: (n, 5, 4) → (n, 5, classes)."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.lower = nn.Linear(4, 6)
        self.upper = nn.Linear(6, classes)

    def forward(self, series: Tensor) -> Tensor:
        return self.upper(torch.relu(self.lower(series)))


class Vectors(nn.Module):
    """(n, 4) → (n, classes)."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.lower = nn.Linear(4, 6)
        self.upper = nn.Linear(6, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.upper(torch.relu(self.lower(inputs)))


class Dict(Vectors):
    """The same in a dict, with the features beside the logits."""

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        hidden = torch.relu(self.lower(inputs))
        return {"hidden": hidden, "logits": self.upper(hidden)}


def quantile_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Of the ninth decile: a loss that no task of ours has."""
    error = labels - outputs[:, 0]
    return torch.maximum(0.9 * error, -0.1 * error)


def quantile(outputs: Tensor) -> Tensor:
    return outputs[:, 0]


def quantile_task() -> Task:
    return CustomTask(quantile_loss, quantile)


@dataclass(frozen=True)
class Case:
    """name   of the task
    labels    of (n, 4) inputs (n, 5, 4) or (n, 3, 8, 8): a function of the inputs
    given     what is said of the task: its name where labels leave a doubt
    outputs   that the network has
    figures   names of the metrics
    columns   of the table of predictions, behind the file's
    """

    name: str
    labels: Callable[[np.ndarray], np.ndarray]
    network: Callable[..., nn.Module] = Vectors
    given: str | Callable[[], Task] | None = None
    outputs: int = 3
    figures: tuple[str, ...] = ("accuracy",)
    columns: tuple[str, ...] = ("class", "confidence")

    @property
    def task(self) -> Any:
        return self.given() if callable(self.given) else self.given

    def inputs(self, samples: int, seed: int, shift: float = 0.0) -> np.ndarray:
        random = np.random.default_rng(seed)
        if self.network is Pixels:
            return (random.integers(0, 180, (samples, 8, 8, 3)) + 40 * shift).astype(np.uint8)
        shape = (samples, 5, 4) if self.network is Steps else (samples, 4)
        return (random.normal(size=shape) + shift).astype(np.float32)

    def source(self, samples: int = 60) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.inputs(samples, 1)
        return inputs, self.labels(inputs)

    def target(self, samples: int = 50) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.inputs(samples, 2, 0.5)
        return inputs, self.labels(inputs)

    def build(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return self.network(self.outputs)


def _numbers(x: np.ndarray) -> np.ndarray:
    return x[:, :3].argmax(1)


def _map(x: np.ndarray) -> np.ndarray:
    found = x.argmax(-1).astype(np.int64)
    found[:, 0, :2] = 255  # no label there
    return found


def _steps(x: np.ndarray) -> np.ndarray:
    found = x[:, :, :3].argmax(-1)
    found[::2, 4] = -100  # padding
    return found


ERRORS = ("r2", "mean_absolute_error")
CASES = [
    Case("classes", _numbers),
    Case("names", lambda x: np.array(["ant", "bee", "cat"])[_numbers(x)]),
    Case("booleans", lambda x: x[:, 0] > 0, outputs=2),
    Case("binary", lambda x: (x[:, 0] > 0).astype(int), given="binary", outputs=1),
    Case("binary names", lambda x: np.where(x[:, 0] > 0, "yes", "no"), given="binary", outputs=1),
    Case(
        "multi-label",
        lambda x: (x[:, :3] > 0).astype(int),
        figures=("accuracy", "f1", "exact_match"),
        columns=("labels", "probability_0", "probability_1", "probability_2"),
    ),
    Case(
        "regression",
        lambda x: 2 * x[:, 0] + 1,
        outputs=1,
        figures=ERRORS,
        columns=("value",),
    ),
    Case(
        "regression of two",
        lambda x: x[:, :2] - x[:, 2:],
        outputs=2,
        figures=ERRORS,
        columns=("value_0", "value_1"),
    ),
    Case(
        "ordinal",
        lambda x: np.digitize(x[:, 0], [-0.7, 0.0, 0.7]),
        given="ordinal",
        figures=("accuracy", "mean_absolute_error"),
    ),
    Case("dense", _map, Pixels, given="dense:255", figures=("accuracy", "mean_iou"), columns=()),
    Case(
        "sequence",
        _steps,
        Steps,
        figures=("accuracy", "mean_iou"),
        columns=tuple(f"class_{i}" for i in range(5)),
    ),
    Case(
        "custom",
        lambda x: 2 * x[:, 0],
        given=quantile_task,
        outputs=1,
        figures=(),
        columns=("value",),
    ),
]
