"""Colours drawn anew for each image: shape alone is left to tell classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from revgrad.batch import Inputs
from revgrad.errors import InputError

WHITE = 255.0


@dataclass(frozen=True)
class Colours:
    """An augmentation (`Domain.augmented`): each image in two colours of its own.

    Images (n, channels, height, width), uint8 → the same shape. An image's grey levels, from its
    darkest to its lightest, become a ramp from one colour to another. Both colours' levels (the
    mean of their channels) are drawn evenly, at least `least` grey levels apart; the lighter may
    come first, which inverts the image. `tint` is the most that a channel differs from the level.

    What it claims to know of the data: that neither colour nor brightness nor its sign tells
    anything about the class. That holds of digits and letters; it does not of traffic signs.
    """

    least: float = 40.0
    tint: float = 80.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= WHITE / 2:
            raise InputError(f"Colours: least is 0 to {WHITE / 2} grey levels, not {self.least}")
        if not (isfinite(self.tint) and self.tint >= 0):
            raise InputError(f"Colours: tint must be a number, 0 or more, not {self.tint}")

    def __call__(self, images: Inputs, generator: torch.Generator) -> Tensor:
        if not isinstance(images, Tensor) or images.ndim != 4 or images.dtype != torch.uint8:
            raise InputError("Colours changes images (n, channels, height, width) of uint8")
        n, channels = images.shape[:2]
        grey = images.float().mean(1, keepdim=True)
        low, high = (edge(grey.flatten(1), 1).view(n, 1, 1, 1) for edge in (torch.amin, torch.amax))
        first, second = self._levels(n, generator)
        start, end = (self._tinted(level, channels, generator) for level in (first, second))
        share = (grey - low) / (high - low).clamp(min=1.0)
        return (start + (end - start) * share).clamp(0, WHITE).round().to(torch.uint8)

    def _levels(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(n,) each: the second evenly from all levels that are far enough from the first."""
        first = torch.rand(n, generator=generator) * WHITE
        below, above = (first - self.least).clamp(min=0), (WHITE - self.least - first).clamp(min=0)
        second = torch.rand(n, generator=generator) * (below + above)
        beyond = second >= below  # past what lies below: as far above the first
        return first, torch.where(beyond, second - below + first + self.least, second)

    def _tinted(self, level: Tensor, channels: int, generator: torch.Generator) -> Tensor:
        """(n, channels, 1, 1): channels about the level, their mean."""
        tints = torch.rand(len(level), channels, generator=generator) * 2 - 1
        tints = (tints - tints.mean(1, keepdim=True)) * self.tint / 2
        return (level[:, None] + tints)[:, :, None, None]
