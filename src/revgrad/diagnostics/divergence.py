"""Divergence of two domains in features: a fresh domain classifier, its error, the proxy A-distance
and the bound of §3.3.

    separation = domain_separation(source_features, target_features)

The run's own domain classifier is one side of a game and may have been fooled rather than have
nothing to tell the domains apart by; a fresh one has not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, flat_features, flat_pair
from revgrad.diagnostics.intervals import LEVEL, Interval, mean_share_interval
from revgrad.errors import InputError, unknown

#: Samples of each domain that a domain classifier is fitted and tested on, at most.
MOST_SAMPLES = 5000
#: Samples of a domain that a split into two parts needs, at least.
FEWEST_SAMPLES = 4
#: Standardised features end here: a unit that is almost never on must not decide when it is.
LARGEST_FEATURE = 8.0
#: Inverse strength of the logistic regression's penalty, on standardised features.
LOGISTIC_COST = 0.1
#: The multi-layer perceptron's hidden units; steps, samples of each domain in a step, learning
#: rate, weight decay of its training.
MLP_HIDDEN = 64
MLP_STEPS, MLP_BATCH_SIZE, MLP_LEARNING_RATE, MLP_WEIGHT_DECAY = 300, 128, 3e-3, 1e-3

#: A function of standardised features: one logit a sample, above 0 for the target.
DecisionFunction = Callable[[Array], Array]


@dataclass(frozen=True)
class DomainSeparation:
    """Error of a domain classifier on samples that it was not trained on.

    Attributes
    ----------
    error
        mean of the error rates on source and target samples: ½ where it guesses
    low, high
        its interval: it covers the draw of the held-out samples, for this classifier
        as it is; not how the classifier would come out if it were trained again, nor
        how far it is from the best of its class
    hypothesis
        the class of functions that the classifier is out of
    """

    error: float
    low: float
    high: float
    level: float
    source_error: float
    target_error: float
    source_samples: int
    target_samples: int
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
        """Ends of the interval of the proxy A-distance."""
        return Interval(2 * (1 - 2 * self.high), 2 * (1 - 2 * self.low))


@dataclass(frozen=True)
class AdaptationBound:
    """ε_T ≤ ε_S + ½ d_HΔH + C with what can be measured of it (§3.3; Ben-David et al. 2010).

    Attributes
    ----------
    value
        source error + ½ divergence, a bound of the target error but for C; above 1 − 1/k
        for k classes it says nothing
    divergence
        2|α − 1| of the paper, α = P_S[h = 0] + P_T[h = 1] of the classifier at hand
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
    samples: int = MOST_SAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> DomainSeparation:
    """Train a fresh domain classifier on frozen (n, d) and (m, d) features; its held-out error.

    Parameters
    ----------
    classifier
        "logistic" or "mlp" (`FRESH_CLASSIFIERS`)
    held_out
        share of each domain's samples that the error is measured on
    samples
        of each domain that take part at most, drawn by `seed`
    """
    one, other = flat_pair(source, target)
    if not 0 < held_out < 1:
        raise InputError(f"the held-out share lies between 0 and 1, not {held_out}")
    rng = np.random.default_rng(seed)
    source_fit, source_test = _split_features(one, held_out, samples, rng, "source")
    target_fit, target_test = _split_features(other, held_out, samples, rng, "target")
    model = fit_domain_classifier(source_fit, target_fit, classifier, seed=seed)
    wrong = (
        int((model.logits(source_test) > 0).sum()),
        int((model.logits(target_test) <= 0).sum()),
    )
    counts = len(source_test), len(target_test)
    return _separation(wrong, counts, model.hypothesis, level)


def own_domain_error(
    source_logits: ArrayLike, target_logits: ArrayLike, *, level: float = LEVEL
) -> DomainSeparation:
    """The run's own domain classifier on held-out samples: §4's rule wants this error high.

    Logits are (n,) or (n, 1), above 0 for the target, or (n, 2), the larger one wins.
    """
    source, target = (_decisions(logits) for logits in (source_logits, target_logits))
    wrong = int(source.sum()), int((~target).sum())
    return _separation(wrong, (len(source), len(target)), "the run's own domain classifier", level)


def adaptation_bound(source_error: float, separation: DomainSeparation) -> AdaptationBound:
    """The bound of §3.3: source error plus half the divergence that the domain classifier shows.

    With the mean error ε of the two domains α − 1 = 1 − 2ε. A classifier that is mostly wrong
    separates as well as one that is mostly right, hence `|1 − 2ε|`.
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


@dataclass(frozen=True, eq=False)
class FittedDomainClassifier:
    """Standardisation and decision; `hypothesis` names the class of functions it is out of."""

    mean: Array
    scale: Array
    decision: DecisionFunction
    hypothesis: str

    def logits(self, features: ArrayLike) -> Array:
        """(n,): above 0 where the sample looks like a target's."""
        found = flat_features(features, "features")
        if found.shape[1] != len(self.mean):
            raise InputError(
                f"the domain classifier was fitted on {len(self.mean)} features; "
                f"{found.shape[1]} came"
            )
        return self.decision(_standardised_features(found, self.mean, self.scale))


