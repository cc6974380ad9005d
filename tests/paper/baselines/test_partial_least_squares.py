"""PLS against its definition and against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression

from revgrad.errors import InputError
from revgrad.paper.baselines.partial_least_squares import partial_least_squares


def labelled(count: int = 40, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    labels = np.arange(count) % 3
    features = generator.normal(size=(count, width)) + generator.normal(size=(3, width))[labels]
    return features + 4, labels


def test_first_component_varies_most_with_the_labels() -> None:
    features, labels = labelled()
    basis = partial_least_squares(features, labels, 1)
    shared = np.stack(
        [(features - features.mean(0)).T @ ((labels == c) - np.mean(labels == c)) for c in range(3)]
    )
    best = np.linalg.norm(shared @ basis[:, 0])
    tries = np.random.default_rng(0).normal(size=(20_000, 12))
    tries = np.vstack([tries, basis[:, 0] + 0.01 * tries])
    tries /= np.linalg.norm(tries, axis=1, keepdims=True)
    assert (np.linalg.norm(shared @ tries.T, axis=0) <= best + 1e-9).all()


@pytest.mark.parametrize(("count", "width"), [(40, 12), (30, 200)])
def test_weights_by_whole_singular_value_decompositions(count: int, width: int) -> None:
    features, labels = labelled(count, width)
    components = 10
    basis = partial_least_squares(features.astype(np.float32), labels, components)
    left = features.astype(np.float32).astype(np.float64)
    left -= left.mean(0)
    one_hot = np.stack([(labels == c) - np.mean(labels == c) for c in range(3)], axis=1)
    for number in range(components):
        weight = np.linalg.svd(left.T @ one_hot, full_matrices=False)[0][:, 0]
        np.testing.assert_allclose(abs(basis[:, number] @ weight), 1, atol=1e-12)
        scores = left @ weight
        left = left - np.outer(scores, scores @ left) / (scores @ scores)


@pytest.mark.parametrize("components", [2, 7])
def test_weights_are_those_of_scikit_learn(components: int) -> None:
    features, labels = labelled()
    basis = partial_least_squares(features, labels, components)
    np.testing.assert_allclose(basis.T @ basis, np.eye(components), atol=1e-10)
    one_hot = (labels[:, None] == np.arange(3)).astype(float)
    theirs = PLSRegression(components, scale=False, tol=1e-14, max_iter=10_000)
    theirs.fit(features, one_hot)
    np.testing.assert_allclose(np.abs((basis * theirs.x_weights_).sum(axis=0)), 1, atol=1e-6)


def test_more_than_the_labels_explain() -> None:
    labels = np.array([0, 0, 1, 1] * 5)
    features = np.zeros((20, 6))
    features[:, 0] = labels  # nothing but the labels
    with pytest.raises(InputError, match=r"2 PLS components can't be had: .* explained by 1"):
        partial_least_squares(features, labels, 2)
    with pytest.raises(InputError, match="20 components can't be had: 1 to 6 can, with 20 rows"):
        partial_least_squares(features, labels, 20)
