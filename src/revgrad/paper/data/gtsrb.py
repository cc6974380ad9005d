"""GTSRB (Stallkamp et al. 2012): 43 German traffic signs, from the official folders or `.npz`.

A sign was filmed from a car that drives towards it: the thirty frames of a track show one and the
same sign. Splits "train" and "test" keep tracks whole. "random-train" and "random-test" are by
frame, as the paper's numbers imply (31,367 + 7,842 of 39,209): frames of a test track are then
also in training, which makes that test an easier one.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from revgrad._system import cache_folder, data_folder, progress_bar
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.cache import ImageWriter, cached_images, require_space
from revgrad.domains.domain import Domain
from revgrad.domains.image_files import Unreadable, read_pixels, resize
from revgrad.domains.npz import labelled_npz
from revgrad.domains.threads import in_order
from revgrad.errors import DataError, unknown
from revgrad.paper.data.catalogue import missing
from revgrad.paper.data.gtsrb_classes import SIGNS

SIGN_SIDE = 40  # pixels, as the paper's network takes them

#: Share of the tracks of every class, or of all frames, that the test splits hold, and their seed.
TEST_SHARE = 0.2
SPLIT_SEED = 0

GTSRB_SPLITS = ("train", "test", "random-train", "random-test", "all", "official-test")

_FORMAT = 1  # of the cache: a new number makes old entries be decoded anew
_TASK = 32  # images a thread decodes at a time
_COLUMNS = ("Filename", "Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2", "ClassId")
_TRACK = re.compile(r"(\d+)_\d+\.ppm")
_OF_TESTS = ("Final_Test_GT", "Final_Test", "Final_Test/Images", ".", "..")


class _Sign(NamedTuple):
    path: str  # relative to the folder of images
    box: tuple[int, int, int, int]  # left, top, right, bottom; the last two are outside
    label: int
    track: int


def gtsrb(split: str = "train", *, progress: bool = True) -> Domain:
    """Traffic signs of GTSRB, cropped to their region of interest, (3, 40, 40) uint8.

    - `"train", "test"`: a fifth of the tracks of every class is the test
    - `"random-train", "random-test"`: a fifth of the frames is the test, whatever their track
    - `"all"`: the 39,209 images of the official training set
    - `"official-test"`: the 12,630 images of the official test

    Read from `gtsrb/GTSRB/Final_Training` and `Final_Test` of the data folder (decoded once into
    the cache), or from `gtsrb40/train.npz` with images, labels and tracks, which has no official
    test. The domain's name, "gtsrb" or "gtsrb40", says which it was.
    """
    if split not in GTSRB_SPLITS:
        raise unknown("split of gtsrb", split, GTSRB_SPLITS)
    if split == "official-test":
        return _official_test(progress)
    domain, tracks = _training_set(progress)
    if split == "all":
        return domain
    assert domain.labels is not None  # both readers give them
    if split.startswith("random"):
        order = np.random.default_rng(SPLIT_SEED).permutation(len(domain))
        held = round(TEST_SHARE * len(domain))
        train, test = np.sort(order[held:]), np.sort(order[:held])
    else:
        train, test = split_by_track(domain.labels, tracks, TEST_SHARE, SPLIT_SEED)
    return domain.subset(test if split.endswith("test") else train)


def gtsrb_tracks(*, progress: bool = True) -> np.ndarray:
    """(n,) the track, counted inside its class, of each image of `gtsrb("all")`."""
    return _training_set(progress)[1]


def split_by_track(
    labels: np.ndarray, tracks: np.ndarray, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (train, test), each in order: about `share` of every class's tracks are the test.

    A track is known by (class, track). Which tracks of a class are chosen depends on the class, the
    numbers of its tracks and the seed only, so all, or every third, of the frames split alike. At
    least one track of a class goes to each side; a class's only track to the training.
    """
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = labels == label
        there = np.unique(tracks[members])
        count = min(max(round(share * len(there)), 1), len(there) - 1)
        chosen = np.random.default_rng([seed, int(label)]).permutation(there)[:count]
        test |= members & np.isin(tracks, chosen)
    return np.flatnonzero(~test), np.flatnonzero(test)


# -- where it is ------------------------------------------------------------------------------


def _roots() -> list[Path]:
    base = data_folder()
    return [base / "gtsrb" / "GTSRB", base / "GTSRB", base / "gtsrb"]


def _training_set(progress: bool) -> tuple[Domain, np.ndarray]:
    packed = data_folder() / "gtsrb40" / "train.npz"
    for root in _roots():
        images = root / "Final_Training" / "Images"
        if images.is_dir():
            signs = _training_signs(images)
            tracks = np.array([sign.track for sign in signs], dtype=np.int64)
            return _decoded(images, signs, progress), tracks
    if packed.is_file():
        domain = labelled_npz(packed, (3, SIGN_SIDE, SIGN_SIDE), SIGNS, "gtsrb40")
        return domain, _packed_tracks(packed, len(domain))
    places = [root / "Final_Training" / "Images" for root in _roots()[:1]]
    raise missing("gtsrb", "training images", [*places, packed])


