"""Photographs to cut patches from: those of BSDS500, or of any folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from revgrad._system import data_folder
from revgrad.domains.image_files import EXTENSIONS, read_photographs
from revgrad.errors import DataError, InputError, unknown
from revgrad.paper.data.catalogue import missing

#: The splits of BSDS500, which are folders of it.
PHOTOGRAPH_SPLITS = ("train", "val", "test")
#: Those behind each split of a generated set: test backgrounds are never seen in training.
BACKGROUNDS = {"train": "train", "test": "val"}

_OFFICIAL = Path("BSR") / "BSDS500" / "data" / "images"  # as the archive unpacks


def bsds500_folder(split: str = "train") -> Path:
    """The folder of BSDS500's photographs "train" (200), "val" (100) or "test" (200)."""
    if split not in PHOTOGRAPH_SPLITS:
        raise unknown("split of bsds500", split, PHOTOGRAPH_SPLITS)
    base = data_folder() / "bsds500"
    places = [base / split, base / _OFFICIAL / split]
    for place in places:
        if place.is_dir() and _listed(place):
            return place
    raise missing("bsds500", "photographs", places)


def list_photographs(folder: str | Path) -> list[Path]:
    """The image files directly in `folder`, sorted by name; hidden and other files are ignored."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise InputError(f"no folder of photographs {folder}")
    paths = _listed(folder)
    if not paths:
        raise DataError(
            f"no photographs in {folder} (looked for {' '.join(sorted(EXTENSIONS))}, "
            "not in subfolders)"
        )
    return paths


def photographs(folder: str | Path) -> list[np.ndarray]:
    """All photographs of `folder` as uint8 (height, width, 3), in the order of their names."""
    return read_photographs(list_photographs(folder))


def hash_photographs(paths: Iterable[Path]) -> str:
    """A digest of names and contents, in order: what is generated from them depends on no more."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            content = hashlib.blake2b(path.read_bytes()).digest()
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from None
        digest.update(f"{len(path.name)} {path.name}".encode())
        digest.update(content)
    return digest.hexdigest()


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")
        )
    except OSError as error:
        raise DataError(f"{folder} can't be listed: {error.strerror}") from None


def _unreadable(path: Path, reason: str) -> DataError:
    return DataError(f"the photograph {path} can't be read: {reason}")
