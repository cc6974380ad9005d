"""DLID: features learned without labels along a path of data sets from source to target.

Chopra, Balakrishnan, Gopalan, "DLID: deep learning for domain adaptation by interpolating between
domains", ICML workshop on challenges in representation learning, 2013. Data sets S_0 … S_P start
as all source and end as all target, each with a larger share of target rows; an unsupervised
learner is trained on each; a row's representation is its codes under all of them, side by side; a
classifier is trained on the labelled source rows.

Where this differs: Chopra et al. learn convolutional predictive sparse decompositions (a sparse
code and an encoder that predicts it) from pixels. Here the learner works on given features and is
*not* PSD: PCA whitening, then the "triangle" k-means code of Coates, Ng, Lee (AISTATS 2011), a
sparse feed-forward code too. The classifier is a linear SVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_labels
from revgrad.errors import InputError
from revgrad.paper.baselines.checks import checked_components, checked_pair
from revgrad.paper.baselines.linear_svm import fit_linear_svm
from revgrad.paper.baselines.principal_components import Scaling, principal_components, scaled

STEPS = 5
CODES = 100
COMPONENTS = 20


class Waypoint(NamedTuple):
    """One data set of the path, as rows of the two domains."""

    source_rows: Array
    target_rows: Array


class TriangleCode(NamedTuple):
    """max(0, mean_k z_k − z_k), z_k being the distance of a whitened row to centre k."""

    mean: Array  # (d,)
    whitening: Array  # (d, q)
    centres: Array  # (k, q)

    def __call__(self, features: Array) -> Array:
        """Codes (n, k), about half of them 0."""
        rows = (features - self.mean) @ self.whitening
        squares = (rows**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        distances = np.sqrt(np.maximum(squares - 2 * rows @ self.centres.T, 0.0))
        found: Array = np.maximum(distances.mean(axis=1, keepdims=True) - distances, 0.0)
        return found


def interpolating_path(source: int, target: int, steps: int, seed: int) -> Iterator[Waypoint]:
    """`steps` data sets from all of `source` rows (share 0) to all of `target` rows (share 1).

    The p-th of P + 1 holds (1 − p/P) of the source rows and p/P of the target rows, rounded.
    Source rows leave and target rows join in one random order each, so a row that left does not
    come back.
    """
    if steps < 2:
        raise InputError(f"a path needs two data sets at least, source and target; {steps} came")
    generator = np.random.default_rng(seed)
    leaving, joining = generator.permutation(source), generator.permutation(target)
    for number in range(steps):
        share = number / (steps - 1)
        yield Waypoint(leaving[round(share * source) :], joining[: round(share * target)])


def learn_code(
    features: Array, codes: int, seed: int, *, components: int = COMPONENTS
) -> TriangleCode:
    """A `TriangleCode` of (n, d) features with k = `codes` centres, at most n of them.

    Whitening keeps the first `components` principal components (fewer where there are fewer) and
    divides each by its deviation: with more, noise would count as much as structure. The centres
    are those of k-means.
    """
    from sklearn.cluster import KMeans

    rows, width = features.shape
    checked_components(codes, rows, f"with {rows} rows at this step of the path")
    basis, variances = principal_components(features, min(components, rows - 1, width))
    deviation = np.sqrt(variances[: basis.shape[1]])
    # a direction in which nothing varies is left out, not blown up
    varies = deviation > 1e-6 * deviation[0]
    if not varies.any():
        raise InputError("no code can be learned: all rows at a step of the path are equal")
    whitening = basis[:, varies] / deviation[varies]
    mean = features.mean(axis=0, dtype=np.float64)
    whitened = (features - mean) @ whitening
    means = KMeans(codes, n_init=1, max_iter=50, random_state=seed).fit(whitened)
    return TriangleCode(mean, whitening, means.cluster_centers_.astype(np.float64))


def path_features(
    source: ArrayLike,
    target: ArrayLike,
    *,
    steps: int = STEPS,
    codes: int | None = None,
    rows: int = 10_000,
    scaling: Scaling = "standardised",
    seed: int = 0,
) -> tuple[Array, Array]:
    """The codes of all source and target rows along the path: (n, steps · k) and (m, steps · k).

    Each domain is scaled by itself first. k = `codes` per step: 100, or a fourth of the rows of
    the smaller domain where that is less. A step learns from at most `rows` of its rows.
    """
    first, second = (scaled(part, scaling) for part in checked_pair(source, target))
    if codes is None:
        codes = max(1, min(CODES, min(len(first), len(second)) // 4))
    of_source, of_target = [], []
    for waypoint in interpolating_path(len(first), len(second), steps, seed):
        gathered = np.concatenate([first[waypoint.source_rows], second[waypoint.target_rows]])
        if len(gathered) > rows:
            chosen = np.random.default_rng(seed).choice(len(gathered), rows, replace=False)
            gathered = gathered[chosen]
        code = learn_code(gathered, codes, seed)
        of_source.append(code(first))
        of_target.append(code(second))
    return np.concatenate(of_source, axis=1), np.concatenate(of_target, axis=1)


def predict_by_path(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    *,
    steps: int = STEPS,
    codes: int | None = None,
    scaling: Scaling = "standardised",
    seed: int = 0,
) -> Array:
    """Labels (m,) of the target, by a linear SVM on `path_features`."""
    labels = checked_labels(source_labels, len(checked_pair(source, target)[0]))
    first, second = path_features(
        source, target, steps=steps, codes=codes, scaling=scaling, seed=seed
    )
    return fit_linear_svm(first, labels, seed=seed).predict(second)
