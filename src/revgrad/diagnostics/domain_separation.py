"""How well the domains can be told apart in features: domain error, proxy A-distance, the bound.

separation = domain_separation(source_features, target_features)
separation.distance                                  # about 0: alike; 2: told apart always
adaptation_bound(source_error, separation).value     # §3.3 of the paper
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.domain_classifying import fit_domain_classifier
from revgrad.diagnostics.inputs import pair_of
from revgrad.diagnostics.intervals import LEVEL, Interval, mean_share_interval
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array

#: Rows of each domain that take part at most.
ROWS = 5000
#: Rows of a domain that a split into two parts needs at least.
FEWEST = 4


@dataclass(frozen=True)
class DomainSeparation:
    """Error of a domain classifier on rows that it was not trained on.

    error            mean of the error rates on source and target rows: ½ where it guesses
    low, high        its interval: it covers the draw of the held-out rows, for this classifier as
                     it is; not how the classifier would come out if it were trained again, nor how
                     far it is from the best of its class
    hypothesis       the class of functions that the classifier is out of
    """

    error: float
    low: float
    high: float
    level: float
    source_error: float
    target_error: float
    source_rows: int
    target_rows: int
    hypothesis: str

    @property
    def distance(self) -> float:
        """The proxy A-distance 2(1 − 2 error) (Ben-David et al. 2007).

        For equal domains 0 in expectation, so below 0 in half of the cases: it is not cut off
        there, or its mean would not be 0. For separable ones 2.
        """
        return 2 * (1 - 2 * self.error)

    @property
    def distance_interval(self) -> Interval:
        return Interval(2 * (1 - 2 * self.high), 2 * (1 - 2 * self.low))


@dataclass(frozen=True)
class AdaptationBound:
    """ε_T ≤ ε_S + ½ d_HΔH + C with what can be measured of it (§3.3; Ben-David et al. 2010).

    value        source error + ½ divergence, a bound of the target error but for C; above 1 − 1/k
                 for k classes it says nothing
    divergence   2|α − 1| of the paper, α = P_S[h = 0] + P_T[h = 1] of the classifier at hand
    """

    value: float
    source_error: float
    divergence: float
    hypothesis: str
    leaves_out: str


def domain_separation(
    source: ArrayLike,
    target: ArrayLike,
    classifier: str = "logistic",
    *,
    held_out: float = 0.5,
    rows: int = ROWS,
    level: float = LEVEL,
    seed: int = 0,
) -> DomainSeparation:
    """Train a fresh domain classifier on frozen (n, d) and (m, d) features; its held-out error.

    classifier   "logistic" or "mlp" (`domain_classifying.CLASSIFIERS`)
    held_out     share of each domain's rows that the error is measured on
    rows         of each domain that take part at most, drawn by `seed`
    """
    one, other = pair_of(source, target)
    if not 0 < held_out < 1:
        raise InputError(f"the held-out share lies between 0 and 1, not {held_out}")
    rng = np.random.default_rng(seed)
    source_fit, source_test = _split(one, held_out, rows, rng, "source")
    target_fit, target_test = _split(other, held_out, rows, rng, "target")
    model = fit_domain_classifier(source_fit, target_fit, classifier, seed=seed)
    wrong = int((model.logits(source_test) > 0).sum()), int((model.logits(target_test) <= 0).sum())
    return _separation(wrong, (len(source_test), len(target_test)), model.hypothesis, level)


def own_domain_error(
    source_logits: ArrayLike, target_logits: ArrayLike, *, level: float = LEVEL
) -> DomainSeparation:
    """The run's own domain classifier on held-out rows: §4's rule wants this error high.

    Logits are (n,) or (n, 1), above 0 for the target, or (n, 2), the larger one wins.
    """
    source, target = (_decisions(logits) for logits in (source_logits, target_logits))
    wrong = int(source.sum()), int((~target).sum())
    return _separation(wrong, (len(source), len(target)), "the run's own domain classifier", level)


def adaptation_bound(source_error: float, separation: DomainSeparation) -> AdaptationBound:
    """The bound of §3.3: source error plus half the divergence that the domain classifier shows.

    With the mean error ε of the two domains α − 1 = 1 − 2ε. A classifier that is mostly wrong
    separates as well as one that is mostly right, hence |1 − 2ε|.
    """
    if not 0 <= source_error <= 1:
        raise InputError(f"the source error is a share from 0 to 1, not {source_error}")
    divergence = 2 * abs(1 - 2 * separation.error)
    return AdaptationBound(
        value=source_error + divergence / 2,
        source_error=source_error,
        divergence=divergence,
        hypothesis=separation.hypothesis,
        leaves_out=(
            "C, the error of the best label predictor for both domains at once, which needs target "
            "labels; and the supremum: a better domain classifier would show more divergence. It "
            "is a bound only where the class of domain classifiers holds the XOR of any two label "
            "predictors"
        ),
    )


def _separation(
    wrong: tuple[int, int], rows: tuple[int, int], hypothesis: str, level: float
) -> DomainSeparation:
    source, target = (count / row for count, row in zip(wrong, rows, strict=True))
    low, high = mean_share_interval(wrong, rows, level)
    return DomainSeparation(
        (source + target) / 2, low, high, level, source, target, rows[0], rows[1], hypothesis
    )


def _split(
    features: Array, held_out: float, rows: int, rng: np.random.Generator, name: str
) -> tuple[Array, Array]:
    """Rows to train on, and to test on."""
    count = min(len(features), rows)
    if count < FEWEST:
        raise InputError(f"a domain classifier needs {FEWEST} {name} rows or more; {count} came")
    chosen = rng.permutation(len(features))[:count]
    tested = min(max(round(count * held_out), 2), count - 2)
    return features[chosen[tested:]], features[chosen[:tested]]


def _decisions(logits: ArrayLike) -> Array:
    """Which rows the domain classifier takes for the target's."""
    found = np.asarray(logits, dtype=np.float64)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if not len(found) or found.ndim not in (1, 2) or (found.ndim == 2 and found.shape[1] != 2):
        raise InputError(
            f"domain logits must have the shape (n,), (n, 1) or (n, 2), not {found.shape}"
        )
    if not np.isfinite(found).all():
        raise InputError("domain logits hold NaN or infinity")
    target: Array = found > 0 if found.ndim == 1 else found[:, 1] > found[:, 0]
    return target
