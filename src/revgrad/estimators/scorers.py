"""Label-free scores as scikit-learn scorers: to choose among models without target labels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metadata_routing import UNUSED, _MetadataRequester

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.scores import RECOMMENDED_SCORE, SCORES, score
from revgrad.errors import InputError, unknown
from revgrad.estimators.samples import by_domain

#: Fields of `Evidence` that a fitted classifier and labelled source samples beside the target give.
_GIVEN = (
    *("target_logits", "source_logits", "source_labels"),
    *("target_features", "source_features", "target_inputs", "source_inputs"),
)
#: A probability of 0 has no logarithm.
_SMALLEST = 1e-30


class LabelFreeScorer(_MetadataRequester):  # type: ignore[misc]  # scikit-learn has no types
    """scorer(estimator, X, y, sample_domain=…) → the higher, the better; no target label is read.

    Parameters
    ----------
    estimator
        any fitted classifier with `predict_proba`, or a Pipeline that ends in one; a
        score that looks at features needs `transform` too
    sample_domain
        positive: source samples, whose labels are read; negative: target samples
    """

    #: What a search hands over without being asked (with metadata routing enabled).
    __metadata_request__score: ClassVar[dict[str, Any]] = {
        "sample_domain": True,
        "estimator": UNUSED,
    }

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"label_free_scorer({self.name!r})"

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None
    ) -> float:
        return self.score(estimator, X, y, sample_domain=sample_domain)

    def score(self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None) -> float:
        """As the call; scikit-learn reads from its signature what a scorer takes."""
        if sample_domain is None:
            raise InputError(
                f"the score '{self.name}' needs sample_domain=…: which samples are source "
                "(positive) and which are target (negative)"
            )
        samples = by_domain(X, y, None, None, sample_domain)
        if samples.X_target is None:
            raise InputError(
                f"the score '{self.name}' needs target samples: sample_domain marks none (a split "
                "that is stratified by sample_domain has some of both)"
            )
        return score(self.name, _evidence(estimator, samples.X, samples.y, samples.X_target))


def label_free_scorer(name: str = RECOMMENDED_SCORE) -> LabelFreeScorer:
    """One of `revgrad.diagnostics.SCORES` as a scorer for GridSearchCV and its like."""
    usable = [one for one, entry in SCORES.items() if set(entry.needs) <= set(_GIVEN)]
    if name not in SCORES:
        raise unknown("score", name, usable)
    if name not in usable:
        raise InputError(
            f"the score '{name}' needs a run's own records; as a scorer there are: "
            f"{', '.join(usable)}"
        )
    return LabelFreeScorer(name)


def _evidence(estimator: Any, X: Any, y: Any, X_target: Any) -> Evidence:
    """Evidence by an estimator's public methods alone."""
    if not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"label-free scores judge classifiers with predict_proba; {type(estimator).__name__} "
            "has none"
        )
    classes = list(estimator.classes_)
    numbers = np.array([classes.index(one) if one in classes else -1 for one in np.asarray(y)])
    known = numbers >= 0
    of_source, of_target = (_logarithms(estimator, values) for values in (X, X_target))
    inputs = [_vectors(values) for values in (X, X_target)]
    features = None
    if hasattr(estimator, "transform"):
        features = [np.asarray(estimator.transform(values)) for values in (X, X_target)]
    return Evidence(
        target_logits=of_target,
        source_logits=of_source[known],
        source_labels=numbers[known],
        source_features=None if features is None else features[0][known],
        target_features=None if features is None else features[1],
        source_inputs=None if inputs[0] is None or inputs[1] is None else inputs[0][known],
        target_inputs=None if inputs[0] is None else inputs[1],
    )


def _logarithms(estimator: Any, X: Any) -> np.ndarray:
    """Logits: probabilities are a softmax of their own logarithms."""
    found: np.ndarray = np.log(np.maximum(np.asarray(estimator.predict_proba(X)), _SMALLEST))
    return found


def _vectors(X: Any) -> np.ndarray | None:
    """Inputs that a second opinion can be formed on; None for others."""
    values = np.asarray(X)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        return None
    return values.astype(np.float64)
