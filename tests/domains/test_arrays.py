"""Arrays and tensors as domains: layouts, kinds, memory maps, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import revgrad.domains.arrays as arrays
from revgrad.domains import from_arrays
from revgrad.errors import InputError
from revgrad.preprocessing import Preprocessing

NHWC = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3), dtype=np.uint8)
WANTED = torch.from_numpy(NHWC.transpose(0, 3, 1, 2).copy())[[5, 0, 5]]


@pytest.mark.parametrize(
    "given",
    [
        NHWC,
        NHWC.transpose(0, 3, 1, 2),
        np.ascontiguousarray(NHWC.transpose(0, 3, 1, 2)),
        torch.from_numpy(NHWC),
        torch.from_numpy(NHWC).permute(0, 3, 1, 2),
        np.asfortranarray(NHWC),
        np.repeat(NHWC, 2, axis=0)[::2],
    ],
    ids=["NHWC", "NCHW view", "NCHW", "tensor", "channels last", "fortran", "strided"],
)
def test_images_come_out_alike_whatever_their_layout(given: Any) -> None:
    taken = from_arrays(given).batch([5, 0, 5]).inputs
    assert torch.equal(taken, WANTED)
    assert taken.is_contiguous(memory_format=torch.channels_last)
    assert from_arrays(given).fingerprint() == from_arrays(NHWC).fingerprint()


def test_grey_images_without_a_channel_axis() -> None:
    grey = NHWC[..., 0]
    assert from_arrays(grey).shape == (1, 6, 5)
    assert torch.equal(from_arrays(grey).batch([2]).inputs[0, 0], torch.from_numpy(grey[2].copy()))
    assert from_arrays(grey[:, None]).shape == (1, 6, 5)
    assert from_arrays(grey[..., None]).shape == (1, 6, 5)


def test_ambiguous_layout_must_be_said() -> None:
    both = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    with pytest.raises(InputError, match='say layout="NHWC" or layout="NCHW"'):
        from_arrays(both)
    assert from_arrays(both, layout="NHWC").shape == (3, 3, 4)
    assert from_arrays(both, layout="NCHW").shape == (3, 4, 3)
    nhwc, nchw = (from_arrays(both, layout=one) for one in ("NHWC", "NCHW"))
    assert torch.equal(nchw.batch([1]).inputs[0], torch.from_numpy(both[1]))
    assert torch.equal(nhwc.batch([1]).inputs[0], torch.from_numpy(both[1]).permute(2, 0, 1))


@pytest.mark.parametrize(
    ("given", "layout", "message"),
    [
        (np.zeros((2, 8, 8, 4), np.uint8), "auto", r"4 channels \(RGBA\?\)"),
        (np.zeros((2, 4, 8, 8), np.uint8), "auto", r"4 channels \(RGBA\?\)"),
        (np.zeros((2, 8, 8, 2), np.uint8), "auto", "not 2, read as NHWC"),
        (np.zeros((2, 3)), "CHWN", "layout must be one of"),
        (np.array([object(), None]), "auto", "not dtype object"),
        (np.array(["a", "b"]), "auto", "not dtype <U1"),
        (np.zeros(3, complex), "auto", "not dtype complex"),
        (np.zeros((3, 2), np.uint16), "auto", "can't compute with uint16"),
        (np.array(3.0), "auto", "one row a sample"),
        ([[1.0, 2.0]], "auto", "not list"),
        ((np.zeros(3), np.zeros(4)), "auto", r"different lengths: \[3, 4\]"),
        ({}, "auto", "an empty dict"),
    ],
)
def test_refused(given: Any, layout: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_arrays(given, layout=layout)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.bool_]
)
def test_other_kinds_are_kept(dtype: Any) -> None:
    given = np.arange(4 * 3 * 5 * 5).reshape(4, 3, 5, 5).astype(dtype)
    taken = from_arrays(given).batch([3, 1]).inputs
    assert taken.shape == (2, 3, 5, 5)
    assert taken.numpy().dtype == dtype
    assert (taken.numpy() == given[[3, 1]]).all()


def test_foreign_byte_order_bfloat16_and_uint8_vectors() -> None:
    big = np.arange(6, dtype=">f4").reshape(3, 2)
    assert torch.equal(from_arrays(big).batch([2]).inputs, torch.tensor([[4.0, 5.0]]))
    short = from_arrays(torch.tensor([[1.5], [2.5]], dtype=torch.bfloat16)).batch([1]).inputs
    assert torch.equal(short, torch.tensor([[2.5]]))
    assert from_arrays(np.zeros((4, 9), np.uint8)).shape == (9,)


def test_nested_inputs() -> None:
    given = {"pixels": NHWC, "ids": np.arange(14).reshape(7, 2)}
    domain = from_arrays(given)
    assert domain.shape == {"pixels": (3, 6, 5), "ids": (2,)}
    taken = domain.batch([5, 0, 5]).inputs
    assert torch.equal(taken["pixels"], WANTED)
    assert taken["ids"].tolist() == [[10, 11], [0, 1], [10, 11]]
    pair = from_arrays((torch.arange(7.0), torch.arange(7))).batch([6]).inputs
    assert isinstance(pair, tuple)
    assert [part.tolist() for part in pair] == [[6.0], [6]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((3_000, 2_000), np.float32)  # more than one block
    values[2_900, 7] = values[2_950, 0] = bad
    with pytest.raises(InputError, match="not finite, first in row 2900"):
        from_arrays(values)
    monkeypatch.setattr(arrays, "CHECKED_BYTES", 100)
    assert len(from_arrays(values)) == 3_000


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_memory_maps_stay_on_disk(tmp_path: Path, layout: str) -> None:
    array = NHWC if layout == "NHWC" else np.ascontiguousarray(NHWC.transpose(0, 3, 1, 2))
    np.save(tmp_path / "x.npy", array)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    domain = from_arrays(mapped)
    assert np.shares_memory(domain.store._leaves.array, mapped)
    assert torch.equal(domain.batch([5, 0, 5]).inputs, WANTED)

    floats = np.full((3, 2), np.nan, dtype=">f8")  # never searched, never byte-swapped whole
    np.save(tmp_path / "f.npy", floats)
    strange = from_arrays(np.load(tmp_path / "f.npy", mmap_mode="r"))
    assert strange.batch([1]).inputs.isnan().all()


def test_arrays_are_shared_not_copied() -> None:
    assert np.shares_memory(from_arrays(NHWC).store._leaves.array, NHWC)


def test_fingerprint_of_large_arrays_reads_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(20_000, dtype=np.float32).reshape(10_000, 2)
    whole = from_arrays(values).fingerprint()
    monkeypatch.setattr(arrays, "HASHED_BYTES", 1_000)
    sampled = from_arrays(values).fingerprint()
    assert sampled != whole
    changed = values.copy()
    changed[0] = 7
    assert from_arrays(changed).fingerprint() != sampled
    changed = values.copy()
    changed[-1] = 7
    assert from_arrays(changed).fingerprint() != sampled
    assert from_arrays(values.astype(np.float64)).fingerprint() != sampled
    assert from_arrays(values.reshape(10_000, 1, 2)).fingerprint() != sampled


def test_empty_arrays_make_empty_domains() -> None:
    empty = from_arrays(np.zeros((0, 4, 4, 3), np.uint8))
    assert len(empty) == 0
    assert empty.shape is None
    assert not empty.is_images
    assert isinstance(empty.fingerprint(), str)


def test_images_of_many_bands() -> None:
    bands = np.random.default_rng(1).integers(0, 256, (4, 6, 5, 7), dtype=np.uint8)
    with pytest.raises(InputError, match='images of more bands need layout="N'):
        from_arrays(bands)
    domain = from_arrays(bands, layout="NHWC")
    assert domain.shape == (7, 6, 5)
    assert domain.is_images
    assert torch.equal(domain.batch([2]).inputs[0], torch.from_numpy(bands[2]).permute(2, 0, 1))
    assert from_arrays(bands, layout="NCHW").shape == (6, 5, 7)
    fitted = Preprocessing.fit(domain)
    pixels = bands.astype(np.float64)
    np.testing.assert_allclose(fitted.mean.flatten(), pixels.mean((0, 1, 2)), rtol=1e-6)
    assert float(fitted.scale) == pytest.approx(np.sqrt(pixels.var((0, 1, 2)).mean()))


@pytest.mark.parametrize("shape", [(3, 6, 5), (3, 6, 5, 3), (3, 1, 6, 5), (3, 2, 4, 6, 5)])
def test_sixteen_bits_are_scaled_and_not_clipped(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).integers(0, 65536, shape, dtype=np.uint16)
    values.flat[:2] = (0, 65535)
    found = from_arrays(values).batch([0, 2]).inputs
    assert found.dtype == torch.float32
    assert (float(found.min()), float(found.max())) == (0.0, 1.0)
    wanted = values[[0, 2]] / 65535
    if len(shape) == 3:
        wanted = wanted[:, None]
    elif shape[-1] == 3:
        wanted = wanted.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    with pytest.raises(InputError, match="torch can't compute with uint16"):
        from_arrays(values.reshape(-1, 5)[:, :2])


def test_volumes() -> None:
    volumes = np.random.default_rng(1).integers(0, 256, (5, 2, 4, 6, 3), dtype=np.uint8)
    domain = from_arrays(volumes)
    assert domain.shape == (2, 4, 6, 3)
    assert torch.equal(domain.batch([1]).inputs[0], torch.from_numpy(volumes[1]))
    fitted = Preprocessing.fit(domain)
    exact = volumes.astype(np.float64)
    mean, scale = exact.mean((0, 2, 3, 4)), np.sqrt(exact.var((0, 2, 3, 4)).mean())
    wanted = (exact[:2] - mean[:, None, None, None]) / scale
    np.testing.assert_allclose(fitted(domain.batch([0, 1]).inputs), wanted, atol=1e-6)
