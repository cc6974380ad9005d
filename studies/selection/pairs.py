"""The study's pairs of domains, small enough for many trainings.

Those of `TUNED` are looked at when the verdict and the recommended score are made; those of
`JUDGED` only to say how good they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revgrad.domains import Domain, from_arrays, open_domain

SIZE = 28
#: Samples of a domain that take part at most.
SAMPLES = 8000


class Data(NamedTuple):
    """Both with labels: the target's are hidden before training, and read for the truth alone."""

    source: Domain
    target: Domain


@dataclass(frozen=True)
class Pair:
    """`expected`: what adaptation does there, as far as one knows beforehand."""

    source: str
    target: str
    expected: str
    change: Callable[[Domain, Domain], tuple[Domain, Domain]] | None = None

    def open(self) -> Data:
        source, target = (
            _some(open_domain(name, size=SIZE), seed)
            for seed, name in enumerate((self.source, self.target))
        )
        if self.change is not None:
            source, target = self.change(source, target)
        return Data(source.as_colour(), target.as_colour())


def swapped_shares(source: Domain, target: Domain) -> tuple[Domain, Domain]:
    """Classes 0–4 are nine tenths of the source and one tenth of the target."""
    return _tilted(source, (0, 1, 2, 3, 4)), _tilted(target, (5, 6, 7, 8, 9))


def halves(source: Domain, target: Domain) -> tuple[Domain, Domain]:
    """Two halves of one domain: there is nothing to adapt to."""
    order = np.random.default_rng(2).permutation(len(source))
    half = len(order) // 2
    return source.subset(order[:half]), source.subset(order[half:])


def turned(source: Domain, target: Domain) -> tuple[Domain, Domain]:
    """The target's images turned by 35 degrees."""

    def turn(images: np.ndarray) -> np.ndarray:
        from scipy.ndimage import rotate

        return rotate(images, 35, axes=(1, 2), reshape=False, order=1, mode="nearest")

    return source, _changed(target, turn)


def faded(source: Domain, target: Domain) -> tuple[Domain, Domain]:
    """The target's images dark, of little contrast and smeared sideways."""

    def fade(images: np.ndarray) -> np.ndarray:
        from scipy.ndimage import uniform_filter1d

        smeared = uniform_filter1d(images.astype(np.float32), 5, axis=2, mode="nearest")
        return np.clip(30 + 0.25 * smeared, 0, 255).astype(np.uint8)

    return source, _changed(target, fade)


def noisy(source: Domain, target: Domain) -> tuple[Domain, Domain]:
    """The target's images with noise of 60 grey levels."""

    def add(images: np.ndarray) -> np.ndarray:
        noise = np.random.default_rng(3).normal(0, 60, images.shape)
        return np.clip(images + noise, 0, 255).astype(np.uint8)

    return source, _changed(target, add)


TUNED: dict[str, Pair] = {
    "mnist->mnist-m": Pair("mnist", "mnist-m", "gain"),
    "usps->mnist": Pair("usps", "mnist", "gain"),
    "svhn->mnist": Pair("svhn", "mnist", "gain or harm"),
    "mnist->svhn": Pair("mnist", "svhn", "fails"),
    "mnist-m->usps, swapped shares": Pair("mnist-m", "usps", "harm", swapped_shares),
    "mnist->usps": Pair("mnist", "usps", "gain"),
    "syn-numbers->mnist": Pair("syn-numbers", "mnist", "gain"),
    "syn-signs->gtsrb": Pair("syn-signs", "gtsrb", "gain"),
    "mnist->mnist, noisy": Pair("mnist", "mnist", "gain", noisy),
    "mnist->usps, swapped shares": Pair("mnist", "usps", "harm", swapped_shares),
    "mnist->mnist, halves": Pair("mnist", "mnist", "no gain", halves),
}

JUDGED: dict[str, Pair] = {
    "syn-numbers->usps": Pair("syn-numbers", "usps", "gain"),
    "mnist-m->svhn": Pair("mnist-m", "svhn", "fails"),
    "usps->mnist, swapped shares": Pair("usps", "mnist", "harm", swapped_shares),
    "mnist->mnist, turned": Pair("mnist", "mnist", "gain", turned),
    "gtsrb->gtsrb, faded": Pair("gtsrb", "gtsrb", "gain", faded),
    "svhn->svhn, halves": Pair("svhn", "svhn", "no gain", halves),
}

PAIRS = {**TUNED, **JUDGED}


def _some(domain: Domain, seed: int) -> Domain:
    order = np.random.default_rng(seed).permutation(len(domain))
    return domain.subset(np.sort(order[:SAMPLES]))


def _tilted(domain: Domain, frequent: tuple[int, ...]) -> Domain:
    """Nine tenths of the samples are of the `frequent` classes."""
    labels = np.asarray(domain.labels)
    often = np.isin(labels, frequent)
    rng = np.random.default_rng(4)
    many, few = (rng.permutation(np.flatnonzero(which)) for which in (often, ~often))
    count = min(len(many), 9 * len(few))
    return domain.subset(np.sort(np.concatenate([many[:count], few[: count // 9]])))


def _changed(domain: Domain, change: Callable[[np.ndarray], np.ndarray]) -> Domain:
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    images = np.ascontiguousarray(change(inputs.permute(0, 2, 3, 1).numpy()))
    return from_arrays(images, domain.labels, classes=domain.classes, name=domain.name)
