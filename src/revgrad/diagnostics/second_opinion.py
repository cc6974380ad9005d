"""The second opinion: a classifier of the target samples that shares nothing with the network.

Two networks of one training agree in their mistakes. A linear classifier of plain descriptors
(HOG, histograms of oriented gradients; vectors as they are) makes mistakes of its own, so that
where a network agrees with it, it is mostly right; and of two networks the better one agrees with
it more often, even where the classifier itself is the worse of all.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from revgrad.diagnostics.inputs import Array, shares_of
from revgrad.errors import InputError

#: A sample's opinion is averaged with those of this many neighbours among the target samples, this
#: many times, theirs counting that much.
NEIGHBOURS, SMOOTHINGS, NEIGHBOURS_WEIGHT = 10, 5, 0.5
#: Of each class's target samples the surest share that is learned from, round by round.
LEARNED_SHARES = (0.5, 0.65, 0.8)
#: What a labelled source sample counts beside a target sample that is learned from.
SOURCE_WEIGHT = 0.5
#: Inverse regularisation of the classifier, its descriptors standardised.
REGULARISATION = 0.01
#: When its fit is good enough: ten times closer takes three times as long and judges alike.
FIT_TOLERANCE = 1e-3
#: Added to an image descriptor's deviation, so that one that is nearly constant counts little.
STEADY = 0.05
#: No class has less than this probability before they are made to sum to one.
FLOOR = 1e-3
#: How far above guessing the largest class an opinion must be on the source to be informative, of
#: what there is between guessing and being always right.
INFORMATIVE = 0.3

#: HOG: images are brought to this many pixels a side.
HOG_SIDE = 28
#: Directions of an edge that are told apart; one and its opposite are the same, so that light on
#: dark and dark on light look alike.
HOG_DIRECTIONS = 8
#: Edges are counted in windows of this many pixels a side, one every so many pixels.
HOG_WINDOW, HOG_STRIDE = 8, 2
#: No count is larger than this, in units of its surroundings' size.
HOG_CEILING = 1.5
#: Images whose descriptors are computed at once, samples whose neighbours are looked for at once.
_IMAGES_AT_ONCE, _SAMPLES_AT_ONCE = 500, 1000

#: The last few opinions, by the digest of what they are made of.
_REMEMBERED = 4
_opinions: OrderedDict[bytes, SecondOpinion] = OrderedDict()


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """On the target samples.

    Attributes
    ----------
    probabilities
        (n, classes)
    neighbours
        (n, k): of each sample, the target samples that look most like it
    source_accuracy
        of source samples that it was not fitted on, half by half
    guessing
        the share of the source's largest class
    """

    probabilities: Array
    neighbours: Array
    source_accuracy: float
    guessing: float

    @property
    def is_informative(self) -> bool:
        """Whether it knows enough of the task to be asked."""
        if self.guessing >= 1:
            return False
        return (self.source_accuracy - self.guessing) / (1 - self.guessing) >= INFORMATIVE


def second_opinion(
    source_inputs: ArrayLike,
    source_labels: ArrayLike,
    target_inputs: ArrayLike,
    classes: int,
) -> SecondOpinion:
    """From the samples themselves (images or vectors, see `descriptors`) and the source's labels.

    Each domain's descriptors are standardised by themselves. A logistic classifier of the source
    judges the target; neighbours among the target samples share their opinions; the surest
    samples of each class are then learned from too (pseudo-labels), more in each of three rounds.

    The same samples get the same answer; the last few are remembered.
    """
    source, labels, target = (
        np.asarray(values) for values in (source_inputs, source_labels, target_inputs)
    )
    if len(labels) != len(source):
        raise InputError(f"{len(source)} source samples and {len(labels)} labels came")
    if len(np.unique(labels)) < 2:
        raise InputError("a second opinion needs source samples of two classes or more")
    key = _digest(source, labels, target, np.array(classes))
    if key not in _opinions:
        steady = STEADY if source.ndim == 4 else 1e-12
        own, other = (
            _standardised_descriptors(descriptors(inputs), steady) for inputs in (source, target)
        )
        _opinions[key] = _opinion(own, labels, other, classes)
        while len(_opinions) > _REMEMBERED:
            _opinions.popitem(last=False)
    return _opinions[key]


def descriptors(inputs: np.ndarray) -> Array:
    """(n, d): HOG of (n, height, width, 3) uint8 images; (n, d) numbers as they are; of series
    (n, channels, length) the spectrum, and mean and spread, of each channel."""
    values = np.asarray(inputs)
    if values.ndim == 2:
        return values.astype(np.float64)
    if values.ndim == 3:
        return spectra(values)
    if values.ndim != 4 or values.shape[3] != 3:
        raise InputError(
            "inputs of a second opinion are (n, height, width, 3) images, (n, d) numbers or "
            f"(n, channels, length) series; {values.shape} came"
        )
    starts = range(0, len(values), _IMAGES_AT_ONCE)
    parts = [oriented_gradients(values[start : start + _IMAGES_AT_ONCE]) for start in starts]
    return np.concatenate(parts) if parts else np.zeros((0, 0))


def spectra(series: np.ndarray) -> Array:
    """(n, d): log(1 + size) of each channel's frequencies, its mean and its standard deviation."""
    values = np.asarray(series, dtype=np.float64)
    size = np.log1p(np.abs(np.fft.rfft(values - values.mean(axis=2, keepdims=True), axis=2)))
    parts = [size.reshape(len(values), -1), values.mean(axis=2), values.std(axis=2)]
    return np.concatenate(parts, axis=1)


