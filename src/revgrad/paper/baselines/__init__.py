"""The classical adaptation methods that the paper compares with: NumPy in, NumPy out.

`SHALLOW` holds them under one signature, with settings chosen without target labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array
from revgrad.paper.baselines.geodesic_flow import geodesic_flow_kernel, predict_by_geodesic_flow
from revgrad.paper.baselines.interpolating_path import path_features, predict_by_path
from revgrad.paper.baselines.linear_svm import LinearSVM, fit_linear_svm
from revgrad.paper.baselines.nearest_neighbours import adapt_neighbours, predict_by_neighbours
from revgrad.paper.baselines.subspace_alignment import (
    best_components,
    choose_components,
    predict_by_alignment,
    subspace_alignment,
)

__all__ = [
    "SHALLOW",
    "LinearSVM",
    "ShallowMethod",
    "adapt_neighbours",
    "best_components",
    "choose_components",
    "fit_linear_svm",
    "geodesic_flow_kernel",
    "path_features",
    "predict_by_alignment",
    "predict_by_geodesic_flow",
    "predict_by_neighbours",
    "predict_by_path",
    "subspace_alignment",
]


@dataclass(frozen=True)
class ShallowMethod:
    """A row of a table: (source features, source labels, target features, seed) → target labels.

    Features are (rows, d), or where `local_features` is true (images, positions, d): the
    positions of a convolutional feature map. The same seed gives the same labels (m,), int64.
    """

    title: str  # as the paper's tables call it
    citation: str
    local_features: bool
    function: Callable[[ArrayLike, ArrayLike | None, ArrayLike, int], Array]

    def __call__(
        self,
        source_features: ArrayLike,
        source_labels: ArrayLike | None,
        target_features: ArrayLike,
        seed: int = 0,
    ) -> Array:
        return self.function(source_features, source_labels, target_features, seed)


def _aligned(source: ArrayLike, labels: ArrayLike | None, target: ArrayLike, seed: int) -> Array:
    components = choose_components(source, labels, target, seed=seed)
    return predict_by_alignment(source, labels, target, components, seed=seed)


def _flow(source: ArrayLike, labels: ArrayLike | None, target: ArrayLike, seed: int) -> Array:
    return predict_by_geodesic_flow(source, labels, target)


def _neighbours(source: ArrayLike, labels: ArrayLike | None, target: ArrayLike, seed: int) -> Array:
    return adapt_neighbours(source, labels, target).predicted


def _path(source: ArrayLike, labels: ArrayLike | None, target: ArrayLike, seed: int) -> Array:
    return predict_by_path(source, labels, target, seed=seed)


#: The methods by name; one line adds one.
SHALLOW: dict[str, ShallowMethod] = {
    "subspace-alignment": ShallowMethod("SA", "Fernando et al. 2013", False, _aligned),
    "geodesic-flow": ShallowMethod("GFK(PLS,PCA)", "Gong et al. 2012", False, _flow),
    "nbnn": ShallowMethod("DA-NBNN", "Tommasi & Caputo 2013", True, _neighbours),
    "interpolating-path": ShallowMethod("DLID", "Chopra et al. 2013", False, _path),
}
