"""Photographs of a folder: which, in what order, what they hash to, and unreadable ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from revgrad.errors import DataError, InputError
from revgrad.paper.data.photographs import (
    bsds500_folder,
    hash_photographs,
    list_photographs,
    photographs,
)

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 9, 11, 3), dtype=np.uint8)


def write(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in zip(names, PIXELS, strict=False):
        Image.fromarray(pixels).save(folder / name)
    return folder


def test_photographs_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = write(tmp_path, "b.png", "a.BMP", "c.png")
    Image.fromarray(PIXELS[0, ..., 0]).save(folder / "grey.png")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_text("x")
    (folder / "sub").mkdir()
    assert [path.name for path in list_photographs(folder)] == [
        "a.BMP",
        "b.png",
        "c.png",
        "grey.png",
    ]
    found = photographs(str(folder))
    for one, wanted in zip(found, (PIXELS[1], PIXELS[0], PIXELS[2]), strict=False):
        assert (one == wanted).all()
    assert found[3].shape == (9, 11, 3)
    assert (found[3] == PIXELS[0, ..., :1]).all()


def test_hash_is_of_names_order_and_contents(tmp_path: Path) -> None:
    paths = list_photographs(write(tmp_path / "one", "a.png", "b.png"))
    same = list_photographs(write(tmp_path / "two", "a.png", "b.png"))
    assert hash_photographs(paths) == hash_photographs(same)
    hashes = {hash_photographs(paths), hash_photographs(paths[::-1]), hash_photographs(paths[:1])}
    same[1].rename(same[1].with_name("c.png"))
    hashes.add(hash_photographs(list_photographs(tmp_path / "two")))
    paths[0].write_bytes(paths[1].read_bytes())
    hashes.add(hash_photographs(paths))
    assert len(hashes) == 5
    with pytest.raises(DataError, match=r"a\.png can't be read: No such file"):
        hash_photographs([tmp_path / "nowhere" / "a.png"])


def test_unreadable_empty_and_missing(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", "a.png")
    whole = (folder / "a.png").read_bytes()
    for content, reason in ((b"", "not an image"), (whole[: len(whole) // 2], ".")):
        (folder / "b.png").write_bytes(content)
        with pytest.raises(
            DataError, match=rf"the photograph .*b\.png can't be read: {reason}"
        ) as c:
            photographs(folder)
        assert "\n" not in str(c.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no photographs in .*empty"):
        photographs(tmp_path / "empty")
    with pytest.raises(InputError, match="no folder of photographs"):
        photographs(folder / "a.png")


def test_folders_of_bsds500(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        bsds500_folder("val")
    for part in (
        *("BSDS500 is missing: no photographs in", str(tmp_path / "bsds500" / "val")),
        *("revgrad data fetch bsds500", "put its images/train into bsds500/train", "REVGRAD_DATA"),
    ):
        assert part in str(caught.value)
    official = write(tmp_path / "bsds500" / "BSR" / "BSDS500" / "data" / "images" / "val", "a.png")
    assert bsds500_folder("val") == official
    (tmp_path / "bsds500" / "val").mkdir()  # empty: still the other
    assert bsds500_folder("val") == official
    assert bsds500_folder("val") != write(tmp_path / "bsds500" / "val", "a.png")
    assert bsds500_folder("val") == tmp_path / "bsds500" / "val"
    with pytest.raises(InputError, match="no split of bsds500 'tain'; did you mean 'train'"):
        bsds500_folder("tain")


def test_real_photographs(data_folder: Path) -> None:
    if not (data_folder / "bsds500").is_dir():
        pytest.skip(f"no bsds500 in {data_folder}")
    assert len(list_photographs(bsds500_folder("train"))) == 200
    found = photographs(bsds500_folder("val"))
    assert len(found) == 100
    assert {one.shape for one in found} == {(321, 481, 3), (481, 321, 3)}
