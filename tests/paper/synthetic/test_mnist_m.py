"""MNIST-M: the blend against a slow loop, its determinism, its cache."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cached import cache_entries
from revgrad.domains.digits import blend
from revgrad.errors import DataError, InputError
from revgrad.paper.data.mnist import mnist
from revgrad.paper.synthetic.mnist_m import mnist_m

RNG = np.random.default_rng(0)
PHOTOGRAPHS = [
    RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    for height, width in ((28, 28), (40, 31), (29, 77))
]
DIGITS = RNG.integers(0, 256, (3_000, 28, 28), dtype=np.uint8)


def slow_blend(digit: np.ndarray, photograph: np.ndarray, top: int, left: int) -> np.ndarray:
    result = np.zeros((*digit.shape, 3))
    for y in range(digit.shape[0]):
        for x in range(digit.shape[1]):
            for channel in range(3):
                ink, light = float(digit[y, x]), float(photograph[top + y, left + x, channel])
                result[y, x, channel] = abs(ink - light)
    return result


def places(n: int, seed: int) -> list[tuple[int, int, int]]:
    """Photograph, top and left of each digit, one digit after the other."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        which = int(rng.random() * len(PHOTOGRAPHS))
        height, width = PHOTOGRAPHS[which].shape[:2]
        found.append((which, int(rng.random() * (height - 27)), int(rng.random() * (width - 27))))
    return found


def test_blend_is_the_difference_with_a_patch() -> None:
    blended = blend(DIGITS, PHOTOGRAPHS, seed=5)
    assert blended.shape == (3_000, 28, 28, 3)
    assert blended.dtype == np.uint8
    where = places(3_000, 5)
    for i in [*range(15), 2_047, 2_048, 2_999]:  # across the blocks
        which, top, left = where[i]
        assert (blended[i] == slow_blend(DIGITS[i], PHOTOGRAPHS[which], top, left)).all(), i
    # Every photograph and every place is reached, the last row and column too.
    assert {which for which, _, _ in where} == {0, 1, 2}
    assert {top for which, top, _ in where if which == 1} == set(range(13))
    assert {left for which, _, left in where if which == 2} == set(range(50))


def test_blend_is_a_pure_function_of_seed_and_index() -> None:
    whole = blend(DIGITS, PHOTOGRAPHS, seed=5)
    assert (blend(DIGITS[:100], PHOTOGRAPHS, seed=5) == whole[:100]).all()
    assert (blend(DIGITS, PHOTOGRAPHS, seed=6) != whole).any()
    other = DIGITS.copy()
    other[0] = 0
    assert (blend(other, PHOTOGRAPHS, seed=5)[1:] == whole[1:]).all()


def test_other_sizes_and_views() -> None:
    digits = RNG.integers(0, 256, (50, 20, 24), dtype=np.uint8)
    photograph = PHOTOGRAPHS[2][:, 30:]  # a view: rows lie apart
    blended = blend(digits, [photograph], seed=1)
    rng = np.random.default_rng(1)
    for i in range(50):
        _, y, x = rng.random(3)
        top, left = int(y * (29 - 19)), int(x * (47 - 23))
        assert (blended[i] == slow_blend(digits[i], photograph, top, left)).all()


