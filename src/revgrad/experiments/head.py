"""What is trained on frozen features: a bottleneck and a linear classifier (appendix B, Office)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks import initialise
from revgrad.networks.sizes import require_positive

#: Of He's initialisation, for the first layer on frozen features.
SMALL = 0.1


@torch.no_grad()
def make_small(layer: nn.Linear) -> None:
    """Start a layer at `SMALL` times its initial weights."""
    layer.weight.mul_(SMALL)


class FeatureHead(nn.Module):
    """(n, features) → (n, classes) logits: a linear bottleneck, a linear label predictor.

    The bottleneck starts at `SMALL` times He's initialisation: with 200 labelled rows, most
    directions of the features are in no source row, so what the first weights say there stays for
    good and reaches the target as noise. (On held-out source, two splits and both backbones, .1
    was as good as any smaller and .5 to 1 point better than 1.)
    """

    layer: ClassVar[str] = "bottleneck"
    domain_hidden: ClassVar[tuple[int, ...]] = (1024, 1024)
    max_norm: ClassVar[float | None] = None

    def __init__(self, features: int, classes: int, bottleneck: int = 256, seed: int = 0) -> None:
        super().__init__()
        require_positive(features=features, classes=classes, bottleneck=bottleneck)
        self.bottleneck = nn.Linear(features, bottleneck)
        self.output = nn.Linear(bottleneck, classes)
        initialise(self, seed)
        make_small(self.bottleneck)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(self.bottleneck(features))
        return logits
