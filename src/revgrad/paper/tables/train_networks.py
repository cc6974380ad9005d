"""Jobs that train a network on images: both bounds, the method, the recommended recipe; and those
that read a trained network: subspace alignment, and source-only on another test."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from revgrad import Adapted, Domain, Provenance, adapt, load
from revgrad.errors import RunError
from revgrad.evaluation import features_at
from revgrad.networks import build_network
from revgrad.networks.registry import PRETRAINED
from revgrad.paper.baselines import (
    best_components,
    choose_components,
    fit_linear_svm,
    predict_by_alignment,
)
from revgrad.paper.tables.job import (
    Job,
    Predicted,
    Progress,
    ProgressCallback,
    accuracy,
    domain_names,
)
from revgrad.paper.tables.job_data import (
    JobData,
    image_size,
    open_job_data,
    source_augmentation,
    stratified_sample,
)
from revgrad.paper.tables.job_recipe import LAST_HIDDEN, job_recipe, network_name


def train_network_job(job: Job, progress: Progress) -> Predicted:
    """Train a network (or go on where it was stopped), then read the test, once."""
    data = open_job_data(job)
    adapted = _train(job, data, progress)
    result = adapted.result
    assert result is not None
    began = time.monotonic()
    predictions = adapted.outputs(data.test.without_labels()).argmax(1).numpy()
    last = result.last
    return Predicted(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test),
        source_accuracy=None if last is None else last.source_accuracy,
        steps=result.steps,
        target_accuracy_svm=_svm_accuracy(job, adapted, data),
        seconds=round(result.seconds + time.monotonic() - began, 2),
        data=domain_names(data.source, data.test),
    )


def alignment_job(job: Job) -> Predicted:
    """Subspace alignment on the last hidden layer of the source-only network of the same seed.

    The target's subspace is that of the test inputs, which are also what is classified. The number
    of components is chosen without target labels; beside it stands the best of 2 … 60 on the
    test's own labels, the paper's choice.
    """
    needed = replace(job, method="source-only")
    began = time.monotonic()
    adapted = _trained(needed.folder)
    data = open_job_data(needed)
    layer = LAST_HIDDEN[job.cell.network]
    training = stratified_sample(data.source, job.budget.svm_samples, job.seed)
    source, target = (_layer_features(adapted, layer, domain) for domain in (training, data.test))
    labels, seed = training.labels, job.seed
    components = choose_components(source, labels, target, seed=seed)
    predictions = predict_by_alignment(source, labels, target, components, seed=seed)
    oracle = best_components(source, labels, target, data.test.labels, seed=seed)
    return Predicted(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        target_accuracy_oracle=oracle.accuracy,
        data=domain_names(data.source, data.test),
        chosen={"components": components, "oracle_components": oracle.components},
    )


def synthetic_only_job(job: Job, needed: Job) -> Predicted:
    """The source-only network of `needed`, on this cell's test."""
    began = time.monotonic()
    adapted = _trained(needed.folder)
    data = open_job_data(job)
    predictions = adapted.outputs(data.test.without_labels()).argmax(1).numpy()
    return Predicted(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        data=domain_names(data.source, data.test),
    )


def network_job_settings(job: Job) -> dict[str, Any]:
    """Every setting of a job that trains a network, as its record keeps it."""
    recipe, drawn = job_recipe(job), source_augmentation(job.method)
    return {
        **recipe.settings.describe(),
        "network": network_name(job.experiment, job.method),
        "size": image_size(job),
        "test": job.cell.test,
        **recipe.describe(),
        **({} if drawn is None else {"augmentation": repr(drawn)}),
        **({"weights": job.cell.weights} if job.cell.fine_tuned else {}),
    }


def _train(job: Job, data: JobData, progress: Progress) -> Adapted:
    name = network_name(job.experiment, job.method)
    recipe = job_recipe(job)
    if data.target is None:  # the bound on the target has been given the target as its source
        recipe = replace(recipe, method="source-only")
    channels, *size = data.source.shape
    network = build_network(
        name,
        classes=data.source.class_count or 1,
        channels=channels,
        size=(size[0], size[1]),
        seed=job.seed,
        weights=job.cell.weights or PRETRAINED,
    )
    return adapt(
        network,
        data.source,
        data.target,
        recipe=recipe,
        held_out=0 if data.held_out is None else data.held_out,
        run=job.folder,
        callbacks=[ProgressCallback(progress)],
        progress=False,
        provenance=Provenance(
            network=name,
            source=job.cell.source,
            target=job.cell.target,
            test=job.cell.test,
            weights=job.cell.weights,
            command=job.command,
        ),
    )


def _trained(folder: Path) -> Adapted:
    if not (folder / "checkpoint.json").exists():
        raise RunError(f"{folder} holds no trained network, which this job needs")
    return load(folder)


def _svm_accuracy(job: Job, adapted: Adapted, data: JobData) -> float:
    """Accuracy of a linear SVM on the last hidden layer, fitted on what training had labels of."""
    layer = LAST_HIDDEN[network_name(job.experiment, job.method)]
    source = data.source.balanced() if job_recipe(job).balanced else data.source
    parts = [stratified_sample(source, job.budget.svm_samples, job.seed)]
    if data.target is not None and data.target.labelled_count:
        parts.append(data.target.subset(np.flatnonzero(data.target.labelled)))
    features = np.concatenate([_layer_features(adapted, layer, part) for part in parts])
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    # one scale: a unit that is nearly always off on the source must not count as much as any other
    machine = fit_linear_svm(features, labels, seed=job.seed, each_feature=False)
    return accuracy(machine.predict(_layer_features(adapted, layer, data.test)), data.test)


def _layer_features(adapted: Adapted, layer: str, domain: Domain) -> np.ndarray:
    inputs = domain.without_labels()
    return features_at(adapted.network, layer, inputs, preprocessing=adapted.preprocessing)
