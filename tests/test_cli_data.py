"""`revgrad data`: list, fetch, make, show, check."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from revgrad.domains import DOMAINS
from revgrad.domains.catalogue import CATALOGUE
from shown import Shown


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("REVGRAD_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def write_mnist(folder: Path, counts: dict[str, int]) -> None:
    folder.mkdir()
    for name, count in counts.items():
        images = struct.pack(">4I", 2051, count, 28, 28) + bytes(784 * count)
        labels = struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))
        for kind, data in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(data))


def test_every_named_domain_is_in_the_catalogue() -> None:
    assert set(CATALOGUE) == set(DOMAINS)


def test_list_says_what_is_here(empty: Path, call: Callable[..., Shown]) -> None:
    lines = [json.loads(line) for line in call("data", "list", "--json").out.splitlines()]
    states = {line["name"]: line["state"] for line in lines}
    assert set(states) == set(DOMAINS)
    assert states["mnist"] == "missing: revgrad data fetch"
    assert states["office31"] == "missing: put there by hand"
    assert states["mnist-m"] == "made when asked for"
    write_mnist(empty / "mnist", {"train": 20, "t10k": 10})
    shown = call("data", "list").out
    assert str(empty) in shown
    assert "here, in other files" in shown  # not the official checksums


def test_check_finds_wrong_counts_and_checksums(empty: Path, call: Callable[..., Shown]) -> None:
    absent = call("data", "check", "mnist", "--json")
    assert absent.code == 1
    assert {json.loads(line)["state"] for line in absent.out.splitlines()} == {"absent"}
    write_mnist(empty / "mnist", {"train": 20, "t10k": 10})
    shown = call("data", "check", "mnist", "--json")
    assert shown.code == 1
    reports = [json.loads(line) for line in shown.out.splitlines()]
    wrong = [report["text"] for report in reports if report["state"] == "WRONG"]
    assert any("60,000 expected" in text for text in wrong)
    assert sum("checksum is not the official one" in text for text in wrong) == 4
    right = call("data", "check", "digits", "digits-m")
    assert right.code == 0
    assert right.out.count("right ") == 4
    assert "did you mean 'mnist'" in call("data", "check", "mnits").line


def test_real_sets_are_right(data_folder: Path, call: Callable[..., Shown]) -> None:
    shown = call("data", "check", "mnist", "usps", "svhn")
    assert shown.code == 0, shown.out
    assert "60,000 samples" in shown.out
    assert "26,032 samples" in shown.out


def test_show_draws_a_row_for_each(empty: Path, call: Callable[..., Shown]) -> None:
    shown = call("data", "show", "digits", "digits-m", "-o", "sheet.png", "--columns", "5")
    assert shown.code == 0, shown.err
    with Image.open("sheet.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    half = len(pixels) // 2
    colour = np.abs(pixels[..., 0] - pixels[..., 2]).max(axis=1)
    assert colour[:half].max() < 10  # grey digits above
    assert colour[half:].max() > 60  # coloured ones below


def test_make_generates_once_and_refuses_what_does_not_fit(
    empty: Path, cache: Path, call: Callable[..., Shown]
) -> None:
    made = call("data", "make", "syn-numbers:test", "--count", "50", "--workers", "1", "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["count"] == 50
    varied = call("data", "make", "syn-numbers:test", "--count", "50", "--varied", "--json")
    assert varied.code == 0, varied.err
    assert len(list(cache.glob("syn-numbers-*/about.json"))) == 2
    assert "mnist-m takes no varied" in call("data", "make", "mnist-m", "--varied").line
    assert "mnist-m takes no count" in call("data", "make", "mnist-m", "--count", "5").line
    assert "did you mean 'syn-signs'" in call("data", "make", "syn-sings").line


def test_fetch_names_the_choices_and_what_is_by_hand(
    empty: Path, call: Callable[..., Shown]
) -> None:
    assert "did you mean 'mnist'" in call("data", "fetch", "mnits").line
    assert "can't be fetched by a program" in call("data", "fetch", "office31").line
