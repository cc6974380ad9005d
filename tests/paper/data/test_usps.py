"""USPS from files of each format: made here, and the real digits where present."""

from __future__ import annotations

import builtins
import bz2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad.errors import DataError, InputError, MissingExtraError
from revgrad.paper.data.usps import usps

h5py = pytest.importorskip("h5py")

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 16, 16), dtype=np.uint8)
LABELS = np.arange(20) % 10
DATA = (IMAGES.reshape(20, 256) / 255).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    (tmp_path / "usps").mkdir()
    return tmp_path / "usps"


def write_h5(folder: Path, split: str = "train", **arrays: Any) -> Path:
    with h5py.File(folder / "usps.h5", "a") as file:
        for key, values in {"data": DATA, "target": LABELS.astype(np.int32), **arrays}.items():
            if values is not None:
                file[f"{split}/{key}"] = values
    return folder / "usps.h5"


def libsvm(labels: np.ndarray = LABELS, values: np.ndarray | None = None) -> str:
    values = DATA.astype(float) * 2 - 1 if values is None else values
    lines = []
    for label, row in zip(labels, values, strict=True):
        pairs = [f"{i + 1}:{value:.6f}" for i, value in enumerate(row) if value]
        lines.append(f"{label + 1} {' '.join(pairs)}\n")
    return "".join(lines)


def check(split: str = "train") -> None:
    domain = usps(split)
    assert domain.name == "usps"
    assert domain.shape == (1, 16, 16)
    assert domain.classes == tuple("0123456789")
    batch = domain.batch(np.arange(20))
    assert (batch.inputs[:, 0].numpy() == IMAGES).all()
    assert batch.labels is not None
    assert batch.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("split", ["train", "test"])
def test_formats(folder: Path, split: str) -> None:
    text = folder / {"train": "usps.bz2", "test": "usps.t.bz2"}[split]
    text.write_bytes(bz2.compress(libsvm().encode()))
    check(split)
    text.write_bytes(b"not looked at")
    np.savez(folder / f"{split}.npz", images=IMAGES, labels=LABELS)
    check(split)
    (folder / f"{split}.npz").write_bytes(b"not looked at")
    write_h5(folder, split)
    check(split)


def test_zeros_are_left_out_in_libsvm(folder: Path) -> None:
    values = np.zeros((1, 256))
    values[0, [0, 255]] = -1, 1
    (folder / "usps.bz2").write_bytes(bz2.compress(libsvm(LABELS[:1], values).encode()))
    image = usps().batch([0]).inputs[0, 0].numpy()
    assert image[0, 0] == 0
    assert image[15, 15] == 255
    assert set(image.ravel()[1:-1]) == {128}  # 127.5, half to even


def test_missing(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        usps("test")
    for part in (
        *("USPS is missing: no usps.h5, test.npz or usps.t.bz2 in", str(folder)),
        *("revgrad data fetch usps", "REVGRAD_DATA", "into usps/"),
    ):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="no split of usps 'all'"):
        usps("all")


def test_without_h5py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_h5(folder)
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"usps\.h5 needs h5py.*revgrad\[data\]"):
        usps()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": None}, "has no train/data"),
        ({"target": None}, "has no train/target"),
        ({"data": DATA[:, :255]}, r"train/data \(20, 255\) .* should be \(N, 256\)"),
        ({"data": DATA.reshape(20, 16, 16)}, r"should be \(N, 256\)"),
        ({"target": LABELS[1:]}, r"train/target \(19,\) should be"),
        ({"target": LABELS + 1}, r"the label of no digit \(10\)"),
        ({"target": LABELS - 1}, r"the label of no digit \(-1\)"),
        ({"target": LABELS + 0.5}, r"the label of no digit \(0.5\)"),
        ({"data": DATA * 2 - 1}, "pixels from -1 to 1, out of range"),
        ({"data": DATA * np.float32(255)}, "to 255, out of range"),
        ({"data": np.full_like(DATA, np.nan)}, "out of range"),
        ({"data": DATA.astype("S4")}, r"train/data is \|S4"),
        ({"data": DATA[:0], "target": LABELS[:0]}, "holds no images"),
    ],
)
def test_wrong_h5(folder: Path, arrays: dict[str, Any], message: str) -> None:
    write_h5(folder, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        usps()
    assert "\n" not in str(caught.value)


def test_h5_that_claims_too_much_and_groups_that_are_none(folder: Path) -> None:
    with h5py.File(folder / "usps.h5", "w") as file:
        file.create_dataset("train/data", (10**9, 256), "f4", chunks=(1, 256))
        file["train/target"] = LABELS
        file["test"] = LABELS
    with pytest.raises(DataError, match=r"train/data is float32 \(1000000000, 256\)"):
        usps()
    with pytest.raises(DataError, match="has no test/data"):
        usps("test")


def test_damaged(folder: Path) -> None:
    path = write_h5(folder)
    whole = path.read_bytes()
    for content in (b"", b"not hdf", whole[:200], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"usps\.h5 is damaged or cut short") as caught:
            usps()
        assert "\n" not in str(caught.value)
    path.unlink()
    text = libsvm()
    packed = bz2.compress(text.encode())
    for data, message in {
        packed[:-20]: "damaged or cut short",
        b"BZh9": "damaged or cut short",
        b"plain": "damaged or cut short",
        bz2.compress(b""): "no lines",
        bz2.compress(text.replace("256:", "257:").encode()): "pixel 257 of 256",
        bz2.compress(text.replace("1:", "0:", 1).encode()): "pixel 0 of 256",
        bz2.compress(text.replace(":", " ").encode()): "damaged or cut short",
        bz2.compress(b"\n" + text.encode()): "damaged or cut short",
        bz2.compress("é".encode()): "damaged or cut short",
        bz2.compress(libsvm(LABELS + 1).encode()): r"the label of no digit \(10\)",
        bz2.compress(libsvm(values=DATA * 3).encode()): "out of range",
        bz2.compress(b"1 1:nan\n"): "out of range",
    }.items():
        (folder / "usps.bz2").write_bytes(data)
        with pytest.raises(DataError, match=message) as caught:
            usps()
        assert "\n" not in str(caught.value)


def test_real_digits(data_folder: Path) -> None:
    if not (data_folder / "usps").is_dir():
        pytest.skip(f"no usps in {data_folder}")
    train, test = usps("train"), usps("test")
    assert (len(train), len(test)) == (7_291, 2_007)
    assert train.labels is not None
    assert test.labels is not None
    # The counts of digits 0 to 9 in the book of Hastie, Tibshirani and Friedman.
    assert np.bincount(train.labels).tolist() == [
        *(1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644)
    ]
    assert np.bincount(test.labels).tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    # White on black: the border is dark.
    assert train.batch(np.arange(500)).inputs[..., 0].float().mean() < 30
