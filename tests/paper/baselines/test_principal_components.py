"""Principal components against the covariance's eigenvectors, power by power."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.baselines.principal_components import principal_components, scaled


def rows(count: int, width: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, width)) * np.linspace(3, 0.5, width) + 5


@pytest.mark.parametrize(("count", "width"), [(40, 6), (5, 9), (20_000, 4)])
def test_basis_by_power_iteration(count: int, width: int) -> None:
    features = rows(count, width)
    found = principal_components(features, 3)
    covariance = np.cov(features, rowvar=False)
    for number in range(3):
        vector = np.random.default_rng(1).normal(size=width)
        for _ in range(3000):
            vector = covariance @ vector
            vector /= np.linalg.norm(vector)
        variance = vector @ covariance @ vector
        np.testing.assert_allclose(abs(found.basis[:, number] @ vector), 1, rtol=1e-6)
        np.testing.assert_allclose(found.variances[number], variance, rtol=1e-6)
        covariance = covariance - variance * np.outer(vector, vector)
    assert len(found.variances) == min(count - 1, width)
    assert (found.basis[np.abs(found.basis).argmax(axis=0), range(3)] > 0).all()


@pytest.mark.parametrize(("count", "width"), [(40, 6), (5, 9), (9000, 12)])
def test_directions_signs_and_variances_are_those_of_scikit_learn(count: int, width: int) -> None:
    features = rows(count, width)
    found = principal_components(features, 4)
    theirs = PCA(4, svd_solver="full").fit(features)
    np.testing.assert_allclose(found.basis, theirs.components_.T, atol=1e-10)
    np.testing.assert_allclose(found.variances[:4], theirs.explained_variance_, rtol=1e-10)


def test_single_precision_in_double_precision_inside() -> None:
    features = rows(300, 5)
    np.testing.assert_allclose(
        principal_components(features.astype(np.float32), 5).basis,
        principal_components(features, 5).basis,
        atol=1e-5,
    )


def test_scaling() -> None:
    features = rows(50, 4)
    features[:, 2] = 0.1  # its mean is not .1 to the last bit
    z = scaled(features, "standardised")
    for column in (0, 1, 3):
        values = features[:, column]
        mean = sum(values) / 50
        deviation = (sum((v - mean) ** 2 for v in values) / 50) ** 0.5
        np.testing.assert_allclose(z[:, column], (values - mean) / deviation, rtol=1e-10)
    assert (z[:, 2] == 0).all()
    np.testing.assert_allclose(scaled(features, "centred")[7], features[7] - features.mean(0))
    assert scaled(features, "given") is features
    assert scaled(features.astype(np.float32), "standardised").dtype == np.float32


def test_what_can_not_be_had() -> None:
    with pytest.raises(InputError, match="7 components can't be had: 1 to 6 can, with 7 rows of 9"):
        principal_components(rows(7, 9), 7)
    with pytest.raises(UnknownNameError, match="no scaling 'standardized'; did you mean"):
        scaled(rows(3, 3), "standardized")  # type: ignore[arg-type]
