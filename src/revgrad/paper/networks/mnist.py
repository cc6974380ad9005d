"""Network (a) of the paper's appendix B, for sources made of MNIST digits."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import LinearReLU, MaxPoolReLU
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import Size, map_size, require_positive


class MNISTNetwork(nn.Module):
    """(n, channels, size, size) → (n, classes) logits.

    Unpadded convolutions: 28 → 24 → 12 → 8 → 4, so `pool2` gives (n, 48, 4, 4), 768 features.
    The ReLU of each convolution comes after its pooling, inside `pool1` and `pool2`.
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "pool2",
        size=28,
        domain_classifier=(100,),
    )

    def __init__(
        self, classes: int = 10, channels: int = 3, size: Size = 28, seed: int | None = 0
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels)
        self.conv1 = nn.Conv2d(channels, 32, 5)
        self.pool1 = MaxPoolReLU(2, 2)
        self.conv2 = nn.Conv2d(32, 48, 5)
        self.pool2 = MaxPoolReLU(2, 2)
        height, width = map_size(size, self.conv1, self.pool1, self.conv2, self.pool2)
        self.fc3 = LinearReLU(48 * height * width, 100)
        self.fc4 = LinearReLU(100, 100)
        self.fc5 = nn.Linear(100, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool1(self.conv1(images))
        x = self.pool2(self.conv2(x))
        x = self.fc3(x.flatten(1))
        x = self.fc4(x)
        logits: Tensor = self.fc5(x)
        return logits
