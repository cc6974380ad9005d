"""DA-NBNN: naive-Bayes nearest neighbours on local features, adapted to the target step by step.

Boiman, Shechtman, Irani, "In defense of nearest-neighbor based image classification", CVPR 2008
(NBNN); Wang, Hu, Chia, "Image-to-class distance metric learning", ECCV 2010 (the metric); Tommasi,
Caputo, "Frustratingly easy NBNN domain adaptation", ICCV 2013 (the adaptation).

An image is a bag of local features, here the positions of a convolutional feature map. Its distance
to a class is the sum over its positions m of |f_m − NN_c(f_m)|², NN_c(f) being the nearest local
feature of any training image of class c; the nearest class wins. Adaptation alternates (1) learning
a metric per class with a large margin, (2) taking the most confident target images into their
predicted classes and dropping the source images that lie furthest from their own class, a few more
each round.

Where this is simpler than Tommasi & Caputo:
- a class's metric is diagonal, a weight ≥ 0 per feature, not a full matrix;
- the margin's hinge is squared and the metric is held near the Euclidean one, which makes the
  problem smooth and strictly convex (L-BFGS-B solves it);
- neighbours are exact and found by brute force under the present metric, not by kd-trees;
- how many images come and go each round is `step` per class, for `rounds` rounds;
- features carry no position in the image.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_labels
from revgrad.errors import InputError
from revgrad.paper.baselines.checks import checked_pair
from revgrad.paper.baselines.nearest_rows import BLOCK, nearest_rows


class AdaptedNeighbours(NamedTuple):
    """What adaptation ended with."""

    predicted: Array  # (m,) labels of the target
    distances: Array  # (m, classes) image-to-class, under the learned metric
    metric: Array  # (classes, d) weights of the features
    kept: Array  # (n,) bool: source images still in use
    adopted: Array  # (m,) bool: target images taken in


def image_to_class(
    images: Array,
    references: Array,
    reference_classes: Array,
    classes: int,
    *,
    metric: Array | None = None,
    own: Array | None = None,
    block: int = BLOCK,
) -> Array:
    """a[i, c, j] = Σ_m (f_imj − NN_c(f_im)_j)², (n, classes, d).

    images: (n, positions, d); references: (r, positions, d) of classes 0 … classes − 1. The
    distance to class c under a diagonal metric w is a @ w_c; neighbours are the nearest under
    `metric` (classes, d), Euclidean without one. own: (n,) the index of each image among the
    references (−1: not among them), which is then left out.
    """
    count, positions, width = images.shape
    found = np.zeros((count, classes, width))
    features = images.reshape(-1, width)
    query_groups = None if own is None else np.repeat(own, positions)
    for label in range(classes):
        members = np.flatnonzero(reference_classes == label)
        rows = references[members].reshape(-1, width)
        groups = None if own is None else np.repeat(members, references.shape[1])
        root = 1.0 if metric is None else np.sqrt(metric[label]).astype(features.dtype)
        nearest = nearest_rows(
            features * root,
            rows * root,
            query_groups=query_groups,
            reference_groups=groups,
            block=block,
        )
        if (nearest < 0).any():
            raise InputError(
                f"class number {label} has no other image to compare with: two at least are needed"
            )
        step = max(1, block // (positions * width))
        for top in range(0, count, step):
            some = slice(top, top + step)
            flat = slice(top * positions, (top + step) * positions)
            gaps = (features[flat] - rows[nearest[flat]]) ** 2
            shape = (-1, positions, width)
            found[some, label] = gaps.reshape(shape).sum(axis=1, dtype=np.float64)
    return found


def predict_by_neighbours(
    source: ArrayLike, source_labels: ArrayLike | None, target: ArrayLike
) -> Array:
    """Plain NBNN without adaptation: labels (m,) of the target.

    source: (n, positions, d); target: (m, positions', d), local features both.
    """
    images, others = checked_pair(source, target, axes=3)
    labels = checked_labels(source_labels, len(images))
    classes, numbers = np.unique(labels, return_inverse=True)
    distances = image_to_class(others, images, numbers, len(classes)).sum(axis=2)
    found: Array = classes[distances.argmin(axis=1)]
    return found


def learn_metric(gaps: Array, numbers: Array, *, margin: float, stiffness: float) -> Array:
    """Weights ≥ 0 per class and feature, (classes, d), with a large margin between classes.

    gaps: a[i, c, j] of training images (n, classes, d), scaled so that the mean distance to the
    own class is 1; numbers: (n,) their classes. With D_ic = w_c · a_ic it minimises

        mean_i mean_{c ≠ y_i} max(0, margin + D_iy − D_ic)² + stiffness · mean (w − 1)²

    over w ≥ 0: an own class further than another one by more than −margin is a fault (the push
    of Wang et al.; their pull is what the stiffness stands in for).
    """
    from scipy.optimize import minimize

    count, classes, width = gaps.shape
    rows = np.arange(count)
    other = np.ones((count, classes))
    other[rows, numbers] = 0.0
    share = other / (count * (classes - 1))

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(classes, width)
        distances = np.einsum("ncd,cd->nc", gaps, weights)
        fault = np.maximum(0.0, margin + distances[rows, numbers][:, None] - distances)
        value = (share * fault**2).sum() + stiffness * np.mean((weights - 1) ** 2)
        pull = -2 * share * fault
        pull[rows, numbers] = -pull.sum(axis=1)
        slope = np.einsum("nc,ncd->cd", pull, gaps) + 2 * stiffness * (weights - 1) / weights.size
        return float(value), slope.ravel()

    start = np.ones(classes * width)
    bounds = [(0.0, None)] * len(start)
    options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-8}
    solved = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    found: Array = solved.x.reshape(classes, width)
    return found


def adapt_neighbours(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    *,
    rounds: int = 5,
    step: int = 2,
    margin: float = 0.1,
    stiffness: float = 1.0,
) -> AdaptedNeighbours:
    """DA-NBNN. source: (n, positions, d) with labels (n,); target: (m, positions, d).

    In round r = 1 … `rounds` every class takes the r · `step` target images predicted as it with
    the greatest margin to the second class, and drops as many source images as it took, those
    furthest from it (the image itself left out), keeping one at least. All images are judged anew
    each round, so one taken or dropped may go back. After the last round the metric is learned
    once more and the target predicted. rounds = 0: the metric alone, learned on the source.
    """
    images, others = checked_pair(source, target, axes=3)
    if images.shape[1] != others.shape[1]:
        raise InputError(
            f"source and target must have the same positions; {images.shape[1]} and "
            f"{others.shape[1]} came"
        )
    labels = checked_labels(source_labels, len(images))
    if rounds < 0 or step < 1:
        raise InputError(f"rounds ≥ 0 and step ≥ 1 are needed; {rounds} and {step} came")
    classes, numbers = np.unique(labels, return_inverse=True)
    alone = np.bincount(numbers) < 2
    if alone.any():
        raise InputError(
            f"every class needs two source images at least; class {classes[alone][0]} has one"
        )
    kept, adopted = np.ones(len(images), dtype=bool), np.zeros(len(others), dtype=bool)
    guesses = np.zeros(len(others), dtype=np.int64)
    metric = np.ones((len(classes), images.shape[2]))
    for turn in range(1, rounds + 2):
        references = np.concatenate([images[kept], others[adopted]])
        known = np.concatenate([numbers[kept], guesses[adopted]])
        # images dropped before are measured too: they may come back
        measured = np.concatenate([references, images[~kept]])
        own = np.arange(len(measured))
        own[len(references) :] = -1
        gaps = image_to_class(measured, references, known, len(classes), metric=metric, own=own)
        trained = gaps[: len(references)]
        scale = trained[np.arange(len(known)), known].sum(axis=1).mean() or 1.0
        metric = learn_metric(trained / scale, known, margin=margin, stiffness=stiffness)
        target_gaps = image_to_class(others, references, known, len(classes), metric=metric)
        distances = np.einsum("ncd,cd->nc", target_gaps, metric)
        guesses = distances.argmin(axis=1)
        if turn > rounds:
            break
        home = np.zeros(len(images))
        home[kept] = _to_own_class(gaps[: kept.sum()], numbers[kept], metric)
        home[~kept] = _to_own_class(gaps[len(references) :], numbers[~kept], metric)
        nearest_two = np.partition(distances, 1, axis=1)
        confidence = nearest_two[:, 1] - nearest_two[:, 0]
        adopted = _first_of_each(guesses, -confidence, [turn * step] * len(classes))
        taken = np.bincount(guesses[adopted], minlength=len(classes))
        # a class drops no more than it took in, so that it keeps its number of images
        dropped = np.minimum(taken, np.bincount(numbers) - 1)
        kept = ~_first_of_each(numbers, -home, dropped)
    return AdaptedNeighbours(classes[guesses], distances, metric, kept, adopted)


def _to_own_class(gaps: Array, numbers: Array, metric: Array) -> Array:
    found: Array = np.einsum("nd,nd->n", gaps[np.arange(len(numbers)), numbers], metric[numbers])
    return found


def _first_of_each(numbers: Array, order: Array, counts: ArrayLike) -> Array:
    """A mask of the counts[c] rows of each class c that come first by `order`."""
    found = np.zeros(len(numbers), dtype=bool)
    for number, count in enumerate(np.asarray(counts)):
        members = np.flatnonzero(numbers == number)
        found[members[np.argsort(order[members], kind="stable")[:count]]] = True
    return found
