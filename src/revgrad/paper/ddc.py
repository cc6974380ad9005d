"""DDC (Tzeng et al. 2014): a bottleneck on a layer of any network, its place and its width.

Place and width are chosen without target labels, by the difference of the domains' means (§3 of
DDC). The paper of gradient reversal takes the same rule for the layer to attach to (§4). Distances
are `relative_difference_of_means`: layers and widths differ in scale, which must not decide.

    place = choose_place(network, ["fc6", "fc7"], source, target).candidate
    width = choose_width([64, 128, 256], lambda w: WithAdaptationLayer(…, place, w, …), …).candidate
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from revgrad import Blueprint, Domain, Recipe, Settings, adapt, cut
from revgrad.adapter import evaluating
from revgrad.batch import Inputs, map_inputs
from revgrad.diagnostics.layer_choice import SAMPLES_MEASURED, suited_preprocessing
from revgrad.domains import match_colours
from revgrad.errors import InputError
from revgrad.evaluation import SAMPLES_AT_ONCE, features_at
from revgrad.networks import blueprint_of, initialise
from revgrad.networks.sizes import require_positive
from revgrad.objectives import LabelLoss
from revgrad.objectives.discrepancy import relative_difference_of_means

log = logging.getLogger("revgrad")

#: DDC's weight of the difference of means.
FACTOR = 0.25

Tried = TypeVar("Tried")


class WithAdaptationLayer(nn.Module):
    """`network` up to `place`, a linear adaptation layer of `width` units, a linear classifier.

    (n, …) → (n, classes) logits. `adaptation` is the layer whose features are brought together
    (MeanMatching is DDC; Adversarial is the paper's own bottleneck on fc7). What `network` has
    behind `place` is kept but not used. `example` is a batch of what `network` takes, behind any
    preprocessing: the place's width is read from it. The new weights depend on `seed` alone.
    """

    blueprint: ClassVar[Blueprint] = Blueprint("adaptation")

    def __init__(
        self,
        network: nn.Module,
        place: str,
        width: int,
        classes: int,
        example: Inputs,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_positive(width=width, classes=classes)
        self.network = network
        self.place = place
        self._front = cut(network, place)
        parameter = next(network.parameters(), None)
        if parameter is not None:
            device = parameter.device
            example = map_inputs(lambda tensor: tensor.to(device), example)
        with torch.no_grad(), evaluating(network):
            features = self._front.features(example).flatten(1)
        with torch.random.fork_rng(devices=[]):  # layers draw weights before they get ours
            new = initialise(
                nn.Sequential(nn.Linear(features.shape[1], width), nn.Linear(width, classes)), seed
            ).to(features.device, features.dtype)
        self.adaptation, self.output = new[0], new[1]

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.output(self.adaptation(self._front.features(inputs).flatten(1)))
        return logits


@dataclass(frozen=True)
class Nearest(Generic[Tried]):
    """The candidate of the smallest distance (the first of several), and every one's."""

    candidate: Tried
    distances: tuple[tuple[Tried, float], ...]


def choose_place(
    network: nn.Module,
    layers: Sequence[str],
    source: Domain,
    target: Domain,
    *,
    preprocessing: nn.Module | None = None,
    samples: int = SAMPLES_MEASURED,
    batch_size: int = SAMPLES_AT_ONCE,
) -> Nearest[str]:
    """The layer at which the domains' means lie nearest, relative to the spread within them.

    Neither domain needs labels and none are read.

    Parameters
    ----------
    preprocessing
        what comes in front of the network; by default `Preprocessing.fit` of both
    samples
        of each domain that take part, evenly spaced
    """
    if not layers:
        raise InputError("name the layers to choose from; revgrad.layers(network, example) lists")
    one, other = match_colours([source.without_labels(), target.without_labels()])
    prepare = preprocessing or suited_preprocessing(network, one, other)
    return _nearest(
        [
            (layer, domain_distance(network, layer, one, other, prepare, samples, batch_size))
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
    label_loss: LabelLoss | None = None,
    preprocessing: nn.Module | None = None,
    settings: Settings | None = None,
    samples: int = SAMPLES_MEASURED,
    progress: bool = False,
    **changes: Any,
) -> Nearest[int]:
    """The width of the adaptation layer that brings the domains' means nearest in a short training.

    Each network is trained by MeanMatching on the source's labels; the target's are never read.

    Parameters
    ----------
    build
        a network with an adaptation layer of the given width, at `layer` (by default what
        its blueprint names). It must give the same network for the same width
    settings
        of each training, by default 300 steps with λ = .25; any field by name (steps=…)
    """
    if not widths:
        raise InputError("name the widths to choose from")
    short = Settings(steps=300, adaptation_factor=FACTOR, evaluate_every=0, checkpoint_every=0)
    chosen = replace(short if settings is None else settings, **changes)
    one, other = match_colours([source, target.without_labels()])
    found = []
    for width in widths:
        network = build(width)
        blueprint = blueprint_of(network)
        place = layer or (None if blueprint is None else blueprint.layer)
        if place is None:
            raise InputError("name the layer that has the width (layer=…)")
        prepare = preprocessing or suited_preprocessing(network, one, other)
        adapt(
            network,
            one,
            other,
            layer=place,
            # matching means needs no domain classifier
            recipe=Recipe(
                "mean-matching", chosen, nn.Identity(), preprocessing=prepare, label_loss=label_loss
            ),
            held_out=0,
            progress=progress,
        )
        distance = domain_distance(network, place, one, other, prepare, samples, chosen.batch_size)
        log.info("adaptation layer of %d units: relative difference of means %.4g", width, distance)
        found.append((width, distance))
    return _nearest(found)


def domain_distance(
    network: nn.Module,
    layer: str,
    source: Domain,
    target: Domain,
    preprocessing: nn.Module | None = None,
    samples: int = SAMPLES_MEASURED,
    batch_size: int = SAMPLES_AT_ONCE,
) -> float:
    """`relative_difference_of_means` of two domains at a layer, over `samples` of each domain.

    Infinite where the layer gives the same for every sample: such a layer tells nothing.
    """
    if samples < 2:
        raise InputError(f"a distance of domains needs two samples or more, not {samples}")
    one, other = (
        torch.from_numpy(
            features_at(
                network,
                layer,
                domain.sample(samples),
                preprocessing=preprocessing,
                batch=batch_size,
            )
        ).double()
        for domain in (source, target)
    )
    if not bool((torch.cat([one, other]) != one[0]).any()):
        return math.inf
    return float(relative_difference_of_means(one, other))


def _nearest(found: list[tuple[Tried, float]]) -> Nearest[Tried]:
    bad = [candidate for candidate, distance in found if math.isnan(distance)]
    if bad:
        raise InputError(f"the features at {bad[0]!r} are not finite numbers")
    return Nearest(min(found, key=lambda pair: pair[1])[0], tuple(found))
