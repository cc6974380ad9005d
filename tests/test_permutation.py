"""The computed permutation: a permutation, and as good as a random one by every statistic here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from revgrad._permutation import Permutation

#: Chance that a true random permutation fails one of the tests here.
SURPRISE = 1e-6


@pytest.mark.parametrize("n", [*range(1, 40), 255, 256, 257, 4095, 4097, 70_001])
def test_every_number_comes_once(n: int) -> None:
    for key in range(3):
        assert (np.sort(Permutation(n, key)[0:n]) == np.arange(n)).all()


def test_any_part_is_found_without_the_rest() -> None:
    order = Permutation(10**9, 5)
    whole = order[10**9 - 100 : 10**9]
    assert len(whole) == 100
    assert (order[np.arange(10**9 - 1, 10**9 - 101, -1)] == whole[::-1]).all()
    assert whole.min() >= 0
    assert whole.max() < 10**9
    assert len(np.unique(order[0:200_000])) == 200_000
    assert len(Permutation(1 << 62, 1)[0:7]) == 7
    for n in (0, (1 << 62) + 1):
        with pytest.raises(ValueError, match="numbers"):
            Permutation(n, 1)


def test_all_orders_of_four_come_alike_often() -> None:
    """24 orders, 6,000 keys: also a first key of 0 and keys that differ in one bit."""
    found = [tuple(Permutation(4, key)[0:4].tolist()) for key in range(6_000)]
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > SURPRISE


@pytest.mark.parametrize("n", [100, 1000, 1 << 20, 10**9])
def test_places_and_numbers_are_independent(n: int) -> None:
    """Over keys: what stands at a place is uniform, neighbours are not alike, orders differ."""
    keys, block = 300, 100
    drawn = np.stack([Permutation(n, key)[0:block] for key in range(keys)]) / n
    for column in (0, 1, block - 1):
        assert stats.kstest(drawn[:, column] + 0.5 / n, "uniform").pvalue > SURPRISE
    for one, other in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
        table = np.histogram2d(one.ravel(), other.ravel(), bins=10, range=[[0, 1], [0, 1]])[0]
        size = table.sum()
        # of a short permutation neighbours differ by a little: only long ones are compared so
        if n >= 1 << 20:
            assert stats.chisquare(table.ravel()).pvalue > SURPRISE
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(size) + 1 / n * 3


def test_inversions_and_fixed_points_are_those_of_random_orders() -> None:
    n, keys = 300, 300
    orders = np.stack([Permutation(n, key)[0:n] for key in range(keys)])
    inversions = np.array([(np.triu(o[:, None] > o[None], 1)).sum() for o in orders])
    mean, sd = n * (n - 1) / 4, np.sqrt(n * (n - 1) * (2 * n + 5) / 72)
    assert abs((inversions.mean() - mean) / (sd / np.sqrt(keys))) < 5
    assert 0.8 < inversions.std() / sd < 1.2
    fixed = (orders == np.arange(n)).sum(1)  # Poisson of mean 1, within an order …
    again = (orders[1:] == orders[:-1]).sum(1)  # … and between the orders of two epochs
    for counts in (fixed, again):
        assert abs(counts.mean() - 1) < 5 / np.sqrt(keys)
        assert 0.7 < counts.var() < 1.4


def test_batches_of_sorted_classes_are_mixed() -> None:
    """Classes that lie one after the other come in a batch as often as by chance."""
    n, size, classes = 3_000_000, 64, 10
    order = Permutation(n, 11)
    counts = np.stack(
        [
            np.bincount(order[at : at + size] * classes // n, minlength=classes)
            for at in range(0, 2000 * size, size)
        ]
    )
    assert abs(counts.mean() - size / classes) < 1e-9
    expected = size / classes * (1 - 1 / classes)
    assert 0.95 < counts.var() / expected < 1.05
