"""Small pictures of a domain's images, for pages that show what a prediction is about."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from revgrad.domains.domain import Domain
from revgrad.evaluation.predicting import chunks

#: Longest side, in pixels.
SIDE = 48


def thumbnails(domain: Domain, side: int = SIDE) -> Tensor | None:
    """(n, height, width, 3) uint8 of every image, none larger than `side`; None for no images."""
    if not len(domain) or not domain.is_images:
        return None
    parts = []
    for inputs in chunks(domain, torch.device("cpu")):
        assert isinstance(inputs, Tensor)  # `is_images` says so
        parts.append(_small(inputs, side))
    return torch.cat(parts)


def _small(images: Tensor, side: int) -> Tensor:
    """(n, channels, h, w) → (n, h, w, 3), both uint8."""
    values = images.float()
    longest = max(values.shape[2:])
    if longest > side:
        size = [max(round(length * side / longest), 1) for length in values.shape[2:]]
        values = interpolate(values, size=size, mode="bilinear", antialias=True)
    colour = values[:, :3] if values.shape[1] >= 3 else values[:, :1].expand(-1, 3, -1, -1)
    return colour.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
