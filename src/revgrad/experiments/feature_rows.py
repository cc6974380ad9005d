"""Rows of Table 2: methods on frozen pretrained features, by Saenko's protocol.

A split draws 20 labelled images a class from Amazon, 8 from the others; the target takes part
whole and unlabelled, and its labels are read once, at the end. The source images that a split
leaves over take no part in training; accuracy on them is the held-out source's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from revgrad.adapting import Adapted, adapt
from revgrad.domains import Domain, from_arrays
from revgrad.domains.office import SAENKO, saenko_split
from revgrad.experiments.backbones import Features, backbone_features
from revgrad.experiments.head import SMALL, FeatureHead, make_small
from revgrad.experiments.image_rows import any_rows, opened, some_rows
from revgrad.experiments.recipes import FACTORS, HEADS, Recipe
from revgrad.experiments.row import Answers, Report, Reporting, Row, accuracy
from revgrad.networks import OneHidden
from revgrad.placing import choose_width
from revgrad.schedules import Constant
from revgrad.shallow import SHALLOW, fit_linear_svm
from revgrad.training.settings import Settings

#: Units of the bottleneck (appendix B), and what DDC's rule chooses from.
WIDTH = 256
WIDTHS = (64, 128, 256, 512)


class Split(NamedTuple):
    """A split's features; `target`'s labels are for the end alone."""

    source: Domain
    held_out: Domain | None
    target: Domain
    source_maps: np.ndarray
    target_maps: np.ndarray


def shallow_row(row: Row, report: Report) -> Answers:
    """A method without a network of its own, and the linear classifier on the features."""
    began = time.monotonic()
    split = open_split(row)
    unlabelled = split.target.without_labels()
    if row.method == "source-only":
        # one scale: a feature that hardly varies in 200 images must not count as much as any
        machine = fit_linear_svm(
            _array(split.source), split.source.labels, seed=row.seed, each_feature=False
        )
        predictions = machine.predict(_array(unlabelled))
    elif SHALLOW[row.method].local_features:
        predictions = SHALLOW[row.method](
            split.source_maps, split.source.labels, split.target_maps, row.seed
        )
    else:
        predictions = SHALLOW[row.method](
            _array(split.source), split.source.labels, _array(unlabelled), row.seed
        )
    return Answers(
        predictions=predictions,
        target_accuracy=accuracy(predictions, split.target.labels),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        data=_data(split),
    )


def head_row(row: Row, report: Report) -> Answers:
    """A head trained on the features, through the same trainer as everything else."""
    split = in_span(open_split(row), one_mean=row.method in FACTORS)
    recipe, settings = head_settings(row)
    build = head_builder(row, split)
    width, found = WIDTH, {}
    if row.method in FACTORS:
        factor = choose_factor(row, split, report)
        settings, found = replace(settings, factor=Constant(factor)), {"chosen_factor": factor}
    if row.method == "mean-matching":
        choice = choose_width(
            WIDTHS,
            build,
            split.source,
            split.target.without_labels(),
            settings=replace(settings, steps=max(settings.steps // 10, 1), checkpoint_every=0),
        )
        width, found = choice.chosen, {**found, "chosen_width": choice.chosen}
    adapted = _adapt(build(width), split, recipe.objective, settings, report, row)
    assert adapted.outcome is not None
    last = adapted.outcome.last
    predictions = adapted.predict(split.target.without_labels())
    return Answers(
        predictions=predictions,
        target_accuracy=accuracy(predictions, split.target.labels),
        source_accuracy=None if last is None else last.source_accuracy,
        steps=adapted.outcome.steps,
        seconds=adapted.outcome.seconds,
        data=_data(split),
        found=found,
    )


def choose_factor(row: Row, split: Split, report: Report) -> float:
    """λ of DDC and DaNN, without target labels: the one of the best accuracy on held-out source.

    Of equals the largest. A rule that asks for more, the largest λ that costs the source no more
    than half a point, made DDC match the means of batches at the cost of the target's classes.
    """
    recipe, settings = head_settings(row)
    build = head_builder(row, split)
    candidates = FACTORS[row.method]
    if split.held_out is None:
        return candidates[0]

    def source_accuracy(factor: float) -> float:
        chosen = replace(settings, factor=Constant(factor))
        outcome = _adapt(build(WIDTH), split, recipe.objective, chosen, report).outcome
        return (outcome and outcome.last and outcome.last.source_accuracy) or 0.0

    return max(candidates, key=lambda factor: (source_accuracy(factor), factor))


def _adapt(
    network: nn.Module,
    split: Split,
    objective: str,
    settings: Settings,
    report: Report,
    row: Row | None = None,
) -> Adapted:
    """Train a head; kept in the row's folder where one is given."""
    return adapt(
        network,
        split.source,
        split.target.without_labels(),
        method=objective,
        settings=settings,
        held_out=0 if split.held_out is None else split.held_out,
        run=None if row is None else row.folder,
        events=[Reporting(report)],
        progress=False,
        options={} if row is None else {"source": row.cell.source, "target": row.cell.target},
    )


