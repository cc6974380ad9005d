"""A small network of 1-d convolutions: the default for series (sensors, signals)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import require_positive


class SeriesNetwork(nn.Module):
    """(n, channels, time) → (n, classes) logits, or that many numbers; series of any length.

    Three 1-d convolutions, each followed by batch normalisation and ReLU, the first two by a
    max-pooling that halves the length where there is something to halve; `pool` averages over what
    is left of time; a linear layer decides. The domain classifier is attached to `pool`.
    """

    blueprint: ClassVar[Blueprint] = Blueprint("pool", domain_classifier=(64, 64))

    def __init__(
        self,
        classes: int,
        shape: Sequence[int],
        widths: Sequence[int] = (32, 64, 64),
        kernel: int = 5,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        if len(shape) != 2:
            raise InputError(f"series are (channels, time) each, not of shape {tuple(shape)}")
        before, length = shape
        require_positive(classes=classes, channels=before, length=length)
        layers: list[nn.Module] = []
        for number, width in enumerate(widths):
            layers += [
                nn.Conv1d(before, width, kernel, padding=kernel // 2, bias=False),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            ]
            if number < len(widths) - 1 and length >= 2:
                layers.append(nn.MaxPool1d(2))
                length //= 2
            before = width
        self.stages = nn.Sequential(*layers)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.out = nn.Linear(before, classes)
        if seed is not None:
            initialise(self, seed)

    def forward(self, series: Tensor) -> Tensor:
        outputs: Tensor = self.out(self.pool(self.stages(series)))
        return outputs