@pytest.mark.parametrize(
    ("digits", "photographs", "message"),
    [
        (DIGITS, [], "at least one photograph"),
        (DIGITS, [PHOTOGRAPHS[0][1:]], "photograph 0 is 27×28: smaller than a digit of 28×28"),
        (DIGITS, [PHOTOGRAPHS[0], PHOTOGRAPHS[0][..., 0]], "photograph 1 must be uint8"),
        (DIGITS[..., None], PHOTOGRAPHS, "digits must be uint8"),
        (DIGITS / 255, PHOTOGRAPHS, "digits must be uint8"),
    ],
)
def test_refused(digits: np.ndarray, photographs: list[np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        blend(digits, photographs)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    for prefix, digits in (("train", DIGITS[:50]), ("t10k", DIGITS[50:70])):
        header = struct.pack(">4I", 2051, len(digits), 28, 28)
        with gzip.open(tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
            file.write(header + digits.tobytes())
        with gzip.open(tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(
                struct.pack(">2I", 2049, len(digits)) + bytes(i % 10 for i in range(len(digits)))
            )
    return tmp_path


def write_photographs(folder: Path, split: str, photographs: list[np.ndarray]) -> None:
    where = folder / "bsds500" / split
    where.mkdir(parents=True, exist_ok=True)
    for i, photograph in enumerate(photographs):
        Image.fromarray(photograph).save(where / f"{i}.png")


def test_domain_uses_train_photographs_for_train_and_val_for_test(
    folder: Path, cache: Path
) -> None:
    write_photographs(folder, "train", PHOTOGRAPHS[:2])
    write_photographs(folder, "val", PHOTOGRAPHS[2:])
    for split, digits, photographs in (
        ("train", DIGITS[:50], PHOTOGRAPHS[:2]),
        ("test", DIGITS[50:70], PHOTOGRAPHS[2:]),
    ):
        domain = mnist_m(split)
        inputs = domain.batch(np.arange(len(domain))).inputs
        assert (inputs.permute(0, 2, 3, 1).numpy() == blend(digits, photographs, 0)).all()
        assert domain.labels is not None
        assert (domain.labels == mnist(split).labels).all()
    assert len(cache_entries(cache)) == 2


def test_cache_is_used_and_keyed(folder: Path, cache: Path) -> None:
    write_photographs(folder, "train", PHOTOGRAPHS[:2])
    first = mnist_m().fingerprint()
    entry = cache_entries(cache)[0]
    changed = (entry / "images.npy").stat().st_mtime_ns
    assert mnist_m().fingerprint() == first
    assert (entry / "images.npy").stat().st_mtime_ns == changed
    assert mnist_m(seed=1).fingerprint() != first
    write_photographs(folder, "train", PHOTOGRAPHS[1:])
    assert mnist_m().fingerprint() != first
    assert len(cache_entries(cache)) == 3


def test_missing_or_damaged_photographs(folder: Path, cache: Path) -> None:
    with pytest.raises(
        DataError, match=r"no photographs in .*bsds500/val or .*fetch bsds500.*REVGRAD_DATA"
    ):
        mnist_m("test")
    write_photographs(folder, "val", PHOTOGRAPHS)
    (folder / "bsds500" / "val" / "x.jpg").write_bytes(b"half")
    with pytest.raises(DataError, match=r"x\.jpg can't be read: not an image"):
        mnist_m("test")
    assert cache_entries(cache) == []
    with pytest.raises(InputError, match="no split of mnist-m 'all'"):
        mnist_m("all")


def test_real_data(data_folder: Path) -> None:
    for needed in ("mnist", "bsds500/val"):
        if not (data_folder / needed).is_dir():
            pytest.skip(f"no {needed} in {data_folder}")
    domain = mnist_m("test")
    assert len(domain) == 10_000
    assert domain.shape == (3, 28, 28)
    blended = domain.batch(np.arange(500)).inputs.float()
    digits = mnist("test").batch(np.arange(500)).inputs.float()
    # Paper is the photograph itself, full ink its negative: |255 − patch|.
    paper = (digits == 0).expand_as(blended)
    assert 60 < blended[paper].mean() < 150
    assert blended[(digits == 255).expand_as(blended)].mean() > blended[paper].mean() + 20


def test_32_pixels_are_28_with_a_margin_and_their_making_is_noted(
    data_folder: Path, cache: Path
) -> None:
    import json

    small, large = mnist_m("test"), mnist_m("test", size=32)
    assert large.shape == (3, 32, 32)
    assert (large.labels == small.labels).all()
    digits = mnist("test").batch([0, 1]).inputs.numpy()[:, 0]
    images = large.batch([0, 1]).inputs.numpy()
    assert images[0][:, :2].any()  # the patch reaches into the margin, where there is no ink
    # |digit − patch| = 255 − patch under full ink, so the two sizes differ by their patches only
    assert (images[0][:, 2:30, 2:30][:, digits[0] == 255] > 0).any()
    notes = [json.loads(path.read_text()) for path in cache.rglob("about.json")]
    [text] = [json.dumps(note) for note in notes if '"size": 32' in json.dumps(note)]
    assert all(word in text for word in ("seed", "photographs", "digits", "numpy", "pillow"))


def test_blocks_continue_the_stream() -> None:
    """Digit i gets the same patch whichever block it is blended in."""
    from revgrad.domains.digits import backdrop, blend_over

    whole = blend(DIGITS, PHOTOGRAPHS, seed=5)
    behind = backdrop(PHOTOGRAPHS, 28, 28)
    assert (blend_over(DIGITS[1000:1100], behind, 5, 1000) == whole[1000:1100]).all()
