"""Jobs of Table 2: methods on frozen pretrained features, with a trained head or without."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from revgrad import Adapted, Preprocessing, Provenance, Recipe, adapt
from revgrad.paper.baselines import SHALLOW, fit_linear_svm
from revgrad.paper.ddc import choose_width
from revgrad.paper.networks.feature_head import INITIAL_SCALE, FeatureHead, scale_down
from revgrad.paper.networks.one_hidden import OneHidden
from revgrad.paper.tables.feature_split import (
    FeatureSplit,
    images_per_class,
    in_span,
    input_array,
    open_split,
)
from revgrad.paper.tables.job import (
    Job,
    Predicted,
    Progress,
    ProgressCallback,
    accuracy,
    domain_names,
)
from revgrad.paper.tables.job_recipe import CENTRED, FACTORS, HEADS, job_recipe
from revgrad.schedules import Constant, RampUp, Schedule

#: Units of the bottleneck (appendix B), and what DDC's rule chooses from.
BOTTLENECK_WIDTH = 256
BOTTLENECK_WIDTHS = (64, 128, 256, 512)


def shallow_job(job: Job) -> Predicted:
    """A method without a network of its own, and the linear classifier on the features."""
    began = time.monotonic()
    split = open_split(job)
    unlabelled = split.target.without_labels()
    if job.method == "source-only":
        # one scale: a feature that hardly varies in 200 images must not count as much as any
        machine = fit_linear_svm(
            input_array(split.source), split.source.labels, seed=job.seed, each_feature=False
        )
        predictions = machine.predict(input_array(unlabelled))
    elif SHALLOW[job.method].local_features:
        predictions = SHALLOW[job.method](
            split.source_maps, split.source.labels, split.target_maps, job.seed
        )
    else:
        predictions = SHALLOW[job.method](
            input_array(split.source), split.source.labels, input_array(unlabelled), job.seed
        )
    return Predicted(
        predictions=predictions,
        target_accuracy=accuracy(predictions, split.target),
        source_accuracy=None,
        steps=0,
        seconds=round(time.monotonic() - began, 2),
        data=domain_names(split.source, split.target),
    )


def train_head_job(job: Job, progress: Progress) -> Predicted:
    """A head trained on the features, through the same trainer as everything else."""
    split = in_span(open_split(job), own_means=job.method.endswith(CENTRED))
    recipe = job_recipe(job)
    build = head_builder(job, split)
    width, chosen = BOTTLENECK_WIDTH, {}
    if job.method in FACTORS:
        factor = choose_factor(job, split, progress)
        recipe = recipe.changed({"adaptation_factor": schedule(job.method, factor)})
        chosen = {"chosen_factor": factor}
    if recipe.method == "mean-matching":
        short = replace(
            recipe.settings, steps=max(recipe.settings.steps // 10, 1), checkpoint_every=0
        )
        width = choose_width(
            BOTTLENECK_WIDTHS,
            build,
            split.source,
            split.target.without_labels(),
            preprocessing=Preprocessing.identity(),
            settings=short,
        ).candidate
        chosen = {**chosen, "chosen_width": width}
    adapted = _adapt(build(width), split, recipe, progress, job)
    assert adapted.result is not None
    last = adapted.result.last
    predictions = adapted.outputs(split.target.without_labels()).argmax(1).numpy()
    return Predicted(
        predictions=predictions,
        target_accuracy=accuracy(predictions, split.target),
        source_accuracy=None if last is None else last.source_accuracy,
        steps=adapted.result.steps,
        seconds=adapted.result.seconds,
        data=domain_names(split.source, split.target),
        chosen=chosen,
    )


def choose_factor(job: Job, split: FeatureSplit, progress: Progress) -> float:
    """λ of a head of `FACTORS`, without target labels: that of the best held-out source accuracy.

    Of equals the largest. A rule that asks for more, the largest λ that costs the source no more
    than half a point, made DDC match the means of batches at the cost of the target's classes.
    """
    recipe = job_recipe(job)
    build = head_builder(job, split)
    candidates = FACTORS[job.method]
    if split.held_out is None:
        return candidates[0]

    def source_accuracy(factor: float) -> float:
        changed = recipe.changed({"adaptation_factor": schedule(job.method, factor)})
        result = _adapt(build(BOTTLENECK_WIDTH), split, changed, progress).result
        return (result and result.last and result.last.source_accuracy) or 0.0

    return max(candidates, key=lambda factor: (source_accuracy(factor), factor))


def schedule(method: str, factor: float) -> Schedule:
    """λ over training: constant where features are matched, as published; else rising as the
    paper's."""
    matched = HEADS[method].method in ("mean-matching", "kernel-matching")
    return Constant(factor) if matched else RampUp(height=factor)


def feature_job_settings(job: Job) -> dict[str, Any]:
    """Every setting of a job of Table 2, as its record keeps it."""
    known: dict[str, Any] = {
        "backbone": job.cell.backbone,
        "per_class": images_per_class(job),
        "test": job.cell.test,
    }
    if job.method in HEADS:
        recipe = job_recipe(job)
        chosen: dict[str, Any] = {}
        if job.method in FACTORS:
            chosen = {"adaptation_factor": list(FACTORS[job.method])}
            chosen |= {"rule": "source"}
        known["initial_scale"] = INITIAL_SCALE
        known["one_mean"] = not job.method.endswith(CENTRED)
        return {**recipe.settings.describe(), **recipe.describe(), **known, **chosen}
    shallow = SHALLOW.get(job.method)
    return {**known, "citation": "linear SVM" if shallow is None else shallow.citation}


def head_builder(job: Job, split: FeatureSplit) -> Callable[[int], nn.Module]:
    """A head of a given width, the same for the same width: DaNN has a hidden layer instead."""
    features, classes = split.source.shape[0], split.source.class_count or 1

    def build(width: int) -> nn.Module:
        if HEADS[job.method].method == "kernel-matching":
            network = OneHidden(features, width, classes, seed=job.seed)
            scale_down(network.hidden)
            return network
        return FeatureHead(features, classes, width, seed=job.seed)

    return build


def _adapt(
    network: nn.Module,
    split: FeatureSplit,
    recipe: Recipe,
    progress: Progress,
    job: Job | None = None,
) -> Adapted:
    """Train a head; kept in the job's folder where one is given."""
    return adapt(
        network,
        split.source,
        split.target.without_labels(),
        recipe=recipe,
        preprocessing=Preprocessing.identity(),  # the coordinates have unit scale as a whole
        held_out=0 if split.held_out is None else split.held_out,
        run=None if job is None else job.folder,
        callbacks=[ProgressCallback(progress)],
        progress=False,
        provenance=None
        if job is None
        else Provenance(source=job.cell.source, target=job.cell.target, command=job.command),
    )
