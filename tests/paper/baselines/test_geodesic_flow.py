"""The kernel's closed form against integration along the geodesic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm, subspace_angles

from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.baselines.geodesic_flow import (
    choose_dimension,
    geodesic,
    geodesic_flow_kernel,
    predict_by_geodesic_flow,
    subspace_disagreement,
)
from revgrad.paper.baselines.partial_least_squares import partial_least_squares
from revgrad.paper.baselines.principal_components import principal_components


def orthonormal(width: int, components: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, components)))[0]


def turned(basis: np.ndarray, target: np.ndarray, time: float) -> np.ndarray:
    """The geodesic another way: the exponential map of the Grassmann manifold, as a rotation.

    The tangent at `basis` that leads to the span of `target` is U θ Vᵀ, where U tan θ Vᵀ is the
    SVD of (I − B Bᵀ) T (Bᵀ T)⁻¹; the point at t is exp(t(Δ Bᵀ − B Δᵀ)) B.
    """
    outside = target - basis @ (basis.T @ target)
    left, tangents, right = np.linalg.svd(
        outside @ np.linalg.inv(basis.T @ target), full_matrices=False
    )
    tangent = left * np.arctan(tangents) @ right
    return expm(time * (tangent @ basis.T - basis @ tangent.T)) @ basis


def integrated(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    times, weights = np.polynomial.legendre.leggauss(24)
    total = np.zeros((len(source), len(source)))
    for time, weight in zip((times + 1) / 2, weights / 2, strict=True):
        point = turned(source, target, time)
        total += weight * point @ point.T
    return total


def pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    source = orthonormal(9, 3, 0)
    shared = np.linalg.qr(np.hstack([source[:, :2], orthonormal(9, 1, 1)]))[0]
    nearly = np.linalg.qr(source + 1e-9 * orthonormal(9, 3, 2))[0]
    rotated = source @ orthonormal(3, 3, 3)
    return [
        (source, orthonormal(9, 3, 1)),
        (source, shared),  # two angles of exactly 0
        (source, source),
        (np.eye(6)[:, :2], np.eye(6)[:, :2]),  # the sines are 0 to the last bit
        (source, rotated),  # the same subspace in another basis
        (source, nearly),
        (orthonormal(4, 2, 5), orthonormal(4, 2, 6)),  # d = 2k
        (orthonormal(6, 1, 5), orthonormal(6, 1, 6)),
    ]


@pytest.mark.parametrize("pair", pairs(), ids=range(len(pairs())))
def test_closed_form_is_the_integral(pair: tuple[np.ndarray, np.ndarray]) -> None:
    kernel = geodesic_flow_kernel(*pair)
    np.testing.assert_allclose(kernel, integrated(*pair), atol=1e-12)
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-15)
    np.testing.assert_allclose(np.trace(kernel), pair[0].shape[1], rtol=1e-12)
    np.testing.assert_allclose(kernel, geodesic_flow_kernel(*pair[::-1]), atol=1e-12)


@pytest.mark.parametrize("pair", pairs(), ids=range(len(pairs())))
def test_the_path_runs_from_one_subspace_to_the_other(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    path = geodesic(*pair)
    for time, end in ((0.0, pair[0]), (1.0, pair[1])):
        point = path.at(time)
        np.testing.assert_allclose(point @ point.T, end @ end.T, atol=1e-12)
    middle, slow = path.at(0.3), turned(*pair, 0.3)
    np.testing.assert_allclose(middle @ middle.T, slow @ slow.T, atol=1e-12)
    np.testing.assert_allclose(
        np.sort(path.angles), np.sort(subspace_angles(*pair)), rtol=1e-6, atol=1e-9
    )


def test_the_same_subspace_gives_its_projection() -> None:
    basis = orthonormal(7, 3, 0)
    path = geodesic(basis, basis)
    np.testing.assert_allclose(geodesic_flow_kernel(basis, basis), basis @ basis.T, atol=1e-14)
    assert np.isfinite(path.direction).all()


def test_orthogonal_subspaces() -> None:
    """θ = π/2: ∫ cos² = ∫ sin² = ½, ∫ sin cos = 1/π; either way round the circle is shortest."""
    kernel = geodesic_flow_kernel([[1.0], [0.0]], [[0.0], [1.0]])
    np.testing.assert_allclose(np.abs(kernel), [[0.5, 1 / np.pi], [1 / np.pi, 0.5]], atol=1e-14)


def domains() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 4
    middles = generator.normal(size=(4, 10)) * 1.5
    source = middles[labels] + generator.normal(size=(40, 10))
    target = middles[generator.integers(0, 4, 30)] + generator.normal(size=(30, 10))
    return source, labels, target @ orthonormal(10, 10, 9)


@pytest.mark.parametrize("source_basis", ["pls", "pca"])
@pytest.mark.parametrize("components", [1, 3, 5])
def test_prediction_is_the_nearest_row_under_the_kernel(source_basis: str, components: int) -> None:
    source, labels, target = domains()
    found = predict_by_geodesic_flow(source, labels, target, components, source_basis=source_basis)  # type: ignore[arg-type]
    first = (source - source.mean(0)) / source.std(0)
    second = (target - target.mean(0)) / target.std(0)
    if source_basis == "pls":
        start = partial_least_squares(first, labels, components)
    else:
        start = principal_components(first, components).basis
    kernel = integrated(start, principal_components(second, components).basis)
    for row, label in zip(second, found, strict=True):
        distances = [(row - other) @ kernel @ (row - other) for other in first]
        assert label == labels[int(np.argmin(distances))]


def test_disagreement_by_angles() -> None:
    source, _, target = domains()
    found = subspace_disagreement(source, target, most=5)
    parts = [(part - part.mean(0)) / part.std(0) for part in (source, target)]
    spaces = [*parts, np.vstack(parts)]
    for number in range(1, 6):
        bases = [
            np.linalg.svd(part - part.mean(0))[2][:number].T  # rows of Vᵀ by falling value
            for part in spaces
        ]
        sines = [np.sin(subspace_angles(basis, bases[2]).max()) for basis in bases[:2]]
        np.testing.assert_allclose(found[number - 1], sum(sines) / 2, atol=1e-7)
    reached = [n for n in range(1, 6) if found[n - 1] >= 1 - 0.3]
    assert choose_dimension(source, target, tolerance=0.3) == reached[0]
    assert choose_dimension(source, target, tolerance=0.0) == 5
    assert choose_dimension(source, target, tolerance=0.0, most=2) == 2


def test_the_usual_tolerance_is_a_hundredth_and_the_usual_limit_a_hundred() -> None:
    generator = np.random.default_rng(12)
    source, target = generator.normal(size=(2, 200, 24))
    disagreement = subspace_disagreement(source, target, most=12)
    looser, usual, tighter = (
        np.flatnonzero(disagreement >= limit)[0] + 1 for limit in (0.98, 0.99, 0.995)
    )
    assert looser < usual < tighter
    assert choose_dimension(source, target) == usual
    same = generator.normal(size=(210, 220))
    assert choose_dimension(same, same) == 100  # the domains agree in every dimension


def test_the_default_dimension_is_the_chosen_one() -> None:
    source, labels, target = domains()
    chosen = choose_dimension(source, target)
    np.testing.assert_array_equal(
        predict_by_geodesic_flow(source, labels, target),
        predict_by_geodesic_flow(source, labels, target, chosen),
    )


def test_what_is_refused() -> None:
    source, labels, target = domains()
    with pytest.raises(InputError, match="5 features and 3 components came: at most 2"):
        geodesic_flow_kernel(orthonormal(5, 3, 0), orthonormal(5, 3, 1))
    with pytest.raises(InputError, match="10 features and 6 components came: at most 5"):
        predict_by_geodesic_flow(source, labels, target, 6)
    with pytest.raises(InputError, match=r"one shape; \(6, 2\) and \(6, 3\) came"):
        geodesic_flow_kernel(orthonormal(6, 2, 0), orthonormal(6, 3, 1))
    with pytest.raises(InputError, match="the target basis must have orthonormal columns"):
        geodesic_flow_kernel(orthonormal(6, 2, 0), np.ones((6, 2)))
    with pytest.raises(InputError, match="no subspace can be had with 1 features"):
        choose_dimension(source[:, :1], target[:, :1])
    with pytest.raises(InputError, match="9 components can't be had: 1 to 5 can, with 10 features"):
        choose_dimension(source, target, most=9)
    with pytest.raises(UnknownNameError, match="no source basis 'lda'"):
        predict_by_geodesic_flow(source, labels, target, 2, source_basis="lda")  # type: ignore[arg-type]
