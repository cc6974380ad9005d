"""Network (b) of the paper's appendix B, for what involves SVHN; adopted from Srivastava 2014."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import ConvolutionReLU, LinearReLU, MaxPoolReLU
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import Size, map_size, require_positive
from revgrad.paper.networks.winograd import WinogradConvolution

#: Shares kept by dropout: of the input, behind three convolutions, behind two dense layers.
DENSE = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5)
SRIVASTAVA = (0.9, 0.75, 0.75, 0.5, 0.5, 0.5)
WHOLE = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


class SVHNNetwork(nn.Module):
    """(n, channels, size, size) → (n, classes) logits.

    Unpadded, and the poolings round up, as Caffe's do: 32 → 28 → 14 → 10 → 5 → 1, which fits 32×32
    pixels to the last one. `conv3` gives (n, 128, 1, 1): 128 features, each of which sees the
    whole image. Smaller images are too small. Padded by 1 or 2 `conv3` gives 3×3 or 7×7
    positions that see parts of the image (docs/paper.md says what plain reversal did there).
    `keep` are the shares kept by dropout: of the input, behind the three convolutions and behind
    the two dense layers. The paper gives no numbers; by default half of each dense layer is kept
    and the rest is whole. `SRIVASTAVA` are those of Srivastava et al. 2014, from whom the paper
    adopted this network; `WHOLE` is no dropout. `drop3` stands after `conv3`: what attaches at
    `conv3` sees the features whole.
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "conv3",
        size=32,
        max_weight_norm=4.0,
    )

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        size: Size = 32,
        keep: Sequence[float] = DENSE,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels)

        if len(keep) != 6 or not all(0 < share <= 1 for share in keep):
            raise InputError(
                f"keep takes six shares above 0 and at most 1 (the input, three convolutions, two "
                f"dense layers), not {tuple(keep)}"
            )
        drops = [nn.Dropout(1 - share) if share < 1 else nn.Identity() for share in keep]
        self.drop0 = drops[0]
        self.conv1 = nn.Conv2d(channels, 64, 5)
        self.pool1 = MaxPoolReLU(3, 2, ceil_mode=True)
        self.drop1 = drops[1]
        self.conv2 = WinogradConvolution(64, 64, 5)
        self.pool2 = MaxPoolReLU(3, 2, ceil_mode=True)
        self.drop2 = drops[2]
        self.conv3 = ConvolutionReLU(64, 128, 5)
        self.drop3 = drops[3]
        height, width = map_size(size, self.conv1, self.pool1, self.conv2, self.pool2, self.conv3)
        self.fc4 = LinearReLU(128 * height * width, 3072)
        self.drop4 = drops[4]
        self.fc5 = LinearReLU(3072, 2048)
        self.drop5 = drops[5]
        self.fc6 = nn.Linear(2048, classes)
        if seed is not None:
            initialise(self, seed)
            self._start_gently(keep)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _start_gently(self, keep: Sequence[float]) -> None:
        """Dropout that keeps a share k of a layer's inputs multiplies their mean square by 1/k: the
        weights make up for it. The first two dense layers, wide ones behind few features, start at
        three tenths. Otherwise the first steps at the paper's rate leave `conv3` without a unit
        above 0."""
        convolutions = (self.conv1.weight, self.conv2.weight, self.conv3.weight)
        weights = (*convolutions, self.fc4.weight, self.fc5.weight, self.fc6.weight)
        with torch.no_grad():
            for weight, share in zip(weights, keep, strict=True):
                weight.mul_(sqrt(share))
            self.fc4.weight.mul_(0.3)
            self.fc5.weight.mul_(0.3)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool1(self.conv1(self.drop0(images)))
        x = self.pool2(self.conv2(self.drop1(x)))
        x = self.conv3(self.drop2(x))
        x = self.fc4(self.drop3(x).flatten(1))
        x = self.fc5(self.drop4(x))
        logits: Tensor = self.fc6(self.drop5(x))
        return logits