def head_settings(row: Row) -> tuple[Recipe, Settings]:
    recipe = HEADS[row.method]
    settings = replace(
        recipe.settings,
        steps=row.budget.steps_of(row.experiment.network, row.experiment),
        seed=row.seed,
        batch=row.budget.batch or recipe.settings.batch,
        evaluate_every=0,
        checkpoint_every=500,
    )
    return recipe, settings


def describe_feature_row(row: Row) -> dict[str, Any]:
    """Every setting of a row of Table 2, as its record keeps it."""
    known: dict[str, Any] = {
        "backbone": row.cell.backbone,
        "per_class": per_class(row),
        "test": row.cell.test,
    }
    if row.method in HEADS:
        recipe, settings = head_settings(row)
        chosen: dict[str, Any] = {}
        if row.method in FACTORS:
            chosen = {"factor": list(FACTORS[row.method]), "rule": "source", "one_mean": True}
        known["initial_scale"] = SMALL
        return {**settings.describe(), **recipe.describe(), **known, **chosen}
    shallow = SHALLOW.get(row.method)
    return {**known, "citation": "linear SVM" if shallow is None else shallow.citation}


def head_builder(row: Row, split: Split) -> Callable[[int], nn.Module]:
    """A head of a given width, the same for the same width: DaNN has a hidden layer instead."""
    features, classes = split.source.shape[0], split.source.class_count or 1

    def build(width: int) -> nn.Module:
        if row.method == "kernel-matching":
            network = OneHidden(features, width, classes, seed=row.seed)
            make_small(network.hidden)
            return network
        return FeatureHead(features, classes, width, seed=row.seed)

    return build


def in_span(split: Split, *, one_mean: bool = False) -> Split:
    """The same split in coordinates of the span of its source and target rows, at unit scale.

    Each domain's own mean is subtracted first, as the shallow rows of the table do it (the paper
    does not say whose mean it subtracts); with `one_mean` that of both, which weigh alike: DDC and
    DaNN are there to match means, and would find them equal. A head is linear in the features, so
    a direction in which no row differs from another tells it nothing: a rotation into the others
    loses nothing and makes a step many times cheaper (9,216 features become 493). One number
    scales all coordinates, the domains weighing alike. No label is read.
    """
    source, target = _array(split.source), _array(split.target)
    means = [rows.mean(0, dtype=np.float64) for rows in (source, target)]
    if one_mean:
        means = [(means[0] + means[1]) / 2] * 2
    both = np.concatenate([source - means[0], target - means[1]])
    _, lengths, basis = np.linalg.svd(both, full_matrices=False)
    basis = basis[lengths > 1e-5 * lengths[0]].T
    weights = np.repeat([0.5 / len(source), 0.5 / len(target)], [len(source), len(target)])
    scale = np.sqrt((weights @ np.square(both @ basis)).mean())

    def moved(domain: Domain, mean: np.ndarray) -> Domain:
        coordinates = ((_array(domain) - mean) @ basis / scale).astype(np.float32)
        return from_arrays(coordinates, domain.labels, classes=domain.classes, name=domain.name)

    return split._replace(
        source=moved(split.source, means[0]),
        target=moved(split.target, means[1]),
        held_out=None if split.held_out is None else moved(split.held_out, means[0]),
    )


def per_class(row: Row) -> int:
    """Labelled source images of a class, by the source's name."""
    return SAENKO.get(row.experiment.source.partition(":")[2], 20)


def open_split(row: Row) -> Split:
    """The features of the row's split; a split is its seed."""
    cell = row.cell
    assert cell.backbone is not None
    source = some_rows(opened(cell.source, cell.size), row.budget.rows, 0)
    target = any_rows(opened(cell.target, cell.size), row.budget.rows)
    chosen = saenko_split(source, per_class(row), row.seed)
    rows = np.flatnonzero(np.isin(source.rows, chosen.rows))
    others = np.setdiff1d(np.arange(len(source)), rows)
    of_source, of_target = (_seen(cell.backbone, domain) for domain in (source, target))
    assert source.labels is not None
    assert target.labels is not None
    names = (source.classes, source.name)

    def vectors(found: Features, labels: np.ndarray, which: np.ndarray, name: str) -> Domain:
        return from_arrays(found.features[which], labels[which], classes=names[0], name=name)

    everything = np.arange(len(target))
    return Split(
        vectors(of_source, source.labels, rows, source.name),
        vectors(of_source, source.labels, others, source.name) if len(others) else None,
        vectors(of_target, target.labels, everything, target.name),
        of_source.maps[rows],
        of_target.maps,
    )


@lru_cache(maxsize=4)
def _seen(backbone: str, domain: Domain) -> Features:
    return backbone_features(backbone, domain)


def _array(domain: Domain) -> np.ndarray:
    inputs = domain.batch(np.arange(len(domain))).inputs
    assert isinstance(inputs, torch.Tensor)
    return inputs.numpy()


def _data(split: Split) -> dict[str, str]:
    return {"source": split.source.name, "test": split.target.name}
