"""Folders of images as domains: listing, decoding, resizing, the cache, what can go wrong."""

from __future__ import annotations

import errno
import json
import os
import resource
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import revgrad.domains.cache as cache_module
import revgrad.domains.folder as folder_module
from cached import cache_entries
from revgrad._system import locked
from revgrad.domains import Domain, from_folder
from revgrad.domains.image_files import resize
from revgrad.errors import DataError, InputError, RevgradError


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, pixels: np.ndarray | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(6, 5) if pixels is None else pixels).save(path, **options)
    return path


def pixels_of(domain: Domain, row: int = 0, *, file: str | None = None) -> np.ndarray:
    """Of one row, or of the row of `file`."""
    if file is not None:
        row = list(domain.files or ()).index(file)
    inputs = domain.batch([row]).inputs
    assert isinstance(inputs, torch.Tensor)
    return inputs[0].permute(1, 2, 0).numpy()


def fails(kind: type[RevgradError], match: str, path: Path, **options: Any) -> str:
    with pytest.raises(kind, match=match) as caught:
        from_folder(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- listing ----------------------------------------------------------------------------------


def test_class_subfolders(tmp_path: Path) -> None:
    for i, path in enumerate(["b/2.png", "a/deep/1.png", "b/1.PNG", "c/x.bmp"]):
        save(tmp_path / path, noise(6, 5, seed=i))
    for ignored in ("a/.DS_Store", "a/._1.png", ".hidden/1.png", "a/notes.txt", "c/data.npy"):
        (tmp_path / ignored).parent.mkdir(exist_ok=True)
        (tmp_path / ignored).write_text("nothing")
    domain = from_folder(tmp_path)
    assert domain.classes == ("a", "b", "c")
    seeds = {"a/deep/1.png": 1, "b/1.PNG": 2, "b/2.png": 0, "c/x.bmp": 3}
    assert domain.files is not None
    assert sorted(domain.files) == sorted(seeds)
    assert domain.labels is not None
    assert [domain.classes[label] for label in domain.labels] == [f[0] for f in domain.files]
    assert domain.name == tmp_path.name
    for row, file in enumerate(domain.files):
        assert (pixels_of(domain, row) == noise(6, 5, seed=seeds[file])).all()
    assert domain.subset([3, 1]).files == [domain.files[3], domain.files[1]]


def test_flat_folder_has_no_labels(tmp_path: Path) -> None:
    save(tmp_path / "1.png")
    save(tmp_path / "2.png")
    domain = from_folder(tmp_path)
    assert (domain.labels, domain.classes, len(domain)) == (None, None, 2)
    fails(InputError, "no class subfolders", tmp_path, labels=True)


def test_labels_false_takes_all_below(tmp_path: Path) -> None:
    save(tmp_path / "top.png")
    save(tmp_path / "a" / "1.png")
    fails(InputError, r"both directly in it \(top.png, …\) and in subfolders \(a, …\)", tmp_path)
    domain = from_folder(tmp_path, labels=False)
    assert domain.files == ["a/1.png", "top.png"]
    assert domain.labels is None


def test_classes_of_another_folder(tmp_path: Path) -> None:
    save(tmp_path / "dog" / "1.png")
    save(tmp_path / "cat" / "1.png")
    domain = from_folder(tmp_path, classes=["dog", "emu", "cat"])
    assert domain.classes == ("dog", "emu", "cat")
    assert domain.labels is not None
    assert domain.labels.tolist() == [2, 0]
    message = fails(InputError, "cat not among them", tmp_path, classes=["dog", "emu"])
    assert "without a folder: emu" in message


def test_links_are_followed_once(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png")
    save(tmp_path / "elsewhere.d" / "2.png")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    assert from_folder(tmp_path).files == ["a/1.png", "elsewhere.d/2.png"]
    (tmp_path / "a" / "gone.png").symlink_to(tmp_path / "nothing.png")
    fails(DataError, r"1 of 3 .*a/gone.png \(No such file", tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    fails(InputError, "no folder", tmp_path / "none")
    file = save(tmp_path / "1.png")
    fails(InputError, "is a file", file)
    (tmp_path / "empty").mkdir()
    fails(DataError, "no images in", tmp_path / "empty")
    bad = tmp_path / "bad"
    bad.mkdir()
    for i in range(7):
        (bad / f"{i}.png").write_bytes(b"no image")
    for corrupt in ("fail", "skip"):
        message = fails(DataError, "not one of the 7 images", bad, corrupt=corrupt)
        assert "4.png (not an image) and 2 more" in message


# -- decoding ---------------------------------------------------------------------------------


def test_all_grey_is_one_channel_any_colour_three(tmp_path: Path) -> None:
    save(tmp_path / "1.png", noise(6, 5, 1))
    Image.fromarray(noise(6, 5, 1)).convert("1").save(tmp_path / "2.png")
    domain = from_folder(tmp_path)
    assert domain.shape == (1, 6, 5)
    assert (pixels_of(domain, file="1.png")[..., 0] == noise(6, 5, 1)).all()
    save(tmp_path / "3.png", noise(6, 5))
    domain = from_folder(tmp_path)
    assert domain.shape == (3, 6, 5)
    assert (pixels_of(domain, file="1.png") == noise(6, 5, 1)[..., None]).all()


def test_orientation_is_applied(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # shown turned a quarter clockwise
    for suffix, options in (("png", {}), ("tif", {}), ("webp", {"lossless": True})):
        path = save(tmp_path / suffix / f"1.{suffix}", noise(6, 10), exif=turned, **options)
        domain = from_folder(path.parent)
        assert domain.shape == (3, 10, 6), suffix
        assert (pixels_of(domain) == np.rot90(noise(6, 10), -1)).all()
    save(tmp_path / "both" / "1.png", noise(10, 6))
    save(tmp_path / "both" / "2.png", noise(6, 10), exif=turned)
    assert from_folder(tmp_path / "both").shape == (3, 10, 6)


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    values = np.array([[0, 128, 129, 257], [32768, 65279, 65406, 65535]], dtype=np.uint16)
    wanted = np.round(values / 257).astype(np.uint8)
    Image.fromarray(values).save(tmp_path / "1.png")
    Image.fromarray(values).save(tmp_path / "2.tif")
    header = f"P5 {values.shape[1]} {values.shape[0]} 65535\n".encode()
    (tmp_path / "3.pgm").write_bytes(header + values.astype(">u2").tobytes())
    domain = from_folder(tmp_path)
    assert domain.shape == (1, 2, 4)
    for row in range(3):
        assert (pixels_of(domain, row)[..., 0] == wanted).all(), domain.files[row]
    save(tmp_path / "4.png", noise(2, 4))
    assert (pixels_of(from_folder(tmp_path), file="1.png") == wanted[..., None]).all()


def test_transparency_is_composited_on_white(tmp_path: Path) -> None:
    rgba = np.dstack([noise(6, 5), noise(6, 5, 1, seed=1)])
    save(tmp_path / "1.png", rgba)
    alpha = rgba[..., 3:].astype(float) / 255
    wanted = rgba[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(pixels_of(from_folder(tmp_path)) - wanted).max() <= 1

    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    (tmp_path / "p").mkdir()
    palette.save(tmp_path / "p" / "1.png", transparency=0)
    shown = pixels_of(from_folder(tmp_path / "p"))
    assert shown.tolist() == [[[255, 255, 255], [200, 100, 50]]]

    (tmp_path / "la").mkdir()
    Image.fromarray(rgba[..., :2]).convert("LA").save(tmp_path / "la" / "1.png")
    grey = from_folder(tmp_path / "la")
    assert grey.shape == (1, 6, 5)
    weight = rgba[..., 1] / 255
    wanted = rgba[..., 0] * weight + 255 * (1 - weight)
    assert np.abs(pixels_of(grey)[..., 0] - wanted).max() <= 1


def test_cmyk_and_animations(tmp_path: Path) -> None:
    flat = Image.new("CMYK", (5, 6), (0, 255, 255, 0))  # red
    flat.save(tmp_path / "1.tif")
    frames = [Image.new("RGB", (5, 6), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "2.gif", save_all=True, append_images=frames[1:])
    domain = from_folder(tmp_path)
    for row in range(2):
        assert (pixels_of(domain, row) == [255, 0, 0]).all()


def bomb(path: Path, side: int) -> None:
    """A PNG of a few hundred bytes that says it is side × side."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def test_unreadable_images_fail_or_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(20):
        save(tmp_path / f"c{i % 2}" / f"{i:02}.png", noise(6, 5, seed=i))
    whole = (tmp_path / "c0" / "00.png").read_bytes()
    (tmp_path / "c0" / "02.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "c1" / "03.png").write_bytes(b"text")
    (tmp_path / "c1" / "05.png").write_bytes(b"")
    for name, side in (("07", 9_000), ("09", 12_000), ("11", 60_000)):
        bomb(tmp_path / "c1" / f"{name}.png", side)
    Image.fromarray(np.zeros((6, 5), np.float32)).save(tmp_path / "c1" / "20.tif")
    message = fails(DataError, r"7 of 21 images", tmp_path)
    assert "c0/02.png (" in message
    assert "c1/03.png (not an image)" in message
    assert "c1/07.png (9000×9000 pixels, more than 64,000,000)" in message
    assert "and 2 more" in message
    assert 'corrupt="skip"' in message
    assert not caplog.records
    monkeypatch.setattr(folder_module, "read_pixels", None)  # nothing is decoded a second time

    for _ in range(2):  # each time the same warning, the same rows
        caplog.clear()
        domain = from_folder(tmp_path, corrupt="skip")
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert "7 of 21 images left out" in record.getMessage()
        assert len(domain) == 14
        assert domain.labels is not None
        for row, file in enumerate(domain.files or ()):
            assert domain.labels[row] == int(file[1])
            assert (pixels_of(domain, row) == noise(6, 5, seed=int(file[3:5]))).all()
    fails(DataError, "7 of 21 images", tmp_path)  # the cache does not hide them
    fails(InputError, "corrupt must be fail or skip", tmp_path, corrupt="ignore")


# -- one size ---------------------------------------------------------------------------------


def test_sizes_that_differ_must_be_brought_to_one(tmp_path: Path) -> None:
    save(tmp_path / "1.png", noise(6, 5))
    save(tmp_path / "2.png", noise(6, 5))
    assert from_folder(tmp_path).shape == (3, 6, 5)
    save(tmp_path / "3.png", noise(8, 9))
    fails(InputError, r"1\.png is 6×5 .*3\.png is 8×9; size= ", tmp_path)
    assert from_folder(tmp_path, size=4).shape == (3, 4, 4)
    assert from_folder(tmp_path, size=(4, 7)).shape == (3, 4, 7)


@pytest.mark.parametrize("size", [0, -3, 2.5, (3,), (3, 4, 5), "28", (0, 3), True, 100_000])
def test_bad_sizes(tmp_path: Path, size: Any) -> None:
    save(tmp_path / "1.png")
    fails(InputError, "size", tmp_path, size=size)


def slow_scale(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Antialiased bilinear resampling of (H, W, C) by its definition, in float64."""
    result = image.astype(np.float64)
    for axis in (0, 1):
        old, new = result.shape[axis], size[axis]
        ratio = old / new
        support = max(ratio, 1.0)
        weights = np.zeros((new, old))
        for i in range(new):
            centre = (i + 0.5) * ratio
            for j in range(old):
                weights[i, j] = max(0.0, 1 - abs(j + 0.5 - centre) / support)
            weights[i] /= weights[i].sum()
        result = np.moveaxis(np.tensordot(weights, result, (1, axis)), 0, axis)
    return result


@pytest.mark.parametrize("size", [(8, 8), (8, 4), (5, 13), (30, 40), (24, 36)])
def test_fits_against_a_slow_computation(tmp_path: Path, size: tuple[int, int]) -> None:
    image = noise(24, 36)
    save(tmp_path / "1.png", image)
    stretched = pixels_of(from_folder(tmp_path, size=size, fit="stretch"))
    assert np.abs(stretched - slow_scale(image, size)).max() <= 1.01  # rounding, twice

    cover = max(size[0] / 24, size[1] / 36)
    height, width = round(size[0] / cover), round(size[1] / cover)
    top, left = (24 - height) // 2, (36 - width) // 2
    middle = image[top : top + height, left : left + width]
    cropped = pixels_of(from_folder(tmp_path, size=size, fit="crop"))
    assert np.abs(cropped - slow_scale(middle, size)).max() <= 1.01

    inside = min(size[0] / 24, size[1] / 36)
    height, width = round(24 * inside), round(36 * inside)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    wanted = np.zeros((*size, 3))
    wanted[top : top + height, left : left + width] = slow_scale(image, (height, width))
    padded = pixels_of(from_folder(tmp_path, size=size, fit="pad"))
    assert np.abs(padded - wanted).max() <= 1.01
    fails(InputError, "fit must be one of crop, pad, stretch", tmp_path, fit="squash", size=4)


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_extreme_proportions(fit: str) -> None:
    line = np.full((1, 200_000, 3), 200, dtype=np.uint8)
    result = resize(line, (28, 28), fit)
    assert result.shape == (28, 28, 3)
    assert result.max() == 200


# -- the cache --------------------------------------------------------------------------------


def entries(cache: Path) -> list[str]:
    return [path.name for path in cache_entries(cache)]


def test_decoded_once_and_memory_mapped(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        save(tmp_path / f"{i}.png", noise(6, 5, seed=i))
    first = from_folder(tmp_path)
    (entry,) = entries(cache)
    stored = np.load(cache / entry / "images.npy", allow_pickle=False)
    assert (stored[2] == noise(6, 5, seed=2)).all()

    def never(*_: Any) -> None:
        raise AssertionError("decoded again")

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "read_pixels", never)
        patch.setattr(folder_module, "read_header", never)
        again = from_folder(tmp_path)
    assert again.fingerprint() == first.fingerprint()
    base = again.store._leaves.array
    while not isinstance(base, np.memmap):
        base = base.base
    assert not base.flags.writeable

    from_folder(tmp_path, size=4)
    from_folder(tmp_path, size=4, fit="pad")
    assert len(entries(cache)) == 3
    elsewhere = tmp_path / "own cache"
    from_folder(tmp_path, cache=elsewhere)
    assert entries(elsewhere) == [entry]


def test_a_changed_file_is_seen(tmp_path: Path) -> None:
    path = save(tmp_path / "1.bmp", noise(6, 5, seed=0))
    before = from_folder(tmp_path)
    length = path.stat().st_size
    save(path, noise(6, 5, seed=1))  # of the same length
    assert path.stat().st_size == length
    os.utime(path, ns=(1, 1))
    after = from_folder(tmp_path)
    assert (pixels_of(after) == noise(6, 5, seed=1)).all()
    assert before.fingerprint() != after.fingerprint()


def test_twin_folders_are_told_apart(tmp_path: Path) -> None:
    for seed, name in enumerate(["one", "two"]):  # same names, lengths and times, as from a tar
        path = save(tmp_path / name / "1.bmp", noise(6, 5, seed=seed))
        os.utime(path, ns=(1, 1))
    assert (pixels_of(from_folder(tmp_path / "two")) == noise(6, 5, seed=1)).all()
    assert (pixels_of(from_folder(tmp_path / "one")) == noise(6, 5, seed=0)).all()
    moved = from_folder(tmp_path / "one").fingerprint()
    (tmp_path / "one").rename(tmp_path / "three")
    assert from_folder(tmp_path / "three").fingerprint() == moved


@pytest.mark.parametrize("damage", ["cut", "gone", "note", "other"])
def test_a_damaged_entry_is_built_anew(tmp_path: Path, cache: Path, damage: str) -> None:
    save(tmp_path / "1.png")
    from_folder(tmp_path)
    entry = cache / entries(cache)[0]
    if damage == "cut":
        data = (entry / "images.npy").read_bytes()
        (entry / "images.npy").write_bytes(data[:-10])
    elif damage == "gone":
        (entry / "images.npy").unlink()
    elif damage == "note":
        (entry / "about.json").write_text('{"rows": 1')
    else:
        note = json.loads((entry / "about.json").read_text())
        (entry / "about.json").write_text(json.dumps({**note, "rows": 5}))
    assert (pixels_of(from_folder(tmp_path)) == noise(6, 5)).all()
    assert entries(cache) == [entry.name]
    assert json.loads((entry / "about.json").read_text())["rows"] == 1


def test_cache_folder_that_can_not_be_written(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png")
    (tmp_path / "file").write_text("in the way")
    fails(
        DataError,
        "can't keep decoded images in .*REVGRAD_CACHE",
        tmp_path / "a",
        cache=tmp_path / "file",
    )


def test_full_disk_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(40):
        save(tmp_path / f"{i}.png", noise(40, 40, seed=i))

    def full(self: object, images: np.ndarray) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(cache_module.ImageWriter, "write", full)
        fails(DataError, "No space left on device", tmp_path)
    assert entries(cache) == []

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # a write that truly fails
    try:
        fails(DataError, "File too large", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert entries(cache) == []

    with monkeypatch.context() as patch:
        usage = type("Usage", (), {"free": 1000})
        patch.setattr(cache_module.shutil, "disk_usage", lambda folder: usage)
        fails(DataError, "not enough space", tmp_path)
    assert entries(cache) == []
    domain = from_folder(tmp_path)
    assert len(domain) == 40
    for row, file in enumerate(domain.files or ()):  # threads finish in any order, rows do not
        assert (pixels_of(domain, row) == noise(40, 40, seed=int(file[:-4]))).all()


def test_interrupted_build_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(100):
        save(tmp_path / f"{i}.png")
    calls = []

    def interrupt(self: object, images: np.ndarray) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cache_module.ImageWriter, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        from_folder(tmp_path)
    assert entries(cache) == []


def test_what_a_killed_build_left_is_swept_away(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "1.png")
    for name, age in ((".building-old", 2 * 86400), (".building-new", 60)):
        (cache / name).mkdir()
        (cache / name / "images.npy").write_bytes(b"half")
        past = os.stat(cache).st_mtime - age
        os.utime(cache / name, (past, past))
    from_folder(tmp_path)
    assert not (cache / ".building-old").exists()
    assert (cache / ".building-new").exists()  # another process may be at work on it


CHILD = """
import sys
from revgrad.domains import from_folder
domain = from_folder(sys.argv[1], size=8)
print(len(domain), domain.fingerprint())
"""


def test_two_processes_build_at_the_same_time(tmp_path: Path, cache: Path) -> None:
    for i in range(300):
        save(tmp_path / f"{i}.png", noise(20, 20, seed=i))
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), answers
    assert len({out for out, _ in answers}) == 1
    assert answers[0][0].startswith("300 ")
    assert len(entries(cache)) == 1


def test_a_builder_waits_for_another_and_decodes_nothing_itself(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "revgrad")
    save(tmp_path / "images" / "1.png")
    from_folder(tmp_path / "images")
    (key,) = entries(cache)
    (cache / key).rename(tmp_path / "entry")
    entered = threading.Event()

    def build() -> None:  # as another process would
        with locked(cache / ".locks" / key):
            entered.set()
            while not caplog.records:
                time.sleep(0.01)
            (tmp_path / "entry").rename(cache / key)

    monkeypatch.setattr(folder_module, "_decode", None)
    other = threading.Thread(target=build)
    other.start()
    entered.wait()
    assert len(from_folder(tmp_path / "images")) == 1
    other.join()
    (record,) = caplog.records
    assert "another process is making" in record.getMessage()


def test_progress_bar_only_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("revgrad._system.MANY", 3)
    for i in range(5):
        save(tmp_path / f"{i}.png")
    from_folder(tmp_path, size=3)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    from_folder(tmp_path, size=4, progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    from_folder(tmp_path, size=5)
    shown = capsys.readouterr()
    assert "decoding" in shown.err
    assert shown.out == ""
