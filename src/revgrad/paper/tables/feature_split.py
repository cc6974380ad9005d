"""Splits of Table 2: frozen pretrained features by Saenko's protocol.

A split draws 20 labelled images a class from Amazon, 8 from the others; the target takes part
whole and unlabelled, and its labels are read once, at the end. The source images that a split
leaves over take no part in training; accuracy on them is the held-out source's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from revgrad import Domain, from_arrays
from revgrad.paper.data.office import labelled_per_class, saenko_split
from revgrad.paper.tables.backbones import Features, backbone_features
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.job_data import (
    HELD_OUT,
    open_at_size,
    random_sample,
    stratified_sample,
)


class FeatureSplit(NamedTuple):
    """A split's features; `target`'s labels are for the end alone."""

    source: Domain
    held_out: Domain | None
    target: Domain
    source_maps: np.ndarray
    target_maps: np.ndarray


def open_split(job: Job) -> FeatureSplit:
    """The features of the job's split; a split is its seed."""
    cell = job.cell
    assert cell.backbone is not None
    source = stratified_sample(open_at_size(cell.source, cell.size), job.budget.samples, 0)
    target = random_sample(open_at_size(cell.target, cell.size), job.budget.samples)
    drawn = _labelled_part(source, job)
    chosen = np.flatnonzero(np.isin(source.rows, drawn.rows))
    others = np.setdiff1d(np.arange(len(source)), chosen)
    of_source, of_target = (_kept_features(cell.backbone, domain) for domain in (source, target))

    def vectors(domain: Domain, found: Features, which: np.ndarray) -> Domain:
        assert domain.labels is not None
        return from_arrays(
            found.features[which], domain.labels[which], classes=source.classes, name=domain.name
        )

    return FeatureSplit(
        vectors(source, of_source, chosen),
        vectors(source, of_source, others) if len(others) else None,
        vectors(target, of_target, np.arange(len(target))),
        of_source.maps[chosen],
        of_target.maps,
    )


def _labelled_part(source: Domain, job: Job) -> Domain:
    """What is trained on: few images a class, or all but the held-out share."""
    if job.experiment.whole_source:
        return source.split(HELD_OUT, job.seed)[0]
    return saenko_split(source, images_per_class(job), job.seed)


def images_per_class(job: Job) -> int:
    """Labelled source images of a class, by the source's name."""
    return labelled_per_class(job.experiment.source)


def in_span(split: FeatureSplit, *, own_means: bool) -> FeatureSplit:
    """The same split in coordinates of the span of its source and target samples, at unit scale.

    The mean of both domains, which weigh alike, is subtracted first; with `own_means` each
    domain's own, as the shallow methods of the table do it (the paper does not say whose mean it
    subtracts). A head is linear in the features, so a direction in which no sample differs from
    another tells it nothing: a rotation into the others loses nothing and makes a step many times
    cheaper (9,216 features become 493). One number scales all coordinates, the domains weighing
    alike. No label is read.
    """
    source, target = input_array(split.source), input_array(split.target)
    means = [features.mean(0, dtype=np.float64) for features in (source, target)]
    if not own_means:
        means = [(means[0] + means[1]) / 2] * 2
    both = np.concatenate([source - means[0], target - means[1]])
    _, lengths, basis = np.linalg.svd(both, full_matrices=False)
    basis = basis[lengths > 1e-5 * lengths[0]].T
    weights = np.repeat([0.5 / len(source), 0.5 / len(target)], [len(source), len(target)])
    scale = np.sqrt((weights @ np.square(both @ basis)).mean())

    def moved(domain: Domain, mean: np.ndarray) -> Domain:
        coordinates = ((input_array(domain) - mean) @ basis / scale).astype(np.float32)
        return from_arrays(coordinates, domain.labels, classes=domain.classes, name=domain.name)

    return split._replace(
        source=moved(split.source, means[0]),
        target=moved(split.target, means[1]),
        held_out=None if split.held_out is None else moved(split.held_out, means[0]),
    )


def input_array(domain: Domain) -> np.ndarray:
    """(n, features): all inputs of a domain of vectors."""
    inputs = domain.batch(np.arange(len(domain))).inputs
    assert isinstance(inputs, torch.Tensor)
    return inputs.numpy()


@lru_cache(maxsize=4)
def _kept_features(backbone: str, domain: Domain) -> Features:
    return backbone_features(backbone, domain)
