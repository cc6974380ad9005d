"""A source moved to the target's means and deviations, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from revgrad import from_arrays
from revgrad.domains.moved import Move, can_move

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5,), (3, 7)])
def test_every_feature_gets_the_target_s_mean_and_deviation(shape: tuple[int, ...]) -> None:
    own = RNG.normal(size=(40, *shape)).astype(np.float32) * 3 + 2
    other = RNG.normal(size=(30, *shape)).astype(np.float32) * 0.5 - 1
    own[:, 0] = 4.0  # never changes: shifted alone
    source, target = from_arrays(own, np.arange(40) % 2), from_arrays(other)
    moved = Move.of(source, target).applied(source)
    found = np.asarray(moved.batch(np.arange(40)).inputs, dtype=np.float64)
    axes = (0,) if len(shape) == 1 else (0, 2)
    np.testing.assert_allclose(found.mean(axes), other.mean(axes, dtype=np.float64), atol=1e-5)
    wanted = other.std(axes, dtype=np.float64)
    wanted[0] = 0.0
    np.testing.assert_allclose(found.std(axes), wanted, atol=1e-5)
    assert np.array_equal(moved.labels, source.labels)
    assert moved.fingerprint() != source.fingerprint()
    assert moved.batch([3]).inputs.dtype == torch.float32


def test_what_can_be_moved() -> None:
    assert can_move(from_arrays(np.zeros((4, 2), np.float32)))
    assert can_move(from_arrays(np.zeros((4, 2, 9), np.float32)))
    assert not can_move(from_arrays(np.zeros((4, 8, 8, 3), np.uint8)))
    assert not can_move(from_arrays(np.zeros((4, 2), np.int64)))
