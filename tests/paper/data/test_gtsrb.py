"""GTSRB from folders of the official format: made here, and the real signs where present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cached import cache_entries
from revgrad.errors import DataError, InputError
from revgrad.paper.data.gtsrb import gtsrb, gtsrb_tracks, split_by_track
from revgrad.paper.data.gtsrb_classes import SIGNS

HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"
BORDER = (6, 5, 4, 3)  # left, top, right, bottom
TRACKS, FRAMES = 3, 2


def picture(label: int, track: int, frame: int, side: int = 40) -> np.ndarray:
    """A sign whose pixels tell which it is."""
    seed = [label, track, frame]
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def write_sign(path: Path, sign: np.ndarray, label: int) -> str:
    """The sign with a border of other pixels; its line in the csv."""
    left, top, right, bottom = BORDER
    padded = np.pad(sign, ((top, bottom), (left, right), (0, 0)), constant_values=77)
    Image.fromarray(padded).save(path)
    height, width = padded.shape[:2]
    return f"{path.name};{width};{height};{left};{top};{width - right};{height - bottom};{label}"


def write_training(folder: Path) -> Path:
    images = folder / "gtsrb" / "GTSRB" / "Final_Training" / "Images"
    for label in range(43):
        where = images / f"{label:05d}"
        where.mkdir(parents=True)
        lines = [HEADER]
        for track in range(TRACKS):
            for frame in range(FRAMES):
                path = where / f"{track:05d}_{frame:05d}.ppm"
                lines.append(write_sign(path, picture(label, track, frame), label))
        (where / f"GT-{label:05d}.csv").write_text("\r\n".join(lines) + "\r\n")
    return images


def write_test(folder: Path, table: str = "Final_Test_GT") -> Path:
    root = folder / "gtsrb" / "GTSRB"
    images = root / "Final_Test" / "Images"
    images.mkdir(parents=True)
    lines = [HEADER]
    for number in range(5):
        path = images / f"{number:05d}.ppm"
        lines.append(write_sign(path, picture(number, 0, 0), 42 - number))
    (root / table).mkdir(parents=True, exist_ok=True)
    (root / table / "GT-final_test.csv").write_text("\n".join(lines))
    return images


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    return tmp_path


def pixels(domain: Any) -> np.ndarray:
    return domain.batch(np.arange(len(domain))).inputs.permute(0, 2, 3, 1).numpy()


def test_official_training_folders(folder: Path, cache: Path) -> None:
    write_training(folder)
    domain = gtsrb("all")
    assert len(domain) == 43 * TRACKS * FRAMES
    assert domain.name == "gtsrb"
    assert domain.shape == (3, 40, 40)
    assert domain.classes == SIGNS
    wanted = [
        (label, track, frame)
        for label in range(43)
        for track in range(TRACKS)
        for frame in range(FRAMES)
    ]
    assert domain.labels is not None
    assert domain.labels.tolist() == [label for label, _, _ in wanted]
    assert gtsrb_tracks().tolist() == [track for _, track, _ in wanted]
    for image, which in zip(pixels(domain), wanted, strict=True):
        assert (image == picture(*which)).all()  # nothing of the border: exactly the region
    assert domain.files is not None
    assert domain.files[7] == "00001/00000_00001.ppm"
    (entry,) = cache_entries(cache)
    before = (entry / "images.npy").stat().st_mtime_ns
    assert gtsrb("all").fingerprint() == domain.fingerprint()
    assert (entry / "images.npy").stat().st_mtime_ns == before


def test_regions_are_brought_to_40_pixels(folder: Path) -> None:
    images = write_training(folder)
    flat = np.full((90, 20, 3), (200, 10, 60), dtype=np.uint8)
    line = write_sign(images / "00000" / "00000_00000.ppm", flat, 0)
    table = images / "00000" / "GT-00000.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], line, *lines[2:]]))
    assert (pixels(gtsrb("all"))[0] == (200, 10, 60)).all()


def test_a_changed_region_is_decoded_anew(folder: Path) -> None:
    images = write_training(folder)
    before = gtsrb("all")
    table = images / "00003" / "GT-00003.csv"
    text = table.read_text().replace(";6;5;46;45;3", ";7;5;46;45;3", 1)
    table.write_text(text)
    changed = (pixels(gtsrb("all")) != pixels(before)).any(axis=(1, 2, 3))
    assert np.flatnonzero(changed).tolist() == [3 * TRACKS * FRAMES]


@pytest.mark.parametrize("table", ["Final_Test_GT", ".", "..", "Final_Test", "Final_Test/Images"])
def test_official_test(folder: Path, table: str) -> None:
    write_test(folder, table)
    domain = gtsrb("official-test")
    assert domain.labels is not None
    assert domain.labels.tolist() == [42, 41, 40, 39, 38]
    for number, image in enumerate(pixels(domain)):
        assert (image == picture(number, 0, 0)).all()


def test_splits_are_by_track_and_by_frame(folder: Path) -> None:
    write_training(folder)
    every, tracks = gtsrb("all"), gtsrb_tracks()
    assert every.labels is not None
    for names, whole in ((("train", "test"), True), (("random-train", "random-test"), False)):
        train, test = (gtsrb(name) for name in names)
        assert sorted([*train.rows, *test.rows]) == list(range(len(every)))
        assert (test.rows == gtsrb(names[1]).rows).all()
        both = [
            {(int(every.labels[row]), int(tracks[row])) for row in part.rows}
            for part in (train, test)
        ]
        assert bool(both[0] & both[1]) is not whole
        assert (train.labels == every.labels[train.rows]).all()
    assert {label for label, _ in both[1]} != set(range(43))  # of 258 frames 52 are the test
    assert len(gtsrb("random-test")) == round(0.2 * len(every))
    assert set(gtsrb("test").labels) == set(range(43))  # type: ignore[arg-type]


def test_split_by_track() -> None:
    rng = np.random.default_rng(1)
    labels, tracks = rng.integers(0, 5, 2_000), rng.integers(0, 20, 2_000)
    tracks[labels == 3] = 7  # a class of one track
    tracks[labels == 4] %= 2
    train, test = split_by_track(labels, tracks, 0.3, 5)
    assert sorted([*train, *test]) == list(range(2_000))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    for label in range(5):
        there = {int(t) for t in tracks[labels == label]}
        held = {int(t) for t in tracks[test][labels[test] == label]}
        kept = {int(t) for t in tracks[train][labels[train] == label]}
        assert not held & kept
        assert held | kept == there
        assert len(held) == {3: 0, 4: 1}.get(label, 6)
    # Fewer frames of the same tracks, and fewer classes, are split alike.
    some = np.flatnonzero((np.arange(2_000) % 3 == 0) & (labels != 1))
    _, fewer = split_by_track(labels[some], tracks[some], 0.3, 5)
    assert some[fewer].tolist() == [row for row in test if row in set(some)]
    assert split_by_track(labels, tracks, 0.3, 6)[1].tolist() != test.tolist()
    # Classes choose other tracks, though all have the same numbers.
    chosen = [sorted(set(tracks[test][labels[test] == label])) for label in range(3)]
    assert chosen[0] != chosen[1] or chosen[1] != chosen[2]


def write_npz(folder: Path, **changes: Any) -> None:
    (folder / "gtsrb40").mkdir(exist_ok=True)
    labels = np.repeat(np.arange(43), 4)
    images = np.random.default_rng(0).integers(0, 256, (172, 40, 40, 3), dtype=np.uint8)
    arrays = {"images": images, "labels": labels, "tracks": np.arange(172) % 4 // 2, **changes}
    arrays = {key: value for key, value in arrays.items() if value is not None}
    np.savez(folder / "gtsrb40" / "train.npz", **arrays)


def test_npz(folder: Path) -> None:
    write_npz(folder)
    assert gtsrb("all").name == "gtsrb40"
    assert len(gtsrb("train")) == len(gtsrb("test")) == 86  # one track of the two of each class
    assert gtsrb_tracks().tolist() == [0, 0, 1, 1] * 43
    with pytest.raises(DataError, match=r"no official test images in .*revgrad data fetch gtsrb"):
        gtsrb("official-test")
    write_training(folder)  # the official folders come first
    assert gtsrb("all").name == "gtsrb"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tracks": None}, "holds no tracks"),
        ({"tracks": np.arange(171)}, r"one number an image, 172 in all, not int64 \(171,\)"),
        ({"tracks": np.arange(172) / 2}, "not float64"),
        ({"tracks": np.array([None] * 172)}, "holds no tracks that can be read"),
        ({"labels": np.arange(172)}, "holds the label 171: labels are 0 to 42"),
        ({"images": np.zeros((172, 32, 32, 3), np.uint8)}, r"of shape \(3, 40, 40\)"),
    ],
)
def test_wrong_npz(folder: Path, changes: dict[str, Any], message: str) -> None:
    write_npz(folder, **changes)
    with pytest.raises(DataError, match=message) as caught:
        gtsrb()
    assert "\n" not in str(caught.value)


def test_missing(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        gtsrb()
    for part in (
        *("GTSRB is missing: no training images in", "gtsrb/GTSRB/Final_Training/Images"),
        *("gtsrb40/train.npz", "`revgrad data fetch gtsrb`", "unpack GTSRB_Final", "REVGRAD_DATA"),
    ):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="no split of gtsrb 'tran'; did you mean 'train'"):
        gtsrb("tran")
    images = write_test(folder)
    (images.parent.parent / "Final_Test_GT" / "GT-final_test.csv").unlink()
    with pytest.raises(DataError, match=r"no GT-final_test\.csv, the labels of the official test"):
        gtsrb("official-test")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (HEADER, HEADER.replace("Roi.X2;", ""), "line 1: no column Roi.X2"),
        (";46;45;4", ";46;45;5", "line 2: 00000_00000.ppm is of class 5, not 4"),
        (";46;45;4", ";46;45", "line 2"),
        (";46;45;4", ";46;x;4", "line 2: invalid literal"),
        (";6;5;46", ";46;5;46", r"no region of interest \(46, 5\) to \(46, 45\)"),
        (";6;5;46", ";-1;5;46", "no region of interest"),
        (";46;45;4", ";51;45;4", r"ends at \(51, 45\), outside its 50×48 pixels"),
        (";46;45;4", ";46;49;4", "outside its 50×48 pixels"),
        ("00000_00000.ppm", "../00005/00000_00000.ppm", "is not the name of an image"),
        ("00000_00000.ppm", "00000.ppm", "is not named track_frame.ppm"),
        ("00000_00000.ppm", "00009_00000.ppm", "not whole: .*00009_00000.ppm .*No such file"),
        (None, "", "line 1: no column Filename"),
        (None, HEADER, "lists no images"),
        (None, "\xff\xfe", "can't be used"),
    ],
)
def test_wrong_tables(folder: Path, cache: Path, old: str | None, new: str, message: str) -> None:
    images = write_training(folder)
    table = images / "00004" / "GT-00004.csv"
    text = new if old is None else table.read_text().replace(old, new, 1)
    table.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=message) as caught:
        gtsrb()
    assert "\n" not in str(caught.value)
    assert cache_entries(cache) == []


def test_not_whole_or_damaged(folder: Path, cache: Path) -> None:
    images = write_training(folder)
    path = images / "00017" / "00001_00000.ppm"
    whole = path.read_bytes()
    for content in (b"", whole[:100], b"P6 junk"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"00001_00000\.ppm can't be read: ") as caught:
            gtsrb()
        assert "\n" not in str(caught.value)
        assert cache_entries(cache) == []
    path.write_bytes(whole)
    (images / "00042" / "GT-00042.csv").unlink()
    with pytest.raises(DataError, match=r"not whole: no .*GT-00042\.csv; .* all 43 classes"):
        gtsrb()


def test_signs_have_names_of_their_own() -> None:
    assert len(SIGNS) == len(set(SIGNS)) == 43
    official = {0: "20", 8: "120", 14: "stop", 17: "no entry", 25: "road works", 40: "roundabout"}
    for number, part in official.items():
        assert part in SIGNS[number]


def test_real_signs(data_folder: Path) -> None:
    if not any((data_folder / name).is_dir() for name in ("gtsrb", "GTSRB", "gtsrb40")):
        pytest.skip(f"no gtsrb or gtsrb40 in {data_folder}")
    every = gtsrb("all")
    assert every.labels is not None
    tracks = gtsrb_tracks()
    assert len(every) == (13_069 if every.name == "gtsrb40" else 39_209)
    assert set(every.labels) == set(range(43))
    if every.name == "gtsrb40":  # every third frame: ten of a track, one track short of one
        _, counts = np.unique(every.labels * 1000 + tracks, return_counts=True)
        assert sorted(set(counts)) == [9, 10]
        assert len(counts) == 1_307
    train, test = gtsrb("train"), gtsrb("test")
    assert len(train) + len(test) == len(every)
    assert 0.17 < len(test) / len(every) < 0.23
    assert set(train.labels) == set(test.labels) == set(range(43))  # type: ignore[arg-type]
