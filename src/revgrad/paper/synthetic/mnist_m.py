"""MNIST-M (§4.1): digits blended over patches of colour photographs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revgrad.batch import tensors_of
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.digits import DIGITS, Backdrop, backdrop, blend_over
from revgrad.domains.domain import Domain
from revgrad.domains.image_files import read_photographs
from revgrad.errors import InputError, unknown
from revgrad.paper.data.mnist import MNIST_SPLITS, mnist
from revgrad.paper.data.photographs import (
    BACKGROUNDS,
    bsds500_folder,
    hash_photographs,
    list_photographs,
)
from revgrad.paper.synthetic.generator import generated, library_versions

#: Sides that MNIST-M is made with: MNIST's own, and that of SVHN, with a margin of two pixels.
SIZES = (28, 32)


@dataclass(frozen=True)
class MnistM:
    """All that decides what an image looks like, digits and photographs aside."""

    seed: int = 0
    size: int = 28


class _Material(NamedTuple):
    digits: np.ndarray
    labels: np.ndarray
    backdrop: Backdrop


def mnist_m(split: str = "train", *, seed: int = 0, size: int = 28) -> Domain:
    """MNIST-M: the digits of `mnist(split)` over photographs of BSDS500, (3, size, size) uint8.

    Training digits lie over the photographs in `bsds500/train` of the data folder, test digits over
    those in `bsds500/val`. Made once and kept in the cache folder as a memory-mapped file, with the
    parameters, the hashes of digits and photographs and the libraries' versions beside it.
    """
    if split not in MNIST_SPLITS:
        raise unknown("split of mnist-m", split, MNIST_SPLITS)
    if size not in SIZES:
        raise InputError(f"mnist-m is made at 28 or 32 pixels, not {size}")
    digits = mnist(split)
    paths = list_photographs(bsds500_folder(BACKGROUNDS[split]))

    def material() -> _Material:
        grey = tensors_of(digits.batch(np.arange(len(digits))).inputs)[0][:, 0].numpy()
        margin = (size - grey.shape[1]) // 2
        padded = np.pad(grey, ((0, 0), (margin, margin), (margin, margin)))
        assert digits.labels is not None
        return _Material(padded, digits.labels, backdrop(read_photographs(paths), size, size))

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
    images = blend_over(digits, material.backdrop, parameters.seed, int(indices[0]))
    return images, material.labels[indices]
