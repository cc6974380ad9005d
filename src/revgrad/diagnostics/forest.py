"""A forest of small decision trees, read from json: the fitted part of `trust.py`.

    forest_from(json.loads(text)).said({"differing": 0.1, ...})

`studies/trust/trust_fit.py` grows the trees; here they are only asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from revgrad.diagnostics.inputs import Array


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes 0 to k−1, the root first.

    Attributes
    ----------
    sign
        (k,): which sign a node asks about; −1 in a leaf
    threshold
        (k,): up to it left, above it right
    left, right
        (k,): the nodes below
    values
        (k, outputs): what a leaf says
    """

    sign: Array
    threshold: Array
    left: Array
    right: Array
    values: Array

    def said(self, signs: Array) -> Array:
        """(outputs,) of the leaf that (d,) signs come to."""
        node = 0
        while self.sign[node] >= 0:
            below = signs[self.sign[node]] <= self.threshold[node]
            node = int((self.left if below else self.right)[node])
        found: Array = self.values[node]
        return found


@dataclass(frozen=True, eq=False)
class Forest:
    """`signs`: their names, in the order that the trees number them."""

    signs: tuple[str, ...]
    trees: tuple[Tree, ...]

    def said(self, signs: Mapping[str, float]) -> Array:
        """(outputs,): the mean of all trees."""
        row = np.array([signs[name] for name in self.signs])
        found: Array = np.mean([tree.said(row) for tree in self.trees], axis=0)
        return found


def forest_from(values: Mapping[str, Any]) -> Forest:
    """Of json: `signs`, and of each tree `sign`, `threshold`, `left`, `right`, `values`."""
    whole = ("sign", "left", "right")
    trees = [
        Tree(**{key: np.asarray(one[key], int if key in whole else float) for key in one})
        for one in values["trees"]
    ]
    return Forest(tuple(values["signs"]), tuple(trees))


def json_of(forest: Forest, digits: int = 4) -> dict[str, Any]:
    """What `forest_from` reads."""

    def rounded(values: Array) -> Any:
        return np.round(values, digits).tolist()

    return {
        "signs": list(forest.signs),
        "trees": [
            {
                "sign": tree.sign.tolist(),
                "threshold": rounded(tree.threshold),
                "left": tree.left.tolist(),
                "right": tree.right.tolist(),
                "values": rounded(tree.values),
            }
            for tree in forest.trees
        ],
    }
