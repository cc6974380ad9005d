"""`predict` reads folders as it goes: the same predictions as of the whole, interrupted or not."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import revgrad
from revgrad import evaluation, from_folder
from revgrad.cli.predictions import GrowingTable
from revgrad.domains.folder_chunks import FolderChunks, brightness
from revgrad.networks.compact import CompactNetwork
from shown import Shown
from tiny import seeded

Call = Callable[..., Shown]
COUNT = 21


def draw(folder: Path, count: int = COUNT, *, grey: int = 5) -> Path:
    """Images of several sizes and forms, some of them grey."""
    chance = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"sub{number % 3}" / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (8 + number % 4, 11) if number < grey else (9, 8 + number % 5, 3)
        Image.fromarray(chance.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return folder


@pytest.fixture(params=[1, 3])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    channels = request.param
    chance = np.random.default_rng(1)
    shape = (24, 8, 8) if channels == 1 else (24, 8, 8, 3)
    images = chance.integers(0, 256, shape, dtype=np.uint8)
    settings: dict[str, Any] = {"recipe": "paper", "steps": 2, "batch_size": 8, "progress": False}
    revgrad.adapt(
        seeded(lambda: CompactNetwork(classes=3, channels=channels, size=8)),
        *((images, np.arange(24) % 3), images),
        run=tmp_path / "run",
        provenance=revgrad.training.run.Provenance(network="compact"),
        domain_classifier=(4,),
        **settings,
    )
    return tmp_path / "run"


def test_chunks_are_what_the_whole_folder_is(
    run: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = draw(tmp_path / "photos")
    adapted = revgrad.load(run)
    whole = from_folder(photos, size=8, labels=False)
    assert whole.files is not None
    expected = dict(zip(whole.files, adapted.predict(whole).tolist(), strict=True))
    monkeypatch.setattr(evaluation, "SAMPLES_AT_ONCE", 8)
    output = tmp_path / "out.csv"
    shown = call("predict", run, photos, "-o", output)
    assert shown.code == 0, shown.err
    lines = list(csv.DictReader(output.read_text().splitlines()))
    assert [line["file"] for line in lines] == sorted(whole.files)
    assert {line["file"]: int(line["class"]) for line in lines} == expected
    assert call("predict", run, photos).out == output.read_text()
    assert sorted(tmp_path.iterdir()) == [output, photos, run]  # nothing is left


def test_an_interrupted_table_is_gone_on_with(
    run: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, output = draw(tmp_path / "photos"), tmp_path / "out.csv"
    expected = call("predict", run, photos).out
    monkeypatch.setattr(evaluation, "SAMPLES_AT_ONCE", 8)
    looked_at: list[int] = []
    real, add = FolderChunks.chunks, GrowingTable.add

    def watched(self: FolderChunks, start: int, count: int) -> Any:
        looked_at.append(start)
        return real(self, start, count)

    def interrupted(self: GrowingTable, text: str, lines: int, done: int) -> None:
        add(self, text, lines, done)
        if done == 16:
            with open(self.part, "a") as file:
                file.write("half a li")  # what a kill leaves
            raise KeyboardInterrupt

    monkeypatch.setattr(FolderChunks, "chunks", watched)
    with monkeypatch.context() as broken:
        broken.setattr(GrowingTable, "add", interrupted)
        assert call("predict", run, photos, "-o", output).code == 130
    assert not output.exists()
    part = tmp_path / "out.csv.part"
    whole = part.read_bytes()
    part.write_bytes(whole.replace(b"sub0", b"sub9", 1))  # damaged: not taken up
    with monkeypatch.context() as broken:
        broken.setattr(GrowingTable, "add", interrupted)
        assert call("predict", run, photos, "-o", output).code == 130
    assert call("predict", run, photos, "-o", output).code == 0
    assert looked_at == [0, 0, 16]
    assert output.read_text() == expected


def test_a_table_of_other_images_is_begun_anew(
    run: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, output = draw(tmp_path / "photos"), tmp_path / "out.csv"
    monkeypatch.setattr(evaluation, "SAMPLES_AT_ONCE", 8)
    add = GrowingTable.add

    def interrupted(self: GrowingTable, *given: Any) -> None:
        add(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(GrowingTable, "add", interrupted)
        assert call("predict", run, photos, "-o", output).code == 130
    first, other = sorted(photos.rglob("*.png"))[:2]
    first.write_bytes(other.read_bytes())  # was already in the table
    assert call("predict", run, photos, "-o", output).code == 0
    assert output.read_text() == call("predict", run, photos).out


def test_files_that_can_t_be_read(
    run: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, output = draw(tmp_path / "photos"), tmp_path / "out.csv"
    (photos / "sub1" / "00001.png").write_bytes(b"nothing")
    shown = call("predict", run, photos, "-o", output)
    assert shown.code == 1
    assert "sub1/00001.png (not an image)" in shown.line
    for file in photos.rglob("*.png"):
        file.write_bytes(b"")
    assert call("predict", run, photos, "-o", output).code == 1
    assert not output.exists()


def test_two_processes_do_not_write_one_table(run: Path, tmp_path: Path, call: Call) -> None:
    photos, output = draw(tmp_path / "photos"), tmp_path / "out.csv"
    with GrowingTable(output, "another").opened():
        shown = call("predict", run, photos, "-o", output)
    assert shown.code == 1
    assert "is being written by another process" in shown.line


def test_brightness_is_pillows() -> None:
    colour = np.random.default_rng(2).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    assert (brightness(colour)[..., 0] == np.asarray(Image.fromarray(colour).convert("L"))).all()