def _official_test(progress: bool) -> Domain:
    for root in _roots():
        images = root / "Final_Test" / "Images"
        if not images.is_dir():
            continue
        for place in _OF_TESTS:
            table = root / place / "GT-final_test.csv"
            if table.is_file():
                signs = _read_table(table, None)
                return _decoded(images, signs, progress)
        raise missing("gtsrb", "GT-final_test.csv, the labels of the official test,", [root])
    raise missing("gtsrb", "official test images", [_roots()[0] / "Final_Test" / "Images"])


def _packed_tracks(path: Path, count: int) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        try:
            tracks = np.asarray(archive["tracks"])
        except (KeyError, ValueError, OSError) as error:
            raise DataError(f"{path} holds no tracks that can be read: {error}") from None
    if tracks.shape != (count,) or tracks.dtype.kind not in "iu":
        raise DataError(
            f"{path}: tracks must be one number an image, {count} in all, not {tracks.dtype} "
            f"{tracks.shape}"
        )
    return tracks.astype(np.int64)


# -- the tables -------------------------------------------------------------------------------


def _training_signs(images: Path) -> list[_Sign]:
    signs: list[_Sign] = []
    for label in range(len(SIGNS)):
        table = images / f"{label:05d}" / f"GT-{label:05d}.csv"
        if not table.is_file():
            raise DataError(
                f"GTSRB is not whole: no {table}; unpack the archive again, all {len(SIGNS)} "
                "classes of it"
            )
        signs += _read_table(table, label)
    return signs


def _read_table(table: Path, label: int | None) -> list[_Sign]:
    """The lines of a csv; with a `label`, those of a class's folder, whose names tell the track."""
    signs = []
    line = 1
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, delimiter=";")
            absent = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
            if absent:
                raise ValueError(f"no column {absent[0]}")
            for row in rows:
                line = rows.line_num
                signs.append(_sign(row, label))
    except (OSError, ValueError, TypeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise DataError(f"{table} can't be used, line {line}: {reason}") from None
    if not signs:
        raise DataError(f"{table} lists no images")
    return signs


def _sign(row: dict[str, str], label: int | None) -> _Sign:
    name, *numbers = (row[key] for key in _COLUMNS)
    left, top, right, bottom, number = map(int, numbers)
    if name != Path(name).name or "\\" in name or name.startswith("."):
        raise ValueError(f"{name!r} is not the name of an image")
    if not (0 <= left < right and 0 <= top < bottom):
        raise ValueError(f"{name} has no region of interest ({left}, {top}) to ({right}, {bottom})")
    if number != label if label is not None else not 0 <= number < len(SIGNS):
        wanted = f"0 to {len(SIGNS) - 1}" if label is None else str(label)
        raise ValueError(f"{name} is of class {number}, not {wanted}")
    if label is None:
        return _Sign(name, (left, top, right, bottom), number, 0)
    track = _TRACK.fullmatch(name)
    if track is None:
        raise ValueError(f"{name!r} is not named track_frame.ppm")
    return _Sign(f"{label:05d}/{name}", (left, top, right, bottom), number, int(track[1]))


# -- the images -------------------------------------------------------------------------------


def _decoded(images: Path, signs: Sequence[_Sign], progress: bool) -> Domain:
    where = cache_folder()

    def build(start: Callable[[tuple[int, int, int]], ImageWriter]) -> dict[str, object]:
        require_space(where, len(signs) * SIGN_SIDE * SIGN_SIDE * 3)
        writer = start((SIGN_SIDE, SIGN_SIDE, 3))
        tasks = [signs[i : i + _TASK] for i in range(0, len(signs), _TASK)]

        def decode(task: Sequence[_Sign]) -> np.ndarray:
            return np.stack([_read(images, sign) for sign in task])

        with progress_bar("decoding GTSRB", len(signs), progress) as show:
            for block in in_order(decode, tasks):
                writer.write(block)
                show(writer.rows)
        return {"folder": str(images.resolve()), "side": SIGN_SIDE}

    found = cached_images(where, _key(images, signs), build)
    return Domain(
        ArrayStore(found.images, layout="NHWC", key=found.digest),
        np.array([sign.label for sign in signs], dtype=np.int64),
        classes=SIGNS,
        name="gtsrb",
        files=[sign.path for sign in signs],
    )


def _key(images: Path, signs: Sequence[_Sign]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([_FORMAT, SIGN_SIDE, str(images.resolve())]).encode())
    for sign in signs:
        try:
            status = (images / sign.path).stat()
        except OSError as error:
            raise DataError(
                f"GTSRB is not whole: {images / sign.path} can't be read ({error.strerror}); "
                "unpack the archive again"
            ) from None
        digest.update(
            json.dumps([sign.path, sign.box, status.st_size, status.st_mtime_ns]).encode()
        )
    return f"gtsrb-{digest.hexdigest()}"


def _read(images: Path, sign: _Sign) -> np.ndarray:
    """One sign, cut to its region of interest and brought to 40×40."""
    path = images / sign.path
    try:
        pixels = read_pixels(path, 3)
    except Unreadable as error:
        raise DataError(f"the image {path} can't be read: {error}") from None
    left, top, right, bottom = sign.box
    if bottom > pixels.shape[0] or right > pixels.shape[1]:
        raise DataError(
            f"the region of interest of {path} ends at ({right}, {bottom}), outside its "
            f"{pixels.shape[1]}×{pixels.shape[0]} pixels"
        )
    return resize(pixels[top:bottom, left:right], (SIGN_SIDE, SIGN_SIDE), "stretch")
