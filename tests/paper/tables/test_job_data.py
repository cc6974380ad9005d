"""A job's domains: labels that stay hidden, samples that are in one part only."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from revgrad.domains import Colours, from_arrays
from revgrad.paper.data.gtsrb import gtsrb, gtsrb_tracks
from revgrad.paper.tables import job_data
from revgrad.paper.tables.budgets import BUDGETS, budget_named
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.job_data import (
    open_job_data,
    random_sample,
    stratified_sample,
    target_labels,
)
from revgrad.paper.tables.mnist_to_svhn import MNIST_TO_SVHN
from revgrad.paper.tables.office_caltech import FINE_TUNED
from revgrad.paper.tables.semi_supervised import LABELLED, SEMI_SUPERVISED
from revgrad.paper.tables.table1 import TABLE1
from revgrad.paper.tables.train_networks import network_job_settings
from table_jobs import TINY


def test_known_labels_are_few_and_the_others_are_gone() -> None:
    labels = np.arange(50) % 5
    whole = from_arrays(np.zeros((50, 3), dtype=np.float32), labels)
    known, rest = target_labels(whole, 20, seed=1)
    assert known.labelled_count == 20
    assert len(known) == 50
    assert not np.any(known.labels[~known.labelled])  # nothing of the hidden ones is left
    np.testing.assert_array_equal(rest.rows, np.flatnonzero(~known.labelled))
    np.testing.assert_array_equal(rest.labels, labels[rest.rows])


def test_which_target_samples_are_taken_does_not_depend_on_labels() -> None:
    inputs = np.zeros((40, 3), dtype=np.float32)
    one = random_sample(from_arrays(inputs, np.arange(40) % 4), 15)
    other = random_sample(from_arrays(inputs, np.zeros(40, dtype=np.int64)), 15)
    np.testing.assert_array_equal(one.rows, other.rows)
    assert len(one) == 15


@pytest.mark.parametrize("name", ["standard", "full"])
def test_the_last_layer_is_retrained_on_20000_samples(name: str) -> None:
    domain = from_arrays(np.zeros((20_100, 1), dtype=np.float32), np.arange(20_100) % 10)
    assert len(stratified_sample(domain, BUDGETS[name].svm_samples, 0)) == 20_000


@pytest.mark.parametrize("protocol", [0, 1], ids=["the-papers", "by-track"])
def test_the_labels_of_1280_signs_are_known(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = from_arrays(np.zeros((1400, 4, 4, 3), dtype=np.uint8), np.arange(1400) % 43)
    monkeypatch.setattr(job_data, "open_at_size", lambda text, size: signs)
    both = Job(SEMI_SUPERVISED[protocol], "both", 0, budget_named("standard"), Path())
    data = open_job_data(both)
    assert data.target is not None
    assert data.target.labelled_count == 1280
    assert len(data.target) == (1400 if protocol else 1280)
    assert len(data.test) == (1400 if protocol else 120)
    alone = open_job_data(replace(both, method="real-only"))
    assert len(alone.source) == alone.source.labelled_count == 1280


def test_signs_of_the_papers_protocol_are_1280_and_the_rest_is_the_test(data_folder: Path) -> None:
    papers = replace(SEMI_SUPERVISED[0], source="gtsrb")  # synthetic ones take long to make
    data = open_job_data(Job(papers, "both", 0, budget_named("standard"), Path()))
    assert data.target is not None
    assert len(data.target) == data.target.labelled_count == LABELLED
    assert not np.intersect1d(data.target.rows, data.test.rows).size
    assert len(data.target) + len(data.test) == len(gtsrb_tracks())
    alone = open_job_data(Job(papers, "real-only", 0, budget_named("standard"), Path()))
    np.testing.assert_array_equal(alone.source.rows, data.target.rows)
    assert alone.target is None


def test_by_our_protocol_no_track_is_on_both_sides(data_folder: Path) -> None:
    ours = replace(SEMI_SUPERVISED[1], source="gtsrb")
    data = open_job_data(Job(ours, "both", 0, budget_named("standard"), Path()))
    assert data.target is not None
    assert data.target.labelled_count == LABELLED < len(data.target)
    tracks = gtsrb_tracks()
    train = gtsrb("train")  # the same rows, with the labels that name the tracks
    np.testing.assert_array_equal(train.rows, data.target.rows)
    seen, tested = (
        {(int(y), int(tracks[i])) for y, i in zip(one.labels, one.rows, strict=True)}
        for one in (train, data.test)
    )
    assert len(seen) > len(tested) > 43
    assert not tested & seen


@pytest.mark.parametrize("method", TABLE1[0].methods)
def test_training_held_out_source_and_test_share_no_sample(method: str) -> None:
    data = open_job_data(Job(TABLE1[0], method, 0, TINY, Path()))
    assert data.held_out is not None
    parts = [data.source, data.held_out, data.test]
    inputs = [
        {one.tobytes() for one in np.asarray(part.batch(np.arange(len(part))).inputs)}
        for part in parts
    ]
    assert [len(one) for one in inputs] == [270, 30, 200]  # of 300 images a tenth is held out
    for first, second in combinations(inputs, 2):
        assert not first & second


def test_which_labels_of_the_target_are_known_depends_on_the_seed() -> None:
    def known(seed: int) -> list[int]:
        data = open_job_data(Job(SEMI_SUPERVISED[1], "both", seed, TINY, Path()))
        assert data.target is not None
        return np.flatnonzero(data.target.labelled).tolist()

    assert len(known(0)) == len(known(1)) == 100
    assert known(0) == known(0) != known(1)


def test_colours_are_drawn_for_the_source_alone_and_where_they_are_asked_for() -> None:
    drawn = {}
    for method in MNIST_TO_SVHN[0].methods:
        data = open_job_data(Job(MNIST_TO_SVHN[0], method, 0, TINY, Path()))
        drawn[method] = data.source.augmentation
        assert data.test.augmentation is None
        assert data.target is None or data.target.augmentation is None
    assert drawn == {**dict.fromkeys(drawn), "recommended-colours": Colours()}
    job = Job(MNIST_TO_SVHN[0], "recommended-colours", 0, TINY, Path())
    assert network_job_settings(job)["augmentation"] == "Colours(least=40.0, tint=80.0)"


def test_every_role_of_a_cell_of_digits(data_folder: Path) -> None:
    cell = next(one for one in TABLE1 if one.cell == "svhn->mnist")
    for method in ("source-only", "adversarial", "train-on-target", "recommended"):
        job = Job(cell, method, 0, BUDGETS["quick"], Path())
        side = 28 if method == "recommended" else 32  # its own network takes images as they are
        data = open_job_data(job)
        assert data.test.shape == data.source.shape == (3, side, side)
        assert network_job_settings(job)["size"] == side
        assert len(data.test) == BUDGETS["quick"].test_samples
        if method in ("adversarial", "recommended"):
            assert data.target is not None
            assert data.target.labels is None
            assert len(data.target) == 60_000
        else:
            assert data.target is None
        names = {"train-on-target": "mnist"}
        assert data.source.name == names.get(method, data.source.name)


def test_a_fine_tuned_pair_trains_on_four_fifths_of_its_source_and_hides_the_targets_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pixels = np.arange(60, dtype=np.uint8).reshape(60, 1, 1, 1)
    domains = {
        FINE_TUNED[0].source: from_arrays(pixels[:50], np.arange(50) % 5, layout="NHWC"),
        FINE_TUNED[0].target: from_arrays(pixels[50:], np.arange(10) % 5, layout="NHWC"),
    }
    monkeypatch.setattr(job_data, "open_at_size", lambda text, size: domains[text])
    data = open_job_data(Job(FINE_TUNED[0], "mcc", 0, budget_named("standard"), Path()))
    assert data.held_out is not None
    assert data.target is not None
    assert (len(data.source), len(data.held_out), len(data.target)) == (40, 10, 10)
    assert not set(data.source.rows) & set(data.held_out.rows)
    assert data.target.labels is None
    assert data.test.labels is not None
    alone = open_job_data(Job(FINE_TUNED[0], "source-only", 0, budget_named("standard"), Path()))
    assert alone.target is None
