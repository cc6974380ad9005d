"""How far the domains lie apart at each layer, for where to attach the domain classifier (§4).

The paper takes DDC's rule, the difference of means (Tzeng et al. 2014); MMD stands beside it, as
equal means are not equal distributions. Both are without unit, so layers can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import nn

from revgrad.diagnostics.inputs import pair_of
from revgrad.discrepancy import (
    difference_of_means,
    median_bandwidths,
    mmd,
    relative_difference_of_means,
)
from revgrad.domains.domain import Domain
from revgrad.domains.matching import match_colours
from revgrad.errors import InputError, unknown
from revgrad.evaluation.features import features_at
from revgrad.evaluation.predicting import ROWS
from revgrad.placing import SAMPLE, fitted_preprocessing, spaced

#: What layers can be ranked by.
RULES = ("relative_difference", "mmd")


@dataclass(frozen=True)
class LayerShift:
    """Distances of the domains at one layer.

    difference            ‖mean(source) − mean(target)‖², in the features' own unit
    relative_difference   the same over the mean squared distance of a row to its domain's mean
    mmd                   squared MMD, Gaussian kernels around the median distance of two rows,
                          unbiased: about 0 for equal domains, also below
    Infinite where the layer gives the same for every row: such a layer tells nothing.
    """

    layer: str
    width: int
    difference: float
    relative_difference: float
    mmd: float


@dataclass(frozen=True)
class LayerRanking:
    """Layers in the order they were given; `ranked` puts the nearest domains first."""

    shifts: tuple[LayerShift, ...]
    rule: str

    @property
    def ranked(self) -> tuple[LayerShift, ...]:
        return tuple(sorted(self.shifts, key=lambda shift: float(getattr(shift, self.rule))))

    @property
    def suggested(self) -> str:
        """The layer at which the domains lie nearest by `rule`, the first of several."""
        return self.ranked[0].layer


def layer_shift(layer: str, source: ArrayLike, target: ArrayLike) -> LayerShift:
    """Distances of (n, …) source and (m, …) target features of one layer."""
    pair = pair_of(source, target)
    one, other = (torch.from_numpy(part) for part in pair)
    if min(len(one), len(other)) < 2:
        raise InputError("a distance of domains needs two rows or more of each")
    if not bool((torch.cat([one, other]) != one[0]).any()):
        return LayerShift(layer, one.shape[1], 0.0, math.inf, math.inf)
    widths = median_bandwidths(one, other)
    return LayerShift(
        layer,
        one.shape[1],
        float(difference_of_means(one, other)),
        float(relative_difference_of_means(one, other)),
        float(mmd(one, other, widths, unbiased=True)),
    )


def rank_layers(
    features: Mapping[str, tuple[ArrayLike, ArrayLike]], rule: str = "relative_difference"
) -> LayerRanking:
    """Layers by name, each with its source and target features, ranked by `rule` (`RULES`)."""
    return _ranking([layer_shift(layer, *pair) for layer, pair in features.items()], rule)


def rank_network_layers(
    network: nn.Module,
    layers: Sequence[str],
    source: Domain,
    target: Domain,
    rule: str = "relative_difference",
    *,
    preprocessing: nn.Module | None = None,
    rows: int = SAMPLE,
    batch: int = ROWS,
) -> LayerRanking:
    """`rank_layers` of a network's layers, over `rows` of each domain, evenly spaced.

    No label is read.
    preprocessing   what comes in front of the network; by default `Preprocessing.fit` of both
    """
    if rows < 2:
        raise InputError(f"a distance of domains needs two rows or more, not {rows}")
    domains = match_colours([source.without_labels(), target.without_labels()])
    prepare = preprocessing or fitted_preprocessing(network, *domains)
    few = [spaced(domain, rows) for domain in domains]
    shifts = []
    for layer in layers:  # one at a time: early layers are wide
        one, other = (
            features_at(network, layer, domain, preprocessing=prepare, batch=batch)
            for domain in few
        )
        shifts.append(layer_shift(layer, one, other))
    return _ranking(shifts, rule)


def _ranking(shifts: Sequence[LayerShift], rule: str) -> LayerRanking:
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    if not shifts:
        raise InputError("name the layers to rank; revgrad.layers(network, example) lists them")
    return LayerRanking(tuple(shifts), rule)
