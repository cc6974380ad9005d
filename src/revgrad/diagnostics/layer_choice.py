"""Choice of the layer to attach the domain classifier to: where the domains lie nearest (§4).

The paper takes DDC's rule, the difference of means (Tzeng et al. 2014); MMD stands beside it, as
equal means are not equal distributions. Both are without unit, so layers can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from revgrad.cutting.listing import Layer, layers
from revgrad.diagnostics.inputs import flat_pair
from revgrad.domains.common_shape import match_colours
from revgrad.domains.domain import Domain
from revgrad.errors import CheckpointError, InputError, unknown
from revgrad.evaluation import features_at
from revgrad.networks.registry import blueprint_of
from revgrad.objectives.discrepancy import (
    difference_of_means,
    median_bandwidths,
    mmd,
    relative_difference_of_means,
)
from revgrad.preprocessing import Preprocessing
from revgrad.training.run import Run
from revgrad.training.weights import load_initial, restore_weights

#: What layers can be ranked by.
LAYER_RULES = ("relative_difference", "mmd")
#: Samples of each domain that a distance is measured on.
SAMPLES_MEASURED = 1000
#: The same where all layers of a network are looked at: a wide layer's MMD takes time with their
#: square.
SAMPLES_OF_ALL_LAYERS = 500
#: Numbers of a layer's features that are held at once for one domain (half a GB as float64).
MOST_NUMBERS = 2**26

_WORDS = {"relative_difference": "the difference of means", "mmd": "MMD"}
#: Kinds whose output holds the same numbers as their input, in evaluation mode.
_SAME = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Flatten", "Identity"})


@dataclass(frozen=True)
class LayerShift:
    """Distances of the domains at one layer.

    Infinite where the layer gives the same for every sample: such a layer tells nothing.

    Attributes
    ----------
    difference
        ‖mean(source) − mean(target)‖², in the features' own unit
    relative_difference
        the same over the mean squared distance of a sample to its domain's mean
    mmd
        squared MMD, Gaussian kernels around the median distance of two samples,
        unbiased: about 0 for equal domains, also below
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
        """The layers, the one where the domains are nearest first."""
        return tuple(sorted(self.shifts, key=lambda shift: float(getattr(shift, self.rule))))

    @property
    def suggested(self) -> str:
        """The layer at which the domains lie nearest by `rule`, the first of several."""
        return self.ranked[0].layer


@dataclass(frozen=True)
class LayerSuggestion:
    """The layer, and what it was chosen by.

    Attributes
    ----------
    samples
        of each domain that were looked at
    default
        the layer the network is made to be cut at, where it names one
    trained
        whether the weights were learnt, or random
    """

    ranking: LayerRanking
    samples: int
    default: str | None
    trained: bool

    @property
    def layer(self) -> str:
        """The layer that is suggested."""
        return self.ranking.suggested

    @property
    def sentences(self) -> list[str]:
        """Why, and what to think of it."""
        rule = self.ranking.rule
        best = self.ranking.ranked[0]
        other = next(name for name in LAYER_RULES if name != rule)
        agreed = LayerRanking(self.ranking.shifts, other).suggested
        agrees = "agrees" if agreed == best.layer else f"would take {agreed}"
        if not math.isfinite(getattr(best, rule)):
            return ["No layer is suggested: every one gives the same for all samples."]
        near = (
            f"the domains' means lie {best.relative_difference:.2g} of the spread within a domain "
            "apart there"
            if rule == "relative_difference"
            else f"the domains' MMD is {best.mmd:.2g} there"
        )
        why = f"Attach at {best.layer} (--layer {best.layer}): {near}, less than at any other"
        why += f" layer; {_WORDS[other]} {agrees}."
        if self.trained:
            return [why]
        return [
            why,
            "The weights are random: with --init RUN, a source-only run, the features are learnt "
            "ones and the distances say more.",
        ]

    def as_json(self) -> dict[str, Any]:
        """For programs; an infinite distance is null."""

        def plain(value: Any) -> Any:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return {
            "suggested": self.layer,
            "default": self.default,
            "rule": self.ranking.rule,
            "samples": self.samples,
            "trained": self.trained,
            "why": " ".join(self.sentences),
            "layers": [
                {key: plain(value) for key, value in asdict(shift).items()}
                for shift in self.ranking.ranked
            ],
        }


