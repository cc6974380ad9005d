"""MNIST from files of the official format: made here, and the real ones where present."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from revgrad.errors import DataError, InputError
from revgrad.paper.data.catalogue import DATA_SETS
from revgrad.paper.data.fetch import found
from revgrad.paper.data.mnist import mnist

DIGITS = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
LABELS = (np.arange(30) % 10).astype(np.uint8)


def idx(magic: int, array: np.ndarray, *shape: int) -> bytes:
    sides = shape or array.shape
    return struct.pack(f">{1 + len(sides)}I", magic, *sides) + array.tobytes()


def write(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


def write_train(folder: Path, images: bytes | None = None, labels: bytes | None = None) -> None:
    write(folder, "train-images-idx3-ubyte", idx(2051, DIGITS) if images is None else images)
    write(folder, "train-labels-idx1-ubyte", idx(2049, LABELS) if labels is None else labels)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    return tmp_path / "mnist"


@pytest.mark.parametrize("place", ["", "raw"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_official_names(
    folder: Path, place: str, suffix: str, dot: str, split: str, prefix: str
) -> None:
    write(folder / place, f"{prefix}-images{dot}idx3-ubyte{suffix}", idx(2051, DIGITS))
    write(folder / place, f"{prefix}-labels{dot}idx1-ubyte{suffix}", idx(2049, LABELS))
    domain = mnist(split)
    assert domain.shape == (1, 28, 28)
    assert domain.classes == tuple("0123456789")
    batch = domain.batch([17, 3])
    assert batch.labels is not None
    assert batch.labels.tolist() == [7, 3]
    assert (batch.inputs[:, 0].numpy() == DIGITS[[17, 3]]).all()


def test_missing_says_what_and_where(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        mnist("test")
    message = str(caught.value)
    for part in (
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
        str(folder),
        "REVGRAD_DATA",
        "revgrad data fetch mnist",
    ):
        assert part in message
    write(folder, "t10k-images-idx3-ubyte", idx(2051, DIGITS))
    with pytest.raises(DataError) as caught:
        mnist("test")
    assert "t10k-images" not in str(caught.value)
    with pytest.raises(InputError, match="no split of mnist 'tets'; did you mean 'test'"):
        mnist("tets")


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (idx(2049, DIGITS), None, "magic 2049, not 2051"),
        (None, idx(2051, LABELS), "magic 2051, not 2049"),
        (idx(2051, DIGITS)[:-1], None, "images-idx3-ubyte is cut short: its header says 30"),
        (idx(2051, DIGITS) + b"x", None, "is too long"),
        (idx(2051, DIGITS)[:9], None, "header is not whole"),
        (b"", None, "header is not whole"),
        (None, idx(2049, LABELS)[:-3], "labels-idx1-ubyte is cut short"),
        (None, idx(2049, LABELS[:-1]), "30 images but train-labels-idx1-ubyte 29 labels"),
        (None, idx(2049, LABELS + 3), "holds the label 12"),
        (idx(2051, DIGITS, 30, 14, 56), None, "14×56, not 28×28"),
        (idx(2051, DIGITS, 4_000_000_000, 28, 28), None, "is cut short"),
    ],
)
def test_damaged_files(
    folder: Path, images: bytes | None, labels: bytes | None, message: str
) -> None:
    write_train(folder, images, labels)
    with pytest.raises(DataError, match=message) as caught:
        mnist()
    assert "\n" not in str(caught.value)


def test_damaged_gz(folder: Path) -> None:
    write(folder, "train-labels-idx1-ubyte", idx(2049, LABELS))
    path = write(folder, "train-images-idx3-ubyte.gz", idx(2051, DIGITS))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], b"not gz at all, really", bytes(flipped), whole[:-4]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"\.gz is (damaged or )?cut short") as caught:
            mnist()
        assert "\n" not in str(caught.value)


def test_real_files(data_folder: Path) -> None:
    if not (data_folder / "mnist").is_dir():
        pytest.skip(f"no mnist in {data_folder}")
    for remote in DATA_SETS["mnist"].files:  # of the official MD5, whichever form is there
        path = found(remote, data_folder)
        assert path is not None, remote.file
        digests = {remote.md5, *remote.also.values()}
        assert hashlib.md5(path.read_bytes()).hexdigest() in digests
    train, test = mnist("train"), mnist("test")
    assert (len(train), len(test)) == (60_000, 10_000)
    assert train.labels is not None
    assert test.labels is not None
    assert np.bincount(train.labels).tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert test.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
