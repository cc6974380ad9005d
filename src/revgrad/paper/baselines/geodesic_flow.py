"""The geodesic flow kernel (GFK).

Gong, Shi, Sha, Grauman, "Geodesic flow kernel for unsupervised domain adaptation", CVPR 2012. The
source's and the target's subspace are two points of the Grassmann manifold; Φ(t), t ∈ [0, 1], runs
from one to the other along the geodesic, and G = ∫ Φ(t) Φ(t)ᵀ dt compares two rows through all the
subspaces between the domains: x ᵀG y. Prediction is by the nearest source row under G.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_features, checked_labels
from revgrad.errors import InputError, unknown
from revgrad.paper.baselines.checks import checked_components, checked_pair
from revgrad.paper.baselines.nearest_rows import nearest_labels
from revgrad.paper.baselines.partial_least_squares import partial_least_squares
from revgrad.paper.baselines.principal_components import Scaling, principal_components, scaled

#: The source's subspace: by its labels (GFK(PLS, PCA), the row of Table 2) or without (PCA, PCA).
SourceBasis = Literal["pls", "pca"]


class Geodesic(NamedTuple):
    """Φ(t) = start · cos(θt) + direction · sin(θt), columns by their principal angles θ.

    start, direction: (d, k), orthonormal and orthogonal to each other; Φ(0) spans the source's
    subspace, Φ(1) the target's. Where an angle is 0 the direction is 0: it has no part.
    """

    start: Array
    direction: Array
    angles: Array

    def at(self, time: float) -> Array:
        """The basis Φ(t): (d, k)."""
        turned = self.angles * time
        found: Array = self.start * np.cos(turned) + self.direction * np.sin(turned)
        return found


def geodesic(source_basis: ArrayLike, target_basis: ArrayLike) -> Geodesic:
    """The geodesic between the spans of two orthonormal bases (d, k), 2k ≤ d.

    The generalised SVD of Gong et al. (§3.2): P_sᵀP_t = U₁ cos θ Vᵀ and R_sᵀP_t = −U₂ sin θ Vᵀ with
    R_s the complement of P_s. −R_s U₂ sin θ is what P_t V has outside the span of P_s, so the
    complement (d, d − k) is never formed. Angles below 1e-8 have one cosine in float64 and may come
    mixed with each other; the path is right all the same.
    """
    first = _orthonormal(source_basis, "the source basis")
    second = _orthonormal(target_basis, "the target basis")
    if first.shape != second.shape:
        raise InputError(f"both bases must have one shape; {first.shape} and {second.shape} came")
    width, components = first.shape
    if 2 * components > width:
        raise InputError(
            f"a geodesic needs at least twice as many features as components; {width} features "
            f"and {components} components came: at most {width // 2} components would do"
        )
    left, cosines, right = np.linalg.svd(first.T @ second)
    start = first @ left
    end = second @ right.T
    outside = end - start * cosines
    outside -= first @ (first.T @ outside)
    sines = np.linalg.norm(outside, axis=0)
    moving = sines > 1e-14
    direction = np.where(moving, outside / np.where(moving, sines, 1.0), 0.0)
    return Geodesic(start, direction, np.where(moving, np.arctan2(sines, cosines), 0.0))


def geodesic_flow_kernel(source_basis: ArrayLike, target_basis: ArrayLike) -> Array:
    """G = ∫₀¹ Φ(t) Φ(t)ᵀ dt, (d, d), in closed form (eq. 7 of Gong et al., there without the ½).

    Symmetric and positive semi-definite, of rank 2k at most. With equal subspaces it is their
    projection.
    """
    path = geodesic(source_basis, target_basis)
    both_start, mixed, both_direction = _integrals(path.angles)
    crossed = (path.start * mixed) @ path.direction.T
    along: Array = (path.start * both_start) @ path.start.T + crossed + crossed.T
    across: Array = (path.direction * both_direction) @ path.direction.T
    kernel: Array = along + across
    return kernel


def subspace_disagreement(
    source: ArrayLike, target: ArrayLike, *, most: int, scaling: Scaling = "standardised"
) -> Array:
    """D(k) = (sin α_k + sin β_k) / 2 for k = 1 … `most` (eq. 8 of Gong et al.): (most,).

    α_k, β_k are the largest principal angles of the k-dimensional PCA subspaces of the source
    and of the target with that of both domains' rows together. 1: a direction of one is
    orthogonal to the other.
    """
    parts = [scaled(part, scaling) for part in checked_pair(source, target)]
    joint = principal_components(np.concatenate(parts), most).basis
    shared = [principal_components(part, most).basis.T @ joint for part in parts]
    sines = np.zeros((2, most))
    for number in range(1, most + 1):
        for row, products in enumerate(shared):
            cosine = np.linalg.svd(products[:number, :number], compute_uv=False)[-1]
            sines[row, number - 1] = np.sqrt(max(0.0, 1.0 - cosine**2))
    found: Array = sines.mean(axis=0)
    return found


def choose_dimension(
    source: ArrayLike,
    target: ArrayLike,
    *,
    most: int | None = None,
    tolerance: float = 1e-2,
    scaling: Scaling = "standardised",
) -> int:
    """The dimension of the subspaces by the disagreement measure of Gong et al., without labels.

    The smallest k with D(k) = 1 (here: ≥ 1 − `tolerance`, as rounding and finite samples never
    give 1 itself); `most` where there is none. `most` is at most half the features and one less
    than the rows of the smaller domain; that is the default, though never above 100.
    """
    parts = checked_pair(source, target)
    rows = min(map(len, parts))
    width = parts[0].shape[1]
    limit = min(rows - 1, width // 2)
    reason = f"with {width} features and {rows} rows in the smaller domain"
    if not limit:
        raise InputError(f"no subspace can be had {reason}")
    most = checked_components(min(limit, 100) if most is None else most, limit, reason)
    disagreement = subspace_disagreement(*parts, most=most, scaling=scaling)
    reached = np.flatnonzero(disagreement >= 1 - tolerance)
    return int(reached[0]) + 1 if len(reached) else most


def predict_by_geodesic_flow(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    components: int | None = None,
    *,
    source_basis: SourceBasis = "pls",
    scaling: Scaling = "standardised",
) -> Array:
    """Labels (m,) of the target: that of the source row nearest under G.

    Each domain is scaled by itself first (z-scored as in the original). `components` is
    `choose_dimension`'s if not given.
    """
    parts = checked_pair(source, target)
    labels = checked_labels(source_labels, len(parts[0]))
    if components is None:
        components = choose_dimension(*parts, scaling=scaling)
    rows, others = (scaled(part, scaling) for part in parts)
    if source_basis == "pls":
        first = partial_least_squares(rows, labels, components)
    elif source_basis == "pca":
        first = principal_components(rows, components).basis
    else:
        raise unknown("source basis", source_basis, ("pls", "pca"))
    second = principal_components(others, components).basis
    # G = L Lᵀ: under G the distance of rows is Euclidean between rows @ L, which is (n, 2k)
    factor = _factor(geodesic(first, second))
    return nearest_labels(rows @ factor, labels, others @ factor)


def _integrals(angles: Array) -> tuple[Array, Array, Array]:
    """∫ cos² θt, ∫ sin θt cos θt and ∫ sin² θt over t from 0 to 1, each right at θ = 0 too."""
    turn = np.sinc(2 * angles / np.pi)  # sin 2θ / 2θ
    mixed = np.sin(angles) * np.sinc(angles / np.pi) / 2
    return (1 + turn) / 2, mixed, (1 - turn) / 2


def _factor(path: Geodesic) -> Array:
    """L (d, 2k) with L Lᵀ = G: per angle the square root of a 2×2 block."""
    both_start, mixed, both_direction = _integrals(path.angles)
    blocks = np.stack([both_start, mixed, mixed, both_direction], axis=-1).reshape(-1, 2, 2)
    values, vectors = np.linalg.eigh(blocks)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    pair = np.stack([path.start, path.direction], axis=-1)  # (d, k, 2)
    found: Array = np.einsum("dka,kab->dkb", pair, roots).reshape(len(pair), -1)
    return found


def _orthonormal(basis: ArrayLike, name: str) -> Array:
    found = checked_features(basis, name).astype(np.float64)
    if np.abs(found.T @ found - np.eye(found.shape[1])).max() > 1e-6:
        raise InputError(f"{name} must have orthonormal columns; np.linalg.qr would make them so")
    return found
