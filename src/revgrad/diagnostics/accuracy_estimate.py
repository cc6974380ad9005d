"""Accuracy on the target, estimated without its labels, with an honest interval::

    print(estimate_accuracy(evidence))                       # the best that the evidence allows
    for name, estimate in available_estimates(evidence).items():
        print(name, estimate.value, estimate.low, estimate.high)

Every method rests on an assumption about the shift that can't be checked without labels. An
interval here covers the draw of the samples; that assumption's failing is what `leaves_out` says
and what `combined_estimate(…, bias=…)` makes room for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.certainty import agreement, source_temperature
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import (
    Array,
    entropies,
    given,
    log_probabilities,
    logits_of_both,
    probabilities,
    shares_of,
)
from revgrad.diagnostics.intervals import LEVEL, quantile, share_interval
from revgrad.diagnostics.second_opinion import SecondOpinion, second_opinion
from revgrad.errors import InputError, unknown

#: Weight of each sign of a right prediction, in the order of `correctness_signs`, and the intercept
#: of the logistic regression: printed by studies/selection/fit.py.
SIGN_WEIGHTS: dict[str, float] = {
    "agrees": 1.192,
    "likelihood": 0.914,
    "look-alikes": 1.476,
    "class share": -0.678,
    "agreement": 4.071,
    "certainty": -7.570,
}
INTERCEPT = 4.006
#: How far the estimate by signs was off on judged pairs, at most, in 97 of 100 runs; the interval
#: makes room for it.
BIAS = 0.1
#: How far the estimators that need no second opinion were off on average.
LOGITS_BIAS = 0.19
#: Draws of the bootstrap.
DRAWS = 400
#: Fields of `Evidence` that a second opinion is made of.
OPINION_NEEDS = ("source_inputs", "source_labels", "target_inputs")

_BOTH_DRAWS = "the draw of the held-out source samples and of the target samples"


@dataclass(frozen=True)
class AccuracyEstimate:
    """Estimated share of target samples that are predicted right.

    Attributes
    ----------
    low, high
        an interval of `level` for what `covers` says, and not for what `leaves_out` says
    """

    method: str
    value: float
    low: float
    high: float
    level: float
    covers: str
    leaves_out: str


def estimate_accuracy(evidence: Evidence) -> AccuracyEstimate | None:
    """The best estimate that the evidence allows; None without labelled source samples."""
    if has_informative_opinion(evidence):
        return accuracy_by_signs(evidence)
    return accuracy_by_logits(evidence)


def accuracy_by_signs(evidence: Evidence) -> AccuracyEstimate:
    """The mean of `correctness`; its interval covers the draw of the samples and the usual bias."""
    value, count = float(correctness(evidence).mean()), len(evidence.target_logits)
    low, high = share_interval(value * count, count, LEVEL)
    return AccuracyEstimate(
        "signs of right and wrong samples",
        value,
        max(low - BIAS, 0.0),
        min(high + BIAS, 1.0),
        LEVEL,
        f"the draw of the target samples, and {BIAS:g} of bias, as on the study's judged pairs",
        "a shift unlike those of the study, or a task that the second opinion knows nothing of: "
        "then signs may mean something else",
    )


def accuracy_by_logits(evidence: Evidence) -> AccuracyEstimate | None:
    """The published estimators combined, of logits alone; None without labelled source samples."""
    found = available_estimates(evidence)
    return combined_estimate(found, bias=LOGITS_BIAS) if found else None


def correctness(evidence: Evidence) -> Array:
    """(n,): the probability that each target sample is predicted right."""
    logit = correctness_signs(evidence) @ np.array(list(SIGN_WEIGHTS.values())) + INTERCEPT
    found: Array = 1 / (1 + np.exp(-logit))
    return found


def correctness_signs(evidence: Evidence) -> Array:
    """(n, len(SIGN_WEIGHTS)) of the target samples, by a second opinion on them.

    - `agrees`: 1 where the second opinion is the prediction
    - `likelihood`: log of the probability that it gives to the predicted class
    - `look-alikes`: of the target samples that look most like it, the share that is predicted as it
    - `class share`: log of how often its class is predicted, over one of all classes being equal
    - `agreement`: the share of all samples for which it agrees; the same for all samples, as is
    - `certainty`: its mean largest probability
    """
    opinion = opinion_on(evidence)
    predicted = evidence.target_logits.argmax(axis=1)
    n, classes = evidence.target_logits.shape
    said = opinion.probabilities
    agrees = said.argmax(axis=1) == predicted
    shares = np.log((shares_of(predicted, classes) + 0.5 / n) * classes)
    alike = predicted[opinion.neighbours] == predicted[:, None]
    columns = [
        agrees,
        np.log(said[np.arange(n), predicted]),
        alike.mean(axis=1) if alike.shape[1] else np.ones(n),
        shares[predicted],
        np.full(n, agrees.mean()),
        np.full(n, said.max(axis=1).mean()),
    ]
    found: Array = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return found


def opinion_on(evidence: Evidence) -> SecondOpinion:
    """The second opinion on the evidence's target samples."""
    if missing := evidence.missing(*OPINION_NEEDS):
        raise InputError(f"a second opinion needs {', '.join(missing)}")
    source, labels, target = (getattr(evidence, name) for name in OPINION_NEEDS)
    return second_opinion(source, labels, target, evidence.target_logits.shape[1])


