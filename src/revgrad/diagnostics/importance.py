"""Importance weighting: the target's risk from labelled source samples, each weighed by how much it
looks like a target's.

Right where the domains differ in p(x) alone (covariate shift) and the source covers the target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.divergence import MOST_SAMPLES, fit_domain_classifier
from revgrad.diagnostics.inputs import Array, flat_pair
from revgrad.errors import InputError

#: Parts of the samples; each part's ratios are of a classifier that did not see it.
FOLDS = 2
#: Ratios end at e^±this: beyond, the classifier's confidence is no estimate.
LARGEST_LOG = 20.0


def density_ratios(
    source_features: ArrayLike,
    target_features: ArrayLike,
    classifier: str = "logistic",
    *,
    folds: int = FOLDS,
    samples: int = MOST_SAMPLES,
    seed: int = 0,
) -> Array:
    """(m,): p_target(f) / p_source(f) at every source sample, from a domain classifier.

    p_T/p_S = (n_S/n_T) · P(target | f)/P(source | f) (Bickel et al. 2007; You et al. 2019);
    here both domains weigh the same in the fit, so the first factor is 1. Each sample's ratio is
    of a classifier that was fitted on other samples, at most `samples` of each domain.
    """
    source, target = flat_pair(source_features, target_features)
    if folds < 2 or min(len(source), len(target)) < folds:
        raise InputError(
            f"{folds} folds of {len(source)} source and {len(target)} target samples can't be "
            "made; 2 can, of 2 samples or more"
        )
    rng = np.random.default_rng(seed)
    parts = [np.array_split(rng.permutation(len(part)), folds) for part in (source, target)]
    ratios = np.empty(len(source))
    for fold, rest in enumerate(parts[0]):
        others = [np.concatenate([*part[:fold], *part[fold + 1 :]])[:samples] for part in parts]
        fitted = fit_domain_classifier(source[others[0]], target[others[1]], classifier, seed=seed)
        logits = fitted.logits(source[rest])
        ratios[rest] = np.exp(np.clip(logits, -LARGEST_LOG, LARGEST_LOG))
    return ratios


def importance_weighted_risk(
    losses: ArrayLike, ratios: ArrayLike, *, normalised: bool = True
) -> float:
    """Σ w·loss / Σ w over source samples; not `normalised`: Σ w·loss / m (Sugiyama et al. 2007).

    The plain mean is unbiased for true ratios, but goes to 0 where the domains are separable and
    all ratios with it: the worst features would be chosen. The normalised one does not.
    """
    values, weights = _pair(losses, ratios)
    divisor = weights.sum() if normalised else len(weights)
    return float((weights * values).sum() / divisor)


def deep_embedded_risk(losses: ArrayLike, ratios: ArrayLike) -> float:
    """DEV (You et al. 2019, ICML): the plain weighted mean, with its variance reduced.

    mean(w·loss) + η·mean(w) − η, η = −Cov(w·loss, w) / Var(w): true ratios have the mean 1, so the
    control variate adds nothing but takes variance away. η = 0 where all ratios are the same.
    """
    values, weights = _pair(losses, ratios)
    weighted = weights * values
    deviations = weights - weights.mean()
    variance = (deviations**2).mean()
    # all alike but for rounding
    if variance <= (1e-12 * weights.mean()) ** 2:
        return float(weighted.mean())
    eta = -((weighted - weighted.mean()) * deviations).mean() / variance
    return float(weighted.mean() + eta * (weights.mean() - 1))


def effective_sample_size(ratios: ArrayLike) -> float:
    """(Σ w)² / Σ w²: how many samples a weighted mean rests on (Kish 1965), 1 to m."""
    _, weights = _pair(np.zeros(np.shape(ratios)), ratios)
    return float(weights.sum() ** 2 / (weights**2).sum())


def _pair(losses: ArrayLike, ratios: ArrayLike) -> tuple[Array, Array]:
    values, weights = (np.asarray(part, dtype=np.float64) for part in (losses, ratios))
    if values.ndim != 1 or values.shape != weights.shape or not len(values):
        raise InputError(
            f"losses and ratios must be one number a sample each; {values.shape} and "
            f"{weights.shape} came"
        )
    if not np.isfinite(values).all() or not np.isfinite(weights).all():
        raise InputError("losses or ratios hold NaN or infinity")
    if weights.min() < 0 or weights.max() == 0:
        raise InputError("ratios of densities must be ≥ 0, and not all 0")
    return values, weights