def suggest_layer(
    network: nn.Module,
    source: Domain,
    target: Domain,
    *,
    rule: str = "relative_difference",
    samples: int = SAMPLES_OF_ALL_LAYERS,
    trained: Path | None = None,
) -> LayerSuggestion:
    """The layer at which the domains lie nearest, by `rule` (`LAYER_RULES`).

    Neither domain's labels are read.

    Parameters
    ----------
    samples
        of each domain, evenly spaced; fewer where a layer is so wide that memory would suffer
    trained
        a run (a folder) or a .safetensors file whose weights the network gets first
    """
    _refuse_few(samples)
    one, other = match_colours([source.without_labels(), target.without_labels()])
    for domain in (one, other):
        if len(domain) < 2:
            raise InputError(
                f"{domain.name} has {len(domain)} samples: a distance of domains needs two or more"
            )
    prepare = _with_weights(network, trained) or suited_preprocessing(network, one, other)
    example = one.batch([0, 1], augment=False).inputs
    blueprint = blueprint_of(network)
    default = None if blueprint is None else blueprint.layer
    places = attachable(layers(network, prepare(example)), default)
    if not places:
        raise InputError("the network has no layer that it can be cut at")
    few = min(samples, max(MOST_NUMBERS // max(map(feature_count, places)), 2))
    ranking = rank_network_layers(
        network,
        [place.name for place in places],
        one,
        other,
        rule,
        preprocessing=prepare,
        samples=few,
    )
    return LayerSuggestion(
        ranking, min(few, max(len(one), len(other))), default, trained is not None
    )


def layer_shift(layer: str, source: ArrayLike, target: ArrayLike) -> LayerShift:
    """Distances of (n, …) source and (m, …) target features of one layer."""
    pair = flat_pair(source, target)
    one, other = (torch.from_numpy(part) for part in pair)
    if min(len(one), len(other)) < 2:
        raise InputError("a distance of domains needs two samples or more of each")
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
    """Layers by name, each with its source and target features, by `rule` (`LAYER_RULES`)."""
    return _ranking([layer_shift(layer, *pair) for layer, pair in features.items()], rule)


def rank_network_layers(
    network: nn.Module,
    layers: Sequence[str],
    source: Domain,
    target: Domain,
    rule: str = "relative_difference",
    *,
    preprocessing: nn.Module | None = None,
    samples: int = SAMPLES_MEASURED,
) -> LayerRanking:
    """`rank_layers` of a network's layers, over `samples` of each domain, evenly spaced.

    No label is read.

    Parameters
    ----------
    preprocessing
        what comes in front of the network; by default `Preprocessing.suited`
    """
    _refuse_few(samples)
    domains = match_colours([source.without_labels(), target.without_labels()])
    prepare = preprocessing or suited_preprocessing(network, *domains)
    few = [domain.sample(samples) for domain in domains]
    shifts = []
    for layer in layers:  # one at a time: early layers are wide
        one, other = (features_at(network, layer, domain, preprocessing=prepare) for domain in few)
        shifts.append(layer_shift(layer, one, other))
    return _ranking(shifts, rule)


def suited_preprocessing(network: nn.Module, *domains: Domain) -> nn.Module:
    """`Preprocessing.suited`, where and in the precision that the network is."""
    prepare = Preprocessing.suited(network, *domains)
    parameter = next(network.parameters(), None)
    return prepare if parameter is None else prepare.to(parameter.device, parameter.dtype)


def attachable(layers: Sequence[Layer], default: str | None = None) -> list[Layer]:
    """The cuttable layers, in order, without those that say what another says; `default` stays.

    Left out: dropout and the like, and what lies inside a block that can be cut at and gives as
    many features (a convolution, its BatchNorm and its ReLU, for the block they make).
    """
    blocks = {layer.name: layer for layer in layers if layer.cuttable}

    def inside(layer: Layer) -> bool:
        block = blocks.get(layer.name.rpartition(".")[0])
        return block is not None and feature_count(block) == feature_count(layer)

    return [
        layer
        for layer in layers
        if layer.cuttable
        and (layer.name == default or (layer.kind not in _SAME and not inside(layer)))
    ]


def layers_around(layers: Sequence[Layer], default: str | None) -> list[str]:
    """The layer a network is made to be cut at, the one before it and the two behind it.

    Without such a layer, the last four.
    """
    names = [layer.name for layer in attachable(layers, default)]
    if default is None:
        return names[-4:]
    if default not in names:
        return [default]
    here = names.index(default)
    return names[max(here - 1, 0) : here + 3]


def feature_count(layer: Layer) -> int:
    """Numbers that the layer gives for one sample; 0 where that is not known."""
    return 0 if layer.shape is None else math.prod(layer.shape)


def _ranking(shifts: Sequence[LayerShift], rule: str) -> LayerRanking:
    if rule not in LAYER_RULES:
        raise unknown("rule", rule, LAYER_RULES)
    if not shifts:
        raise InputError("name the layers to rank; revgrad.layers(network, example) lists them")
    return LayerRanking(tuple(shifts), rule)


def _refuse_few(samples: int) -> None:
    if samples < 2:
        raise InputError(f"a distance of domains needs two samples or more, not {samples}")


def _with_weights(network: nn.Module, path: Path | None) -> nn.Module | None:
    """Fill the network; the preprocessing that belongs to its weights, where it is known."""
    if path is None:
        return None
    if not path.is_dir():
        load_initial(network, path)
        return None
    checkpoint = Run(path).checkpoint()
    if checkpoint is None:
        raise CheckpointError(f"{path} has no checkpoint to take weights from")
    return restore_weights(network, checkpoint)
