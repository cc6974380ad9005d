"""MNIST-M (§4.1): digits blended over patches of colour photographs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from revgrad.batches import tensors_of
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import Domain
from revgrad.domains.generating import generated, library_versions
from revgrad.domains.mnist import DIGITS, SPLITS, mnist
from revgrad.domains.photographs import (
    bsds500_folder,
    hash_photographs,
    list_photographs,
    read_photographs,
)
from revgrad.errors import InputError, unknown

#: Photographs of BSDS500 behind each split: test backgrounds are never seen in training.
PHOTOGRAPHS = {"train": "train", "test": "val"}

#: Sides that MNIST-M is made with: MNIST's own, and that of SVHN, with a margin of two pixels.
SIZES = (28, 32)

_BLOCK = 2048  # digits blended at a time: what stays in the processor's cache


@dataclass(frozen=True)
class MnistM:
    """All that decides what an image looks like, digits and photographs aside."""

    seed: int = 0
    size: int = 28


class _Backdrop(NamedTuple):
    """Photographs as one row of bytes: where each begins in it, its height and its width."""

    pixels: np.ndarray
    first: np.ndarray
    heights: np.ndarray
    widths: np.ndarray


class _Material(NamedTuple):
    digits: np.ndarray
    labels: np.ndarray
    backdrop: _Backdrop


def blend(digits: np.ndarray, photographs: Sequence[np.ndarray], seed: int = 0) -> np.ndarray:
    """|digit − patch| for each pixel and channel, as in §4.1 of the paper.

    digits       (N, H, W) uint8, 0 background to 255 ink
    photographs  uint8 (height, width, 3), each at least H × W
    returns      (N, H, W, 3) uint8

    The patch of digit i is cut from a random photograph at a random place, both a pure function of
    (seed, i): the first digits are blended alike however many follow.
    """
    if digits.dtype != np.uint8 or digits.ndim != 3:
        raise InputError(f"digits must be uint8 (N, H, W), not {digits.dtype} {digits.shape}")
    return _blend(digits, _backdrop(photographs, *digits.shape[1:]), seed, 0)


def _blend(digits: np.ndarray, backdrop: _Backdrop, seed: int, first: int) -> np.ndarray:
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


def _backdrop(photographs: Sequence[np.ndarray], height: int, width: int) -> _Backdrop:
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
    return _Backdrop(pixels, first, heights, widths)


def mnist_m(split: str = "train", *, seed: int = 0, size: int = 28) -> Domain:
    """MNIST-M: the digits of `mnist(split)` over photographs of BSDS500, (3, size, size) uint8.

    Training digits lie over the photographs in `bsds500/train` of the data folder, test digits over
    those in `bsds500/val`. Made once and kept in the cache folder as a memory-mapped file, with the
    parameters, the hashes of digits and photographs and the libraries' versions beside it.
    """
    if split not in SPLITS:
        raise unknown("split of mnist-m", split, SPLITS)
    if size not in SIZES:
        raise InputError(f"mnist-m is made at 28 or 32 pixels, not {size}")
    digits = mnist(split)
    paths = list_photographs(bsds500_folder(PHOTOGRAPHS[split]))

    def material() -> _Material:
        grey = tensors_of(digits.batch(np.arange(len(digits))).inputs)[0][:, 0].numpy()
        margin = (size - grey.shape[1]) // 2
        padded = np.pad(grey, ((0, 0), (margin, margin), (margin, margin)))
        assert digits.labels is not None
        return _Material(padded, digits.labels, _backdrop(read_photographs(paths), size, size))

    made = generated(
        f"mnist-m-{split}",
        len(digits),
        MnistM(seed, size),
        _make,
        context=material,
        inputs={"digits": digits.fingerprint(), "photographs": hash_photographs(paths)},
        versions=library_versions("numpy", "pillow"),
        workers=1,  # a process would need longer to start than all the digits to be blended
    )
    return Domain(
        ArrayStore(made.images, layout="NHWC", key=made.digest),
        made.labels,
        classes=DIGITS,
        name="mnist-m",
    )


def _make(
    indices: np.ndarray, parameters: MnistM, material: _Material
) -> tuple[np.ndarray, np.ndarray]:
    digits = material.digits[indices]
    images = _blend(digits, material.backdrop, parameters.seed, int(indices[0]))
    return images, material.labels[indices]
