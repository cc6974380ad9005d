"""How likely each target row is predicted right, and so how many are: from signs, not labels.

A logistic model of `row_signs`. Its few numbers were fitted on the study's tuned pairs of domains,
whose target labels are known (`benchmarks/selection/fit.py`), and judged on other pairs.
"""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.estimating import AccuracyEstimate
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.intervals import LEVEL, share_interval
from revgrad.diagnostics.row_signs import NEEDS, SIGNS, row_signs
from revgrad.shallow.inputs import Array

#: Weights of the signs, and the constant: printed by fit.py.
WEIGHTS: dict[str, float] = {
    "confidence": 0.199,
    "invariance": -0.393,
    "alike when changed": 0.448,
    "stable": 0.435,
    "target neighbours": 1.469,
    "source neighbours": 1.250,
    "class share": -0.964,
    "source accuracy": 1.202,
    "source invariance": -1.164,
    "mean invariance": 0.918,
}
CONSTANT = -2.971
#: How far the estimate was off on judged pairs, on average; the interval makes room for it.
BIAS = 0.13


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
        "a shift unlike those of the study: then signs may mean something else",
    )


def suffices(evidence: Evidence) -> bool:
    """Whether there is what the signs need: images, features and labelled held-out source rows."""
    return evidence.has(*NEEDS)
