"""Nearest rows against two loops."""

from __future__ import annotations

import numpy as np
import pytest

from revgrad.paper.baselines.nearest_rows import nearest_labels, nearest_rows


def by_loops(
    queries: np.ndarray, references: np.ndarray, own: np.ndarray, groups: np.ndarray
) -> list[int]:
    found = []
    for query, group in zip(queries, own, strict=True):
        best, place = np.inf, -1
        for number, reference in enumerate(references):
            distance = float(((query - reference) ** 2).sum())
            if groups[number] != group and distance < best:
                best, place = distance, number
        found.append(place)
    return found


@pytest.mark.parametrize("block", [1, 7, 50, 10**6])
@pytest.mark.parametrize("grouped", [False, True])
def test_any_block_finds_what_loops_find(block: int, grouped: bool) -> None:
    generator = np.random.default_rng(0)
    queries, references = generator.normal(size=(23, 3)), generator.normal(size=(31, 3))
    references[20:] = queries[:11]  # at distance 0, so that leaving the own group out matters
    own = np.arange(23) if grouped else np.full(23, -1)
    groups = np.concatenate([np.arange(20) % 3 + 100, np.arange(11)])
    found = nearest_rows(
        queries,
        references,
        query_groups=own if grouped else None,
        reference_groups=groups if grouped else None,
        block=block,
    )
    assert found.tolist() == by_loops(queries, references, own, groups)
    assert (found[:11] == np.arange(20, 31)).all() != grouped


def test_none_is_left() -> None:
    alone = np.zeros(2, dtype=int)
    rows = np.eye(2)
    assert nearest_rows(rows, rows, query_groups=alone, reference_groups=alone).tolist() == [-1, -1]


def test_rows_far_from_zero_in_single_precision() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4))
    shifted = (rows + 1000).astype(np.float32)
    assert nearest_rows(shifted[:20], shifted[20:]).tolist() == by_loops(
        rows[:20], rows[20:], np.full(20, -1), np.zeros(40)
    )


def test_labels() -> None:
    source = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    labels = nearest_labels(source, np.array([7, -1, 4]), np.array([[4.0, 1.0], [1.0, 4.0]]))
    assert labels.tolist() == [-1, 4]
