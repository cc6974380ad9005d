"""Rows that train a network on images: both bounds, the method, the recommended recipe; and those
that read a trained network: subspace alignment, and source-only on another test."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from revgrad.adapting import Adapted, adapt, load
from revgrad.domains import Domain, match_colours, open_domain
from revgrad.domains.domain import HELD_OUT
from revgrad.errors import RunError
from revgrad.evaluation.features import features_at
from revgrad.experiments.recipes import Recipe, recipe_for
from revgrad.experiments.row import Answers, Report, Reporting, Row, accuracy
from revgrad.networks import build_network
from revgrad.shallow import best_components, choose_components, fit_linear_svm, predict_by_alignment
from revgrad.shallow.linear_svm import stratified_rows
from revgrad.training.settings import Settings

#: The last hidden layer of each network's label predictor.
LAST_HIDDEN = {"mnist": "fc4", "svhn": "fc5", "gtsrb": "fc4", "compact": "hidden"}


class Data(NamedTuple):
    """A cell's domains as a method gets them."""

    source: Domain  # labelled, what is held out not in it
    target: Domain | None  # with the labels that the method may see, and no others
    held_out: Domain | None
    test: Domain  # labelled, for the end


def trained_row(row: Row, report: Report) -> Answers:
    """Train a network (or go on where it was stopped), then read the test, once."""
    data = open_data(row)
    adapted = _train(row, data, report)
    outcome = adapted.outcome
    assert outcome is not None
    began = time.monotonic()
    predictions = adapted.predict(data.test)
    last = outcome.last
    return Answers(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test.labels),
        source_accuracy=None if last is None else last.source_accuracy,
        steps=outcome.steps,
        target_accuracy_svm=_retrained(row, adapted, data),
        seconds=round(outcome.seconds + time.monotonic() - began, 2),
        data={"source": data.source.name, "test": data.test.name},
    )


def alignment_row(row: Row, report: Report) -> Answers:
    """Subspace alignment on the last hidden layer of the source-only network of the same seed.

    The target's subspace is that of the test inputs, which are also what is classified. The number
    of components is chosen without target labels; beside it stands the best of 2 … 60 on the
    test's own labels, the paper's choice.
    """
    needed = replace(row, method="source-only")
    began = time.monotonic()
    adapted = _trained(needed.folder)
    data = open_data(needed)
    layer = LAST_HIDDEN[row.cell.network]
    training = some_rows(data.source, row.budget.svm_rows, row.seed)
    source, target = (_features(adapted, layer, domain) for domain in (training, data.test))
    labels, seed = training.labels, row.seed
    components = choose_components(source, labels, target, seed=seed)
    predictions = predict_by_alignment(source, labels, target, components, seed=seed)
    oracle = best_components(source, labels, target, data.test.labels, seed=seed)
    return Answers(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test.labels),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        target_accuracy_oracle=oracle.accuracy,
        data={"source": data.source.name, "test": data.test.name},
        found={"components": components, "oracle_components": oracle.components},
    )


def synthetic_row(row: Row, needed: Row, report: Report) -> Answers:
    """The source-only network of `needed`, on this cell's test."""
    began = time.monotonic()
    adapted = _trained(needed.folder)
    data = open_data(row)
    predictions = adapted.predict(data.test)
    return Answers(
        predictions=predictions,
        target_accuracy=accuracy(predictions, data.test.labels),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        data={"source": data.source.name, "test": data.test.name},
    )


def row_settings(row: Row) -> tuple[Recipe, Settings]:
    """A trained row's recipe, and its settings with the budget's steps and the seed."""
    recipe = recipe_for(row.experiment, row.method)
    settings = replace(
        recipe.settings,
        steps=row.budget.steps_of(recipe.network or row.experiment.network, row.experiment),
        seed=row.seed,
        batch=row.budget.batch or recipe.settings.batch,
        evaluate_every=0,  # the test is read once, at the end
        checkpoint_every=500,
    )
    return recipe, settings


def describe_row(row: Row) -> dict[str, Any]:
    """Every setting of a trained row, as its record keeps it."""
    recipe, settings = row_settings(row)
    return {
        **settings.describe(),
        "network": recipe.network or row.experiment.network,
        "size": image_size(row),
        "test": row.cell.test,
        **recipe.describe(),
    }


def image_size(row: Row) -> int:
    """Side of the images that the row's network sees: the recommended one takes them as is."""
    native = row.cell.native if row.method == "recommended" else None
    return native or row.cell.size


