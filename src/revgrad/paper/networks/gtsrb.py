"""Network (c) of the paper's appendix B, for traffic signs; after Cireşan et al. 2012."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import LinearReLU, MaxPoolReLU
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import Size, map_size, require_positive
from revgrad.paper.networks.winograd import WinogradConvolution


class GTSRBNetwork(nn.Module):
    """(n, channels, size, size) → (n, classes) logits.

    Unpadded convolutions: 40 → 36 → 18 → 16 → 8 → 4 → 2, every pooling divides
    evenly, and `pool3` gives (n, 256, 2, 2), 1,024 features. The paper's figure shows ten
    outputs; the task has 43.
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "pool3",
        size=40,
    )

    def __init__(
        self, classes: int = 43, channels: int = 3, size: Size = 40, seed: int | None = 0
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels)
        self.conv1 = nn.Conv2d(channels, 96, 5)
        self.pool1 = MaxPoolReLU(2, 2)
        self.conv2 = WinogradConvolution(96, 144, 3)
        self.pool2 = MaxPoolReLU(2, 2)
        self.conv3 = WinogradConvolution(144, 256, 5)
        self.pool3 = MaxPoolReLU(2, 2)
        height, width = map_size(
            size, self.conv1, self.pool1, self.conv2, self.pool2, self.conv3, self.pool3
        )
        self.fc4 = LinearReLU(256 * height * width, 512)
        self.fc5 = nn.Linear(512, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool1(self.conv1(images))
        x = self.pool2(self.conv2(x))
        x = self.pool3(self.conv3(x))
        x = self.fc4(x.flatten(1))
        logits: Tensor = self.fc5(x)
        return logits
