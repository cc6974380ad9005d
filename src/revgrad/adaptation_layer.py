"""DDC's network (Tzeng et al. 2014): a bottleneck on a layer of any network, then a classifier."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.adapter import evaluating
from revgrad.batches import Inputs, map_inputs
from revgrad.cutting import cut
from revgrad.networks.initialisation import initialise
from revgrad.networks.sizes import require_positive


class WithAdaptationLayer(nn.Module):
    """`network` up to `place`, a linear adaptation layer of `width` units, a linear classifier.

    (n, …) → (n, classes) logits. `adaptation` is the layer whose features are brought together
    (MeanMatching is DDC; Adversarial is the paper's own bottleneck on fc7). What `network` has
    behind `place` is kept but not used. `example` is a batch of what `network` takes, behind any
    preprocessing: the place's width is read from it. The new weights depend on `seed` alone.
    """

    layer: ClassVar[str] = "adaptation"
    domain_hidden: ClassVar[tuple[int, ...]] = (1024, 1024)
    max_norm: ClassVar[float | None] = None

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
