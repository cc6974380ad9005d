"""Office-31 (Saenko et al. 2010) and the ten classes it shares with Caltech-256 (Gong et al. 2012).

Here the split is the domain: `office31("amazon")`, on the command line `office31:amazon`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from revgrad._system import data_folder
from revgrad.domains.domain import Domain
from revgrad.domains.few_per_class import few_per_class
from revgrad.domains.folder import from_folder
from revgrad.errors import DataError, unknown
from revgrad.paper.data.catalogue import missing

OFFICE31 = ("amazon", "dslr", "webcam")
OFFICE_CALTECH10 = ("amazon", "webcam", "dslr", "caltech")

#: Labelled source images per class in the protocol of Saenko et al., the fourth after Gong et al.
SAENKO = {"amazon": 20, "dslr": 8, "webcam": 8, "caltech": 20}

#: The seeds of the protocol's five random splits.
SAENKO_SEEDS = (0, 1, 2, 3, 4)

CLASSES31 = (
    *("back_pack", "bike", "bike_helmet", "bookcase", "bottle", "calculator", "desk_chair"),
    *("desk_lamp", "desktop_computer", "file_cabinet", "headphones", "keyboard"),
    *("laptop_computer", "letter_tray", "mobile_phone", "monitor", "mouse", "mug"),
    *("paper_notebook", "pen", "phone", "printer", "projector", "punchers", "ring_binder"),
    *("ruler", "scissors", "speaker", "stapler", "tape_dispenser", "trash_can"),
)

#: The ten classes, each with the names of its folders in Office-31 and in Caltech-256.
CLASSES10 = {
    "backpack": ("back_pack",),
    "bike": ("touring-bike", "touring_bike"),
    "calculator": (),
    "headphones": ("headphone",),
    "keyboard": ("computer-keyboard", "computer_keyboard"),
    "laptop_computer": ("laptop-101", "laptop"),
    "monitor": ("computer-monitor", "computer_monitor"),
    "mouse": ("computer-mouse", "computer_mouse"),
    "mug": ("coffee-mug", "coffee_mug"),
    "projector": ("video-projector", "video_projector"),
}

SIZE = 224  # pixels: what AlexNet's descendants take


def office31(split: str = "amazon", *, size: int = SIZE, progress: bool = True) -> Domain:
    """A domain of Office-31: "amazon" (2,817 images), "dslr" (498) or "webcam" (795).

    Read from `office31/<domain>/images/<class>` of the data folder, with or without the folder
    `domain_adaptation_images` of the archive, with or without `images`; "amazon@FOLDER" means
    another folder than that. (3, size, size) uint8:
    the shorter side scaled to `size`, the middle kept. The classes are those of `CLASSES31`, also
    where a folder is missing, so that the domains agree.
    """
    split, _, place = split.partition("@")
    if split not in OFFICE31:
        raise unknown("domain of office31", split, OFFICE31)
    base = Path(place).expanduser() if place else data_folder() / "office31"
    places = [
        parent / split / images
        for parent in (base, base / "domain_adaptation_images")
        for images in ("images", "")
    ]
    folder = _first_folder("office31", f"images of {split}", places)
    return from_folder(
        folder,
        size=size,
        classes=CLASSES31,
        labels=True,
        progress=progress,
        name=f"office31:{split}",
    )


def office_caltech10(split: str = "amazon", *, size: int = SIZE, progress: bool = True) -> Domain:
    """A domain of ten classes: "amazon" (958 images), "webcam" (295), "dslr" (157), "caltech".

    Read from `office-caltech10/<domain>/<class>` of the data folder. Class folders may have the
    names of `CLASSES10` or those they have in Office-31 and Caltech-256; numbers before a name, as
    in Caltech-256, are ignored.
    """
    if split not in OFFICE_CALTECH10:
        raise unknown("domain of office-caltech10", split, OFFICE_CALTECH10)
    base = data_folder() / "office-caltech10"
    places = [base / split / "images", base / split]
    folder = _first_folder("office-caltech10", f"images of {split}", places)
    domain = from_folder(
        folder,
        size=size,
        classes=_folders_of_ten(folder),
        labels=True,
        progress=progress,
        name=f"office-caltech10:{split}",
    )
    return Domain(
        domain.store,
        domain.labels,
        classes=tuple(CLASSES10),
        name=domain.name,
        files=domain.files,
    )


def saenko_split(domain: Domain, per_class: int, seed: int) -> Domain:
    """`per_class` random images of each class: the labelled source of Saenko's protocol.

    `SAENKO` has the numbers, `SAENKO_SEEDS` the seeds of its five splits; the target is whole and
    without labels. A class with fewer images gives all it has (dslr has 7 rulers), with a note.
    """
    return few_per_class(domain, per_class, seed)[0]


def labelled_per_class(text: str) -> int:
    """Labelled source images of a class in Saenko's protocol, by the domain's name."""
    return SAENKO.get(text.partition(":")[2].partition("@")[0], 20)


def _first_folder(name: str, what: str, places: Sequence[Path]) -> Path:
    """The first of `places` that has folders in it."""
    for place in places:
        if place.is_dir() and _folders(place):
            return place
    raise missing(name, what, places)


def _folders(place: Path) -> list[str]:
    try:
        return sorted(
            entry.name
            for entry in place.iterdir()
            if entry.is_dir() and not entry.name.startswith(".")
        )
    except OSError as error:
        raise DataError(f"{place} can't be listed: {error.strerror}") from None


def _folders_of_ten(place: Path) -> list[str]:
    """The folder of each of the ten classes, in their order; the class's own name where none."""
    there = {name.lower().lstrip("0123456789.") or name: name for name in _folders(place)}
    return [
        next((there[one] for one in (name, *others) if one in there), name)
        for name, others in CLASSES10.items()
    ]
