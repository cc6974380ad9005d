"""Where to adapt, and how wide, without target labels: DDC's rule (Tzeng et al. 2014, §3).

The paper of gradient reversal takes the same rule for the layer to attach to (§4). Distances are
`relative_difference_of_means`: layers and widths differ in scale, which must not decide.

    place = choose_place(network, ["fc6", "fc7"], source, target).chosen
    width = choose_width([64, 128, 256], lambda w: WithAdaptationLayer(…, place, w, …), …).chosen
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from revgrad.adapter import DomainAdapter
from revgrad.discrepancy import relative_difference_of_means
from revgrad.domains.domain import Domain
from revgrad.domains.matching import match_colours
from revgrad.errors import InputError
from revgrad.evaluation.features import features_at
from revgrad.evaluation.predicting import ROWS
from revgrad.objectives import LabelLoss, MeanMatching, cross_entropy
from revgrad.preprocessing import Preprocessing
from revgrad.schedules import Constant
from revgrad.training.distributed import together
from revgrad.training.progress import ProgressBar
from revgrad.training.settings import Settings
from revgrad.training.trainer import Trainer

log = logging.getLogger("revgrad")

#: Rows of each domain that a distance is measured on.
SAMPLE = 1000
#: DDC's weight of the difference of means.
FACTOR = 0.25

Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Choice(Generic[Candidate]):
    """The candidate of the smallest distance (the first of several), and every one's."""

    chosen: Candidate
    distances: tuple[tuple[Candidate, float], ...]


def choose_place(
    network: nn.Module,
    layers: Sequence[str],
    source: Domain,
    target: Domain,
    *,
    preprocessing: nn.Module | None = None,
    rows: int = SAMPLE,
    batch: int = ROWS,
) -> Choice[str]:
    """The layer at which the domains' means lie nearest, relative to the spread within them.

    Neither domain needs labels and none are read. `rows` of each domain, evenly spaced, take part.
    preprocessing   what comes in front of the network; by default `Preprocessing.fit` of both
    """
    if not layers:
        raise InputError("name the layers to choose from; revgrad.layers(network, example) lists")
    one, other = match_colours([source.without_labels(), target.without_labels()])
    prepare = preprocessing or fitted_preprocessing(network, one, other)
    return _nearest(
        [
            (layer, domain_distance(network, layer, one, other, prepare, rows, batch))
            for layer in layers
        ]
    )


def choose_width(
    widths: Sequence[int],
    build: Callable[[int], nn.Module],
    source: Domain,
    target: Domain,
    *,
    layer: str | None = None,
    label_loss: LabelLoss = cross_entropy,
    preprocessing: nn.Module | None = None,
    settings: Settings | None = None,
    rows: int = SAMPLE,
    progress: bool = False,
    **changes: Any,
) -> Choice[int]:
    """The width of the adaptation layer that brings the domains' means nearest in a short training.

    build      a network with an adaptation layer of the given width, at `layer` (by default what
               the network names itself). It must give the same network for the same width
    settings   of each training, by default 300 steps with λ = .25; any field by name (steps=…)
    Each network is trained by MeanMatching on the source's labels; the target's are never read.
    """
    if not widths:
        raise InputError("name the widths to choose from")
    short = Settings(steps=300, factor=Constant(FACTOR), evaluate_every=0, checkpoint_every=0)
    chosen = replace(short if settings is None else settings, **changes)
    one, other = match_colours([source, target.without_labels()])
    found = []
    for width in widths:
        network = build(width)
        place = layer or getattr(network, "layer", None)
        if not isinstance(place, str):
            raise InputError("name the layer that has the width (layer=…)")
        prepare = preprocessing or fitted_preprocessing(network, one, other)
        with together(chosen.device):
            adapter = DomainAdapter(network, place, nn.Identity(), prepare)
            Trainer(
                adapter,
                one,
                other,
                objective=MeanMatching(label_loss),
                settings=chosen,
                events=[ProgressBar(f"width {width}")] if progress else [],
            ).fit()
        distance = domain_distance(network, place, one, other, prepare, rows, chosen.batch)
        log.info("adaptation layer of %d units: relative difference of means %.4g", width, distance)
        found.append((width, distance))
    return _nearest(found)


def domain_distance(
    network: nn.Module,
    layer: str,
    source: Domain,
    target: Domain,
    preprocessing: nn.Module | None = None,
    rows: int = SAMPLE,
    batch: int = ROWS,
) -> float:
    """`relative_difference_of_means` of two domains at a layer, over `rows` of each domain.

    Infinite where the layer gives the same for every row: such a layer tells nothing.
    """
    if rows < 2:
        raise InputError(f"a distance of domains needs two rows or more, not {rows}")
    one, other = (
        torch.from_numpy(
            features_at(
                network, layer, spaced(domain, rows), preprocessing=preprocessing, batch=batch
            )
        ).double()
        for domain in (source, target)
    )
    if not bool((torch.cat([one, other]) != one[0]).any()):
        return math.inf
    return float(relative_difference_of_means(one, other))


def _nearest(found: list[tuple[Candidate, float]]) -> Choice[Candidate]:
    bad = [candidate for candidate, distance in found if math.isnan(distance)]
    if bad:
        raise InputError(f"the features at {bad[0]!r} are not finite numbers")
    return Choice(min(found, key=lambda pair: pair[1])[0], tuple(found))


def spaced(domain: Domain, rows: int) -> Domain:
    """At most `rows`, evenly spaced: all classes take part where they are sorted."""
    if len(domain) <= rows:
        return domain
    return domain.subset(np.linspace(0, len(domain) - 1, rows).astype(np.int64))


def fitted_preprocessing(network: nn.Module, *domains: Domain) -> nn.Module:
    """`Preprocessing.fit` of the domains, where and in the precision that the network is."""
    prepare = Preprocessing.fit(*domains)
    parameter = next(network.parameters(), None)
    return prepare if parameter is None else prepare.to(parameter.device, parameter.dtype)
