"""Domains that fit one network: one number of channels, one size, one order of classes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import Domain
from revgrad.domains.image_files import check_fit, check_size, resize
from revgrad.errors import InputError, some

log = logging.getLogger("revgrad")
_BLOCK = 1024


def match_colours(domains: Sequence[Domain]) -> list[Domain]:
    """The same domains, grey images shown as colour where another domain's are colour.

    Domains that could not share a batch raise an InputError: images of different sizes, images
    beside other inputs, inputs of different shapes. Empty domains are left as they are.
    """
    present = [domain for domain in domains if len(domain)]
    images = [domain for domain in present if domain.is_images]
    for domain in present[1:]:
        _check_alike(present[0], domain)
    grey = [domain for domain in images if domain.shape[0] == 1]
    colour = [domain for domain in images if domain.shape[0] == 3]
    if not grey or not colour:
        return list(domains)
    log.info(
        "%s %s grey and %s colour: grey images are shown as colour, in three equal channels",
        " and ".join(dict.fromkeys(domain.name for domain in grey)),
        "is" if len(grey) == 1 else "are",
        " and ".join(dict.fromkeys(domain.name for domain in colour)),
    )
    return [domain.as_colour() if len(domain) else domain for domain in domains]


def with_channels(domain: Domain, channels: int) -> Domain:
    """The domain with its images in colour (three channels) or grey (one); what is not images is
    left alone."""
    return domain.as_colour() if channels == 3 else domain.as_grey() if channels == 1 else domain


def resized(domain: Domain, size: int | tuple[int, int], fit: str = "crop") -> Domain:
    """The domain with its images brought to one size, in memory; what is not images is left alone.

    `size` and `fit` as in `from_folder`, which resizes while decoding and needs this not.
    """
    target, fit = check_size(size), check_fit(fit)
    if not domain.is_images or target is None or domain.shape[1:] == target:
        return domain
    channels = domain.shape[0]
    values = np.empty((len(domain), *target, channels), dtype=np.uint8)
    for start in range(0, len(domain), _BLOCK):
        where = np.arange(start, min(start + _BLOCK, len(domain)))
        block = domain.batch(where, augment=False).inputs
        nhwc = block.permute(0, 2, 3, 1).numpy()  # type: ignore[union-attr]
        values[where] = resize(nhwc, target, fit)
    return domain._with(
        store=ArrayStore(values, layout="NHWC", name=domain.name), rows=np.arange(len(domain))
    )


def with_classes(domain: Domain, classes: Sequence[str] | None) -> Domain:
    """The domain with its labels renumbered, by the classes' names, to the order of `classes`.

    Labels of a class that is not among `classes` are an InputError. Where either side has no
    names, and for regression targets, the domain is left as it is.
    """
    wanted = None if classes is None else tuple(classes)
    if wanted is None or domain.classes is None or domain.classes == wanted:
        return domain
    if domain.labels is None:
        return domain._with(classes=wanted)
    if not domain.is_classification:
        return domain
    number = {name: i for i, name in enumerate(wanted)}
    present = np.unique(domain.labels[domain.labelled])
    strange = [domain.classes[label] for label in present if domain.classes[label] not in number]
    if strange:
        raise InputError(
            f"{domain.name} has labels of classes that are not among the {len(wanted)} of the "
            f"source: {some(strange)} (there are: {some(wanted)})"
        )
    renumbered = np.array([number.get(name, 0) for name in domain.classes])[domain.labels]
    return domain._with(labels=np.where(domain.labelled, renumbered, 0), classes=wanted)


def with_numbers(domain: Domain, classes: int) -> Domain:
    """The domain for a source whose classes have numbers, 0 to `classes` - 1, and no names.

    Names that are those numbers ("0", "1", …, "10"; "False", "True") are taken as the numbers,
    whatever order they came in; other names can't be matched and are an InputError.
    """
    if domain.classes is None or domain.labels is None or not domain.is_classification:
        return domain
    if domain.classes == ("False", "True"):
        return domain._with(classes=None)
    strange = [one for one in domain.classes if not one.isdecimal()]
    if strange:
        raise InputError(
            f"{domain.name}'s classes have names ({some(domain.classes)}) and the source's only "
            "numbers: give the source its names too, from_arrays(…, classes=[…])"
        )
    numbers = np.array([int(one) for one in domain.classes], dtype=np.int64)[domain.labels]
    if numbers[domain.labelled].max(initial=0) >= classes:
        raise InputError(
            f"{domain.name} has a class {numbers.max()}; the source's are 0 to {classes - 1}"
        )
    return domain._with(labels=np.where(domain.labelled, numbers, 0), classes=None)


def _check_alike(one: Domain, other: Domain) -> None:
    if one.is_images != other.is_images:
        images, not_images = (one, other) if one.is_images else (other, one)
        raise InputError(
            f"{images.name} holds uint8 images and {not_images.name} other inputs of shape "
            f"{not_images.shape}: both must be of one kind (8 bits beside 16 or floats: "
            "images.astype('float32') / 255 is from 0 to 1, as 16 bits are read)"
        )
    if one.is_images:
        first, second = one.shape[1:], other.shape[1:]
        if first != second:
            raise InputError(
                f"images of {one.name} are {first[0]}×{first[1]} (height × width) and those of "
                f"{other.name} {second[0]}×{second[1]}: a size (--size, size=) brings both to one"
            )
    elif one.shape != other.shape:
        raise InputError(
            f"inputs of {one.name} have shape {one.shape} and those of {other.name} {other.shape}"
        )
