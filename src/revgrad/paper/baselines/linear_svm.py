"""The last layer retrained as a linear SVM (§4 of the paper), through liblinear.

Fan et al., "LIBLINEAR: a library for large linear classification", JMLR 2008. The paper gives
neither the cost nor how many rows it trained on; both are parameters here, with these defaults:
one machine per class against the rest, squared hinge, C = .01 on standardised features, and at
most 20,000 rows, drawn in proportion to the classes.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_features, checked_labels
from revgrad.errors import InputError

ROWS = 20_000
COST = 0.01

log = logging.getLogger("revgrad")


@dataclass(frozen=True, eq=False)
class LinearSVM:
    """One linear function per class; the largest wins.

    weight: (classes, d) and bias: (classes,), on raw features: the standardisation of the
    training rows is folded in. classes: the label of each function, ascending.
    """

    weight: Array
    bias: Array
    classes: Array

    def decide(self, features: ArrayLike) -> Array:
        """The value of every class's function: (n, classes)."""
        rows = checked_features(features, "features")
        if rows.shape[1] != self.weight.shape[1]:
            raise InputError(
                f"the SVM was fitted on {self.weight.shape[1]} features; {rows.shape[1]} came"
            )
        values: Array = rows @ self.weight.T + self.bias
        return values

    def predict(self, features: ArrayLike) -> Array:
        """The label of the largest function: (n,)."""
        found: Array = self.classes[self.decide(features).argmax(axis=1)]
        return found


def fit_linear_svm(
    features: ArrayLike,
    labels: ArrayLike | None,
    *,
    rows: int = ROWS,
    seed: int = 0,
    cost: float = COST,
    each_feature: bool = True,
) -> LinearSVM:
    """Fit on at most `rows` of (n, d) features and (n,) labels, `stratified_rows` of them.

    Per class: ½|w|² + cost · Σ max(0, 1 − y(w·x + b))² over standardised rows x, y = ±1; the
    intercept is regularised like a weight, as liblinear does it. A larger cost fits the rows
    more closely; standardised features of some hundred dimensions are separated with .01.
    each_feature=False divides all features by one number, their joint deviation: for coordinates
    whose relative size means something, such as principal components, and for sparse features of
    few rows (a rectified unit that is rarely on in them would be blown up wherever it is on).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    found = checked_features(features, "features")
    answers = checked_labels(labels, len(found), "labels")
    if not (np.isfinite(cost) and cost > 0):
        raise InputError(f"the cost of an SVM must be above 0, not {cost}")
    chosen = stratified_rows(answers, rows, seed)
    found, answers = found[chosen], answers[chosen]
    mean = found.mean(axis=0, dtype=np.float64)
    deviation = found.std(axis=0, dtype=np.float64)
    if not each_feature:
        deviation = np.full_like(deviation, np.sqrt(np.mean(deviation**2)))
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation))
    # rows below columns: liblinear's dual; above: its primal, which always converges quickly
    machine = LinearSVC(
        C=cost, dual=found.shape[0] < found.shape[1], random_state=seed, max_iter=10_000
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        machine.fit((found - mean) * scale, answers)
    if said:
        log.warning(
            "the SVM of %d rows did not converge in 10,000 passes at cost %g; a smaller one would",
            len(found),
            cost,
        )
    weight, bias = machine.coef_, machine.intercept_
    if len(machine.classes_) == 2:  # liblinear keeps one function for two classes
        weight, bias = np.vstack([-weight, weight]), np.concatenate([-bias, bias])
    weight = weight * scale
    return LinearSVM(weight, bias - weight @ mean, machine.classes_.astype(np.int64))


def stratified_rows(labels: Array, rows: int, seed: int) -> Array:
    """Indices of at most `rows` rows, ascending, each class by its share (largest remainder).

    Every class keeps one row at least, so `rows` must not be below their number.
    """
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if rows >= len(labels):
        return np.arange(len(labels))
    if rows < len(classes):
        raise InputError(f"{rows} rows can't hold {len(classes)} classes: more rows would do")
    shares = counts * (rows / len(labels))
    taken = np.maximum(np.floor(shares).astype(np.int64), 1)
    while taken.sum() != rows:
        short = taken.sum() < rows
        # give to, or take from, the class that is furthest from its share and can bear it
        able = (taken < counts) if short else (taken > 1)
        distance = np.where(able, shares - taken if short else taken - shares, -np.inf)
        taken[distance.argmax()] += 1 if short else -1
    generator = np.random.default_rng(seed)
    drawn = [
        generator.choice(np.flatnonzero(inverse == number), size=taken[number], replace=False)
        for number in range(len(classes))
    ]
    return np.sort(np.concatenate(drawn))
