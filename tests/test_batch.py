"""Paired batches: a pure function of (seed, step), whatever came before and on any process."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revgrad import Batch, Domain, PairedBatches, Settings, from_arrays
from revgrad.batch import Samples
from revgrad.errors import InputError

LOG = logging.getLogger("revgrad")
few = settings(max_examples=40, deadline=None)


def numbered(n: int, first: int = 0, labels: bool = True, name: str = "numbers") -> Domain:
    """A domain whose inputs and labels say which row they are."""
    values = np.arange(first, first + n, dtype=np.float64)[:, None]
    return from_arrays(values, np.arange(n) if labels else None, name=name)


def pair(a: int, b: int, sizes: tuple[int, int], **more: Any) -> PairedBatches:
    domains = [numbered(a), numbered(b, 1000, labels=False)]
    return PairedBatches(domains, sizes, **more)


def same(left: Batch, right: Batch) -> bool:
    tensors = ("inputs", "labels", "labelled", "domains")
    numbers = ("sizes", "prefix", "total_samples", "total_labelled", "total_sizes")
    return all(torch.equal(getattr(left, k), getattr(right, k)) for k in tensors) and all(
        getattr(left, k) == getattr(right, k) for k in numbers
    )


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    LOG.setLevel(logging.ERROR)
    yield
    LOG.setLevel(logging.NOTSET)


def test_a_fresh_object_equals_one_that_walked_there() -> None:
    walker = pair(50, 13, (8, 8), seed=4)
    for step in range(1001):
        walked = walker.batch(step)
    assert same(walked, pair(50, 13, (8, 8), seed=4).batch(1000))
    assert same(walker.batch(3), pair(50, 13, (8, 8), seed=4).batch(3))  # and back


def test_seeds_and_domains_differ() -> None:
    one, other = pair(50, 50, (8, 8), seed=0), pair(50, 50, (8, 8), seed=1)
    assert not same(one.batch(0), other.batch(0))
    source, target = one.indices(0)
    assert not np.array_equal(source, target)


@few
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers())
def test_within_an_epoch_no_row_comes_twice(a: int, b: int, m: int, n: int, seed: int) -> None:
    batches = pair(a, b, (m, n), seed=abs(seed))
    for number, (length, size) in enumerate(((a, m), (b, n))):
        steps = 3 * length // size + 1
        stream = np.concatenate([batches.indices(t)[number] for t in range(steps)])
        for epoch in range(3):
            part = stream[epoch * length : (epoch + 1) * length]
            assert len(set(part)) == len(part)
            if len(part) == length:
                assert set(part) == set(range(length))


def test_epochs_are_shuffled_anew() -> None:
    batches = pair(20, 20, (20, 20))
    assert not np.array_equal(batches.indices(0)[0], batches.indices(1)[0])


@few
@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)
)
def test_slices_of_all_processes_are_the_whole(a: int, b: int, m: int, n: int, step: int) -> None:
    whole = pair(a, b, (m, n), seed=2)
    expected = whole.batch(step)
    assert isinstance(expected.inputs, Tensor)
    for world in (1, 2, 3):
        parts = [pair(a, b, (m, n), seed=2, rank=r, world=world) for r in range(world)]
        for part in parts:
            for mine, global_ in zip(part.indices(step), whole.indices(step), strict=True):
                assert np.array_equal(mine, global_)
        made = [part.batch(step) for part in parts]
        for domain in (0, 1):
            rows = torch.cat([p.inputs[p.domain_slices()[domain]] for p in made])  # type: ignore[index]
            assert torch.equal(rows, expected.inputs[expected.domain_slices()[domain]])
        assert sum(p.labelled_count for p in made) == expected.total_labelled == m
        for p in made:
            assert (p.total_samples, p.total_labelled, p.total_sizes) == (m + n, m, (m, n))
            assert tuple(s.stop - s.start for s in p.domain_slices()) == p.sizes


def test_a_small_domain_is_drawn_again_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    LOG.setLevel(logging.WARNING)
    with caplog.at_level(logging.WARNING, logger="revgrad"):
        batches = PairedBatches([numbered(50), numbered(3, name="few")], (8, 8))
        for step in range(5):
            counts = Counter(batches.indices(step)[1].tolist())
            assert sum(counts.values()) == 8
            assert set(counts) == {0, 1, 2}
            assert max(counts.values()) - min(counts.values()) <= 2
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "few has 3 samples, fewer than its 8 samples" in caplog.text


def test_only_rank_0_warns(caplog: pytest.LogCaptureFixture) -> None:
    LOG.setLevel(logging.WARNING)
    with caplog.at_level(logging.WARNING, logger="revgrad"):
        pair(50, 3, (8, 8), rank=1, world=2)
    assert not caplog.records


def test_empty_domains_and_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="nothing is empty"):
        PairedBatches([numbered(5), numbered(0, name="nothing")], (2, 2))
    with pytest.raises(InputError, match="0 samples a batch"):
        PairedBatches([numbered(5), numbered(5)], (2, 0))


@pytest.mark.parametrize(
    ("batch", "share", "domains", "expected"),
    [
        (128, 0.5, 2, [64, 64]),
        (128, 0.25, 2, [32, 96]),
        (7, 0.5, 2, [4, 3]),
        (2, 0.01, 2, [1, 1]),
        (2, 0.99, 2, [1, 1]),
        (128, 0.5, 1, [64]),
        (128, 0.5, 3, [64, 32, 32]),
        (10, 0.5, 4, [5, 1, 2, 2]),
    ],
)
def test_ratio(batch: int, share: float, domains: int, expected: list[int]) -> None:
    settings = Settings(batch_size=batch, source_share=share)
    assert settings.sizes([100], [50] * (domains - 1)) == expected


@pytest.mark.parametrize(
    ("sources", "targets", "way", "expected"),
    [
        ([10, 10], [5], "evenly", [32, 32, 64]),
        ([900, 100], [5], "evenly", [32, 32, 64]),
        ([900, 100], [5], "by-size", [56, 8, 64]),  # one each, then by size: 1 + 55.8, 1 + 6.2
        ([1, 10_000], [3, 1], "by-size", [1, 63, 47, 17]),
        ([4, 4, 4], [], "evenly", [21, 21, 22]),
    ],
)
def test_several_domains_share_their_part(
    sources: list[int], targets: list[int], way: Any, expected: list[int]
) -> None:
    found = Settings(batch_size=128, share_out=way).sizes(sources, targets)
    assert found == expected
    assert sum(found) == (128 if targets else 64)


def test_a_batch_too_small_for_its_domains_is_refused() -> None:
    with pytest.raises(InputError, match="too small for 4 domains"):
        Settings(batch_size=3).sizes([9], [9, 9, 9])


def test_rows_carry_their_own_labels_and_domains() -> None:
    batches = pair(50, 20, (6, 4))
    for step in range(20):
        batch = batches.batch(step)
        assert isinstance(batch.inputs, Tensor)
        assert batch.labels[:6].tolist() == batch.inputs[:6, 0].tolist()
        assert batch.labels[6:].tolist() == [0] * 4  # unlabelled rows: a meaningless zero
        assert batch.labelled.tolist() == [True] * 6 + [False] * 4
        assert batch.domains.tolist() == [0] * 6 + [1] * 4
        assert bool((batch.inputs[6:, 0] >= 1000).all())
        assert batch.prefix == 6


@pytest.mark.parametrize("world", [1, 2, 3])
def test_semi_supervised_is_a_mask(world: int) -> None:
    target = numbered(20).keeping_labels(7, seed=1)
    kept = set(np.flatnonzero(target.labelled))
    for step in range(10):
        found = 0
        for rank in range(world):
            batches = PairedBatches([numbered(50), target], (5, 6), rank=rank, world=world)
            batch = batches.batch(step)
            assert isinstance(batch.inputs, Tensor)
            source, where = batch.domain_slices()
            numbers = batch.inputs[where, 0].int().tolist()
            assert batch.labelled[where].tolist() == [n in kept for n in numbers]
            expected = [n if n in kept else 0 for n in numbers]
            assert batch.labels[where].tolist() == expected
            assert bool(batch.labelled[source].all())
            chosen = batch.labels[batch.labelled_samples].tolist()
            own = [int(x) for x in batch.inputs[batch.labelled, 0]]
            assert chosen == own
            assert batch.labelled_count == len(own)
            found += len(own)
        assert (
            found
            == batch.total_labelled
            == 5 + sum(int(i) in kept for i in batches.indices(step)[1])
        )


def test_regression_targets_of_any_shape() -> None:
    rng = np.random.default_rng(0)
    source = from_arrays(rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), name="s")
    target = from_arrays(rng.normal(size=(9, 2)), name="t")
    batch = PairedBatches([source, target], (4, 2)).batch(0)
    assert batch.labels.shape == (6, 3)
    assert batch.labels.dtype == torch.float64
    assert bool((batch.labels[4:] == 0).all())


@pytest.mark.parametrize("labels", [(True, False), (True, True), (False, False), (False, True)])
def test_the_quick_way_equals_batch_of(labels: tuple[bool, bool]) -> None:
    domains = [numbered(20, 0, labels[0]), numbered(11, 500, labels[1])]
    batches = PairedBatches(domains, (5, 3), seed=1)
    for step in range(8):
        rows = [d.batch(i) for d, i in zip(domains, batches.indices(step), strict=True)]
        assert same(batches.batch(step), Batch.of(*rows))


def test_one_domain_alone() -> None:
    batch = PairedBatches([numbered(9)], (4,)).batch(0)
    assert batch.sizes == (4,)
    assert batch.prefix == 4


def test_nested_inputs() -> None:
    values = {"a": np.arange(12.0), "b": np.arange(24.0).reshape(12, 2)}
    batches = PairedBatches([from_arrays(values, np.arange(12)), from_arrays(values)], (4, 3))
    batch = batches.batch(2)
    assert isinstance(batch.inputs, dict)
    where = np.concatenate(batches.indices(2))
    assert torch.equal(batch.inputs["a"], torch.from_numpy(values["a"][where]))
    assert torch.equal(batch.inputs["b"], torch.from_numpy(values["b"][where]))


def test_augmentation_draws_from_seed_step_rank_and_domain() -> None:
    def noise(inputs: Any, generator: torch.Generator) -> Any:
        return torch.rand(inputs.shape, generator=generator, dtype=torch.float64)

    def drawn(seed: int = 0, step: int = 5, rank: int = 0, number: int = 0) -> tuple[float, ...]:
        domains = [numbered(40).augmented(noise), numbered(40).augmented(noise)]
        batches = PairedBatches(domains, (8, 8), seed, rank=rank, world=2)
        torch.rand(3)  # what the global generator does is of no importance
        batch = batches.batch(step)
        return tuple(batch.inputs[batch.domain_slices()[number], 0].tolist())  # type: ignore[index]

    first = drawn()
    assert first == drawn()
    others = [drawn(seed=1), drawn(step=6), drawn(rank=1), drawn(number=1)]
    assert len({first, *others}) == 5


def test_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    pair(30, 30, (4, 4)).batch(7)
    assert torch.equal(state, torch.get_rng_state())


def test_batch_of_counts_and_slices() -> None:
    inputs = torch.arange(10.0)[:, None]
    mask = torch.tensor([False, True, False])
    batch = Batch.of(
        Samples(inputs[:4], torch.arange(4)),
        Samples(inputs[4:7], torch.tensor([0, 9, 0]), mask),
        Samples(inputs[7:], None),
    )
    assert batch.prefix is None
    assert batch.labelled.tolist() == [True] * 4 + mask.tolist() + [False] * 3
    assert batch.labels[batch.labelled_samples].tolist() == [0, 1, 2, 3, 9]
    assert batch.labelled_count == batch.total_labelled == 5
    assert batch.domain_slices() == [slice(0, 4), slice(4, 7), slice(7, 10)]
    moved = batch.to(torch.device("cpu"))
    assert same(moved, batch)
