"""Domains too large for an index: the same samples, by computed rows and labels read in place."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from revgrad import adapt, from_arrays
from revgrad.batch import Inputs
from revgrad.domains import Domain
from revgrad.domains import domain as domain_module
from revgrad.domains.rows import AllRows, FileColumn, LabelColumn
from revgrad.errors import InputError
from revgrad.training import paired_batches
from revgrad.training.paired_batches import PairedBatches
from tiny import Perceptron, environment, seeded, weights_digest

FEW = 50


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 50 samples are too many for an index."""
    for module in (domain_module, paired_batches):
        monkeypatch.setattr(module, "MOST_INDEXED", FEW)


class Squares:
    """Sample i is computed: (i, i², i mod 3, 1)."""

    is_resident = any_thread = True

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def take(self, indices: np.ndarray) -> Inputs:
        i = torch.from_numpy(indices).float()
        return torch.stack([i / self.count, (i / self.count) ** 2, i % 3, torch.ones(len(i))], 1)

    def fingerprint(self) -> str:
        return f"squares {self.count}"


def large(count: int = 400, **given: Any) -> Domain:
    return Domain(Squares(count), (np.arange(count) % 3).astype(np.int8), name="squares", **given)


def numbers(domain: Domain) -> list[int]:
    """Which rows of the store a domain's samples are, by its inputs."""
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    assert isinstance(inputs, Tensor)
    count = len(domain.store)
    return [round(float(x) * count) for x in inputs[:, 0]]


@pytest.mark.usefixtures("low_limit")
def test_parts_of_a_large_domain() -> None:
    whole = large()
    assert isinstance(whole._labels, LabelColumn)
    assert whole.labelled_count == 400
    assert whole.class_count == 3
    rest, held = whole.split(0.2, seed=4)
    assert isinstance(rest._labels, LabelColumn)
    assert (len(rest), len(held)) == (320, 80)
    assert sorted(numbers(rest) + numbers(held)) == list(range(400))
    assert numbers(held) != sorted(numbers(held))
    assert numbers(whole.split(0.2, seed=4)[1]) == numbers(held) != numbers(whole.split(0.2)[1])
    smaller, few = rest.split(0.1)
    for part in (rest, held, smaller, few, rest.subset([7, 3, 300]), few.subset(range(5))):
        assert part.labels is not None
        assert part.labels.dtype == np.int64
        found = part.batch(np.arange(len(part)), augment=False)
        assert numbers(part) == part.rows.tolist()
        assert (part.labels == part.rows % 3).all()
        assert found.labels is not None
        assert found.labels.tolist() == part.labels.tolist()
    assert isinstance(few._labels, np.ndarray)
    assert (np.unique(rest.known_labels()) == [0, 1, 2]).all()
    kept = whole.keeping_labels(30, seed=1)
    again = kept.split(0.5)[0]
    assert 0 < again.labelled_count < 30
    assert (again.labels[again.labelled] == again.rows[again.labelled] % 3).all()
    assert len({d.fingerprint() for d in (whole, rest, held, smaller, kept)}) == 5
    assert rest.fingerprint() == large().split(0.2, seed=4)[0].fingerprint()
    assert large().without_labels().split()[0].labels is None


@pytest.mark.usefixtures("low_limit")
def test_weights_and_balance_of_a_large_domain() -> None:
    weighted = large().weighted(np.arange(1, 401))
    rest, _ = weighted.split(0.25)
    assert rest.weights is not None
    assert (rest.weights == rest.rows + 1).all()
    balanced = Domain(Squares(90), np.r_[np.zeros(80), np.ones(10)].astype(int)).balanced()
    assert np.bincount(balanced.labels).tolist() == [80, 80]


@pytest.mark.usefixtures("low_limit")
def test_labels_of_a_large_domain_are_checked() -> None:
    wrong = np.zeros(100, dtype=np.int16)
    wrong[77] = -1
    with pytest.raises(InputError, match="label -1 is out of range"):
        Domain(Squares(100), wrong)
    wrong[77] = 5
    with pytest.raises(InputError, match="label 5 is out of range for 3 classes"):
        Domain(Squares(100), wrong, classes="abc")
    with pytest.raises(InputError, match="finite"):
        Domain(Squares(100), np.full(100, np.nan))
    # the largest label is looked at, whichever samples stand for all
    strange = Domain(Squares(100), wrong, name="strange")
    with pytest.raises(InputError, match="5"):
        adapt(
            seeded(Perceptron),
            strange,
            large().without_labels(),
            recipe="paper",
            layer="lower",
            steps=1,
        )


