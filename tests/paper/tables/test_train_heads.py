"""Jobs of Table 2: splits of frozen features, heads trained on them, methods without a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

from revgrad import Domain, RampUp, Recipe, from_arrays
from revgrad.paper.baselines import adapt_neighbours, fit_linear_svm, predict_by_path
from revgrad.paper.networks.feature_head import FeatureHead
from revgrad.paper.networks.one_hidden import OneHidden
from revgrad.paper.tables import feature_split, train_heads
from revgrad.paper.tables.budgets import BUDGETS
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.feature_split import in_span, input_array, open_split
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.job_recipe import FACTORS, HEADS
from revgrad.paper.tables.plan import compute, run_job
from revgrad.paper.tables.table2 import TABLE2
from revgrad.training import EvaluationRecord
from table_jobs import TINY, check_record, job, trainings_of


def test_methods_of_table2(tmp_path: Path) -> None:
    for method in ("geodesic-flow", "subspace-alignment"):
        record = run_job(job(TABLE2[0], method, tmp_path))
        check_record(record, "no steps, stand-ins, 200 samples a domain, 100 test samples")
    record = run_job(job(TABLE2[0], "mean-matching", tmp_path))
    check_record(record, "6 steps, stand-ins, 200 samples a domain, 100 test samples")
    assert record.settings["chosen_width"] in train_heads.BOTTLENECK_WIDTHS
    assert record.settings["chosen_factor"] in FACTORS["mean-matching"]
    assert record.settings["per_class"] == 20
    adapted = run_job(Job(TABLE2[1], "adversarial", 0, TINY, tmp_path))
    assert adapted.settings["per_class"] == 8
    assert adapted.source_accuracy > 0.3


def test_coordinates_in_the_span_keep_every_distance_and_each_domains_mean_is_zero(
    tmp_path: Path,
) -> None:
    split = open_split(Job(TABLE2[0], "adversarial", 0, TINY, tmp_path))
    moved = in_span(split, own_means=True)
    for before, after in ((split.source, moved.source), (split.target, moved.target)):
        raw, new = (input_array(one).astype(np.float64) for one in (before, after))
        raw = raw - raw.mean(0)
        np.testing.assert_allclose(new.mean(0), 0, atol=1e-5)
        ratio = np.linalg.norm(new, axis=1) / np.linalg.norm(raw, axis=1)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)
        np.testing.assert_allclose(new @ new.T, raw @ raw.T * ratio[0] ** 2, rtol=1e-3, atol=0.05)
    squares = [np.square(input_array(one)).mean() for one in (moved.source, moved.target)]
    assert np.mean(squares) == pytest.approx(1.0, rel=1e-4)
    assert moved.source.shape[0] <= len(split.source) + len(split.target) - 2
    # of the two domains neither counts for more, however many samples it has
    assert len(split.source) < len(split.target)
    mean = input_array(split.source).mean(0, dtype=np.float64)
    assert split.held_out is not None
    raw = [input_array(one) - mean for one in (split.held_out, split.source)]
    new = [input_array(one) for one in (moved.held_out, moved.source)]
    ratio = np.linalg.norm(new[1]) / np.linalg.norm(raw[1])
    np.testing.assert_allclose(
        new[0] @ new[1].T, raw[0] @ raw[1].T * ratio**2, rtol=1e-3, atol=0.05
    )  # held-out source is where the source is
    joint = in_span(split, own_means=False)
    means = [input_array(one).mean(0) for one in (joint.source, joint.target)]
    np.testing.assert_allclose(means[0], -means[1], atol=1e-4)
    assert np.abs(means[0]).max() > 0.1  # the shift is left for the method to see


@pytest.mark.parametrize(
    ("cell", "per_class"),
    [(TABLE2[0], 20), (TABLE2[1], 8), (TABLE2[2], 8)],
    ids=["amazon", "dslr", "webcam"],
)
def test_a_split_has_the_labelled_images_of_saenkos_protocol_and_the_whole_target(
    cell: Experiment, per_class: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 28, 28, 3), dtype=np.uint8)
    domains = {
        cell.source: from_arrays(pixels[:75], np.arange(75) % 3, name=cell.source),
        cell.target: from_arrays(pixels[75:], np.arange(15) % 3, name=cell.target),
    }
    monkeypatch.setattr(feature_split, "open_at_size", lambda text, size: domains[text])
    small = replace(cell, backbone="untrained", size=28)
    drawn = []
    for seed in cell.seeds:
        job = Job(small, "adversarial", seed, BUDGETS["standard"], tmp_path)
        split = open_split(job)
        assert np.bincount(split.source.labels).tolist() == [per_class] * 3
        assert split.held_out is not None
        assert np.bincount(split.held_out.labels).tolist() == [25 - per_class] * 3
        assert len(split.source_maps) == 3 * per_class
        assert len(split.target) == len(split.target_maps) == 15
        used, left = (input_array(one) for one in (split.source, split.held_out))
        assert len(np.unique(np.concatenate([used, left]), axis=0)) == 75  # each once, none lost
        drawn.append(used)
    assert len({one.tobytes() for one in drawn}) == len(cell.seeds) == 5


@pytest.mark.parametrize("method", HEADS)
def test_what_a_head_is_trained_with(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = trainings_of(train_heads, monkeypatch)
    chosen_width = SimpleNamespace(candidate=64)
    monkeypatch.setattr(train_heads, "choose_width", lambda *_, **options: chosen_width)
    brief = replace(TINY, steps={**TINY.steps, "bottleneck": 1})
    job = Job(TABLE2[0], method, 3, brief, tmp_path)
    found = compute(job).chosen
    plain = method.removesuffix("-centred")
    centred, matched = plain != method, plain in ("mean-matching", "kernel-matching")
    split = in_span(open_split(job), own_means=centred)
    *candidates, last = trainings
    factors = FACTORS.get(method, ())
    at_end = [one.settings.adaptation_factor(1.0) for one in candidates]
    assert at_end == pytest.approx(factors, rel=1e-3)
    for one in trainings:
        assert one.recipe.method == ("source-only" if plain == "bottleneck-only" else plain)
        at_start = one.settings.adaptation_factor(0.0)  # λ rises but where features are matched
        assert (at_start > 0) == (matched and bool(factors))
        assert one.settings.seed == 3
        # one scale for all coordinates: as they are, or directions that hardly vary would count
        assert one.preprocessing is not None
        assert (float(one.preprocessing.mean), float(one.preprocessing.scale)) == (0.0, 1.0)
        for seen, expected in zip(
            (one.source, one.target, one.held_out),
            (split.source, split.target, split.held_out),
            strict=True,
        ):
            np.testing.assert_array_equal(input_array(seen), input_array(expected))
        means = [input_array(domain).mean(0) for domain in (one.source, one.target)]
        # the shift is left, the same for every method, but in the rows of own means
        assert (np.abs(means[0] - means[1]).max() > 0.2) != centred
        first, second = one.weights
        features = split.source.shape[0]
        width = 64 if plain == "mean-matching" and one is last else 256
        assert first.shape == (width, features)
        assert first.std() == pytest.approx(0.1 * np.sqrt(2 / features), rel=0.05)  # .1 of He's
        if plain == "kernel-matching":
            network: nn.Module = OneHidden(features, width, 10, seed=3)
        else:
            network = FeatureHead(features, 10, width, seed=3)
        *_, expected = (weight.detach() for weight in network.parameters() if weight.ndim > 1)
        np.testing.assert_array_equal(second, expected)
    if factors:
        assert found["chosen_factor"] in factors
        at_end = last.settings.adaptation_factor(1.0)
        assert at_end == pytest.approx(found["chosen_factor"], rel=1e-3)
    else:
        assert last.settings.adaptation_factor == RampUp(10)


def test_ddc_chooses_its_width_of_four_by_a_tenth_of_the_steps_with_the_chosen_factor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def chosen(
        widths: Sequence[int], build: object, source: Domain, target: Domain, **options: Any
    ) -> SimpleNamespace:
        asked.append((tuple(widths), target.labels, options["settings"]))
        return SimpleNamespace(candidate=128)

    monkeypatch.setattr(train_heads, "choose_factor", lambda job, split, progress: 0.03)
    monkeypatch.setattr(train_heads, "choose_width", chosen)
    brief = replace(TINY, steps={**TINY.steps, "bottleneck": 20})
    found = compute(Job(TABLE2[0], "mean-matching", 3, brief, tmp_path)).chosen
    ((widths, labels, settings),) = asked
    assert widths == (64, 128, 256, 512)
    assert labels is None
    assert (settings.steps, settings.seed, settings.adaptation_factor(0.5)) == (2, 3, 0.03)
    assert found == {"chosen_factor": 0.03, "chosen_width": 128}


@pytest.mark.parametrize("method", ["source-only", "interpolating-path", "nbnn"])
def test_a_job_without_a_head_is_its_method_on_the_split_with_the_jobs_seed(
    method: str, tmp_path: Path
) -> None:
    job = Job(TABLE2[0], method, 3, TINY, tmp_path)
    split = open_split(job)
    labels, target = split.source.labels, input_array(split.target)
    if method == "source-only":
        machine = fit_linear_svm(input_array(split.source), labels, seed=3, each_feature=False)
        expected = machine.predict(target)
    elif method == "nbnn":
        expected = adapt_neighbours(split.source_maps, labels, split.target_maps).predicted
    else:
        expected = predict_by_path(input_array(split.source), labels, target, seed=3)
    predicted = compute(job)
    np.testing.assert_array_equal(predicted.predictions, expected)
    assert predicted.target_accuracy == np.mean(expected == split.target.labels)


def test_the_factor_of_the_best_held_out_source_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(TABLE2[0], "mean-matching", 0, TINY, tmp_path)
    split = open_split(job)
    accuracies = {0.003: 0.91, 0.01: 0.93, 0.03: 0.93, 0.1: 0.92, 0.25: 0.2}

    def trained(network: object, split: object, recipe: Recipe, *_: object) -> SimpleNamespace:
        accuracy = accuracies[recipe.settings.adaptation_factor(0)]
        last = EvaluationRecord(1, accuracy, 0.0, None, None, 0.0)
        return SimpleNamespace(result=SimpleNamespace(last=last))

    monkeypatch.setattr(train_heads, "_adapt", trained)
    assert train_heads.choose_factor(job, split, lambda done, steps: None) == 0.03
    accuracies[0.003] = 0.94
    assert train_heads.choose_factor(job, split, lambda done, steps: None) == 0.003
