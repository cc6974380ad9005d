"""skada's scorers on a run's logits, for comparison: the same samples, the same predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.inputs import log_probabilities, probabilities

SCORERS = (
    "PredictionEntropyScorer",
    "SoftNeighborhoodDensity",
    "DeepEmbeddedValidation",
)


class OfLogits(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose inputs are the logits."""

    def __init__(self, classes: int = 2) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, x: Any, y: Any = None, sample_weight: Any = None) -> OfLogits:
        return self

    def predict_proba(self, x: Any, **_: Any) -> np.ndarray:
        return probabilities(np.asarray(x, dtype=np.float64))

    def predict_log_proba(self, x: Any, **_: Any) -> np.ndarray:
        return log_probabilities(np.asarray(x, dtype=np.float64))

    def predict(self, x: Any, **_: Any) -> np.ndarray:
        return np.asarray(x).argmax(1)

    def score(self, x: Any, y: Any, sample_weight: Any = None, **_: Any) -> float:
        return float(np.average(self.predict(x) == y, weights=sample_weight))


def skada_scores(evidence: Evidence) -> dict[str, float]:
    """Every scorer that runs on this evidence; one that fails is left out."""
    import skada.metrics

    assert evidence.source_logits is not None
    assert evidence.source_labels is not None
    n, m = len(evidence.target_logits), len(evidence.source_logits)
    x = np.concatenate([evidence.source_logits, evidence.target_logits])
    y = np.r_[evidence.source_labels, np.full(n, -1)]
    domains = np.r_[np.ones(m, int), np.full(n, -2)]
    plain = OfLogits(evidence.target_logits.shape[1])
    piped = make_pipeline(FunctionTransformer(), plain)
    piped.predict_proba = plain.predict_proba
    found = {}
    for name in SCORERS:
        scorer = getattr(skada.metrics, name)()
        estimator = piped if name == "DeepEmbeddedValidation" else plain
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = float(scorer._score(None, estimator, x, y, sample_domain=domains))
            except Exception as error:  # theirs to raise what they like
                print(f"skada's {name}: {type(error).__name__}: {error}")
                continue
        if np.isfinite(value):
            found[name] = value
    return found
