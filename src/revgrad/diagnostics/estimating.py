"""How many target rows are predicted right, without their labels; with an honest interval.

    for name, estimate in available_estimates(evidence).items():
        print(name, estimate.value, estimate.low, estimate.high)

Every method rests on an assumption about the shift that can't be checked without labels. An
interval here covers the draw of the rows; that assumption's failing is what `leaves_out` says and
what `combined_estimate(…, bias=…)` makes room for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.agreement import agreement
from revgrad.diagnostics.calibrating import source_temperature
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import (
    entropies,
    labelled_logits,
    log_probabilities,
    logits_of,
    probabilities,
)
from revgrad.diagnostics.intervals import LEVEL, quantile, share_interval
from revgrad.errors import InputError, unknown
from revgrad.shallow.inputs import Array

#: Draws of the bootstrap.
DRAWS = 400

_ROWS = "the draw of the held-out source rows and of the target rows"


@dataclass(frozen=True)
class AccuracyEstimate:
    """Estimated share of target rows that are predicted right.

    low, high    an interval of `level` for what `covers` says, and not for what `leaves_out` says
    """

    method: str
    value: float
    low: float
    high: float
    level: float
    covers: str
    leaves_out: str


def average_thresholded_confidence(
    source_logits: ArrayLike,
    source_labels: ArrayLike,
    target_logits: ArrayLike,
    *,
    confidence: str = "negative-entropy",
    calibrated: bool = True,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> AccuracyEstimate:
    """ATC (Garg et al. 2022, ICLR): the share of target rows above the source's threshold.

    The threshold is that below which as many source rows lie as are predicted wrong.
    confidence   "negative-entropy" or "largest" softmax, after `source_temperature`
    """
    source, labels, target = _checked(source_logits, source_labels, target_logits, calibrated)
    if confidence not in CONFIDENCES:
        raise unknown("confidence", confidence, CONFIDENCES)
    correct = (source.argmax(axis=1) == labels).astype(np.float64)
    of_source, of_target = (CONFIDENCES[confidence](logits) for logits in (source, target))

    def point(confidences: Array, right: Array, targets: Array) -> float:
        return float((targets >= atc_threshold(confidences, right)).mean())

    return _bootstrapped(
        f"average thresholded confidence ({confidence})",
        point,
        (of_source, correct),
        (of_target,),
        (level, draws, seed),
        "a shift that changes how confidence and correctness belong together: a model that is sure "
        "of its mistakes on the target is overrated, one that is a little less sure of every row "
        "underrated",
    )


def difference_of_confidences(
    source_logits: ArrayLike,
    source_labels: ArrayLike,
    target_logits: ArrayLike,
    *,
    calibrated: bool = True,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> AccuracyEstimate:
    """DoC (Guillory et al. 2021, ICCV): source accuracy less the fall of the mean confidence.

    accuracy_S − (mean max softmax on source − on target), in [0, 1].
    """
    source, labels, target = _checked(source_logits, source_labels, target_logits, calibrated)
    correct = (source.argmax(axis=1) == labels).astype(np.float64)
    of_source, of_target = (largest_probability(logits) for logits in (source, target))

    def point(confidences: Array, right: Array, targets: Array) -> float:
        value = right.mean() - confidences.mean() + targets.mean()
        return float(min(max(value, 0.0), 1.0))

    return _bootstrapped(
        "difference of confidences",
        point,
        (of_source, correct),
        (of_target,),
        (level, draws, seed),
        "a shift that lowers accuracy more than confidence, as most do: training that makes target "
        "predictions certain is overrated",
    )


def agreement_accuracy(
    target_logits: ArrayLike, other_logits: ArrayLike, *, level: float = LEVEL
) -> AccuracyEstimate:
    """The share of target rows that two trainings predict alike (Jiang et al. 2022, ICLR).

    Equal to the mean accuracy of the two in expectation over seeds, where the ensemble of all
    seeds is calibrated.
    """
    value, rows = agreement(target_logits, other_logits), len(np.asarray(target_logits))
    low, high = share_interval(round(value * rows), rows, level)
    return AccuracyEstimate(
        "agreement of two trainings",
        value,
        low,
        high,
        level,
        "the draw of the target rows",
        "which two seeds they are, and mistakes that all trainings share, as under a shift: these "
        "are counted as right",
    )


@dataclass(frozen=True)
class Estimator:
    """A function of evidence, and the fields of `Evidence` that it needs."""

    function: Callable[[Evidence], AccuracyEstimate]
    needs: tuple[str, ...]


_LABELLED = ("source_logits", "source_labels", "target_logits")

#: Every estimator by name.
ESTIMATORS: dict[str, Estimator] = {
    "atc": Estimator(
        lambda e: average_thresholded_confidence(
            _array(e.source_logits), _array(e.source_labels), e.target_logits
        ),
        _LABELLED,
    ),
    "difference-of-confidences": Estimator(
        lambda e: difference_of_confidences(
            _array(e.source_logits), _array(e.source_labels), e.target_logits
        ),
        _LABELLED,
    ),
    "agreement": Estimator(
        lambda e: agreement_accuracy(e.target_logits, e.seed_logits[0]),
        ("target_logits", "seed_logits"),
    ),
}


def available_estimates(evidence: Evidence) -> dict[str, AccuracyEstimate]:
    """Every estimate that the evidence suffices for, by name."""
    return {
        name: entry.function(evidence)
        for name, entry in ESTIMATORS.items()
        if evidence.has(*entry.needs)
    }


def combined_estimate(
    estimates: Mapping[str, AccuracyEstimate], *, bias: float = 0.0
) -> AccuracyEstimate:
    """The median of several estimates; the interval holds all of theirs, and `bias` either side.

    bias   how wrong such estimates were on pairs whose target labels are known: the one part of
           the uncertainty that no label-free number shows
    """
    if not estimates:
        raise InputError("there is no estimate to combine")
    if not 0 <= bias <= 1:
        raise InputError(f"the bias is a share from 0 to 1, not {bias}")
    every = list(estimates.values())
    value = median(one.value for one in every)
    known = f", and {bias:g} of bias" if bias else ""
    return AccuracyEstimate(
        f"median of {', '.join(estimates)}",
        value,
        max(min(one.low for one in every) - bias, 0.0),
        min(max(one.high for one in every) + bias, 1.0),
        min(one.level for one in every),
        f"{_ROWS}, and how far the methods disagree{known}",
        "what all methods miss together" + ("" if bias else ", as no bias was given"),
    )


def atc_threshold(confidences: Array, correct: Array) -> float:
    """The largest threshold below which at most as many rows lie as are wrong; ∞ if all are."""
    wrong = len(correct) - int(correct.sum())
    if wrong == len(correct):
        return float("inf")
    return float(np.partition(confidences, wrong)[wrong])


def largest_probability(logits: Array) -> Array:
    """(n,): the largest softmax of each row."""
    found: Array = probabilities(logits).max(axis=1)
    return found


def negative_entropies(logits: Array) -> Array:
    """(n,): −H of each row's softmax. It still tells rows apart where the largest one is 1."""
    logarithms = log_probabilities(logits)
    found: Array = -entropies(np.exp(logarithms), logarithms)
    return found


