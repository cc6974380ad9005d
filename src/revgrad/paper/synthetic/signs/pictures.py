"""Pictures of signs that a user brings, instead of our drawings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from revgrad.domains.image_files import EXTENSIONS, Unreadable, read_pixels, resize
from revgrad.errors import DataError, InputError

_PAPER = 200  # what is brighter in all channels is taken for the white around a sign


def find_pictures(folder: Path, classes: int) -> list[Path]:
    """The pictures 0.png … of `folder`, one a class; any of the known extensions."""
    if not folder.is_dir():
        raise InputError(f"no folder of pictograms {folder}")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in EXTENSIONS and not path.name.startswith("."):
            if path.stem in found:
                raise DataError(
                    f"{folder} has two pictograms of class {path.stem}: {found[path.stem].name} "
                    f"and {path.name}"
                )
            found[path.stem] = path
    lacking = [str(number) for number in range(classes) if str(number) not in found]
    if lacking:
        raise DataError(
            f"{folder} lacks pictograms of {len(lacking)} of {classes} classes "
            f"({', '.join(lacking[:5])}{', …' if len(lacking) > 5 else ''}): it must have "
            f"0.png to {classes - 1}.png (or .jpg, …)"
        )
    return [found[str(number)] for number in range(classes)]


def read_pictures(paths: list[Path], drawn: np.ndarray) -> np.ndarray:
    """The pictures cut out along the outlines of our drawings of the same classes.

    A picture shows a sign on white. The white is cut away up to the sign, what remains is stretched
    to our drawing's extent, and gets its transparency.

    Parameters
    ----------
    drawn
        (classes, side, side, 4) uint8 RGBA

    Returns
    -------
    np.ndarray
        the same shape and type
    """
    result = np.empty_like(drawn)
    for number, path in enumerate(paths):
        try:
            picture = read_pixels(path, 3)
        except Unreadable as error:
            raise DataError(f"the pictogram {path} can't be read: {error}") from None
        inked = np.asarray((picture < _PAPER).any(axis=2))
        if not inked.any():
            raise DataError(f"the pictogram {path} is all white: a sign on white would do")
        top, bottom, left, right = _extent(inked)
        place = _extent(drawn[number, ..., 3] > 127)
        size = (place[1] - place[0], place[3] - place[2])
        fitted = np.full((*drawn.shape[1:3], 3), 255, dtype=np.uint8)
        fitted[place[0] : place[1], place[2] : place[3]] = resize(
            picture[top:bottom, left:right], size, "stretch"
        )
        result[number, ..., :3] = fitted
        result[number, ..., 3] = drawn[number, ..., 3]
    return result


def _extent(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
