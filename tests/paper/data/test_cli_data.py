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
from revgrad.paper.data.catalogue import CATALOGUE
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


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's own: three blue cups, two red pens."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    for name, colour, count in (("cup", (0, 0, 200), 3), ("pen", (200, 0, 0), 2)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (12, 10), colour).save(folder / name / f"{number}.png")
    return folder


def test_a_folder_of_ones_own_is_checked(photos: Path, call: Callable[..., Shown]) -> None:
    shown = call("data", "check", "photos")
    assert shown.code == 0, shown.err
    assert shown.out == "right   photos  5 samples of 3×10×12, 2 classes: cup 3, pen 2\n"
    report = json.loads(call("data", "check", "photos", "--size", "8", "--json").out)
    assert (report["state"], "3×8×8" in report["text"]) == ("right", True)
    for file in photos.glob("*/*.png"):
        file.rename(photos / f"{file.parent.name}{file.name}")
    for folder in ("cup", "pen"):
        (photos / folder).rmdir()
    assert call("data", "check", "photos").out.endswith("5 samples of 3×10×12, no labels\n")
    (photos / "cup0.png").write_bytes(b"not an image")
    wrong = call("data", "check", "photos", "digits")
    assert wrong.code == 1
    assert "WRONG   photos" in wrong.out
    assert "cup0.png" in wrong.out
    assert wrong.out.count("right   digits:") == 2
    missing = call("data", "check", "./nowhere")
    assert missing.code == 2
    assert missing.line == "revgrad: no file or folder ./nowhere"


def test_other_data_of_ones_own_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Shown]
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = np.zeros((40, 3), dtype=np.float32)
    np.savez("many.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 20)
    np.savez("numbers.npz", x=vectors, y=np.linspace(0, 1, 40))
    shown = call("data", "check", "many.npz", "numbers.npz")
    assert shown.code == 0, shown.out + shown.err
    many, numbers = shown.out.splitlines()
    assert many.endswith("40 samples of 1×8×8, 20 classes of 2 to 2 samples")
    assert numbers.endswith("40 samples of 3, labels are numbers")


def test_a_folder_of_ones_own_is_shown(photos: Path, call: Callable[..., Shown]) -> None:
    shown = call("data", "show", "photos", "digits-m", "-o", "sheet.png", "--size", "10")
    assert shown.code == 0, shown.err
    with Image.open("sheet.png") as image:
        upper = np.asarray(image.convert("RGB")).astype(int)[: image.height // 2]
    for channel in (0, 2):  # red pens and blue cups
        other = 2 - channel
        assert ((upper[..., channel] > 150) & (upper[..., other] < 50)).any()


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
