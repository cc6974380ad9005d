"""Fonts for generated images: free ones from pinned packages, and their glyphs as distance fields.

A distance field holds, instead of ink, how far each point is from the glyph's outline. It can be
enlarged, turned and sheared without becoming soft, and a threshold other than zero makes the
strokes bolder or lighter.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from revgrad.errors import DataError, InputError, missing_extra

#: Faces used unless said otherwise, by package and folder in it. Several weights of a family, for
#: numbers on houses come in all of them; upright ones mostly.
DEFAULT_FONTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "font_amatic_sc": ("files", ("AmaticSC-Bold.ttf",)),
    "font_caladea": (
        "files",
        ("Caladea-Bold.ttf", "Caladea-BoldItalic.ttf", "Caladea-Regular.ttf"),
    ),
    "font_fredoka_one": ("files", ("FredokaOne-Regular.ttf",)),
    "font_hanken_grotesk": (
        "files",
        (
            "HankenGrotesk-Bold.otf",
            "HankenGrotesk-BoldItalic.otf",
            "HankenGrotesk-Light.otf",
            "HankenGrotesk-Medium.otf",
        ),
    ),
    "font_intuitive": ("files", ("Intuitive.ttf",)),
    "font_lato": (
        "files",
        ("Lato-Black.ttf", "Lato-Bold.ttf", "Lato-BoldItalic.ttf", "Lato-Regular.ttf"),
    ),
    "font_manrope": ("files", ("Manrope-ExtraBold.ttf", "Manrope-Medium.ttf")),
    "font_source_sans_pro": (
        "files",
        (
            "SourceSansPro-Black.ttf",
            "SourceSansPro-Bold.ttf",
            "SourceSansPro-Regular.ttf",
            "SourceSansPro-SemiboldIt.ttf",
        ),
    ),
    "font_source_serif_pro": (
        "files",
        (
            "SourceSerifPro-Black.ttf",
            "SourceSerifPro-Bold.ttf",
            "SourceSerifPro-Regular.ttf",
            "SourceSerifPro-SemiboldIt.ttf",
        ),
    ),
    "matplotlib": (
        "mpl-data/fonts/ttf",
        (
            "DejaVuSans-Bold.ttf",
            "DejaVuSans.ttf",
            "DejaVuSansMono-Bold.ttf",
            "DejaVuSerif-Bold.ttf",
            "DejaVuSerif.ttf",
            "STIXGeneral.ttf",
            "STIXGeneralBol.ttf",
            "STIXGeneralBolIta.ttf",
            "cmb10.ttf",
            "cmr10.ttf",
            "cmss10.ttf",
            "cmtt10.ttf",
        ),
    ),
    "ttf_opensans": (
        "ttf",
        (
            "OpenSans-Bold.ttf",
            "OpenSans-ExtraBold.ttf",
            "OpenSans-ExtraBoldItalic.ttf",
            "OpenSans-Regular.ttf",
        ),
    ),
}

FONT_SUFFIXES = (".ttf", ".otf")

_UNIT = 160  # pixels of the tallest glyph when it is drawn
_REDUCED = 4  # pixels drawn for one of the field, a side
_SIDE = 64  # of a field
#: Heights of the tallest glyph that a field is wide and high.
REACH = _SIDE * _REDUCED / _UNIT


@dataclass(frozen=True)
class Font:
    """A font file and the hash of its bytes."""

    path: Path
    sha256: str

    @property
    def name(self) -> str:
        return self.path.name


def fonts(extra_folders: Sequence[str | Path] = (), *, default: bool = True) -> list[Font]:
    """The default fonts, then all `.ttf` and `.otf` files under `extra_folders`, in fixed order.

    A file whose content is there already is left out. `default=False`: only the folders'.
    """
    paths = _default_paths() if default else []
    for folder in extra_folders:
        paths += _under(Path(folder).expanduser())
    if not paths:
        raise InputError("no fonts: give a folder that has .ttf or .otf files")
    found: dict[str, Font] = {}
    for path in paths:
        try:
            font = Font(path, hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError as error:
            raise DataError(f"the font {path} can't be read: {error.strerror or error}") from None
        found.setdefault(font.sha256, font)
    return list(found.values())


def _default_paths() -> list[Path]:
    paths = []
    for package, (folder, names) in DEFAULT_FONTS.items():
        spec = importlib.util.find_spec(package)  # finds it without importing it
        if spec is None or spec.origin is None:
            raise missing_extra(package.replace("_", "-"), "synthetic", "drawing numbers")
        paths += [Path(spec.origin).parent / folder / name for name in names]
    return paths


def _under(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"no folder of fonts at {folder}")
    paths = [path for path in folder.rglob("*") if path.suffix.lower() in FONT_SUFFIXES]
    if not paths:
        raise InputError(f"{folder} holds no .ttf or .otf files")
    # By name first: the order is the same wherever the folder lies.
    return sorted(paths, key=lambda path: (path.name, path.relative_to(folder).as_posix()))


class Glyphs(NamedTuple):
    """Glyphs of several fonts; lengths in heights of the font's tallest glyph.

    Attributes
    ----------
    fields
        (fonts, characters, side, side) float32: distance to the outline, positive inside,
        over a square `REACH` wide. Its middle is half-way across the glyph's ink, and
        half-way between the lowest and the highest ink of all glyphs of the font.
    widths
        (fonts, characters) float32 of the ink
    middles
        (fonts, characters) float32: half-way between the glyph's own lowest and highest ink,
        below the field's middle
    """

    fields: np.ndarray
    widths: np.ndarray
    middles: np.ndarray


def glyphs(chosen: Sequence[Font], characters: str = "0123456789") -> Glyphs:
    """The glyphs of `characters` in each of the `chosen` fonts; drawn once in a process."""
    return _glyphs(tuple(chosen), characters)


@lru_cache(maxsize=4)
def _glyphs(chosen: tuple[Font, ...], characters: str) -> Glyphs:
    shape = (len(chosen), len(characters))
    fields = np.empty((*shape, _SIDE, _SIDE), dtype=np.float32)
    widths = np.empty(shape, dtype=np.float32)
    middles = np.empty(shape, dtype=np.float32)
    for at, font in enumerate(chosen):
        for number, ink in enumerate(_inks(font, characters)):
            rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
            fields[at, number] = _field(ink)
            widths[at, number] = (columns[-1] - columns[0] + 1) / _UNIT
            middles[at, number] = ((rows[0] + rows[-1] + 1) - len(ink)) / (2 * _UNIT)
    for array in (fields, widths, middles):
        array.flags.writeable = False  # all callers share them
    return Glyphs(fields, widths, middles)


def _inks(font: Font, characters: str) -> list[np.ndarray]:
    """Each character drawn large, in the middle: (side, side) bool, where there is ink."""
    points = float(_UNIT)
    for _ in range(2):  # the second time for what rounding to whole pixels did the first time
        drawn = _drawn(font, characters, points)
        rows = np.flatnonzero(np.any(drawn, axis=(0, 2)))
        points *= _UNIT / (rows[-1] - rows[0] + 1)
    drawn = _drawn(font, characters, points)
    rows = np.flatnonzero(np.any(drawn, axis=(0, 2)))
    inks = []
    for ink in drawn:  # moved by where the ink is: a font's own boxes have margins
        columns = np.flatnonzero(ink.any(axis=0))
        down, right = ((len(ink) - 1 - at[0] - at[-1]) // 2 for at in (rows, columns))
        inks.append(np.roll(ink, (down, right), axis=(0, 1)))
    return inks


def _drawn(font: Font, characters: str, points: float) -> np.ndarray:
    """(characters, side, side) bool: the ink, on one base line."""
    from PIL import Image, ImageDraw, ImageFont

    side = _SIDE * _REDUCED
    inks = np.empty((len(characters), side, side), dtype=bool)
    try:
        # The basic layout: the other one depends on which libraries the system has.
        face = ImageFont.truetype(font.path, points, layout_engine=ImageFont.Layout.BASIC)
        for number, character in enumerate(characters):
            image = Image.new("L", (side, side))
            place = (side / 2, side * 0.75)
            ImageDraw.Draw(image).text(place, character, fill=255, font=face, anchor="ms")
            inks[number] = np.asarray(image) >= 128
    except (OSError, ValueError) as error:
        raise DataError(f"the font {font.path} can't be read: {error}") from None
    empty = [one for one, ink in zip(characters, inks, strict=True) if not ink.any()]
    if empty:
        raise DataError(f"the font {font.path} has nothing to draw for {''.join(empty)!r}")
    return inks


def _field(ink: np.ndarray) -> np.ndarray:
    from scipy.ndimage import distance_transform_edt

    far = distance_transform_edt(ink) - distance_transform_edt(~ink)
    far = far - np.sign(far) / 2  # measured from the edge, not from the first pixel's middle
    blocks = far.reshape(_SIDE, _REDUCED, _SIDE, _REDUCED)
    reduced: np.ndarray = blocks.mean(axis=(1, 3)) / _UNIT
    return reduced.astype(np.float32)