def fit_domain_classifier(
    source: ArrayLike, target: ArrayLike, classifier: str = "logistic", *, seed: int = 0
) -> FittedDomainClassifier:
    """Fit one of `FRESH_CLASSIFIERS` on (n, d) and (m, d) features.

    Features are standardised by the mean and spread of both domains, each weighing half.
    """
    one, other = flat_pair(source, target)
    if classifier not in FRESH_CLASSIFIERS:
        raise unknown("domain classifier", classifier, FRESH_CLASSIFIERS)
    mean = (one.mean(0) + other.mean(0)) / 2
    scale = np.sqrt((((one - mean) ** 2).mean(0) + ((other - mean) ** 2).mean(0)) / 2)
    # a unit that is the same everywhere says nothing, and rounding must not make it speak
    scale[scale <= 1e-12 * np.abs(mean)] = math.inf
    scale[scale == 0] = math.inf
    fit, hypothesis = FRESH_CLASSIFIERS[classifier]
    first, second = (_standardised_features(features, mean, scale) for features in (one, other))
    return FittedDomainClassifier(mean, scale, fit(first, second, seed), hypothesis)


def _logistic(source: Array, target: Array, seed: int) -> DecisionFunction:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    features = np.concatenate([source, target])
    domains = np.repeat([0, 1], [len(source), len(target)])
    model = LogisticRegression(C=LOGISTIC_COST, class_weight="balanced", max_iter=300)
    with warnings.catch_warnings():
        # stopped short of the optimum it is a domain classifier all the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, domains)
    weight, bias = model.coef_[0], float(model.intercept_[0])

    def decide(features: Array) -> Array:
        logits: Array = features @ weight + bias
        return logits

    return decide


def _perceptron(source: Array, target: Array, seed: int) -> DecisionFunction:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    generator = torch.Generator().manual_seed(seed)
    width = source.shape[1]
    double = {"dtype": torch.float64, "generator": generator}
    parameters = [
        torch.randn(width, MLP_HIDDEN, **double) * math.sqrt(2 / width),  # type: ignore[call-overload]
        torch.zeros(MLP_HIDDEN, dtype=torch.float64),
        torch.randn(MLP_HIDDEN, **double) * math.sqrt(1 / MLP_HIDDEN),  # type: ignore[call-overload]
        torch.zeros((), dtype=torch.float64),
    ]
    for parameter in parameters:
        parameter.requires_grad_()

    def forward(features: torch.Tensor) -> torch.Tensor:
        first, shift, second, bias = parameters
        logits: torch.Tensor = (features @ first + shift).relu() @ second + bias
        return logits

    optimiser = torch.optim.Adam(parameters, lr=MLP_LEARNING_RATE, weight_decay=MLP_WEIGHT_DECAY)
    domains = [torch.from_numpy(features) for features in (source, target)]
    truth = torch.repeat_interleave(torch.tensor([0.0, 1.0], dtype=torch.float64), MLP_BATCH_SIZE)
    with torch.enable_grad():
        for step in range(MLP_STEPS):
            for group in optimiser.param_groups:
                group["lr"] = MLP_LEARNING_RATE * (1 - step / MLP_STEPS)
            drawn = [
                features[torch.randint(len(features), (MLP_BATCH_SIZE,), generator=generator)]
                for features in domains
            ]
            optimiser.zero_grad()
            loss = binary_cross_entropy_with_logits(forward(torch.cat(drawn)), truth)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def decide(features: Array) -> Array:
        with torch.no_grad():
            logits: Array = forward(torch.from_numpy(features)).numpy()
        return logits

    return decide


#: How to fit, and the class of hypotheses in words.
FRESH_CLASSIFIERS: dict[str, tuple[Callable[[Array, Array, int], DecisionFunction], str]] = {
    "logistic": (_logistic, "linear functions of the features"),
    "mlp": (_perceptron, f"perceptrons of {MLP_HIDDEN} hidden units over the features"),
}


def _standardised_features(features: Array, mean: Array, scale: Array) -> Array:
    return np.clip((features - mean) / scale, -LARGEST_FEATURE, LARGEST_FEATURE)


def _separation(
    wrong: tuple[int, int], counts: tuple[int, int], hypothesis: str, level: float
) -> DomainSeparation:
    source, target = (errors / count for errors, count in zip(wrong, counts, strict=True))
    low, high = mean_share_interval(wrong, counts, level)
    return DomainSeparation(
        (source + target) / 2, low, high, level, source, target, *counts, hypothesis
    )


def _split_features(
    features: Array, held_out: float, samples: int, rng: np.random.Generator, name: str
) -> tuple[Array, Array]:
    """Features to train on, and to test on."""
    count = min(len(features), samples)
    if count < FEWEST_SAMPLES:
        raise InputError(
            f"a domain classifier needs {FEWEST_SAMPLES} {name} samples or more; {count} came"
        )
    chosen = rng.permutation(len(features))[:count]
    tested = min(max(round(count * held_out), 2), count - 2)
    return features[chosen[tested:]], features[chosen[:tested]]


def _decisions(logits: ArrayLike) -> Array:
    """(n,) bool: which samples the domain classifier takes for the target's."""
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
