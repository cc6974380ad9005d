"""The linear SVM against its primal problem, minimised slowly in float64."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy.optimize import minimize

from revgrad.errors import InputError
from revgrad.paper.baselines.linear_svm import LinearSVM, fit_linear_svm, stratified_rows


def clouds(classes: int, each: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes) * 3 - 1, each)
    middles = generator.normal(size=(classes, width)) * 2
    features = np.repeat(middles, each, axis=0) + generator.normal(size=(len(labels), width))
    return features * np.logspace(-1, 2, width) + 10, labels


def primal(rows: np.ndarray, signs: np.ndarray, cost: float) -> np.ndarray:
    """argmin ½|w|² + ½b² + C Σ max(0, 1 − y(w·x + b))², the intercept last."""
    extended = np.hstack([rows, np.ones((len(rows), 1))])

    def loss(weight: np.ndarray) -> float:
        slack = np.maximum(0, 1 - signs * (extended @ weight))
        return float(0.5 * weight @ weight + cost * (slack**2).sum())

    start = np.zeros(extended.shape[1])
    return minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("each_feature", [True, False])
@pytest.mark.parametrize(("classes", "each", "width"), [(3, 20, 4), (2, 25, 3), (3, 2, 8)])
def test_weights_solve_the_primal_problem(
    classes: int, each: int, width: int, each_feature: bool
) -> None:
    features, labels = clouds(classes, each, width)
    found = fit_linear_svm(features, labels, cost=0.05, each_feature=each_feature)
    deviation = features.std(axis=0)
    if not each_feature:
        deviation = np.sqrt((deviation**2).mean())
    rows = (features - features.mean(axis=0)) / deviation
    slow = np.stack([primal(rows, np.where(labels == c, 1, -1), 0.05) for c in found.classes])
    values = rows @ slow[:, :-1].T + slow[:, -1]
    np.testing.assert_allclose(found.decide(features), values, atol=2e-3)
    assert found.predict(features).tolist() == found.classes[values.argmax(axis=1)].tolist()
    assert found.classes.tolist() == sorted(set(labels.tolist()))


def test_the_usual_cost_and_number_of_samples() -> None:
    features, labels = clouds(2, 10_025, 2)
    found = fit_linear_svm(features, labels, seed=1)
    few = stratified_rows(labels, 20_000, seed=1)
    assert len(few) == 20_000
    alone = fit_linear_svm(features[few], labels[few], cost=0.01, seed=1)
    np.testing.assert_array_equal(found.weight, alone.weight)
    other = fit_linear_svm(features, labels, cost=0.01, rows=len(labels), seed=1)
    assert not np.array_equal(found.weight, other.weight)


def test_subsample_is_what_the_rows_alone_give() -> None:
    features, labels = clouds(3, 40, 4)
    few = stratified_rows(labels, 30, seed=2)
    assert len(few) == 30
    alone = fit_linear_svm(features[few], labels[few], seed=2)
    found = fit_linear_svm(features, labels, rows=30, seed=2)
    np.testing.assert_array_equal(found.weight, alone.weight)
    whole = fit_linear_svm(features, labels, seed=2)
    assert not np.allclose(found.weight, whole.weight)


def test_a_feature_that_never_varies_has_no_weight() -> None:
    features, labels = clouds(2, 20, 3)
    features[:, 1] = 0.1
    found = fit_linear_svm(features, labels)
    assert (found.weight[:, 1] == 0).all()
    assert (found.weight[:, 0] != 0).all()


@pytest.mark.parametrize("rows", [5, 17, 100, 117])
def test_strata(rows: int) -> None:
    labels = np.repeat([4, 0, 9, 2, 1], [1, 6, 30, 40, 41])
    found = stratified_rows(labels, rows, seed=0)
    assert len(found) == rows == len(set(found.tolist()))
    assert (np.diff(found) > 0).all()
    for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
        taken = np.count_nonzero(labels[found] == label)
        assert taken >= 1
        assert rows == 5 or abs(taken - max(1.0, count * rows / 118)) <= 1
    again, other = stratified_rows(labels, rows, seed=0), stratified_rows(labels, rows, seed=1)
    assert again.tolist() == found.tolist()
    assert rows == 117 or other.tolist() != found.tolist()


def test_all_rows_where_they_are_few() -> None:
    assert stratified_rows(np.array([1, 0, 1]), 3, seed=0).tolist() == [0, 1, 2]


def test_it_says_when_it_did_not_converge(caplog: pytest.LogCaptureFixture) -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(60, 61)), generator.integers(0, 2, 60)
    features[:30] = features[30:] + 1e-6  # the same rows with other labels
    with caplog.at_level(logging.WARNING, logger="revgrad"):
        fit_linear_svm(features, labels, cost=1e9)
    assert "did not converge" in caplog.text


def test_what_is_refused() -> None:
    features, labels = clouds(3, 5, 4)
    with pytest.raises(InputError, match="cost of an SVM must be above 0, not 0"):
        fit_linear_svm(features, labels, cost=0)
    with pytest.raises(InputError, match="2 rows can't hold 3 classes"):
        fit_linear_svm(features, labels, rows=2)
    with pytest.raises(InputError, match="labels are missing"):
        fit_linear_svm(features, None)
    machine = LinearSVM(np.zeros((2, 3)), np.zeros(2), np.arange(2))
    with pytest.raises(InputError, match="fitted on 3 features; 4 came"):
        machine.predict(features)
