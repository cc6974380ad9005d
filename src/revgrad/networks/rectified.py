"""One box of the paper's figures is one layer: the operation together with its ReLU.

So what a user attaches to, hooks or plots under a figure's name is what the figure shows there.
Weights keep the plain keys of their base class (`conv3.weight`, `fc3.bias`). The ReLU works in
place: no operation before it needs its own output in the backward pass.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.networks import products


class ConvolutionReLU(nn.Conv2d):
    """(n, c, h, w) → (n, maps, h', w'), rectified."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu_(super().forward(input))


class LinearReLU(nn.Linear):
    """(n, features) → (n, units), rectified."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu_(products.linear(input, self.weight, self.bias))


class MaxPoolReLU(nn.MaxPool2d):
    """Max-pool, then rectify: bit for bit what rectifying first gives, on a quarter of the values.

    ReLU is monotone, so it commutes with the maximum. The gradient is the same too: it goes to the
    first largest value of a window where that is positive, and nowhere where it is not.
    """

    def forward(self, input: Tensor) -> Tensor:
        pooled: Tensor = super().forward(input)
        return F.relu_(pooled)
