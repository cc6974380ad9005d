"""Metrics of every task, gathered over chunks of samples so that outputs need not be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class MetricKind:
    """How a metric is read.

    Attributes
    ----------
    title
        as people call it
    share
        from 0 to 1: shown in percent
    unit
        of one that is no share
    error
        the lower, the better
    """

    title: str
    share: bool = True
    unit: str = ""
    error: bool = False


#: By the names of the fields of `Metrics`.
METRIC_KINDS = {
    "accuracy": MetricKind("accuracy"),
    "r2": MetricKind("R²", share=False, unit="1 is perfect"),
    "mean_absolute_error": MetricKind(
        "mean absolute error", share=False, unit="in the labels' unit", error=True
    ),
    "mean_iou": MetricKind("mean IoU"),
    "f1": MetricKind("F1"),
    "exact_match": MetricKind("exact match"),
}


def shown_metrics(figures: Mapping[str, float]) -> str:
    """Metrics by the names that people have for them: "R² 0.8134, mean absolute error 0.2201"."""
    titles = {name: kind.title for name, kind in METRIC_KINDS.items()}
    return ", ".join(f"{titles.get(name, name)} {value:.4f}" for name, value in figures.items())


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """How good predictions are; None where a metric means nothing for the task.

    Attributes
    ----------
    accuracy
        share of decisions that are right: of samples, labels or positions
    confusion
        [true class, predicted class]: number of samples or positions
    r2
        coefficient of determination; of several numbers, their mean
    mean_absolute_error
        in the labels' unit; of ordered classes, in classes
    mean_iou
        intersection over union, mean of the classes that occur
    f1
        mean of the labels that occur
    exact_match
        share of samples of which every label is right
    """

    accuracy: float | None = None
    confusion: np.ndarray | None = None
    r2: float | None = None
    mean_absolute_error: float | None = None
    mean_iou: float | None = None
    f1: float | None = None
    exact_match: float | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The metrics that there are, by name, but for the confusion."""
        names = [item.name for item in fields(Metrics) if item.name != "confusion"]
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def per_class(self) -> np.ndarray | None:
        """Accuracy of each class; NaN where it has no samples."""
        if self.confusion is None:
            return None
        with np.errstate(invalid="ignore"):
            shares: np.ndarray = np.diag(self.confusion) / self.confusion.sum(1)
        return shares


@dataclass(frozen=True, kw_only=True)
class Evaluation(Metrics):
    """Results on the labelled samples of one domain."""

    count: int
    loss: float


class Meter(Protocol):
    """Gathers metrics: `add` every chunk, `merge` other meters' chunks, ask for the `result`."""

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        """Take in a chunk."""

    def merge(self, other: Self) -> None:
        """Take in what another meter has gathered."""

    def result(self) -> Metrics:
        """The metrics of all chunks so far."""


class NoMeter:
    """For tasks without metrics: the loss is all there is."""

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        pass

    def merge(self, other: NoMeter) -> None:
        pass

    def result(self) -> Metrics:
        return Metrics()


class ConfusionCounts:
    """Counts of (true class, predicted class)."""

    def __init__(self) -> None:
        self.counts = np.zeros((0, 0), np.int64)

    def count(self, labels: Tensor, decided: Tensor, classes: int) -> None:
        """Labels and decisions are (m,), numbers below `classes`."""
        pairs = torch.bincount(labels * classes + decided, minlength=classes * classes)
        self._join(pairs.reshape(classes, classes).numpy())

    def merge(self, other: ConfusionCounts) -> None:
        self._join(other.counts)

    def _join(self, found: np.ndarray) -> None:
        if found.size:
            self.counts = found if not self.counts.size else self.counts + found

    @property
    def accuracy(self) -> float:
        total = self.counts.sum()
        return float(np.trace(self.counts) / total) if total else float("nan")

    @property
    def mean_iou(self) -> float:
        """Over the classes that occur among the labels or the predictions."""
        both = np.diag(self.counts)
        either = self.counts.sum(0) + self.counts.sum(1) - both
        present = either > 0
        return float((both[present] / either[present]).mean()) if present.any() else float("nan")

    @property
    def mean_distance(self) -> float:
        """Mean difference of the class numbers."""
        place = np.arange(len(self.counts))
        total = self.counts.sum()
        distances = np.abs(place[:, None] - place[None, :])
        return float((self.counts * distances).sum() / total) if total else float("nan")


class RegressionMeter:
    """R² and mean absolute error, in float64. Means and sums of squares of chunks are joined as
    Chan et al. (1983) do: no large numbers cancel."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = np.zeros(0)
        self.spread = np.zeros(0)  # sum of squared distances of the labels from their mean
        self.squares = np.zeros(0)
        self.absolute = np.zeros(0)

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        truth = labels.double().reshape(len(labels), -1).numpy()
        error = outputs.double().reshape(truth.shape).numpy() - truth
        found = RegressionMeter()
        found.count, found.mean = len(truth), truth.mean(0)
        found.spread = np.square(truth - found.mean).sum(0)
        found.squares, found.absolute = np.square(error).sum(0), np.abs(error).sum(0)
        self.merge(found)

    def merge(self, other: RegressionMeter) -> None:
        if not other.count:
            return
        if not self.count:
            self.mean = np.zeros_like(other.mean)
            self.spread = self.squares = self.absolute = self.mean
        apart, total = other.mean - self.mean, self.count + other.count
        joined = np.square(apart) * self.count * other.count / total
        self.spread = self.spread + other.spread + joined
        self.mean = self.mean + apart * other.count / total
        self.squares = self.squares + other.squares
        self.absolute = self.absolute + other.absolute
        self.count = total

    def result(self) -> Metrics:
        """R² of labels that are all alike is 1 where every prediction is right, else 0."""
        exact = (self.squares == 0).astype(np.float64)
        known = self.spread > 0
        shares = np.where(known, 1 - self.squares / np.where(known, self.spread, 1), exact)
        absolute = self.absolute / max(self.count, 1)
        return Metrics(r2=float(shares.mean()), mean_absolute_error=float(absolute.mean()))


class MultiLabelMeter:
    """Of yes and no for every label."""

    def __init__(self) -> None:
        self.samples = self.decisions = self.exact = 0
        self.both = self.predicted = self.true = np.zeros(0, np.int64)

    def add(self, outputs: Tensor, labels: Tensor) -> None:
        yes, truth = (outputs > 0).numpy(), labels.bool().numpy()
        if not self.samples:
            self.both = self.predicted = self.true = np.zeros(truth.shape[1], np.int64)
        self.samples += len(truth)
        self.decisions += int((yes == truth).sum())
        self.exact += int((yes == truth).all(1).sum())
        self.both = self.both + (yes & truth).sum(0)
        self.predicted = self.predicted + yes.sum(0)
        self.true = self.true + truth.sum(0)

    def merge(self, other: MultiLabelMeter) -> None:
        if not self.samples:
            self.both = self.predicted = self.true = np.zeros_like(other.both)
        if other.samples:
            self.samples += other.samples
            self.decisions += other.decisions
            self.exact += other.exact
            self.both = self.both + other.both
            self.predicted = self.predicted + other.predicted
            self.true = self.true + other.true

    def result(self) -> Metrics:
        either = self.predicted + self.true
        present = either > 0
        f1 = float((2 * self.both[present] / either[present]).mean()) if present.any() else 0.0
        return Metrics(
            accuracy=self.decisions / (self.samples * len(self.both)),
            exact_match=self.exact / self.samples,
            f1=f1,
        )
