"""The shared pairs of domains: their list, their shifts; labels and inputs belong together."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "pairs"))
import pair_shifts as shift
from pair_catalogue import FROZEN, KINDS, OPEN, PAIRS
from pair_networks import network_for
from pair_reserve import RESERVE
from pair_sources import Labelled


def test_the_list() -> None:
    """40 pairs or more of every kind; a third frozen, and some of every kind."""
    kinds = Counter(pair.kind for pair in PAIRS.values())
    assert len(PAIRS) >= 40
    assert set(kinds) == set(KINDS)
    assert set(OPEN) | set(FROZEN) == set(PAIRS)
    assert not set(OPEN) & set(FROZEN)
    assert 0.3 < len(FROZEN) / len(PAIRS) < 0.4
    assert {PAIRS[name].kind for name in FROZEN} == set(KINDS)


def test_the_reserve_is_apart_and_of_every_kind() -> None:
    assert not set(RESERVE) & set(PAIRS)
    assert {pair.kind for pair in RESERVE.values()} == set(KINDS)
    data = RESERVE["circles, stretched"].open(samples=50)
    assert data.source_x.shape == data.target_x.shape == (50, 2)
    assert data.target_x[:, 0].std() > 1.2 * data.source_x[:, 0].std()


#: Pairs of data that scikit-learn and mlxtend carry.
CARRIED = (
    *("breast cancer, by size", "cars of other countries", "houses, other sensor", "wine, noisy"),
    *("made table, swapped columns", "moons by 60 degrees", "small digits, pixels lost"),
)


@pytest.mark.parametrize("name", CARRIED)
def test_a_pair_opens_and_its_network_takes_it(name: str) -> None:
    import torch

    data = PAIRS[name].open(samples=60)
    for x, y in ((data.source_x, data.source_y), (data.target_x, data.target_y)):
        assert len(x) == len(y) <= 60
        assert set(np.unique(y)) <= set(range(data.classes))
        out = data.network()(torch.from_numpy(x.astype(np.float32)))
        assert out.shape == (len(x), data.classes)
    again = PAIRS[name].open(samples=60)
    assert (again.source_x == data.source_x).all()
    assert (again.target_y == data.target_y).all()


@pytest.mark.parametrize("shape", [(5,), (6, 64), (28, 28, 3)])
def test_networks_by_shape(shape: tuple[int, ...]) -> None:
    import torch

    network = network_for(shape, 3, seed=1, wide=2)
    given = (shape[2], *shape[:2]) if len(shape) == 3 else shape
    assert network(torch.zeros(2, *given)).shape == (2, 3)
    assert {"early", "features", "hidden"} <= dict(network.named_children()).keys()
    same = network_for(shape, 3, seed=1, wide=2)
    assert all((a == b).all() for a, b in zip(network.parameters(), same.parameters(), strict=True))


def test_shifts() -> None:
    x = np.arange(200, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    data = Labelled(x, np.arange(200) % 4, {"who": np.arange(200)})
    one, other = shift.halves(data)
    assert sorted([*one.x[:, 0], *other.x[:, 0]]) == sorted(x[:, 0])
    assert (one.y == one.x[:, 0].astype(int) % 4).all()
    assert (one.more["who"] == one.x[:, 0]).all()
    small, large = shift.selected(data, data.x[:, 0])
    assert small.x.mean() < 70 < 130 < large.x.mean()
    tilted = shift.tilted(data, (0, 1), 9)
    assert np.isin(tilted.y, (0, 1)).mean() == pytest.approx(0.9, abs=0.02)
    assert set(shift.of_classes(data, (3, 1)).y) == {0, 1}
    numbered = shift.of_classes(data, (3, 1))
    assert ((numbered.x[:, 0].astype(int) % 4 == 3) == (numbered.y == 0)).all()
    lost = shift.changed(data, shift.lost(1.0))
    assert np.allclose(lost.x, x.mean(0))
    (source, _), (_, turned) = shift.moons(0, 400), shift.moons(90, 400)
    upright = shift.moons(0, 400)[1].x
    assert np.allclose(turned.x @ np.array([[0.0, -1.0], [1.0, 0.0]]), upright, atol=1e-5)
    assert not np.allclose(source.x, upright)
