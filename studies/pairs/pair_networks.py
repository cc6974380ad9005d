"""Small networks for the pairs, one a shape of input. The domain classifier goes behind `features`;
`hidden` is the layer after it and `early` the one before (as "wrong" layers, where it is tried)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Perceptron(nn.Module):
    """(n, inputs) → (n, classes)."""

    def __init__(self, inputs: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.early = nn.Sequential(nn.Linear(inputs, width), nn.ReLU())
        self.features = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.hidden = nn.Sequential(nn.Linear(width, 32), nn.ReLU())
        self.classifier = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.hidden(self.features(self.early(x))))
        return found


class Pictures(nn.Module):
    """(n, 3, side, side) → (n, classes): two convolutions, average pooling between."""

    def __init__(self, side: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.early = nn.Sequential(nn.Conv2d(3, width, 5, stride=2), nn.ReLU())
        self.features = nn.Sequential(
            nn.Conv2d(width, 2 * width, 5, stride=2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()
        )
        flat = 2 * width * ((((side - 5) // 2 + 1 - 5) // 2 + 1) // 2) ** 2
        self.hidden = nn.Sequential(nn.Linear(flat, 64), nn.ReLU())
        self.classifier = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.hidden(self.features(self.early(x))))
        return found


class Series(nn.Module):
    """(n, channels, length) → (n, classes): convolutions along time, the mean over time."""

    def __init__(self, channels: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.early = nn.Sequential(nn.Conv1d(channels, width, 7, stride=2), nn.ReLU())
        self.features = nn.Sequential(
            nn.Conv1d(width, width, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten()
        )
        self.hidden = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU())
        self.classifier = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.hidden(self.features(self.early(x))))
        return found


def network_for(shape: tuple[int, ...], classes: int, *, seed: int = 0, wide: int = 1) -> nn.Module:
    """The network for inputs of this shape, of one sample as an array has it; `wide` times as wide
    as usual."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if len(shape) == 1:
            return Perceptron(shape[0], classes, 64 * wide)
        if len(shape) == 2:
            return Series(shape[0], classes, 32 * wide)
        return Pictures(shape[0], classes, 16 * wide)
