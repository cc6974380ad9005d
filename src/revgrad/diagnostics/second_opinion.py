"""What a classifier says of the target rows that shares nothing with the network that is judged.

Two networks of one training agree in their mistakes. A linear classifier of plain descriptors makes
mistakes of its own, so that where a network agrees with it, it is mostly right; and of two networks
the better one agrees with it more often, even where the classifier itself is the worse of all.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.descriptors import describe
from revgrad.diagnostics.inputs import shares_of
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array

#: Target rows that a row's opinion is averaged with, times that, and how much theirs counts.
NEIGHBOURS, SPREADS, BLEND = 10, 5, 0.5
#: Of each class's target rows the surest share that is learned from, round by round.
LEARNED = (0.5, 0.65, 0.8)
#: What a labelled source row counts beside a target row that is learned from.
SOURCE_WEIGHT = 0.5
#: Inverse regularisation of the classifier, its descriptors standardised.
REGULARISATION = 0.01
#: When its fit is good enough: ten times closer takes three times as long and judges alike.
TOLERANCE = 1e-3
#: Added to an image descriptor's deviation, so that one that is nearly constant counts little.
STEADY = 0.05
#: No class has less than this probability before they are made to sum to one.
FLOOR = 1e-3
#: How far above guessing the largest class an opinion must be on the source to be heard, of what
#: there is between guessing and being always right.
HEARD = 0.3
_KEPT = 4
_made: OrderedDict[bytes, SecondOpinion] = OrderedDict()


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """On the target rows.

    probabilities     (n, classes)
    neighbours        (n, k): of each row, the target rows that look most like it
    source_accuracy   of source rows that it was not fitted on, half by half
    guessing          the share of the source's largest class
    """

    probabilities: Array
    neighbours: Array
    source_accuracy: float
    guessing: float

    @property
    def heard(self) -> bool:
        """Whether it knows enough of the task to be asked."""
        if self.guessing >= 1:
            return False
        return (self.source_accuracy - self.guessing) / (1 - self.guessing) >= HEARD


def second_opinion(
    source_inputs: ArrayLike,
    source_labels: ArrayLike,
    target_inputs: ArrayLike,
    classes: int,
) -> SecondOpinion:
    """From the rows themselves (images or vectors, see `describe`) and the source's labels.

    Each domain's descriptors are standardised by themselves. A logistic classifier of the source
    judges the target; neighbours among the target rows share their opinions; the surest rows of
    each class are then learned from too, more of them in each of three rounds.

    The same rows get the same answer; the last few are remembered.
    """
    source, labels, target = (
        np.asarray(values) for values in (source_inputs, source_labels, target_inputs)
    )
    if len(labels) != len(source):
        raise InputError(f"{len(source)} source rows and {len(labels)} labels came")
    if len(np.unique(labels)) < 2:
        raise InputError("a second opinion needs source rows of two classes or more")
    key = _digest(source, labels, target, np.array(classes))
    if key not in _made:
        steady = STEADY if source.ndim == 4 else 1e-12
        own, other = (_standardised(describe(rows), steady) for rows in (source, target))
        _made[key] = _opinion(own, labels, other, classes)
        while len(_made) > _KEPT:
            _made.popitem(last=False)
    return _made[key]


def _opinion(own: Array, labels: Array, other: Array, classes: int) -> SecondOpinion:
    near = nearest(_unit(other))
    said = spread(_judged(own, labels, other, classes), near)
    for share in LEARNED:
        rows, guesses = surest(said, share)
        said = spread(
            _judged(
                np.concatenate([own, other[rows]]),
                np.concatenate([labels, guesses]),
                other,
                classes,
                np.concatenate([np.full(len(own), SOURCE_WEIGHT), np.ones(len(rows))]),
            ),
            near,
        )
    return SecondOpinion(
        said, near, _by_halves(own, labels, classes), float(shares_of(labels, classes).max())
    )


def spread(probabilities: Array, near: Array) -> Array:
    """Opinions blended with those of the neighbours, a few times."""
    found = probabilities
    if near.shape[1]:
        for _ in range(SPREADS):
            found = (1 - BLEND) * probabilities + BLEND * found[near].mean(axis=1)
    return found


def surest(probabilities: Array, share: float) -> tuple[Array, Array]:
    """Rows of each likeliest class that it is surest of, this share and one at least; and the
    class."""
    likeliest, largest = probabilities.argmax(axis=1), probabilities.max(axis=1)
    rows = []
    for name in np.unique(likeliest):
        own = np.flatnonzero(likeliest == name)
        order = own[np.argsort(-largest[own], kind="stable")]
        rows.append(order[: max(int(share * len(own)), 1)])
    chosen = np.sort(np.concatenate(rows))
    return chosen, likeliest[chosen]


def nearest(unit_rows: Array, count: int = NEIGHBOURS) -> Array:
    """(n, count) indices of each row's most similar others, the most similar first."""
    count = min(count, len(unit_rows) - 1)
    parts = []
    for start in range(0, len(unit_rows), 1000):
        similar = unit_rows[start : start + 1000] @ unit_rows.T
        rows = np.arange(len(similar))
        similar[rows, start + rows] = -np.inf  # not itself
        parts.append(np.argsort(-similar, axis=1, kind="stable")[:, :count])
    return np.concatenate(parts)


def _judged(
    rows: Array, labels: Array, asked: Array, classes: int, weights: Array | None = None
) -> Array:
    """Probabilities of the asked rows by a logistic classifier of the others."""
    found: Array = np.full((len(asked), classes), FLOOR)
    known = np.unique(labels)
    if len(known) == 1:
        found[:, known[0]] += 1
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=REGULARISATION, max_iter=500, class_weight="balanced", tol=TOLERANCE
        )
        model.fit(rows.astype(np.float32), labels, weights)
        found[:, model.classes_] += model.predict_proba(asked.astype(np.float32))
    found /= found.sum(axis=1, keepdims=True)
    return found


def _by_halves(rows: Array, labels: Array, classes: int) -> float:
    """Accuracy on each half of a classifier of the other."""
    half = np.random.default_rng(0).permutation(len(rows)) % 2 == 0
    right = [
        _judged(rows[fitted], labels[fitted], rows[~fitted], classes).argmax(1) == labels[~fitted]
        for fitted in (half, ~half)
    ]
    return float(np.concatenate(right).mean())


def _standardised(rows: Array, steady: float) -> Array:
    found: Array = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + steady)
    return found


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()
