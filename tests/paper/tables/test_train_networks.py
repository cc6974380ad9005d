"""Jobs that train networks on images: what trainings are given, what is reported of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from revgrad import Domain, Run, load
from revgrad.errors import RunError
from revgrad.evaluation import features_at
from revgrad.networks import build_network
from revgrad.paper.baselines import fit_linear_svm, predict_by_alignment
from revgrad.paper.baselines.linear_svm import stratified_rows
from revgrad.paper.tables import train_networks
from revgrad.paper.tables.cells import choose_cells
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job_data import open_job_data
from revgrad.paper.tables.job_recipe import LAST_HIDDEN
from revgrad.paper.tables.plan import compute, needs, run_job
from revgrad.paper.tables.semi_supervised import SEMI_SUPERVISED
from table_jobs import MNIST_M, check_record, job, job_folder, trainings_of

#: The big networks have a test of their own.
SMALL_SEMI = [replace(one, network="mnist", size=28) for one in SEMI_SUPERVISED]


@pytest.mark.parametrize(
    ("cell", "method"), [("svhn->mnist", "adversarial"), ("syn-signs->gtsrb", "source-only")]
)
def test_the_other_networks(cell: str, method: str, tmp_path: Path) -> None:
    experiment = choose_cells("table1", [cell])[0]
    record = run_job(job(experiment, method, tmp_path, samples=60, test_samples=40))
    check_record(record, "2 steps, stand-ins, 60 samples a domain, 40 test samples")
    assert record.settings["network"] == experiment.network
    assert Run(job_folder(tmp_path, cell, method)).config.network == experiment.network


def test_semi_supervised_jobs(tmp_path: Path) -> None:
    sizes = []
    for experiment in SMALL_SEMI:
        record = run_job(job(experiment, "real-only", tmp_path))
        check_record(record, "6 steps, stand-ins, 200 samples a domain, 100 test samples")
        both = job(experiment, "both", tmp_path, steps={"mnist": 40})
        record = run_job(both)
        assert record.target_accuracy > 0.15  # of ten classes
        target = Run(both.folder).config.domains["target"]
        sizes.append((target["samples"], target["labels"]))
    assert sizes == [(100, 100), (200, 100)]


def test_synthetic_only_is_the_source_only_network_on_another_test(tmp_path: Path) -> None:
    wanted = job(replace(SEMI_SUPERVISED[0], size=28), "synthetic-only", tmp_path)
    with pytest.raises(RunError, match="holds no trained network"):
        run_job(wanted)
    (bound,) = needs(wanted)
    assert (bound.experiment.cell, bound.method) == ("syn-signs->gtsrb", "source-only")
    needed = replace(bound, experiment=replace(bound.experiment, network="mnist", size=28))
    run_job(needed)
    predicted = compute(wanted)
    test = open_job_data(wanted).test
    decided = load(needed.folder).outputs(test).argmax(1).numpy()
    np.testing.assert_array_equal(predicted.predictions, decided)
    assert predicted.target_accuracy == np.mean(predicted.predictions == test.labels)
    known = open_job_data(replace(wanted, method="both")).target
    assert known is not None
    assert not np.intersect1d(known.rows, test.rows).size


@pytest.mark.parametrize(
    "method", ["source-only", "adversarial", "stabilised", "recommended", "train-on-target"]
)
def test_what_a_network_is_trained_with(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = trainings_of(train_networks, monkeypatch)
    wanted = job(MNIST_M, method, tmp_path, seed=3, steps={"mnist": 1, "compact": 1})
    compute(wanted)
    (training,) = trainings
    recommended = method == "recommended"
    name = "compact" if recommended else "mnist"
    network = build_network(name, classes=10, channels=3, size=28, seed=3)
    expected = [one.detach().numpy() for one in network.parameters() if one.ndim > 1]
    for weights, others in zip(training.weights, expected, strict=True):
        np.testing.assert_array_equal(weights, others)
    assert (training.settings.seed, training.settings.steps) == (3, 1)
    ours = method in ("stabilised", "recommended")
    assert training.recipe.preprocessing == ("per-image" if ours else "fitted")
    assert training.recipe.balanced == ours
    methods = {"recommended": "adversarial-consistency", "train-on-target": "source-only"}
    assert training.recipe.method == methods.get(method, method)  # the bound's source is the target
    data = open_job_data(wanted)
    assert data.held_out is not None
    assert training.source.fingerprint() == data.source.fingerprint()
    assert training.held_out.fingerprint() == data.held_out.fingerprint()
    assert (training.target is None) == (method in ("source-only", "train-on-target"))
    assert training.target is None or training.target.labels is None


@pytest.mark.parametrize(
    ("experiment", "method"),
    [(MNIST_M, "adversarial"), (MNIST_M, "recommended"), (SMALL_SEMI[1], "both")],
    ids=["unlabelled-target", "balanced-source", "labelled-target"],
)
def test_the_svm_is_fitted_on_every_labelled_sample_of_the_training_and_no_other(
    experiment: Experiment, method: str, tmp_path: Path
) -> None:
    wanted = job(experiment, method, tmp_path, svm_samples=120, test_samples=200)
    reported = compute(wanted).target_accuracy_svm
    data, trained = open_job_data(wanted), load(wanted.folder)
    layer = LAST_HIDDEN["compact" if method == "recommended" else "mnist"]

    def last_hidden(domain: Domain) -> np.ndarray:
        inputs = domain.without_labels()
        return features_at(trained.network, layer, inputs, preprocessing=trained.preprocessing)

    assert data.target is not None
    source = data.source.balanced() if method == "recommended" else data.source
    parts = [source.subset(stratified_rows(source.labels, 120, wanted.seed))]
    assert len(source) > 120
    if data.target.labels is not None:
        parts.append(data.target.subset(np.flatnonzero(data.target.labelled)))
        assert len(parts[1]) == 100
    machine = fit_linear_svm(
        np.concatenate([last_hidden(part) for part in parts]),
        np.concatenate([part.labels for part in parts]),
        seed=wanted.seed,
        each_feature=False,
    )
    assert reported == np.mean(machine.predict(last_hidden(data.test)) == data.test.labels)


def test_alignment_reports_its_own_accuracy_and_beside_it_the_best_of_the_papers_choice(
    tmp_path: Path,
) -> None:
    budget = {"steps": {"mnist": 12}, "svm_samples": 120, "test_samples": 200}
    wanted = job(MNIST_M, "subspace-alignment", tmp_path, **budget)
    (needed,) = needs(wanted)
    compute(needed)
    predicted = compute(wanted)
    data, trained = open_job_data(needed), load(needed.folder)
    assert len(data.source) > 120
    chosen = data.source.subset(stratified_rows(data.source.labels, 120, wanted.seed))
    source, target = (
        features_at(
            trained.network, "fc4", one.without_labels(), preprocessing=trained.preprocessing
        )
        for one in (chosen, data.test)
    )

    def accuracy(components: int) -> float:
        found = predict_by_alignment(source, chosen.labels, target, components, seed=wanted.seed)
        return float(np.mean(found == data.test.labels))

    assert predicted.target_accuracy == accuracy(predicted.chosen["components"])
    accuracies = {components: accuracy(components) for components in range(2, 61)}
    assert predicted.target_accuracy_oracle == max(accuracies.values())
    assert predicted.target_accuracy_oracle == accuracies[predicted.chosen["oracle_components"]]
    assert predicted.target_accuracy_oracle > predicted.target_accuracy  # not the same number
