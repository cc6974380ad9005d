"""Shifts made on data: from one labelled set to a source and a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pair_sources import Labelled

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def halves(data: Labelled, seed: int = 1) -> tuple[Labelled, Labelled]:
    """Two halves of one domain, drawn at random."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    half = len(order) // 2
    return data.take(order[:half]), data.take(order[half:])


def changed(data: Labelled, change: Change, seed: int = 2) -> Labelled:
    """The inputs changed, the labels as they are."""
    return Labelled(change(data.x, np.random.default_rng(seed)), data.y, data.more)


def corrupted(data: Labelled, change: Change) -> tuple[Labelled, Labelled]:
    """A half as it is, and the other half changed."""
    source, target = halves(data)
    return source, changed(target, change)


def selected(data: Labelled, by: np.ndarray, sharpness: float = 4.0) -> tuple[Labelled, Labelled]:
    """Selection by a covariate: samples of small values are mostly source, of large ones target."""
    ranks = np.argsort(np.argsort(by)) / (len(by) - 1) - 0.5
    chance = 1 / (1 + np.exp(-2 * sharpness * ranks))
    target = np.random.default_rng(3).random(len(by)) < chance
    return data.take(~target), data.take(target)


def tilted(data: Labelled, frequent: Sequence[int], times: int = 9) -> Labelled:
    """The `frequent` classes are so many times as many as the others together."""
    often = np.isin(data.y, frequent)
    rng = np.random.default_rng(4)
    many, few = (rng.permutation(np.flatnonzero(which)) for which in (often, ~often))
    count = min(len(many), times * len(few))
    return data.take(np.sort(np.concatenate([many[:count], few[: max(count // times, 1)]])))


def only(data: Labelled, classes: Sequence[int]) -> Labelled:
    """The samples of these classes, which keep their numbers."""
    return data.take(np.isin(data.y, classes))


def of_classes(data: Labelled, classes: Sequence[int]) -> Labelled:
    """The samples of these classes, numbered anew in this order."""
    found = only(data, classes)
    place = {label: number for number, label in enumerate(classes)}
    return Labelled(found.x, np.array([place[label] for label in found.y.tolist()]), found.more)


# -- of images -----------------------------------------------------------------------------------


def noisy(strength: float) -> Change:
    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.clip(x + rng.normal(0, strength, x.shape), 0, 255).astype(np.uint8)

    return change


def faded(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Dark, of little contrast, smeared sideways."""
    from scipy.ndimage import uniform_filter1d

    smeared = uniform_filter1d(x.astype(np.float32), 5, axis=2, mode="nearest")
    return np.clip(30 + 0.3 * smeared, 0, 255).astype(np.uint8)


def blurred(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(x.astype(np.float32), (0, 1.5, 1.5, 0)).astype(np.uint8)


def turned(degrees: float) -> Change:
    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        from scipy.ndimage import rotate

        return rotate(x, degrees, axes=(1, 2), reshape=False, order=1, mode="nearest")

    return change


def inverted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 255 - x


def cast(red: float, green: float, blue: float) -> Change:
    """Light of another colour: each channel times a number."""

    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.clip(x * np.array([red, green, blue]), 0, 255).astype(np.uint8)

    return change


def darkened(gain: float) -> Change:
    return cast(gain, gain, gain)


def grey(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    level = x.astype(np.float32).mean(3, keepdims=True)
    return np.broadcast_to(level, x.shape).astype(np.uint8)


def over_photographs(
    x: np.ndarray, rng: np.random.Generator, pictures: list[np.ndarray]
) -> np.ndarray:
    """|digit − patch of a photograph|, as MNIST-M is made."""
    side = x.shape[1]
    found = np.empty_like(x)
    for i, image in enumerate(x):
        picture = pictures[int(rng.integers(len(pictures)))]
        top, left = (int(rng.integers(n - side)) for n in picture.shape[:2])
        patch = picture[top : top + side, left : left + side].astype(np.int16)
        found[i] = np.abs(patch - image).astype(np.uint8)
    return found


def crops(
    pictures: Sequence[np.ndarray], count: int, side: int, part: slice, seed: int, step: int = 1
) -> Labelled:
    """`count` random square pieces of each picture's columns `part` (in hundredths of its width);
    the class is the picture. `step` > 1: seen from further away."""
    rng = np.random.default_rng(seed)
    x, y = [], []
    for label, picture in enumerate(pictures):
        width = picture.shape[1]
        own = picture[:, width * part.start // 100 : width * part.stop // 100]
        own = own[::step, ::step]
        for _ in range(count):
            top, left = (int(rng.integers(n - side + 1)) for n in own.shape[:2])
            x.append(own[top : top + side, left : left + side])
            y.append(label)
    values = np.stack(x)
    if values.ndim == 3:
        values = np.repeat(values[..., None], 3, axis=3)
    return Labelled(np.ascontiguousarray(values), np.array(y))


# -- of numbers and series -----------------------------------------------------------------------


def moved(strength: float, share: float = 0.5) -> Change:
    """Another sensor: a share of the features gets an offset and a gain, in units of its spread."""

    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        which = rng.random(x.shape[1]) < share
        offset = strength * rng.normal(size=x.shape[1]) * which
        gain = np.exp(0.3 * strength * rng.normal(size=x.shape[1]) * which)
        mean, spread = x.mean(0), x.std(0)
        return ((x - mean) * gain + mean + offset * spread).astype(np.float32)

    return change


def jittered(strength: float) -> Change:
    """Noise of this share of each feature's spread."""

    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.normal(size=x.shape) * strength * x.std(axis=0, keepdims=True)
        return (x + noise).astype(np.float32)

    return change


def lost(share: float) -> Change:
    """A share of the features no longer arrives: their mean in its place."""

    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        gone = rng.random(x.shape[1]) < share
        return np.where(gone, x.mean(0), x).astype(np.float32)

    return change


def rotated_sensor(degrees: float) -> Change:
    """The watch is worn turned: the first two axes of both sensors mixed by a rotation."""

    def change(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        angle = np.deg2rad(degrees)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        found = x.copy()
        for first in (0, 3):
            found[:, first : first + 2] = np.einsum("ij,njt->nit", turn, x[:, first : first + 2])
        return found.astype(np.float32)

    return change


def slower(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half the speed: the first half of each series, stretched."""
    return np.repeat(x[:, :, : x.shape[2] // 2], 2, axis=2)


def spectra(data: Labelled) -> Labelled:
    """log of the magnitudes of each channel's spectrum, as one vector."""
    size = np.abs(np.fft.rfft(data.x, axis=2))
    return Labelled(np.log1p(size).reshape(len(size), -1).astype(np.float32), data.y, data.more)


def moons(degrees: float, samples: int = 1500) -> tuple[Labelled, Labelled]:
    """Two moons, and the same turned about the origin."""
    from sklearn.datasets import make_moons

    found = []
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    for seed, matrix in ((0, np.eye(2)), (1, turn)):
        x, y = make_moons(samples, noise=0.1, random_state=seed)
        found.append(Labelled(((x - [0.5, 0.25]) @ matrix).astype(np.float32), y))
    return found[0], found[1]


def clusters(
    shift: float, *, classes: int = 4, inputs: int = 20, seed: int = 5, swap: bool = False
) -> tuple[Labelled, Labelled]:
    """A made table of several classes; in the target some columns are moved, or two are swapped."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        3000,
        inputs,
        n_informative=8,
        n_redundant=4,
        n_classes=classes,
        class_sep=1.5,
        n_clusters_per_class=1,
        random_state=seed,
    )
    source, target = halves(Labelled(x.astype(np.float32), y))
    if swap:
        order = np.arange(inputs)
        order[[0, 1, 2, 3]] = [1, 0, 3, 2]
        return source, Labelled(target.x[:, order], target.y)
    return source, changed(target, moved(shift))
