"""scikit-learn estimators: domain adaptation with the habits of `fit` and `predict`.

    model = DANNClassifier().fit(X, y, X_target=Z)
    model.predict(Z)

scikit-learn is imported here and not before.
"""

from __future__ import annotations

from revgrad.estimators.dann import DANNClassifier, DANNRegressor
from revgrad.estimators.scorers import LabelFreeScorer, label_free_scorer

__all__ = ["DANNClassifier", "DANNRegressor", "LabelFreeScorer", "label_free_scorer"]
