"""How likely each target row is predicted right, and so how many are: from signs, not labels.

A logistic model of `row_signs`. Its few numbers were fitted on the study's tuned pairs of domains,
whose target labels are known (`benchmarks/selection/fit.py`), and judged on other pairs.
"""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.estimating import AccuracyEstimate, available_estimates, combined_estimate
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.intervals import LEVEL, share_interval
from revgrad.diagnostics.row_signs import NEEDS, SIGNS, opinion_on, row_signs
from revgrad.shallow.inputs import Array

#: Weights of the signs, and the constant: printed by fit.py.
WEIGHTS: dict[str, float] = {
    "agrees": 1.192,
    "likelihood": 0.914,
    "look-alikes": 1.476,
    "class share": -0.678,
    "agreement": 4.071,
    "certainty": -7.570,
}
CONSTANT = 4.006
#: How far the estimate was off on judged pairs, at most, in 97 of 100 runs; the interval makes room
#: for it.
BIAS = 0.1
#: Of the estimators that need no second opinion, how far they were off on average.
PLAIN_BIAS = 0.19


def accuracy_of(evidence: Evidence) -> AccuracyEstimate | None:
    """The best estimate that the evidence allows; None without labelled source rows."""
    return estimated_accuracy(evidence) if suffices(evidence) else plain_estimate(evidence)


def plain_estimate(evidence: Evidence) -> AccuracyEstimate | None:
    """By the published estimators, from logits alone; None without labelled source rows."""
    found = available_estimates(evidence)
    return combined_estimate(found, bias=PLAIN_BIAS) if found else None


def correctness(evidence: Evidence) -> Array:
    """(n,): the probability that each target row is predicted right."""
    logit = row_signs(evidence) @ np.array([WEIGHTS[name] for name in SIGNS]) + CONSTANT
    found: Array = 1 / (1 + np.exp(-logit))
    return found


def estimated_accuracy(evidence: Evidence) -> AccuracyEstimate:
    """The mean of `correctness`; its interval covers the draw of the rows and the usual bias."""
    value = float(correctness(evidence).mean())
    rows = len(evidence.target_logits)
    low, high = share_interval(value * rows, rows, LEVEL)
    return AccuracyEstimate(
        "signs of right and wrong rows",
        value,
        max(low - BIAS, 0.0),
        min(high + BIAS, 1.0),
        LEVEL,
        f"the draw of the target rows, and {BIAS:g} of bias, as on the study's judged pairs",
        "a shift unlike those of the study, or a task that the second opinion knows nothing of: "
        "then signs may mean something else",
    )


def suffices(evidence: Evidence) -> bool:
    """Whether there is a second opinion on the target rows that is worth hearing."""
    return evidence.has(*NEEDS) and opinion_on(evidence).heard
