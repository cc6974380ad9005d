"""Images on a sheet, and the predictions that choose them, by slow second computations."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from page_runs import SOURCE_SAMPLES, TARGET_SAMPLES, colours, make_run
from pages import flat
from revgrad.diagnostics.recorder import read_evidence
from revgrad.reports.contents import RunPage
from revgrad.reports.images import (
    SHEET_BYTES,
    SharedTiles,
    least_sure,
    make_sheet,
    most_sure,
    predictions,
)
from revgrad.reports.page import make_page
from revgrad.reports.run_summary import read_summary


def test_predictions_by_hand() -> None:
    logits = np.array([[0.0, 3.0, 1.0], [800.0, 0.0, 700.0], [0.1, 0.0, 0.2]])
    predicted = predictions(logits)
    for sample, values in enumerate(logits.tolist()):
        top = max(values)
        shares = [math.exp(v - top) for v in values]
        shares = [s / sum(shares) for s in shares]
        first = values.index(top)
        assert predicted.classes[sample] == first
        assert predicted.confidence[sample] == pytest.approx(shares[first], rel=1e-12)
        assert predicted.runner_up[sample] == sorted(range(3), key=lambda i: -values[i])[1]
        others = sum(s for i, s in enumerate(shares) if i != first)
        if others > 1e-300:
            odds = math.log(shares[first] / others)
            assert predicted.margin[sample] == pytest.approx(odds, rel=1e-9)
    assert predicted.margin[1] == pytest.approx(100.0)  # where confidence is 1
    assert least_sure(predicted, 2).tolist() == [2, 0]


def test_the_surest_are_of_every_class_in_turn() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 3)) + np.array([4.0, 0.0, 0.0])
    predicted = predictions(logits)
    chosen = most_sure(predicted, 9).tolist()
    kinds = [int(predicted.classes[sample]) for sample in chosen]
    present = len(set(predicted.classes.tolist()))
    assert len(set(kinds[:present])) == present
    for label in set(kinds):
        samples = [sample for sample in range(40) if predicted.classes[sample] == label]
        best = sorted(samples, key=lambda sample: -predicted.margin[sample])[: kinds.count(label)]
        assert best == [sample for sample in chosen if predicted.classes[sample] == label]


def test_every_tile_of_the_sheet_is_its_image() -> None:
    images = np.random.default_rng(0).integers(0, 255, (23, 5, 7, 3))
    images = np.broadcast_to(images[:, 2:3, 3:4], (23, 5, 7, 3)).astype(np.uint8)
    sheet = make_sheet(images)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.jpeg)))
    for tile, image in enumerate(images):
        left, top = tile % sheet.columns * sheet.stride_x, tile // sheet.columns * sheet.stride_y
        part = pixels[top : top + sheet.height, left : left + sheet.width]
        assert np.abs(part.astype(int) - image).max() < 6, tile
        assert f"-{left}px -{top}px" in sheet.style(tile, 50)


def test_a_sheet_stays_small_however_noisy() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 48, 48, 3)).astype(np.uint8)
    most = 300_000
    sheet = make_sheet(noise, most)
    assert len(sheet.jpeg) <= most
    assert sheet.tiles == 400
    assert SHEET_BYTES * 4 / 3 < 2_100_000  # leaves room in 3 MB for the rest


def test_images_of_several_sizes_share_a_sheet() -> None:
    small, large = colours(4, 0)[:, :6, :9], colours(7, 1)
    tiles = SharedTiles()
    assert tiles.add(small, np.array([3, 1])) == [0, 1]
    assert tiles.add(large, np.array([0, 5])) == [2, 3]
    assert tiles.add(small, np.array([1, 2])) == [1, 4]
    assert tiles.add(None, np.array([0, 1])) == [-1, -1]
    sheet = tiles.sheet()
    assert sheet is not None
    assert (sheet.width, sheet.height, sheet.tiles) == (12, 12, 5)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.jpeg)).convert("RGB")).astype(int)
    expected = [small[3], small[1], large[0], large[5], small[2]]
    for tile, image in enumerate(expected):
        x, y = tile % sheet.columns * sheet.stride_x, tile // sheet.columns * sheet.stride_y
        assert np.abs(pixels[y + 6, x + 6] - image[0, 0]).max() < 8
    # proportions are kept: 9 × 6 becomes 12 × 8, with grey above and below
    assert np.abs(pixels[0, 6] - 128).max() < 16
    assert SharedTiles().sheet() is None


def test_images_are_those_that_were_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    recorded = read_evidence(run)
    assert recorded is not None
    assert np.array_equal(recorded.target_images, colours(TARGET_SAMPLES, 1))
    page = make_page([read_summary(run)], lay_out=flat)
    assert isinstance(page, RunPage)
    assert page.sheet is not None
    pixels = np.asarray(Image.open(io.BytesIO(page.sheet.jpeg)).convert("RGB")).astype(int)
    for grid in page.grids:
        for tile in grid.tiles:
            x = tile.tile % page.sheet.columns * page.sheet.stride_x
            y = tile.tile // page.sheet.columns * page.sheet.stride_y
            place = recorded.target_indices.tolist().index(tile.index)
            assert np.abs(pixels[y + 3, x + 3] - recorded.target_images[place, 0, 0]).max() < 8


def test_a_source_of_another_size_is_seen_under_the_pointer_too(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = run / "evidence" / "samples.safetensors"
    samples = load_file(path)
    wider = np.repeat(samples["source_inputs"], 2, axis=2)
    save_file({**samples, "source_inputs": wider}, path)
    page = make_page([read_summary(run)], lay_out=flat)
    assert page.sheet is not None
    assert page.sheet.width == wider.shape[2]
    tiles = page.data["clouds"][0]["tiles"]
    assert len(tiles) == SOURCE_SAMPLES + TARGET_SAMPLES
    assert min(tiles) >= 0
    pixels = np.asarray(Image.open(io.BytesIO(page.sheet.jpeg)).convert("RGB")).astype(int)
    for sample in (0, SOURCE_SAMPLES - 1):
        x = tiles[sample] % page.sheet.columns * page.sheet.stride_x + page.sheet.width // 2
        y = tiles[sample] // page.sheet.columns * page.sheet.stride_y + page.sheet.height // 2
        assert np.abs(pixels[y, x] - wider[sample, 0, 0]).max() < 8
