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

    1-d convolutions of `kernels`, each at every second moment and followed by batch normalisation
    and ReLU; `pool` averages over what is left of time; a hidden and a linear layer decide. The
    domain classifier is attached to `pool`.

    Parameters
    ----------
    classes
        outputs
    shape
        of a sample: (channels, time)
    widths
        channels of the convolutions
    kernels
        lengths of the convolutions
    hidden
        width of the dense layer
    seed
        of the initial weights; None: PyTorch's own
    """

    blueprint: ClassVar[Blueprint] = Blueprint("pool", domain_classifier=(64, 64))

    def __init__(
        self,
        classes: int,
        shape: Sequence[int],
        widths: Sequence[int] = (32, 64),
        kernels: Sequence[int] = (7, 5),
        hidden: int = 32,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        if len(shape) != 2:
            raise InputError(f"series are (channels, time) each, not of shape {tuple(shape)}")
        before, length = shape
        require_positive(classes=classes, channels=before, length=length, hidden=hidden)
        if len(widths) != len(kernels):
            raise InputError(f"{len(widths)} widths and {len(kernels)} kernels: one each is meant")
        layers: list[nn.Module] = []
        for width, kernel in zip(widths, kernels, strict=True):
            layers += [
                nn.Conv1d(before, width, kernel, stride=2, padding=kernel // 2, bias=False),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            ]
            before = width
        self.stages = nn.Sequential(*layers)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.hidden = nn.Sequential(nn.Linear(before, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, classes)
        if seed is not None:
            initialise(self, seed)

    def forward(self, series: Tensor) -> Tensor:
        outputs: Tensor = self.out(self.hidden(self.pool(self.stages(series))))
        return outputs