def has_informative_opinion(evidence: Evidence) -> bool:
    """Whether there is a second opinion on the target samples that knows something of the task."""
    return evidence.has(*OPINION_NEEDS) and opinion_on(evidence).is_informative


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
    """ATC (Garg et al. 2022, ICLR): the share of target samples above the source's threshold.

    The threshold is that below which as many source samples lie as are predicted wrong.

    Parameters
    ----------
    confidence
        "negative-entropy" or "largest" softmax, after `source_temperature`
    """
    source, labels, target = _scaled(source_logits, source_labels, target_logits, calibrated)
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
        "of its mistakes on the target is overrated, one that is a little less sure of every "
        "sample underrated",
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
    source, labels, target = _scaled(source_logits, source_labels, target_logits, calibrated)
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
    """The share of target samples that two trainings predict alike (Jiang et al. 2022, ICLR).

    Equal to the mean accuracy of the two in expectation over seeds, where the ensemble of all
    seeds is calibrated.
    """
    value, count = agreement(target_logits, other_logits), len(np.asarray(target_logits))
    low, high = share_interval(round(value * count), count, level)
    return AccuracyEstimate(
        "agreement of two trainings",
        value,
        low,
        high,
        level,
        "the draw of the target samples",
        "which two seeds they are, and mistakes that all trainings share, as under a shift: these "
        "are counted as right",
    )


@dataclass(frozen=True)
class Estimator:
    """A function of evidence, and the fields of `Evidence` that it needs."""

    function: Callable[[Evidence], AccuracyEstimate]
    needs: tuple[str, ...]


#: Every estimator by name.
ESTIMATORS: dict[str, Estimator] = {
    "atc": Estimator(
        lambda e: average_thresholded_confidence(
            given(e.source_logits), given(e.source_labels), e.target_logits
        ),
        (*LABELLED_SOURCE, "target_logits"),
    ),
    "difference-of-confidences": Estimator(
        lambda e: difference_of_confidences(
            given(e.source_logits), given(e.source_labels), e.target_logits
        ),
        (*LABELLED_SOURCE, "target_logits"),
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

    Parameters
    ----------
    bias
        how wrong such estimates were on pairs whose target labels are known: the one part of
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
        f"{_BOTH_DRAWS}, and how far the methods disagree{known}",
        "what all methods miss together" + ("" if bias else ", as no bias was given"),
    )


def atc_threshold(confidences: Array, correct: Array) -> float:
    """The largest threshold below which at most as many samples lie as are wrong; ∞ if all are."""
    wrong = len(correct) - int(correct.sum())
    if wrong == len(correct):
        return float("inf")
    return float(np.partition(confidences, wrong)[wrong])


def largest_probability(logits: Array) -> Array:
    """(n,): the largest softmax of each sample."""
    found: Array = probabilities(logits).max(axis=1)
    return found


def negative_entropies(logits: Array) -> Array:
    """(n,): −H of each sample's softmax. It tells samples apart where the largest one is 1, too."""
    logarithms = log_probabilities(logits)
    found: Array = -entropies(np.exp(logarithms), logarithms)
    return found


#: How sure a model is of a sample, the higher the surer.
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
    """`point` of all samples, and its percentiles when those of both domains are drawn again.

    Never narrower than the interval of a share of as many target samples: where no sample differs
    from another every draw gives the same, and that is not certainty.
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
    value, count = point(*source, *target), len(target[0])
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    least = share_interval(value * count, count, level)
    return AccuracyEstimate(
        method,
        value,
        float(min(low, least.low)),
        float(max(high, least.high)),
        level,
        _BOTH_DRAWS,
        leaves_out,
    )


def _scaled(
    source_logits: ArrayLike, source_labels: ArrayLike, target_logits: ArrayLike, calibrated: bool
) -> tuple[Array, Array, Array]:
    """Source logits, labels, target logits; both logits over the source's temperature."""
    source, labels, target = logits_of_both(source_logits, source_labels, target_logits)
    temperature = source_temperature(source, labels) if calibrated else 1.0
    return source / temperature, labels, target / temperature
