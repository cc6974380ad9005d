"""Forests read from json, against scikit-learn's own and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from revgrad.diagnostics.forest import Forest, Tree, forest_from, json_of


def test_a_tree_by_hand() -> None:
    values = {
        "signs": ["a", "b"],
        "trees": [
            {
                "sign": [1, -1, 0, -1, -1],
                "threshold": [0.5, 0, 2.0, 0, 0],
                "left": [1, 0, 3, 0, 0],
                "right": [2, 0, 4, 0, 0],
                "values": [[0, 0], [1, 10], [0, 0], [2, 20], [3, 30]],
            },
            {"sign": [-1], "threshold": [0], "left": [0], "right": [0], "values": [[5, 50]]},
        ],
    }
    forest = forest_from(values)
    for (a, b), leaf in (((9, 0.5), 1), ((2, 0.6), 2), ((2.1, 0.6), 3)):
        assert forest.said({"b": b, "a": a, "other": 7.0}) == pytest.approx(
            [(leaf + 5) / 2, 5 * (leaf + 5)]
        )
    assert forest_from(json.loads(json.dumps(json_of(forest)))).said({"a": 0, "b": 1}) == (
        pytest.approx(forest.said({"a": 0, "b": 1}))
    )


def test_a_grown_tree_says_what_scikit_learn_says() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = np.stack([x[:, 0] * x[:, 1], x[:, 2]], axis=1)
    grown = DecisionTreeRegressor(max_leaf_nodes=20, random_state=0).fit(x, y)
    nodes = grown.tree_
    tree = Tree(
        np.where(nodes.children_left >= 0, nodes.feature, -1),
        nodes.threshold,
        nodes.children_left,
        nodes.children_right,
        nodes.value[:, :, 0],
    )
    forest = Forest(("a", "b", "c"), (tree,))
    asked = rng.normal(size=(50, 3)).astype(np.float32)
    for row, expected in zip(asked, grown.predict(asked), strict=True):
        assert forest.said(dict(zip("abc", row.astype(float), strict=True))) == pytest.approx(
            expected
        )
