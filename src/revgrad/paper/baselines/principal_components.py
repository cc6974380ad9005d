"""Principal components, and the scaling that comes before them.

Not scikit-learn's PCA: it computes in the precision of the features (single precision moves a
direction by 6e-5 where it moves nothing here) or needs all of them in double precision at once
(20,000 × 2,048: 311 MB more, 125 MB here, in the same time).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from revgrad.diagnostics.inputs import Array
from revgrad.errors import unknown
from revgrad.paper.baselines.checks import checked_components

#: standardised: every feature to mean 0 and deviation 1 within its own domain (Gong et al. 2012 and
#: Fernando et al. 2013 do so); centred: mean 0 only; given: as it came (already scaled).
Scaling = Literal["standardised", "centred", "given"]

ROWS = 8192  # a block of rows: float64 copies of more are never made


class Principal(NamedTuple):
    """An orthonormal basis (d, k) by falling variance, and the variances of all components."""

    basis: Array
    variances: Array


def scaled(features: Array, scaling: Scaling) -> Array:
    """`features` after `scaling`; a feature that never varies becomes 0, not NaN."""
    if scaling not in get_args(Scaling):
        raise unknown("scaling", scaling, get_args(Scaling))
    if scaling == "given":
        return features
    mean = features.mean(axis=0, dtype=np.float64)
    centred: Array = features - mean.astype(features.dtype)
    if scaling == "centred":
        return centred
    deviation = features.std(axis=0, dtype=np.float64)
    # a constant feature leaves rounding errors behind, which division would blow up to 1
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    return np.where(constant, 0, centred / np.where(constant, 1, deviation).astype(features.dtype))


def principal_components(features: Array, components: int) -> Principal:
    """The first `components` principal directions of (n, d) features, computed in float64.

    The variances are the eigenvalues of the covariance (divisor n − 1), min(n − 1, d) of them.
    A direction's sign is set so that its largest entry is positive.
    """
    rows, width = features.shape
    limit = min(rows - 1, width)
    checked_components(components, limit, f"with {rows} rows of {width} features")
    mean = features.mean(axis=0, dtype=np.float64)
    if rows <= width:
        _, singular, directions = np.linalg.svd(features - mean, full_matrices=False)
        variances = singular**2 / (rows - 1)
        basis = directions.T
    else:
        covariance = np.zeros((width, width))
        for start in range(0, rows, ROWS):
            block = features[start : start + ROWS] - mean
            covariance += block.T @ block
        variances, basis = np.linalg.eigh(covariance / (rows - 1))
        variances, basis = np.maximum(variances[::-1], 0.0), basis[:, ::-1]
    basis = basis[:, :components]
    largest = np.abs(basis).argmax(axis=0)
    signs = np.where(basis[largest, np.arange(components)] < 0, -1.0, 1.0)
    return Principal(basis * signs, variances[:limit])
