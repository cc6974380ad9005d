"""Sparse matrices: the same inputs as the dense ones, kept sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from revgrad import adapt, from_arrays
from revgrad.domains import as_domain
from revgrad.domains.sparse import SparseStore
from revgrad.errors import InputError
from tiny import seeded, weights_digest

RANDOM = np.random.default_rng(0)
DENSE = (RANDOM.random((40, 30)) * (RANDOM.random((40, 30)) < 0.1)).astype(np.float32)
LABELS = RANDOM.integers(0, 3, 40)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(30, 5), nn.ReLU(), nn.Linear(5, 3))


@pytest.mark.parametrize(
    "make", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix]
)
def test_batches_are_those_of_the_dense_matrix(make: Any) -> None:
    domain = from_arrays(make(DENSE), LABELS)
    assert isinstance(domain.store, SparseStore)
    where = [5, 0, 39, 5]
    assert torch.equal(domain.batch(where).inputs, torch.from_numpy(DENSE[where]))
    assert domain.shape == (30,)
    assert domain.fingerprint() == from_arrays(sparse.csr_matrix(DENSE), LABELS).fingerprint()
    other = DENSE.copy()
    other[7, 7] += 1
    assert domain.fingerprint() != from_arrays(make(other), LABELS).fingerprint()
    assert as_domain((make(DENSE), LABELS), "x").shape == (30,)
    assert as_domain(make(DENSE), "x").labels is None


def test_counts_become_floats() -> None:
    domain = from_arrays(sparse.csr_matrix(np.eye(4, dtype=np.int64)))
    assert torch.equal(domain.batch([0, 1, 2, 3]).inputs, torch.eye(4))


def test_training_equals_that_on_dense_inputs_as_they_are() -> None:
    short: dict[str, Any] = {
        "recipe": "paper",
        "layer": "0",
        "steps": 5,
        "batch_size": 8,
        "progress": False,
    }
    short["domain_classifier"] = (4,)
    digests = {
        weights_digest(
            adapt(seeded(network), source, target, **short, **more).network  # type: ignore[arg-type]
        )
        for source, target, more in [
            ((sparse.csr_matrix(DENSE), LABELS), sparse.csr_matrix(DENSE[:20]), {}),
            ((DENSE, LABELS), DENSE[:20], {"preprocessing": _identity()}),
        ]
    }
    assert len(digests) == 1


def _identity() -> Any:
    from revgrad import Preprocessing

    return Preprocessing.identity()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sparse.csr_matrix(np.array([[0, 1], [np.nan, 0]])), "not finite, first in row 1"),
        (sparse.csr_matrix(np.eye(2) * 1j), "must hold numbers, not complex128"),
        (sparse.coo_array(np.ones(3)), r"must be \(n, features\), not \(3,\)"),
    ],
)
def test_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(given)
