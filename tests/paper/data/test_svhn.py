"""SVHN from files of the official format: made here, and the real digits where present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from revgrad.errors import DataError, InputError
from revgrad.paper.data.svhn import svhn

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (25, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(25) % 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    for name in ("svhn", "svhn28"):
        (tmp_path / name).mkdir()
    return tmp_path


def official(**changes: Any) -> dict[str, Any]:
    """As the official file: X (32, 32, 3, N), y (N, 1) with 10 for the digit 0."""
    labels = np.where(LABELS == 0, 10, LABELS).astype(np.uint8)[:, None]
    return {"X": IMAGES.transpose(1, 2, 3, 0), "y": labels, **changes}


def pixels(domain: Any) -> np.ndarray:
    return domain.batch(np.arange(len(domain))).inputs.permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("split", ["train", "test", "extra"])
@pytest.mark.parametrize("compressed", [True, False])
def test_official_files(folder: Path, split: str, compressed: bool) -> None:
    savemat(folder / "svhn" / f"{split}_32x32.mat", official(), do_compression=compressed)
    domain = svhn(split)
    assert domain.name == "svhn"
    assert domain.shape == (3, 32, 32)
    assert domain.classes == tuple("0123456789")
    assert (pixels(domain) == IMAGES).all()
    assert domain.labels is not None
    assert domain.labels.tolist() == LABELS.tolist()  # 10 has become 0


def test_which_file_was_found_is_in_the_name(folder: Path) -> None:
    small = IMAGES[:, :28, :28]
    np.savez(folder / "svhn28" / "train.npz", images=small, labels=LABELS)
    assert svhn().name == "svhn28"
    assert (pixels(svhn()) == small).all()
    np.savez(folder / "svhn" / "train.npz", images=IMAGES[::-1], labels=LABELS)
    assert svhn().name == "svhn"
    assert (pixels(svhn()) == IMAGES[::-1]).all()
    savemat(folder / "svhn" / "train_32x32.mat", official())
    assert (pixels(svhn()) == IMAGES).all()


def test_missing(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        svhn("test")
    for part in (
        *("SVHN is missing: no test_32x32.mat (or test.npz)", str(folder / "svhn")),
        *(str(folder / "svhn28"), "`revgrad data fetch svhn`", "REVGRAD_DATA", "into svhn/"),
    ):
        assert part in str(caught.value)
    with pytest.raises(DataError, match="revgrad data fetch svhn-extra"):
        svhn("extra")
    with pytest.raises(InputError, match="no split of svhn 'tset'; did you mean 'test'"):
        svhn("tset")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": IMAGES}, r"X must be uint8 \(32, 32, 3, N\), not uint8 \(25, 32, 32, 3\)"),
        ({"X": IMAGES.transpose(1, 2, 3, 0) / 255}, "not float64"),
        ({"y": LABELS[:-1, None] + 1}, r"X holds 25 images, but y is int64 \(24, 1\)"),
        ({"y": LABELS[:, None]}, "holds the label 0: labels are 1 to 10"),
        ({"y": LABELS[:, None] + 2}, "holds the label 11"),
        ({"y": LABELS[:, None] + 0.5}, "holds the label 0.5"),
        ({"y": np.full((25, 1), np.nan)}, "holds the label nan"),
        ({"y": np.array([["x"] * 25])}, "X holds 25 images, but y is <U"),
        ({"X": {"a": 1}}, "X must be uint8"),
    ],
)
def test_wrong_contents(folder: Path, changes: dict[str, Any], message: str) -> None:
    savemat(folder / "svhn" / "train_32x32.mat", official(**changes))
    with pytest.raises(DataError, match=message) as caught:
        svhn()
    assert "\n" not in str(caught.value)


def test_missing_arrays(folder: Path) -> None:
    savemat(folder / "svhn" / "train_32x32.mat", {"X": official()["X"]})
    with pytest.raises(DataError, match="has no array y: not an official file"):
        svhn()


def test_damaged_files(folder: Path) -> None:
    path = folder / "svhn" / "train_32x32.mat"
    savemat(path, official(), do_compression=True)
    whole = path.read_bytes()
    damaged = [
        b"",
        b"x",
        b"not a matlab file " * 100,
        whole[:100],
        whole[:-1],
        whole[: len(whole) // 2],
    ]
    damaged.append(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(500))
    for at in range(128, len(whole), len(whole) // 40):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        damaged.append(bytes(broken))
    messages = []
    for content in damaged:
        path.write_bytes(content)
        try:
            svhn()
        except DataError as error:
            messages.append(str(error))
    assert len(messages) >= len(damaged) - 2  # a byte may be one that nobody reads
    assert not [message for message in messages if "\n" in message]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES[:, :28, :28]}, "should hold labels"),
        ({"images": IMAGES[:, :28, :28], "labels": LABELS / 2}, "should hold labels"),
        ({"images": IMAGES, "labels": LABELS}, r"of shape \(3, 28, 28\): inputs of shape \(3, 32"),
        ({"images": IMAGES[..., 0], "labels": LABELS}, r"should hold uint8 images"),
        ({"images": IMAGES[:, :28, :28] / 255, "labels": LABELS}, r"should hold uint8 images"),
        ({"images": IMAGES[:0, :28, :28], "labels": LABELS[:0]}, "should hold .* none"),
        ({"images": IMAGES[:, :28, :28], "labels": LABELS + 1}, "holds the label 10: .* 0 to 9"),
        ({"images": IMAGES[:, :28, :28], "labels": LABELS[1:]}, "25 inputs but 24 labels"),
        ({"labels": LABELS}, "has no array called images"),
    ],
)
def test_wrong_npz(folder: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(folder / "svhn28" / "train.npz", **arrays)
    with pytest.raises((DataError, InputError), match=message) as caught:
        svhn()
    assert "\n" not in str(caught.value)


def test_real_digits(data_folder: Path) -> None:
    if not any((data_folder / name).is_dir() for name in ("svhn", "svhn28")):
        pytest.skip(f"no svhn or svhn28 in {data_folder}")
    train, test = svhn("train"), svhn("test")
    assert (len(train), len(test)) == (73_257, 26_032)
    assert train.labels is not None
    assert test.labels is not None
    # The counts of digits 0 to 9 that everybody finds in the official files.
    assert np.bincount(train.labels).tolist() == [
        *(4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659)
    ]
    assert np.bincount(test.labels).tolist() == [
        *(1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595)
    ]
