"""Generated sets: the same bytes with any number of processes, counted random numbers, one line
for what goes wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cached import cache_entries
from revgrad.errors import DataError, InputError
from revgrad.paper.synthetic.generator import BLOCK, Generated, gaussians, generated, raw, uniforms


@dataclasses.dataclass(frozen=True)
class Dots:
    seed: int = 0
    size: int = 4
    range: tuple[float, float] = (0.25, 0.75)


def make(indices: np.ndarray, parameters: Dots, context: Any) -> tuple[np.ndarray, np.ndarray]:
    """Random dots; the label is the remainder of the index, so that order can be seen."""
    size = parameters.size
    numbers = uniforms(parameters.seed, "dots", indices, size * size * 3)
    images = (numbers * 255).astype(np.uint8).reshape(-1, size, size, 3)
    images[:, 0, 0, 0] = context or 0
    return images, indices % 7


def failing(indices: np.ndarray, parameters: Dots, context: Any) -> tuple[np.ndarray, np.ndarray]:
    if indices[-1] > BLOCK:
        raise InputError("no dot can be drawn")
    return make(indices, parameters, context)


def dying(indices: np.ndarray, parameters: Dots, context: Any) -> tuple[np.ndarray, np.ndarray]:
    os._exit(9)


def too_few(indices: np.ndarray, parameters: Dots, context: Any) -> tuple[np.ndarray, np.ndarray]:
    images, labels = make(indices, parameters, context)
    return images[1:], labels


def dots(count: int = 2 * BLOCK + 5, parameters: Any = None, **options: Any) -> Generated:
    return generated("dots", count, parameters or Dots(), options.pop("make", make), **options)


def entries(cache: Path) -> list[str]:
    return [path.name for path in cache_entries(cache)]


# -- random numbers ----------------------------------------------------------------------------


def test_numbers_are_philox_at_the_index_s_own_counter() -> None:
    """Against one long stream read from its beginning."""
    import hashlib

    key = int.from_bytes(hashlib.blake2b(b"3 noise", digest_size=16).digest(), "big")
    stream = np.random.Philox(key=key, counter=0).random_raw(8 * 50).reshape(50, 8)
    np.testing.assert_array_equal(raw(3, "noise", np.arange(50), 6), stream[:, :6])
    there = np.array([7, 8, 9, 49, 2, 2, 0])
    np.testing.assert_array_equal(raw(3, "noise", there, 6), stream[there][:, :6])
    assert raw(3, "noise", np.arange(0), 6).shape == (0, 6)


def test_seeds_and_purposes_have_streams_of_their_own() -> None:
    where = np.arange(20)
    first = raw(0, "place", where, 4)
    for other in (raw(1, "place", where, 4), raw(0, "light", where, 4)):
        assert not np.isin(first, other).any()


def test_uniforms_fill_the_unit_interval() -> None:
    numbers = uniforms(5, "x", np.arange(40_000), 3)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert abs(counts / (120_000 / 20) - 1).max() < 0.06
    assert abs(np.corrcoef(numbers.T) - np.eye(3)).max() < 0.02


def test_gaussians_are_normal_and_belong_to_their_index() -> None:
    from statistics import NormalDist

    numbers = gaussians(5, "x", np.arange(1000), 301)
    assert numbers.dtype == np.float32
    assert abs(numbers.mean()) < 0.01
    assert abs(numbers.std() - 1) < 0.01
    for quantile in (0.01, 0.2, 0.5, 0.9, 0.999):
        below = float((numbers < NormalDist().inv_cdf(quantile)).mean())
        assert abs(below - quantile) < 5 * np.sqrt(quantile * (1 - quantile) / numbers.size)
    np.testing.assert_array_equal(gaussians(5, "x", np.array([17, 3]), 301), numbers[[17, 3]])


# -- sets --------------------------------------------------------------------------------------


def test_the_same_bytes_with_one_and_with_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for workers in (1, 2):
        monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / str(workers)))
        found.append(dots(workers=workers, context=lambda: 99))
    one, two = found
    np.testing.assert_array_equal(one.images, two.images)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.digest == two.digest
    assert (one.images[:, 0, 0, 0] == 99).all()
    np.testing.assert_array_equal(one.labels, np.arange(2 * BLOCK + 5) % 7)
    files = [tmp_path / n / entries(tmp_path / n)[0] / "images.npy" for n in "12"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_first_images_are_the_same_whatever_the_count() -> None:
    few, many = dots(10), dots(BLOCK + 10)
    np.testing.assert_array_equal(few.images, many.images[:10])
    np.testing.assert_array_equal(few.labels, many.labels[:10])
    assert len(np.unique(many.images.reshape(len(many.images), -1), axis=0)) == BLOCK + 10


def test_a_set_is_made_once_and_memory_mapped() -> None:
    first = dots(9, context=lambda: 5)
    assert isinstance(first.images, np.memmap)
    assert first.labels.dtype == np.int64
    again = dots(9, context=lambda: pytest.fail("made again"))
    np.testing.assert_array_equal(first.images, again.images)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert first.about == again.about


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"parameters": Dots(seed=1)}, "seed"),
        ({"parameters": Dots(range=(0.25, 0.5))}, "range"),
        ({"count": 4}, "count"),
        ({"inputs": {"a.ttf": "11"}}, "inputs"),
        ({"versions": {"numpy": "1"}}, "versions"),
    ],
)
def test_whatever_has_a_say_changes_the_key(
    cache: Path, changes: dict[str, Any], name: str
) -> None:
    usual: dict[str, Any] = {"count": 3, "inputs": {"a.ttf": "10"}, "versions": {"numpy": "2"}}
    dots(**usual)
    assert len(entries(cache)) == 1
    dots(**usual)
    assert len(entries(cache)) == 1
    dots(**{**usual, **changes})
    assert len(entries(cache)) == 2


def test_about_json_says_what_the_set_was_made_of(cache: Path) -> None:
    dots(3, Dots(seed=4), inputs={"a.ttf": "10"}, versions={"numpy": "2"})
    note = json.loads((cache / entries(cache)[0] / "about.json").read_text())
    assert note["rows"] == 3
    assert note["about"] == {
        "name": "dots",
        "count": 3,
        "parameters": {"seed": 4, "size": 4, "range": [0.25, 0.75]},
        "inputs": {"a.ttf": "10"},
        "versions": {"numpy": "2"},
    }


def test_labels_cut_short_are_made_again(cache: Path) -> None:
    whole = dots(6)
    path = cache / entries(cache)[0] / "labels.npy"
    path.write_bytes(path.read_bytes()[:-8])
    np.testing.assert_array_equal(dots(6).labels, whole.labels)


# -- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_generator_comes_out_and_leaves_nothing(cache: Path, workers: int) -> None:
    with pytest.raises(InputError, match="no dot can be drawn"):
        dots(make=failing, workers=workers)
    assert entries(cache) == []


def test_a_process_that_dies_is_one_line_and_leaves_nothing(cache: Path) -> None:
    with pytest.raises(DataError, match=r"process that made dots ended: .*workers=1") as caught:
        dots(make=dying, workers=2)
    assert "\n" not in str(caught.value)
    assert entries(cache) == []


def test_a_generator_that_makes_too_few_is_found() -> None:
    with pytest.raises(ValueError, match="10 wanted: 9 images, 10 labels"):
        dots(10, make=too_few)


PROGRAM = """
import dataclasses
from revgrad.paper.synthetic.generator import BLOCK, generated, uniforms

print("the program runs")

@dataclasses.dataclass(frozen=True)
class Dots:
    seed: int = 0

def make(indices, parameters, context):
    return (uniforms(0, "dots", indices, 3) * 255).astype("uint8")[:, None, None], indices % 7

print(len(generated("dots", BLOCK + 5, Dots(), make, workers=2).images))
"""


def test_a_program_s_own_generator_needs_no_guard(tmp_path: Path) -> None:
    """Its processes don't run the program again."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["the program runs", str(BLOCK + 5)]


@pytest.mark.parametrize("count", [0, -3, 1.5])
def test_counts_that_are_none(count: Any) -> None:
    with pytest.raises(InputError, match=f"must be 1 or more, not {count}"):
        dots(count)


def test_no_workers() -> None:
    with pytest.raises(InputError, match="workers must be 1 or more, not 0"):
        dots(workers=0)


def test_a_full_disk_is_told_before_the_work(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr("revgrad.domains.cache.shutil.disk_usage", lambda folder: Usage)
    with pytest.raises(DataError, match="not enough space"):
        dots(3)
    assert entries(cache) == []
