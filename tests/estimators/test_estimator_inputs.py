"""Estimators on sparse matrices, and their lines for inputs that they don't take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from revgrad.errors import InputError
from revgrad.estimators import DANNClassifier, DANNRegressor

RANDOM = np.random.default_rng(0)
X = np.where(RANDOM.random((60, 8)) < 0.4, RANDOM.random((60, 8)), 0).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def short(kind: Any = DANNClassifier, **more: Any) -> Any:
    return kind(steps=10, batch_size=16, **more)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
def test_sparse_matrices_stay_sparse(kind: Any) -> None:
    model = short(recipe="stabilised").fit(kind(X), Y, X_target=kind(X))
    same = short(recipe="stabilised").fit(sparse.csr_array(X), Y, X_target=sparse.csr_array(X))
    assert type(model.adapted_.preprocessing).__name__ == "Preprocessing"
    np.testing.assert_array_equal(model.predict_proba(kind(X)), same.predict_proba(X))
    assert model.transform(kind(X)).shape[0] == 60
    of_numbers = short(DANNRegressor).fit(kind(X), X[:, 0], X_target=kind(X))
    assert of_numbers.predict(kind(X)).shape == (60,)


def test_texts_through_a_pipeline() -> None:
    texts = ["good book", "bad plot", "good pan", "bad knife"] * 15
    labels = np.array([1, 0, -1, -1] * 15)  # the target's are masked
    domains = np.array([1, 1, -2, -2] * 15)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(TfidfVectorizer(), short())
        pipeline.fit(texts, labels, sample_domain=domains)
        assert pipeline[-1].adapted_.choice is not None  # "auto"
        assert set(clone(pipeline).fit(texts, labels, sample_domain=domains).predict(texts)) <= {
            0,
            1,
        }


def test_lines_for_text_and_for_several_labels() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": ["x", "y"] * 30})
    with pytest.raises(InputError, match=r"X holds text \('x'\).*OneHotEncoder.*from_frame"):
        short().fit(frame, Y, X_target=frame)
    with pytest.raises(InputError, match=r"X holds text.*TfidfVectorizer"):
        short().fit(["a", "b"] * 30, Y, X_target=["a"] * 60)
    with pytest.raises(InputError, match=r"shape \(60, 3\).*task='multi-label'"):
        short().fit(X, np.eye(3)[Y], X_target=X)
    with pytest.raises(
        InputError, match=r"^X_target: Input X contains NaN\. \(a Pipeline does not"
    ):
        short().fit(X, Y, X_target=np.full_like(X, np.nan))
    other = pandas.DataFrame(X[:, :2], columns=["a", "b"])
    with pytest.raises(InputError, match=r"X_target: The feature names.*- c") as caught:
        short().fit(other, Y, X_target=other.rename(columns={"b": "c"}))
    assert "\n" not in str(caught.value)
