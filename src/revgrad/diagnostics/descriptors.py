"""Rows as numbers that no training had a part in: images by the directions of their edges."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad.errors import InputError
from revgrad.shallow.inputs import Array

#: Images are brought to this many pixels a side.
SIDE = 28
#: Directions of an edge that are told apart; one and its opposite are the same, so that light on
#: dark and dark on light look alike.
DIRECTIONS = 8
#: Edges are counted in windows of WINDOW pixels a side, one every STRIDE pixels.
WINDOW, STRIDE = 8, 2
#: No count is larger than this, in units of its surroundings' size.
CEILING = 1.5
_CHUNK = 500


def describe(inputs: np.ndarray) -> Array:
    """(n, d): what is compared of (n, height, width, 3) uint8 images; (n, d) numbers as they are.

    Of images: histograms of oriented gradients (Dalal and Triggs 2005), of the slightly smoothed
    image, the colour of the steepest edge, windows that overlap, each divided by the size of its
    3×3 surroundings. They say where strokes run, and little of colour, contrast and light.
    """
    rows = np.asarray(inputs)
    if rows.ndim == 2:
        return rows.astype(np.float64)
    if rows.ndim != 4 or rows.shape[3] != 3:
        raise InputError(
            f"rows to describe are (n, height, width, 3) images or (n, d); {rows.shape} came"
        )
    parts = [_edges(rows[start : start + _CHUNK]) for start in range(0, len(rows), _CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, 0))


def _edges(images: np.ndarray) -> Array:
    values = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    if values.shape[2:] != (SIDE, SIDE):
        values = F.interpolate(values, size=(SIDE, SIDE), mode="bilinear", antialias=True)
    smooth = F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    across, down = _gradients(smooth)
    steepest = (across**2 + down**2).sqrt().max(dim=1, keepdim=True)
    across, down = (part.gather(1, steepest.indices)[:, 0] for part in (across, down))
    turn = torch.atan2(down, across) % torch.pi * (DIRECTIONS / torch.pi)
    lower = turn.floor()
    upper_share = turn - lower
    counts = torch.zeros(len(values), DIRECTIONS, SIDE, SIDE)
    for offset, share in ((0, 1 - upper_share), (1, upper_share)):
        which = ((lower.long() + offset) % DIRECTIONS)[:, None]
        counts.scatter_add_(1, which, steepest.values * share[:, None])
    windows = F.avg_pool2d(counts, WINDOW, STRIDE)
    size = F.avg_pool2d((windows**2).sum(1, keepdim=True), 3, 1, 1, count_include_pad=False)
    scaled = (windows / (size + 1).sqrt()).clamp(max=CEILING)
    found: Array = scaled.flatten(1).double().numpy()
    return found


def _gradients(images: Tensor) -> tuple[Tensor, Tensor]:
    """Differences of the neighbours on both sides; at the border of the edge pixel's own."""
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    across = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]
    down = padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
    return across, down
