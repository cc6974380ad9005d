"""The head on frozen features (Table 2): a linear bottleneck and a linear label predictor."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks import Blueprint, initialise
from revgrad.networks.sizes import require_positive

#: Of He's initialisation, for the first layer on frozen features.
INITIAL_SCALE = 0.1


class FeatureHead(nn.Module):
    """(n, features) → (n, classes) logits: a linear bottleneck, a linear label predictor.

    The bottleneck starts at `INITIAL_SCALE` times He's initialisation: with 200 labelled samples,
    most directions of the features are in no source sample, so what the first weights say there
    stays for good and reaches the target as noise. (On held-out source, two splits and both
    backbones, .1 was as good as any smaller and .5 to 1 point better than 1.)
    """

    blueprint: ClassVar[Blueprint] = Blueprint("bottleneck")

    def __init__(self, features: int, classes: int, bottleneck: int = 256, seed: int = 0) -> None:
        super().__init__()
        require_positive(features=features, classes=classes, bottleneck=bottleneck)
        self.bottleneck = nn.Linear(features, bottleneck)
        self.output = nn.Linear(bottleneck, classes)
        initialise(self, seed)
        scale_down(self.bottleneck)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(self.bottleneck(features))
        return logits


@torch.no_grad()
def scale_down(layer: nn.Linear) -> None:
    """Start a layer at `INITIAL_SCALE` times its initial weights."""
    layer.weight.mul_(INITIAL_SCALE)
