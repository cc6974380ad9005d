"""What a network says of rows: classes, how sure it is, the rows it is least and most sure of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from revgrad.diagnostics.inputs import log_probabilities
from revgrad.shallow.inputs import Array


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of n rows over k classes.

    classes      (n,) the most likely
    confidence   (n,) its softmax
    runner_up    (n,) the second most likely
    margin       (n,) log odds of the most likely class: tells rows apart where confidence is 1
    """

    classes: Array
    confidence: Array
    runner_up: Array
    margin: Array


def predictions(logits: Array) -> Predictions:
    """Of (n, k) logits."""
    logarithms = log_probabilities(logits)
    order = np.argsort(-logarithms, axis=1, kind="stable")
    first = np.take_along_axis(logarithms, order[:, :1], axis=1)[:, 0]
    rest = np.take_along_axis(logarithms, order[:, 1:], axis=1)
    top = rest[:, :1]
    others = (top + np.log(np.exp(rest - top).sum(axis=1, keepdims=True)))[:, 0]
    return Predictions(order[:, 0], np.exp(first), order[:, 1], first - others)


def least_sure(said: Predictions, count: int) -> Array:
    """Rows, the least sure first."""
    found: Array = np.argsort(said.margin, kind="stable")[:count]
    return found


def most_sure(said: Predictions, count: int) -> Array:
    """Rows, the surest first, of every predicted class in turn: one alone may fill them all."""
    order = np.argsort(-said.margin, kind="stable")
    seen: dict[int, int] = {}
    turns = np.empty(len(order), np.int64)
    for place, row in enumerate(order):
        label = int(said.classes[row])
        turns[place] = seen.get(label, 0)
        seen[label] = turns[place] + 1
    found: Array = order[np.argsort(turns, kind="stable")][:count]
    return found