def open_data(row: Row, size: int | None = None) -> Data:
    """The row's domains: labels hidden from those who must not see them, data cut to the budget.

    size   of the images, where not that of the row's network
    """
    cell, budget, method, size = row.cell, row.budget, row.method, size or image_size(row)
    source = some_rows(opened(cell.source, size), budget.rows, 0)
    target = any_rows(opened(cell.target, size), budget.rows)
    test = opened(cell.test, size)
    source, target, test = match_colours([source, target, test])
    seen: Domain | None
    if cell.labelled:
        known, rest = target_labels(target, cell.labelled, row.seed)
        seen = known if cell.others else known.subset(np.flatnonzero(known.labelled))
        if not cell.others:
            test = rest  # what is not labelled is the test
        if method == "real-only":
            source, seen = known.subset(np.flatnonzero(known.labelled)), None
    elif method == "train-on-target":
        source, seen = target, None
    else:
        seen = target.without_labels()
    test = any_rows(test, budget.test_rows)
    if method == "real-only":
        return Data(source, None, None, test)  # too few to hold any back
    training, held_out = source.split(HELD_OUT)
    held_out = some_rows(held_out, budget.test_rows, 0)
    if method == "recommended":
        training = training.balanced()
    one_domain = method in ("source-only", "train-on-target", "synthetic-only")
    return Data(training, None if one_domain else seen, held_out, test)


def target_labels(target: Domain, count: int, seed: int) -> tuple[Domain, Domain]:
    """The target with `count` random labels, the others dropped; and the others' rows, labelled."""
    known = target.keeping_labels(min(count, len(target)), seed)
    return known, target.subset(np.flatnonzero(~known.labelled))


def some_rows(domain: Domain, count: int | None, seed: int) -> Domain:
    """At most `count` rows of a labelled domain, each class by its share."""
    if count is None or len(domain) <= count or domain.labels is None:
        return domain
    return domain.subset(stratified_rows(domain.labels, count, seed))


def any_rows(domain: Domain, count: int | None) -> Domain:
    """At most `count` random rows, whatever their labels: which of the target's must not matter."""
    if count is None or len(domain) <= count:
        return domain
    return domain.subset(np.sort(np.random.default_rng(0).permutation(len(domain))[:count]))


@lru_cache(maxsize=6)
def opened(text: str, size: int) -> Domain:
    """A domain at one size; kept, as several rows of a process want the same."""
    return open_domain(text, size=size)


def _train(row: Row, data: Data, report: Report) -> Adapted:
    recipe, settings = row_settings(row)
    name = recipe.network or row.experiment.network
    channels, *size = data.source.shape
    network = build_network(
        name,
        classes=data.source.class_count or 1,
        channels=channels,
        size=(size[0], size[1]),
        seed=row.seed,
    )
    # the bound on the target has been given the target as its source
    method = "source-only" if data.target is None else recipe.objective
    return adapt(
        network,
        data.source,
        data.target,
        method=method,
        settings=settings,
        per_image=recipe.per_image,
        held_out=0 if data.held_out is None else data.held_out,
        semi_supervised=bool(row.cell.labelled),
        run=row.folder,
        events=[Reporting(report)],
        progress=False,
        network_name=name,
        options={
            "source": row.cell.source,
            "target": row.cell.target,
            "test": row.cell.test,
            "size": str(image_size(row)),
            "per_image": recipe.per_image,
            "outputs": data.source.class_count,
        },
    )


def _trained(folder: Path) -> Adapted:
    if not (folder / "checkpoint.json").exists():
        raise RunError(f"{folder} holds no trained network, which this row needs")
    return load(folder)


def _retrained(row: Row, adapted: Adapted, data: Data) -> float:
    """Accuracy of a linear SVM on the last hidden layer, fitted on the training's labelled rows."""
    recipe, _ = row_settings(row)
    layer = LAST_HIDDEN[recipe.network or row.experiment.network]
    parts = [some_rows(data.source, row.budget.svm_rows, row.seed)]
    if data.target is not None and data.target.labelled_count:
        parts.append(data.target.subset(np.flatnonzero(data.target.labelled)))
    features = np.concatenate([_features(adapted, layer, part) for part in parts])
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    # one scale: a unit that is nearly always off on the source must not count as much as any other
    machine = fit_linear_svm(features, labels, seed=row.seed, each_feature=False)
    return accuracy(machine.predict(_features(adapted, layer, data.test)), data.test.labels)


def _features(adapted: Adapted, layer: str, domain: Domain) -> np.ndarray:
    network: nn.Module = adapted.network
    return features_at(network, layer, domain.without_labels(), preprocessing=adapted.preprocessing)