@pytest.mark.usefixtures("low_limit")
def test_batches_draw_each_sample_once_an_epoch() -> None:
    one = PairedBatches([large(), large(90)], [60, 31], seed=3)
    two = [PairedBatches([large(), large(90)], [60, 31], 3, rank=r, world=2) for r in (0, 1)]
    for domain, count in ((0, 400), (1, 90)):
        size = one.sizes[domain]
        stream = np.concatenate([one.indices(step)[domain] for step in range(2 * count // size)])
        assert sorted(stream[:count]) == list(range(count))
        second = stream[count : 2 * count // size * size]
        assert len(set(second)) == len(second)
        assert (stream[: len(second)] != second).any()
    for step in (0, 1, 5, 6, 13, 6, 2, 700):  # in any order
        fresh = PairedBatches([large(), large(90)], [60, 31], seed=3)
        whole = one.batch(step)
        assert torch.equal(whole.inputs, fresh.batch(step).inputs)
        first, second = (batches.batch(step) for batches in two)
        for at, part in enumerate(whole.domain_slices()):
            halves = [b.inputs[b.domain_slices()[at]] for b in (first, second)]
            assert torch.equal(torch.cat(halves), whole.inputs[part])


@pytest.mark.usefixtures("low_limit")
def test_poisoned_labels_of_a_large_target_change_nothing() -> None:
    def trained(labels: np.ndarray) -> str:
        network = seeded(Perceptron)
        target = Domain(Squares(300), labels, name="target")
        adapt(
            network,
            large(),
            target,
            recipe="paper",
            layer="lower",
            steps=8,
            batch_size=20,
            progress=False,
        )
        return weights_digest(network)

    assert trained(np.zeros(300, dtype=int)) == trained(np.arange(300) % 3)


PROGRAM = """
import sys, numpy as np, torch
from pathlib import Path
from test_rows import Squares
from revgrad import Domain, adapt
from tiny import Perceptron, seeded
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
def trained(count, folder):
    labels = np.memmap(folder / f"labels{count}", dtype=np.int8, mode="w+", shape=(count,))
    labels[:9] = np.arange(9) % 3
    source = Domain(Squares(count), labels, name="source")
    source, held_out = source.split(20 / count)
    target = Domain(Squares(count), name="target")
    adapt(seeded(Perceptron), source, target, layer="lower", held_out=held_out, steps=3,
          recipe="paper", run=folder / f"run{count}", progress=False)
folder = Path(sys.argv[2])
trained(1000, folder)
before = peak()
trained(int(float(sys.argv[1])), folder)
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's peak memory")
@pytest.mark.parametrize("samples", ["1e9"])
def test_a_billion_samples_cost_less_than_100_mb(samples: str, tmp_path: Path) -> None:
    """A store that computes its samples, labels in a (sparse) memory map; a run, held-out data."""
    here = Path(__file__).parent
    importable = os.pathsep.join(map(str, (here, here.parent / "helpers")))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, samples, str(tmp_path)],
        env=environment(PYTHONPATH=importable),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 100


def test_labels_of_a_memory_map_stay_there(tmp_path: Path) -> None:
    """Above the limit nothing is copied; below it labels become int64 as always."""
    count = (1 << 20) + 1
    labels = np.memmap(tmp_path / "labels", dtype=np.int64, mode="w+", shape=(count,))
    labels[-1] = 6
    column = Domain(Squares(count), labels)._labels
    assert isinstance(column, LabelColumn)
    assert isinstance(column.values, FileColumn)
    assert column[np.array([count - 1, 0])].tolist() == [6, 0]
    half = pickle.loads(pickle.dumps(LabelColumn(labels[7:], AllRows(count - 7))))
    assert half[np.array([count - 8, 0])].tolist() == [6, 0]
    assert Domain(Squares(count), labels).class_count == 7
    assert from_arrays(np.zeros((4, 2), np.float32), labels[:4])._labels.dtype == np.int64


@pytest.mark.usefixtures("low_limit")
def test_what_was_written_into_a_private_map_is_kept(tmp_path: Path) -> None:
    np.zeros(5000, dtype=np.int8).tofile(tmp_path / "labels")
    private = np.memmap(tmp_path / "labels", dtype=np.int8, mode="c")
    private[:] = 2
    for values in (private, private[:]):
        domain = Domain(Squares(5000), values)
        assert domain.class_count == 3
        assert set(domain.split()[0].labels) == {2}
        assert (private == 2).all()