def oriented_gradients(images: np.ndarray) -> Array:
    """(n, d): HOG of (n, height, width, 3) uint8 images, in the manner of Dalal and Triggs 2005.

    Histograms of edge directions, of the slightly smoothed image, the colour of the steepest edge,
    in windows that overlap, each divided by the size of its 3×3 surroundings. They say where
    strokes run, and little of colour, contrast and light.
    """
    values = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    if values.shape[2:] != (HOG_SIDE, HOG_SIDE):
        values = F.interpolate(values, size=(HOG_SIDE, HOG_SIDE), mode="bilinear", antialias=True)
    smooth = F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    across, down = _gradients(smooth)
    steepest = (across**2 + down**2).sqrt().max(dim=1, keepdim=True)
    across, down = (part.gather(1, steepest.indices)[:, 0] for part in (across, down))
    turn = torch.atan2(down, across) % torch.pi * (HOG_DIRECTIONS / torch.pi)
    lower = turn.floor()
    upper_share = turn - lower
    counts = torch.zeros(len(values), HOG_DIRECTIONS, HOG_SIDE, HOG_SIDE)
    for offset, share in ((0, 1 - upper_share), (1, upper_share)):
        which = ((lower.long() + offset) % HOG_DIRECTIONS)[:, None]
        counts.scatter_add_(1, which, steepest.values * share[:, None])
    windows = F.avg_pool2d(counts, HOG_WINDOW, HOG_STRIDE)
    size = F.avg_pool2d((windows**2).sum(1, keepdim=True), 3, 1, 1, count_include_pad=False)
    scaled = (windows / (size + 1).sqrt()).clamp(max=HOG_CEILING)
    found: Array = scaled.flatten(1).double().numpy()
    return found


def smoothed(probabilities: Array, near: Array) -> Array:
    """Opinions averaged with those of the neighbours, a few times."""
    found = probabilities
    if near.shape[1]:
        own = (1 - NEIGHBOURS_WEIGHT) * probabilities
        for _ in range(SMOOTHINGS):
            found = own + NEIGHBOURS_WEIGHT * found[near].mean(axis=1)
    return found


def surest(probabilities: Array, share: float) -> tuple[Array, Array]:
    """Indices of the samples of each likeliest class that it is surest of, this share and one at
    least; and the class."""
    likeliest, largest = probabilities.argmax(axis=1), probabilities.max(axis=1)
    parts = []
    for label in np.unique(likeliest):
        own = np.flatnonzero(likeliest == label)
        order = own[np.argsort(-largest[own], kind="stable")]
        parts.append(order[: max(int(share * len(own)), 1)])
    chosen = np.sort(np.concatenate(parts))
    return chosen, likeliest[chosen]


def most_similar(units: Array, count: int = NEIGHBOURS) -> Array:
    """(n, count) indices of the most similar others of (n, d) vectors of length 1, the most similar
    first."""
    count = min(count, len(units) - 1)
    parts = []
    for start in range(0, len(units), _SAMPLES_AT_ONCE):
        similar = units[start : start + _SAMPLES_AT_ONCE] @ units.T
        here = np.arange(len(similar))
        similar[here, start + here] = -np.inf  # not itself
        parts.append(np.argsort(-similar, axis=1, kind="stable")[:, :count])
    return np.concatenate(parts)


def _opinion(own: Array, labels: Array, other: Array, classes: int) -> SecondOpinion:
    near = most_similar(_unit(other))
    said = smoothed(_judged(own, labels, other, classes), near)
    for share in LEARNED_SHARES:
        chosen, pseudo_labels = surest(said, share)
        said = smoothed(
            _judged(
                np.concatenate([own, other[chosen]]),
                np.concatenate([labels, pseudo_labels]),
                other,
                classes,
                np.concatenate([np.full(len(own), SOURCE_WEIGHT), np.ones(len(chosen))]),
            ),
            near,
        )
    return SecondOpinion(
        said, near, _by_halves(own, labels, classes), float(shares_of(labels, classes).max())
    )


def _judged(
    known: Array, labels: Array, asked: Array, classes: int, weights: Array | None = None
) -> Array:
    """(n, classes): probabilities of the `asked` by a logistic classifier of the `known`."""
    found: Array = np.full((len(asked), classes), FLOOR)
    present = np.unique(labels)
    if len(present) == 1:
        found[:, present[0]] += 1
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=REGULARISATION, max_iter=500, class_weight="balanced", tol=FIT_TOLERANCE
        )
        model.fit(known.astype(np.float32), labels, weights)
        found[:, model.classes_] += model.predict_proba(asked.astype(np.float32))
    found /= found.sum(axis=1, keepdims=True)
    return found


def _by_halves(known: Array, labels: Array, classes: int) -> float:
    """Accuracy on each half of a classifier of the other."""
    half = np.random.default_rng(0).permutation(len(known)) % 2 == 0
    right = [
        _judged(known[fitted], labels[fitted], known[~fitted], classes).argmax(1) == labels[~fitted]
        for fitted in (half, ~half)
    ]
    return float(np.concatenate(right).mean())


def _standardised_descriptors(values: Array, steady: float) -> Array:
    found: Array = (values - values.mean(axis=0)) / (values.std(axis=0) + steady)
    return found


def _unit(values: Array) -> Array:
    found: Array = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return found


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()


def _gradients(images: Tensor) -> tuple[Tensor, Tensor]:
    """Differences of the neighbours on both sides; at the border of the edge pixel's own."""
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    across = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]
    down = padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
    return across, down
