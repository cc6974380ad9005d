"""Synthetic traffic signs (§4.1): GTSRB's 43 classes, drawn and photographed by arithmetic."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from revgrad.domains.arrays import ArrayStore
from revgrad.domains.digits import PHOTOGRAPHS as IN_WHEEL
from revgrad.domains.domain import Domain
from revgrad.domains.generating import generated, library_versions
from revgrad.domains.gtsrb_classes import SIGNS
from revgrad.domains.photographs import (
    bsds500_folder,
    hash_photographs,
    list_photographs,
    read_photographs,
)
from revgrad.domains.signs.drawing import drawings, styles
from revgrad.domains.signs.glyphs import default_font
from revgrad.domains.signs.photographing import VIEW, Scenes, SynSigns, photograph, scenes
from revgrad.domains.signs.pictures import find_pictures, read_pictures
from revgrad.errors import DataError, InputError, unknown

__all__ = ["COUNTS", "SynSigns", "syn_signs"]

#: Images of each split, unless said.
COUNTS = {"train": 100_000, "test": 10_000}

#: Photographs of BSDS500 behind each split: test backgrounds are never seen in training.
PHOTOGRAPHS = {"train": "train", "test": "val"}

_FORMAT = "1"  # of drawings and conditions: a new number makes kept sets be generated anew
_SIDE = 96  # pixels of a drawing

_log = logging.getLogger("revgrad")


def syn_signs(
    split: str = "train",
    *,
    count: int | None = None,
    parameters: SynSigns | None = None,
    pictograms: str | Path | None = None,
    photographs: str | Path | None = None,
    workers: int | None = None,
) -> Domain:
    """Synthetic signs like GTSRB's, (3, 40, 40) uint8, image i of class i mod 43.

    count        images; 100,000 of "train", 10,000 of "test"
    parameters   how they look; the two splits never share random numbers, whatever the seed
    pictograms   a folder of pictures 0.png … 42.png (or .jpg, …) to use instead of our drawings
    photographs  a folder of photographs behind the signs. Unless given, those of BSDS500: "train"
                 behind training signs, "val" behind test signs; where it is missing, those in
                 scikit-image's wheel
    workers      processes; one a core unless said. The images don't depend on it.

    Made once and kept in the cache folder as a memory-mapped file, with the parameters, the
    hashes of all pictures and fonts and the libraries' versions beside it.
    """
    if split not in COUNTS:
        raise unknown("split of syn-signs", split, COUNTS)
    chosen = check(replace(parameters or SynSigns(), split=split))
    behind = _photographs(split) if photographs is None else list_photographs(photographs)
    inputs = {"photographs": hash_photographs(behind)}
    pictures: list[Path] | None = None
    if pictograms is None:
        inputs["font"] = hashlib.blake2b(default_font().read_bytes(), digest_size=16).hexdigest()
    else:
        pictures = find_pictures(Path(pictograms).expanduser(), len(SIGNS))
        inputs["pictograms"] = hash_photographs(pictures)
    made = generated(
        f"syn-signs-{split}",
        COUNTS[split] if count is None else count,
        chosen,
        photograph,
        context=partial(_scenes, chosen, pictures, behind),
        inputs=inputs,
        versions={
            "syn-signs": _FORMAT,
            **library_versions("numpy", "torch", "pillow", "matplotlib"),
        },
        workers=workers,
    )
    return Domain(
        ArrayStore(made.images, layout="NHWC", key=made.digest),
        made.labels,
        classes=SIGNS,
        name="syn-signs",
    )


def _scenes(p: SynSigns, pictures: list[Path] | None, behind: list[Path]) -> Scenes:
    photographs = read_photographs(behind)
    for path, one in zip(behind, photographs, strict=True):
        if min(one.shape[:2]) < VIEW:
            raise DataError(
                f"the photograph {path} is {one.shape[0]}×{one.shape[1]}: too small, at least "
                f"{VIEW}×{VIEW} would do"
            )
    plain = styles(p.styles, default_font())
    if pictures is None:
        drawn = np.stack([drawings(_SIDE, style) for style in plain])
    else:
        drawn = read_pictures(pictures, drawings(_SIDE, plain[0]))[None]
    return scenes(drawn, photographs)


def _photographs(split: str) -> list[Path]:
    try:
        return list_photographs(bsds500_folder(PHOTOGRAPHS[split]))
    except DataError:
        wheel = find_spec("skimage")
        if wheel is None or not wheel.submodule_search_locations:
            raise
        folder = Path(wheel.submodule_search_locations[0]) / "data"
        found = [folder / name for name in IN_WHEEL if (folder / name).is_file()]
        if not found:
            raise
        _log.info("syn-signs: no BSDS500, so signs stand before scikit-image's photographs")
        return found


def check(p: SynSigns) -> SynSigns:
    """`p`, or an InputError that names the parameter which can't be used."""

    def refuse(name: str, wanted: str) -> InputError:
        return InputError(f"syn-signs: {name} must be {wanted}, not {getattr(p, name)!r}")

    for name in ("size", "styles"):
        value = getattr(p, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise refuse(name, "a whole number, 1 or more")
    if p.size > VIEW:
        raise refuse("size", f"at most {VIEW} pixels")
    if not isinstance(p.seed, int) or p.seed < 0:
        raise refuse("seed", "a whole number, 0 or more")
    for field in fields(p):
        value = getattr(p, field.name)
        if isinstance(field.default, float) and not (_is_number(value) and 0 <= value < np.inf):
            raise refuse(field.name, "a number, 0 or more")
        if isinstance(field.default, tuple):
            pair = isinstance(value, tuple) and len(value) == 2 and all(map(_is_number, value))
            if not pair or not 0 <= min(value) <= max(value) < np.inf:
                raise refuse(field.name, "two numbers, 0 or more")
            if field.name not in ("shadow", "motion") and value[0] > value[1]:
                raise refuse(field.name, "two numbers, the lesser first")
    for name in ("fill", "surround", "light", "defocus", "gamma"):
        if getattr(p, name)[0] <= 0:
            raise refuse(name, "two numbers above 0")
    if p.resolution[0] < 2:
        raise refuse("resolution", "two numbers of pixels, 2 or more")
    if p.perspective >= 0.4:
        raise refuse("perspective", "below 0.4, where the horizon is out of the picture")
    for name in ("shadow", "motion"):
        if max(getattr(p, name)) > 1:
            raise refuse(name, "how often and how much, each at most 1")
    return p


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
