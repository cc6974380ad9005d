"""MNIST-M (§4.1): digits blended over patches of colour photographs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from revgrad.batches import tensors_of
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.cache import ImageWriter, cached_images, require_space
from revgrad.domains.domain import Domain
from revgrad.domains.mnist import DIGITS, SPLITS, mnist
from revgrad.domains.photographs import (
    bsds500_folder,
    hash_photographs,
    list_photographs,
    read_photographs,
)
from revgrad.domains.places import cache_folder
from revgrad.errors import InputError, unknown

#: Photographs of BSDS500 behind each split: test backgrounds are never seen in training.
PHOTOGRAPHS = {"train": "train", "test": "val"}

_FORMAT = 1  # of what is generated: a new number makes cached sets be generated anew
_BLOCK = 2048  # digits blended at a time: what stays in the processor's cache


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
    buffer, which, starts = _patches(len(digits), digits.shape[1:], photographs, seed)
    result = np.empty((*digits.shape, 3), dtype=np.uint8)
    height, width = digits.shape[1:]
    # One row of a patch is 3 · width neighbouring bytes: all of them are gathered at once.
    rows = sliding_window_view(buffer, 3 * width)
    strides = np.array([3 * photograph.shape[1] for photograph in photographs])[which]
    lines = starts[:, None] + strides[:, None] * np.arange(height)
    for at in range(0, len(digits), _BLOCK):
        part = slice(at, at + _BLOCK)
        patch = rows[lines[part]]
        ink = np.repeat(digits[part], 3, axis=2)
        difference = np.maximum(patch, ink) - np.minimum(patch, ink)
        result[part] = difference.reshape(-1, height, width, 3)
    return result


def _patches(
    count: int, size: tuple[int, ...], photographs: Sequence[np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All photographs' bytes in one row; for each digit its photograph and its first byte there."""
    if not photographs:
        raise InputError("blending needs at least one photograph")
    for number, photograph in enumerate(photographs):
        if photograph.dtype != np.uint8 or photograph.ndim != 3 or photograph.shape[2] != 3:
            raise InputError(
                f"photograph {number} must be uint8 (height, width, 3), "
                f"not {photograph.dtype} {photograph.shape}"
            )
        if photograph.shape[0] < size[0] or photograph.shape[1] < size[1]:
            raise InputError(
                f"photograph {number} is {photograph.shape[0]}×{photograph.shape[1]}: "
                f"smaller than a digit of {size[0]}×{size[1]}"
            )
    # Three numbers a digit from one stream, so digit i always gets the same three.
    photograph_at, top_at, left_at = np.random.default_rng(seed).random((count, 3)).T
    heights, widths = (np.array([one.shape[axis] for one in photographs]) for axis in (0, 1))
    which = (photograph_at * len(photographs)).astype(np.int64)
    top = (top_at * (heights[which] - size[0] + 1)).astype(np.int64)
    left = (left_at * (widths[which] - size[1] + 1)).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(3 * heights * widths)[:-1]])
    buffer = np.concatenate([photograph.reshape(-1) for photograph in photographs])
    return buffer, which, first[which] + 3 * (top * widths[which] + left)


def mnist_m(split: str = "train", *, seed: int = 0) -> Domain:
    """MNIST-M: the digits of `mnist(split)` over photographs of BSDS500, (3, 28, 28) uint8.

    Training digits lie over the photographs in `bsds500/train` of the data folder, test digits over
    those in `bsds500/val`. Made once and kept in the cache folder as a memory-mapped file.
    """
    if split not in SPLITS:
        raise unknown("split of mnist-m", split, SPLITS)
    digits = mnist(split)
    paths = list_photographs(bsds500_folder(PHOTOGRAPHS[split]))
    made_of = f"{_FORMAT} {seed} {digits.fingerprint()} {hash_photographs(paths)}"
    digest = hashlib.blake2b(made_of.encode(), digest_size=16)
    folder = cache_folder()

    def build(start: Any) -> dict[str, Any]:
        require_space(folder, len(digits) * 28 * 28 * 3)
        writer: ImageWriter = start((28, 28, 3))
        grey = tensors_of(digits.batch(np.arange(len(digits))).inputs)[0]
        writer.write(blend(grey[:, 0].numpy(), read_photographs(paths), seed))
        return {"split": split, "seed": seed, "photographs": len(paths)}

    found = cached_images(folder, f"mnist-m-{split}-{digest.hexdigest()}", build)
    return Domain(
        ArrayStore(found.images, layout="NHWC", key=found.digest),
        digits.labels,
        classes=DIGITS,
        name="mnist-m",
    )
