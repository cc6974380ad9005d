"""Synthetic traffic signs (§4.1): GTSRB's 43 classes, drawn and photographed by arithmetic."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from revgrad.domains.arrays import ArrayStore
from revgrad.domains.digits import PHOTOGRAPHS as IN_WHEEL
from revgrad.domains.domain import Domain
from revgrad.domains.image_files import read_photographs
from revgrad.errors import DataError, unknown
from revgrad.paper.data.gtsrb_classes import SIGNS
from revgrad.paper.data.photographs import (
    BACKGROUNDS,
    bsds500_folder,
    hash_photographs,
    list_photographs,
)
from revgrad.paper.synthetic.generator import generated, library_versions
from revgrad.paper.synthetic.signs.drawing import drawings, styles
from revgrad.paper.synthetic.signs.glyphs import default_font
from revgrad.paper.synthetic.signs.parameters import REALISTIC, VIEW, SynSigns
from revgrad.paper.synthetic.signs.photographing import Scenes, photograph, scenes
from revgrad.paper.synthetic.signs.pictures import find_pictures, read_pictures

__all__ = ["REALISTIC", "SIGN_COUNTS", "SynSigns", "syn_signs"]

#: Images of each split, unless said.
SIGN_COUNTS = {"train": 100_000, "test": 10_000}

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
    progress: bool = True,
) -> Domain:
    """Synthetic signs like GTSRB's, (3, 40, 40) uint8, each as often as on roads.

    Made once and kept in the cache folder as a memory-mapped file, with the parameters, the
    hashes of all pictures and fonts and the libraries' versions beside it.

    Parameters
    ----------
    count
        images; 100,000 of "train", 10,000 of "test"
    parameters
        how they look (`REALISTIC`: nearer to GTSRB); the two splits never share random
        numbers, whatever the seed
    pictograms
        a folder of pictures 0.png … 42.png (or .jpg, …) to use instead of our drawings
    photographs
        a folder of photographs behind the signs. Unless given, those of BSDS500: "train"
        behind training signs, "val" behind test signs; where it is missing, those in
        scikit-image's wheel
    workers
        processes; one a core unless said. The images don't depend on it.
    progress
        a bar, where stderr is a terminal
    """
    if split not in SIGN_COUNTS:
        raise unknown("split of syn-signs", split, SIGN_COUNTS)
    chosen = replace(parameters or SynSigns(), split=split)
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
        SIGN_COUNTS[split] if count is None else count,
        chosen,
        photograph,
        context=partial(_scenes, chosen, pictures, behind),
        inputs=inputs,
        versions={
            "syn-signs": _FORMAT,
            **library_versions("numpy", "torch", "pillow", "matplotlib"),
        },
        workers=workers,
        progress=progress,
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
    if pictures is None:
        return scenes(_drawn(p.styles), photographs)
    return scenes(read_pictures(pictures, _drawn(1)[0])[None], photographs)


@cache
def _drawn(count: int) -> np.ndarray:
    """All signs in `count` styles, (count, classes, side, side, 4); drawn once in a process."""
    return np.stack([drawings(_SIDE, style) for style in styles(count, default_font())])


def _photographs(split: str) -> list[Path]:
    try:
        return list_photographs(bsds500_folder(BACKGROUNDS[split]))
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
