"""Network (b) of the paper's appendix B, for what involves SVHN; adopted from Srivastava 2014."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import ConvolutionReLU, LinearReLU, MaxPoolReLU
from revgrad.networks.sizes import Size, map_size, require_positive


class SVHNNetwork(nn.Module):
    """(n, channels, size, size) → (n, classes) logits.

    Unpadded, a 4×4 map would be left for the third 5×5 convolution, which doesn't fit; so every
    convolution keeps its size (padding 2): 32 → 32 → 15 → 15 → 7 → 7, and `conv3` gives
    (n, 128, 7, 7), 6,272 features (28 → 28 → 13 → 13 → 6 → 6: 4,608).
    Dropout as in Srivastava et al. 2014: .9 of the input is kept, .75, .75 and .5 of the three
    convolutional layers' outputs and .5 of each dense layer's. `drop3` stands after `conv3`: what
    attaches at `conv3` sees the features whole.
    """

    layer: ClassVar[str] = "conv3"
    size: ClassVar[int] = 32
    domain_hidden: ClassVar[tuple[int, ...]] = (1024, 1024)
    max_norm: ClassVar[float | None] = 4.0

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        size: Size = 32,
        dropout: bool = True,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels)

        def keep(share: float) -> nn.Module:
            return nn.Dropout(1 - share) if dropout else nn.Identity()

        self.drop0 = keep(0.9)
        self.conv1 = nn.Conv2d(channels, 64, 5, padding=2)
        self.pool1 = MaxPoolReLU(3, 2)
        self.drop1 = keep(0.75)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.pool2 = MaxPoolReLU(3, 2)
        self.drop2 = keep(0.75)
        self.conv3 = ConvolutionReLU(64, 128, 5, padding=2)
        self.drop3 = keep(0.5)
        height, width = map_size(size, self.conv1, self.pool1, self.conv2, self.pool2, self.conv3)
        self.fc4 = LinearReLU(128 * height * width, 3072)
        self.drop4 = keep(0.5)
        self.fc5 = LinearReLU(3072, 2048)
        self.drop5 = keep(0.5)
        self.fc6 = nn.Linear(2048, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool1(self.conv1(self.drop0(images)))
        x = self.pool2(self.conv2(self.drop1(x)))
        x = self.conv3(self.drop2(x))
        x = self.fc4(self.drop3(x).flatten(1))
        x = self.fc5(self.drop4(x))
        logits: Tensor = self.fc6(self.drop5(x))
        return logits
