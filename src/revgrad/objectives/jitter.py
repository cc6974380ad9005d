"""Small random changes of images that leave their class as it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite, radians

import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad.errors import InputError


@dataclass(frozen=True)
class Jitter:
    """Images (n, channels, height, width) in 0…255 → floats, each changed a little.

    Every number is drawn for each image by itself, evenly from −limit to limit, from PyTorch's
    generator of the process, which training seeds for every step.

    What it claims to know of the data: that small turns, shifts and changes of light leave the
    class alone. It never mirrors an image, and never inverts its brightness.

    Attributes
    ----------
    turn
        degrees of rotation
    scale
        logarithm of the size
    shear
        share of the height by which the top moves against the bottom
    shift
        shares of the height and of the breadth
    gain
        logarithm of the contrast, about the image's mean
    tint
        logarithm of each channel's own contrast
    offset
        grey levels added, to each channel by itself
    noise
        largest deviation of noise, in grey levels; drawn from 0
    hole
        side of a square that is filled with the image's mean, as a share of the height
    """

    turn: float = 15.0
    scale: float = 0.15
    shear: float = 0.15
    shift: float = 0.1
    gain: float = 0.35
    tint: float = 0.2
    offset: float = 30.0
    noise: float = 8.0
    hole: float = 0.35

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isfinite(value) or value < 0:
                raise InputError(f"Jitter: {field.name} must be a number, 0 or more, not {value}")

    def __call__(self, images: Tensor) -> Tensor:
        if images.ndim != 4:
            raise InputError(
                f"Jitter changes images (n, channels, height, width), not {tuple(images.shape)}"
            )
        values = images if images.is_floating_point() else images.float()
        return self._holed(self._lit(self._moved(values))).contiguous(
            memory_format=torch.channels_last
        )

    def _moved(self, x: Tensor) -> Tensor:
        n = len(x)
        angle = _even(x, n) * radians(self.turn)
        size = torch.exp(_even(x, n) * self.scale)
        lean = _even(x, n) * self.shear
        right, down = _even(x, n) * 2 * self.shift, _even(x, n) * 2 * self.shift  # a side is 2
        cosine, sine = torch.cos(angle) / size, torch.sin(angle) / size
        rows = [cosine, lean * cosine - sine, right, sine, lean * sine + cosine, down]
        grid = F.affine_grid(torch.stack(rows, 1).view(n, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)

    def _lit(self, x: Tensor) -> Tensor:
        n, channels = x.shape[:2]
        mean = x.mean((1, 2, 3), keepdim=True)
        logarithm = _even(x, n, 1, 1, 1) * self.gain + _even(x, n, channels, 1, 1) * self.tint
        x = (x - mean) * logarithm.exp() + mean + _even(x, n, channels, 1, 1) * self.offset
        deviation = torch.rand(n, 1, 1, 1, dtype=x.dtype, device=x.device) * self.noise
        return x + torch.randn_like(x) * deviation

    def _holed(self, x: Tensor) -> Tensor:
        n, _, height, width = x.shape
        half = self.hole * height / 2
        row = torch.rand(n, 1, 1, 1, device=x.device) * height
        column = torch.rand(n, 1, 1, 1, device=x.device) * width
        rows = torch.arange(height, device=x.device).view(1, 1, height, 1) + 0.5
        columns = torch.arange(width, device=x.device).view(1, 1, 1, width) + 0.5
        inside = ((rows - row).abs() < half) & ((columns - column).abs() < half)
        return torch.where(inside, x.mean((1, 2, 3), keepdim=True), x)


def _even(like: Tensor, *shape: int) -> Tensor:
    """Even numbers from −1 to 1."""
    return torch.rand(*shape, dtype=like.dtype, device=like.device) * 2 - 1
