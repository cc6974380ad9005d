"""Folders that are not kept decoded: the same domain, read from one file of bytes or from files."""

from __future__ import annotations

import io
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import revgrad.domains.folder as folder_module
import revgrad.domains.folder_store as store_module
from cached import cache_entries
from revgrad.domains import Domain, from_folder
from revgrad.domains.folder_store import FolderStore, Needs
from revgrad.domains.image_files import decoded, resize
from revgrad.errors import DataError, InputError
from revgrad.training.paired_batches import PairedBatches
from revgrad.training.reader import BatchReader

GIGA = 10**9


def draw(folder: Path, count: int = 30) -> Path:
    chance = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 2}" / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (9 + number % 3, 10, 3)
        Image.fromarray(chance.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return folder


def by_file(domain: Domain) -> dict[str, tuple[bytes, int]]:
    found = domain.batch(np.arange(len(domain)))
    assert isinstance(found.inputs, torch.Tensor)
    assert found.labels is not None
    rows = zip(domain.files or (), found.inputs, found.labels.tolist(), strict=True)
    return {file: (image.numpy().tobytes(), label) for file, image, label in rows}


def test_every_storage_gives_the_same_images(tmp_path: Path, cache: Path) -> None:
    photos = draw(tmp_path / "photos")
    made = {kind: from_folder(photos, size=8, storage=kind) for kind in store_module.STORAGES[1:]}
    found = {kind: by_file(domain) for kind, domain in made.items()}
    assert len(found["decoded"]) == 30
    assert found["decoded"] == found["compressed"] == found["files"]
    assert {type(one.store) for one in (made["compressed"], made["files"])} == {FolderStore}
    # a run that began with one of these two goes on with the other
    assert made["compressed"].fingerprint() == made["files"].fingerprint()
    assert made["compressed"].files == made["files"].files
    kept = {entry.name.split("-")[0]: entry for entry in cache_entries(cache)}
    assert kept.keys() == {"folder", "bytes", "files"}
    size = sum(path.stat().st_size for path in photos.rglob("*.png"))
    assert (kept["bytes"] / "images.npy").stat().st_size == size + 128
    assert (kept["files"] / "images.npy").stat().st_size == 30 * 16 + 128
    shutil.rmtree(photos / "class1")
    domain = made["compressed"]
    assert by_file(domain) == found["decoded"]  # the bytes are its own


@pytest.mark.parametrize("storage", ["compressed", "files"])
def test_names_decide_nothing(tmp_path: Path, storage: str) -> None:
    """Samples come in the order of their content: other names, the same batches."""
    batches = []
    for letters in ("ab", "ba"):
        folder = draw(tmp_path / letters)
        for number, letter in enumerate(letters):
            (folder / f"class{number}").rename(folder / letter)
        domain = from_folder(folder, size=8, storage=storage).without_labels()
        batches.append(domain.batch(np.arange(30)).inputs)
    assert torch.equal(*batches)


def test_the_sizes_say_where_images_are_kept() -> None:
    assert Needs(GIGA, 10 * GIGA, 0).storage() == "decoded"  # as ever
    assert Needs(193 * GIGA, 145 * GIGA, 1000 * GIGA).storage() == "decoded"  # ImageNet at 224²
    assert Needs(193 * GIGA, 145 * GIGA, 350 * GIGA).storage() == "compressed"
    assert Needs(193 * GIGA, 145 * GIGA, 250 * GIGA).storage() == "files"
    assert Needs(900 * GIGA, 100 * GIGA, 9000 * GIGA).storage() == "compressed"
    assert Needs(100 * GIGA, 900 * GIGA, 300 * GIGA).storage() == "decoded"


def test_auto_says_what_it_does_and_stays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    photos = draw(tmp_path / "photos")
    assert not isinstance(from_folder(photos, size=8).store, FolderStore)
    monkeypatch.setattr(store_module, "ALWAYS_DECODED", 0)
    monkeypatch.setattr(folder_module, "ALWAYS_DECODED", 0)
    monkeypatch.setattr(folder_module, "free_space", lambda folder: 30_000)
    assert not isinstance(from_folder(photos, size=8).store, FolderStore)  # it is there already
    with caplog.at_level(logging.INFO, logger="revgrad"):
        first = from_folder(photos, size=80)
    line = next(text for text in caplog.messages if "decoded at 80×80" in text)
    assert "their bytes are kept in one file" in line
    assert "\n" not in line
    monkeypatch.setattr(folder_module, "free_space", lambda folder: 0)
    second = from_folder(photos, size=80)
    assert first.fingerprint() == second.fingerprint()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="revgrad"):
        from_folder(photos, size=81)
    assert any("they are read from their files" in text for text in caplog.messages)
    with pytest.raises(InputError, match="no storage 'zip'"):
        from_folder(photos, size=8, storage="zip")


@pytest.mark.parametrize("storage", ["compressed", "files"])
def test_damaged_images(tmp_path: Path, storage: str) -> None:
    photos = draw(tmp_path / "photos")
    victim = photos / "class0" / "004.png"
    victim.write_bytes(victim.read_bytes()[:150])  # the header is whole
    domain = from_folder(photos, size=8, storage=storage)
    row = list(domain.files or ()).index("class0/004.png")
    with pytest.raises(DataError, match=r"class0/004.png can't be read: .*--corrupt skip"):
        domain.batch([row])
    left = from_folder(photos, size=8, storage=storage, corrupt="skip")
    assert len(left) == 29
    assert len(by_file(left)) == 29
    (photos / "class0" / "000.png").write_bytes(b"nothing")  # no header: seen at once
    with pytest.raises(DataError, match=r"1 of 30 images .* class0/000.png \(not an image\)"):
        from_folder(photos, size=8, storage=storage)


def test_workers_read_the_same_batches(tmp_path: Path) -> None:
    domain = from_folder(draw(tmp_path / "photos"), size=8, storage="compressed")
    found = []
    for workers in (0, 2):
        batches = PairedBatches([domain, domain.without_labels()], [6, 6], seed=3)
        reader = BatchReader(batches, 4, torch.device("cpu"), workers=workers)
        found.append([reader.batch(step).inputs for step in range(4)])
        reader.close()
        assert reader.workers == workers
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("turned", [False, True])
def test_large_jpegs_are_decoded_small(turned: bool) -> None:
    """At a fraction of their size, and nearly what the whole one gives."""
    y, x = np.mgrid[:600, :800] / 100
    smooth = np.stack([np.sin(x) * np.cos(y), np.sin(y), np.cos(x + y)], -1)
    image = Image.fromarray((127.5 + 127 * smooth).astype(np.uint8))
    exif = Image.Exif()
    if turned:
        exif[0x0112] = 6
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95, exif=exif)
    whole = decoded(buffer.getvalue(), 3)
    small = decoded(buffer.getvalue(), 3, at_least=(32, 32))
    assert whole.shape == ((800, 600, 3) if turned else (600, 800, 3))
    assert small.shape[0] == whole.shape[0] // 8
    full, fast = (resize(one, (32, 32), "crop").astype(int) for one in (whole, small))
    assert np.abs(full - fast).mean() < 2.5  # the middle is cut half a small pixel aside
    assert decoded(buffer.getvalue(), 3, at_least=(500, 500)).shape == whole.shape
