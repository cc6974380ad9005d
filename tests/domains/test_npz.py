"""`.npz` files as domains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from revgrad.domains import from_npz
from revgrad.errors import DataError, InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)


@pytest.mark.parametrize("key", ["images", "inputs", "x", "data"])
@pytest.mark.parametrize("label_key", ["labels", "y"])
def test_known_keys(tmp_path: Path, key: str, label_key: str) -> None:
    path = tmp_path / "some set.npz"
    np.savez_compressed(path, **{key: IMAGES, label_key: np.arange(5), "tracks": np.arange(3)})
    domain = from_npz(path)
    assert domain.name == "some set"
    assert domain.shape == (3, 4, 6)
    assert domain.labels is not None
    assert domain.labels.tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(domain.batch([3]).inputs[0], torch.from_numpy(IMAGES[3]).permute(2, 0, 1))


def test_first_key_wins_and_labels_are_optional(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 9)), images=IMAGES)
    domain = from_npz(tmp_path / "a.npz", name="mine")
    assert (domain.shape, domain.labels, domain.name) == ((3, 4, 6), None, "mine")


@pytest.mark.parametrize("names", [np.array(["ant", "bee"]), np.array([b"ant", b"bee"])])
def test_classes(tmp_path: Path, names: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x=IMAGES, y=np.array([0, 1, 1, 0, 0]), classes=names)
    assert from_npz(tmp_path / "a.npz").classes == ("ant", "bee")
    np.savez(tmp_path / "a.npz", x=IMAGES, y=np.array([0, 2, 1, 0, 0]), classes=names)
    with pytest.raises(InputError, match="label 2 is out of range for 2 classes"):
        from_npz(tmp_path / "a.npz")


def test_layout_is_passed_on(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 5, 3), np.uint8))
    with pytest.raises(InputError, match="layout="):
        from_npz(tmp_path / "a.npz")
    assert from_npz(tmp_path / "a.npz", layout="NCHW").shape == (3, 5, 3)


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("key", ["images", "labels", "classes"])
def test_objects_are_never_loaded(tmp_path: Path, key: str) -> None:
    arrays = {"images": IMAGES, "labels": np.arange(5)}
    arrays[key] = np.array([Trap(tmp_path / "mark")] * 5, dtype=object)
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=r"a\.npz holds an array of Python objects"):
        from_npz(tmp_path / "a.npz")
    assert not (tmp_path / "mark").exists()


def test_bad_files(tmp_path: Path) -> None:
    good = tmp_path / "good.npz"
    np.savez_compressed(good, images=IMAGES)
    whole = good.read_bytes()

    def one_line(path: Path, kind: type[Exception], match: str) -> None:
        with pytest.raises(kind, match=match) as caught:
            from_npz(path)
        assert "\n" not in str(caught.value)

    one_line(tmp_path / "none.npz", InputError, "no file")
    one_line(tmp_path, InputError, "is a folder")
    bad = tmp_path / "bad.npz"
    for content in (b"", b"hello", whole[: len(whole) // 2], whole[:-30]):
        bad.write_bytes(content)
        one_line(bad, DataError, "not an .npz file, or was cut short")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    bad.write_bytes(flipped)
    one_line(bad, DataError, "can't be read")
    np.save(tmp_path / "a.npy", IMAGES)
    one_line(tmp_path / "a.npy", DataError, "not an .npz file")
    np.savez(bad, pictures=IMAGES, target=np.arange(5))
    one_line(bad, InputError, r"no array called images or .* \(there are: pictures, target\)")
    np.savez(bad)
    one_line(bad, InputError, r"\(there are: none\)")
    np.savez(bad, images=IMAGES, labels=np.arange(4))
    one_line(bad, InputError, "5 inputs but 4 labels")