#: How sure a row is, the higher the surer.
CONFIDENCES: dict[str, Callable[[Array], Array]] = {
    "negative-entropy": negative_entropies,
    "largest": largest_probability,
}


def _bootstrapped(
    method: str,
    point: Callable[..., float],
    source: tuple[Array, ...],
    target: tuple[Array, ...],
    how: tuple[float, int, int],
    leaves_out: str,
) -> AccuracyEstimate:
    """`point` of all rows, and its percentiles when the rows of both domains are drawn again.

    Never narrower than the interval of a share of as many target rows: where no row differs from
    another every draw gives the same, and that is not certainty.
    """
    level, draws, seed = how
    quantile(level)  # refuses a level that is none
    if draws < 20:
        raise InputError(f"the bootstrap needs 20 draws or more, not {draws}")
    rng = np.random.default_rng(seed)
    found = np.empty(draws)
    for draw in range(draws):
        one = rng.integers(len(source[0]), size=len(source[0]))
        other = rng.integers(len(target[0]), size=len(target[0]))
        found[draw] = point(*(part[one] for part in source), *(part[other] for part in target))
    value, rows = point(*source, *target), len(target[0])
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    least = share_interval(value * rows, rows, level)
    return AccuracyEstimate(
        method,
        value,
        float(min(low, least.low)),
        float(max(high, least.high)),
        level,
        _ROWS,
        leaves_out,
    )


def _checked(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike, calibrated: bool
) -> tuple[Array, Array, Array]:
    source, labels = labelled_logits(source_logits, source_labels)
    target = logits_of(target_logits, "target logits")
    if source.shape[1] != target.shape[1]:
        raise InputError(
            f"source and target logits must be of the same classes; {source.shape[1]} and "
            f"{target.shape[1]} came"
        )
    temperature = source_temperature(source, labels) if calibrated else 1.0
    return source / temperature, labels, target / temperature


def _array(value: Array | None) -> Array:
    assert value is not None  # `needs` was asked before
    return value
