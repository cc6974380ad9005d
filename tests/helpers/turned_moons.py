"""Two moons, and the same two turned: the picture that everyone knows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_moons


class Moons(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_target: np.ndarray
    y_target: np.ndarray


def turned_moons(degrees: float = 35, noise: float = 0.1, seed: int = 0, n: int = 600) -> Moons:
    """`n` points of each domain; the target is turned about the middle of the picture."""
    X, y = make_moons(n, noise=noise, random_state=seed)
    others, labels = make_moons(n, noise=noise, random_state=seed + 1000)
    angle, middle = np.radians(degrees), np.array([0.5, 0.25])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return Moons(X, y, (others - middle) @ turn.T + middle, labels)
