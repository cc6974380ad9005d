"""A small network of 3×3 convolutions with batch normalisation: ours, for small images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import Size, require_positive


class CompactNetwork(nn.Module):
    """(n, channels, height, width) → (n, classes) logits; images of any size from 12×12 on.

    Three stages of 3×3 convolutions, each followed by batch normalisation and ReLU; max-pooling
    halves the size between stages; `pool` averages down to 3×3 positions; a dense layer of 128 and
    a linear one decide. (With one average over all positions the network can't tell the digit in
    the middle from its neighbours: on SVHN it learned nothing in 500 steps.)

    Parameters
    ----------
    classes
        outputs
    channels
        of the images
    size
        of the images: (height, width), or one number
    widths
        of the convolutions, stage by stage
    seed
        of the initial weights; None: PyTorch's own

    Examples
    --------
    >>> N = revgrad.networks.CompactNetwork(classes=5, size=32)
    >>> N(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 5])
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "pool",
        size=28,
        domain_classifier=(128,),
    )

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        size: Size = 28,
        widths: Sequence[Sequence[int]] = ((32,), (64, 64), (128,)),
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels)
        before = channels
        stages: list[nn.Module] = []
        for number, stage in enumerate(widths):
            layers: list[nn.Module] = [nn.MaxPool2d(2)] if number else []
            for width in stage:
                layers += [
                    nn.Conv2d(before, width, 3, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                before = width
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.hidden = nn.Sequential(
            nn.Linear(9 * before, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(inplace=True)
        )
        self.out = nn.Linear(128, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.out(self.hidden(self.pool(self.stages(images))))
        return logits
