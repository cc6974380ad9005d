"""Two moons for the loops beside this file: labelled, and the same turned by 35°, as tensors."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor


def moons(turn: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(600, 2) points, turned about their middle by `turn` degrees, and their classes."""
    points, classes = make_moons(600, noise=0.1, random_state=seed)
    points, angle = points - points.mean(axis=0), np.deg2rad(turn)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return torch.from_numpy((points @ matrix).astype(np.float32)), torch.from_numpy(classes)


def accuracy(logits: Tensor, classes: Tensor) -> float:
    return float((logits.argmax(1) == classes).float().mean())
