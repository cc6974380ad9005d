"""The promise: target labels, in whatever form, and test data leave everything bit-identical."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

import revgrad
from revgrad import from_arrays, from_folder, from_frame
from revgrad.errors import DataError, InputError
from revgrad.model_selection import select
from revgrad.networks.compact import CompactNetwork
from tiny import Perceptron, seeded, weights_digest

SMALL: dict[str, Any] = {
    "recipe": "paper",
    "steps": 6,
    "batch_size": 16,
    "device": "cpu",
    "progress": False,
    "domain_classifier": (6,),
    "evaluate_every": 2,
}
COUNT = 24


def pixels(seed: int, channels: int = 1) -> np.ndarray:
    shape = (COUNT, 16, 16) if channels == 1 else (COUNT, 16, 16, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def folder_of(path: Path, images: np.ndarray, names: list[str]) -> Path:
    """Images under `names`, which may have class folders in them."""
    for image, name in zip(images, names, strict=True):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path / name)
    return path


def trained(target: Any, run: Path | None = None, **more: Any) -> revgrad.Adapted:
    network = seeded(lambda: CompactNetwork(classes=3, channels=1, size=16))
    source = (pixels(1), np.arange(COUNT) % 3)
    return revgrad.adapt(network, source, target, run=run, **{**SMALL, **more})


def digest(adapted: revgrad.Adapted) -> str:
    assert adapted.adapter is not None
    return weights_digest(adapted.adapter)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """One target in three forms: true class folders, random ones under other names, none."""
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    images, chance = pixels(2), np.random.default_rng(3)
    shuffled = chance.permutation(COUNT)
    forms = {
        "true": [f"class{i % 3}/{i}.png" for i in range(COUNT)],
        "random": [f"{'zya'[chance.integers(3)]}/{shuffled[i]}.png" for i in range(COUNT)],
        "none": [f"{COUNT - i}.png" for i in range(COUNT)],
    }
    return [folder_of(tmp_path / form, images, names) for form, names in forms.items()]


def test_folder_names_of_the_target_decide_nothing(folders: list[Path], tmp_path: Path) -> None:
    given: list[Any] = [str(one) for one in folders]
    given += [from_folder(folders[0]), from_folder(folders[1], labels=False)]
    runs = [tmp_path / f"run{number}" for number in range(len(given))]
    found = [
        trained(target, run, return_weights="best", held_out=0.3)
        for target, run in zip(given, runs, strict=True)
    ]
    assert len({digest(one) for one in found}) == 1
    assert len({str(replace(one.verdict(), seconds=0.0)) for one in found}) == 1
    ends = {(run / "evidence" / "end.safetensors").read_bytes() for run in runs}
    assert len(ends) == 1
    identities = [revgrad.Run(run).config.identity() for run in runs]
    assert all(one == identities[0] for one in identities)


def test_rows_of_a_folder_still_have_their_own_labels(folders: list[Path]) -> None:
    domain = from_folder(folders[0])
    images = pixels(2)
    assert domain.files is not None
    assert domain.labels is not None
    for row, file in enumerate(domain.files):
        number = int(Path(file).stem)
        assert (domain.batch([row]).inputs[0, 0].numpy() == images[number]).all()  # type: ignore[index]
        assert domain.labels[row] == number % 3


class Items(Dataset[Any]):
    def __init__(self, labels: np.ndarray | None) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, at: int) -> Any:
        image = torch.from_numpy(pixels(2)[at])[None]
        return image if self.labels is None else (image, int(self.labels[at]))


@pytest.mark.parametrize("kind", ["arrays", "npz", "dataset"])
def test_labels_of_the_target_are_not_looked_at(kind: str, tmp_path: Path) -> None:
    """Not even those that could not be labels."""
    labels: list[Any] = [None, np.arange(COUNT) % 3, np.full(COUNT, -1), np.full(COUNT, -5)]
    found = []
    for number, values in enumerate(labels):
        target: Any = pixels(2) if values is None else (pixels(2), values)
        if kind == "npz":
            target = str(tmp_path / f"{number}.npz")
            np.savez(target, images=pixels(2), **({} if values is None else {"labels": values}))
        elif kind == "dataset":
            target = Items(values)
        found.append(digest(trained(target)))
    assert len(set(found)) == 1


def tarred(path: Path, labels: np.ndarray) -> str:
    """A shard of the target's images, each with a label beside it."""
    with tarfile.open(path, "w") as shard:
        for number, image in enumerate(pixels(2)):
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "PNG")
            for ending, data in (("png", buffer.getvalue()), ("cls", b"%d" % labels[number])):
                about = tarfile.TarInfo(f"{number:03}.{ending}")
                about.size = len(data)
                shard.addfile(about, io.BytesIO(data))
    return str(path)


def test_labels_of_shards_and_tables_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    labels = [np.arange(COUNT) % 3, np.full(COUNT, -5)]
    shards = [tarred(tmp_path / f"{number}.tar", one) for number, one in enumerate(labels)]
    assert len({digest(trained(one)) for one in shards}) == 1
    x = np.random.default_rng(0).normal(size=(COUNT, 4))
    frame = pd.DataFrame(x, columns=list("abcd")).assign(y=np.arange(COUNT) % 3)
    targets: list[Any] = [frame.drop(columns="y")]
    targets += [from_frame(frame.assign(y=one), "y") for one in (labels[0], ["never seen"] * COUNT)]
    found = []
    for target in targets:
        network = seeded(Perceptron)
        adapted = revgrad.adapt(network, from_frame(frame, "y"), target, layer="lower", **SMALL)
        found.append(digest(adapted))
    assert len(set(found)) == 1


@pytest.mark.slow
def test_nothing_of_it_decides_what_auto_chooses_or_how_runs_are_ranked(
    folders: list[Path], tmp_path: Path
) -> None:
    """The target under true and under random folder names, with and without colourful test data."""
    found, ranked = [], []
    for number, folder in enumerate(folders[:2]):
        run = tmp_path / f"run{number}"
        test = (pixels(4, 3), np.full(COUNT, 2)) if number else None
        adapted = trained(str(folder), run, recipe="auto", held_out=0.3, test=test)
        ends = sorted(run.rglob("end.safetensors"))
        assert len(ends) > 4
        choice = json.loads((run / "choice.json").read_text())
        found.append((digest(adapted), choice, [path.read_bytes() for path in ends]))
        ranking = select([run / "candidates"], score="mutual-information").runs
        ranked.append([(one.run.name, one.score) for one in ranking])
    assert found[0] == found[1]
    assert ranked[0] == ranked[1]
    assert len(ranked[0]) > 1


def test_labels_that_are_used_are_looked_at() -> None:
    with pytest.raises(InputError, match="label -5 is out of range"):
        trained((pixels(2), np.full(COUNT, -5)), method="train-on-target")


@pytest.mark.parametrize("channels", [1, 3])
def test_test_data_decides_nothing(channels: int, tmp_path: Path) -> None:
    """Not even the number of channels: without it, the very same weights and evidence."""
    test = (pixels(4, channels), np.arange(COUNT) % 3)
    without = trained(pixels(2), tmp_path / "without")
    given = trained(pixels(2), tmp_path / "with", test=test)
    assert digest(given) == digest(without)
    ends = [tmp_path / name / "evidence" / "end.safetensors" for name in ("without", "with")]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    assert given.result is not None
    assert given.result.last is not None
    assert given.result.last.target_accuracy == given.evaluate(*test).accuracy


def test_grey_is_pillows_grey() -> None:
    colour = pixels(5, 3)
    grey = from_arrays(colour, layout="NHWC").as_grey()
    expected = np.stack([np.asarray(Image.fromarray(one).convert("L")) for one in colour])
    assert (grey.batch(range(COUNT)).inputs[:, 0].numpy() == expected).all()  # type: ignore[index]
    assert grey.as_grey() is grey


# -- what is no image file -----------------------------------------------------------------------


def test_pipes_sockets_and_links_out_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    folder = folder_of(tmp_path / "images", pixels(2)[:2], ["a.png", "sub/b.png"])
    outside = folder_of(tmp_path / "secret", pixels(3)[:2], ["c.png", "d/e.png"])
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "out.png").symlink_to(outside / "c.png")
    (folder / "d").symlink_to(outside / "d")
    (folder / "again.png").symlink_to(folder / "a.png")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket.png")
        domain = from_folder(folder, labels=False)
    assert sorted(domain.files or ()) == ["a.png", "again.png", "sub/b.png"]
    for name in ("pipe.png", "zero.png", "out.png", "d", "socket.png"):
        assert name in caplog.text
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError, match="no regular file"):
        revgrad.from_npz(tmp_path / "pipe.npz")


def test_links_out_are_followed_where_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    outside = folder_of(tmp_path / "store", pixels(2), [f"{i}.png" for i in range(COUNT)])
    folder = tmp_path / "images"
    for number in range(COUNT):
        link = folder / f"class{number % 3}" / f"{number}.png"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(outside / f"{number}.png")
    (folder / "class0" / "round").symlink_to(folder)
    os.mkfifo(outside / "pipe.png")
    (folder / "class0" / "pipe.png").symlink_to(outside / "pipe.png")
    with pytest.raises(DataError, match="no images"):
        from_folder(folder)
    linked = from_folder(folder, follow_links=True)
    assert len(linked) == COUNT
    copied = folder_of(
        tmp_path / "copied", pixels(2), [f"class{i % 3}/{i}.png" for i in range(COUNT)]
    )
    assert linked.fingerprint() == from_folder(copied).fingerprint()


def test_a_name_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", pixels(2)[:1], ["a.png"])
    os.rename(folder / "a.png", os.fsencode(folder) + b"/\xff\xfe.png")
    with pytest.raises((InputError, DataError), match="is not UTF-8: rename it") as caught:
        from_folder(folder, cache=tmp_path / "cache")
    str(caught.value).encode()


def test_a_perceptron_too(tmp_path: Path) -> None:
    """Vectors, with labels and without."""
    inputs = np.random.default_rng(0).normal(size=(COUNT, 4)).astype(np.float32)
    source = (inputs, np.arange(COUNT) % 3)
    found = [
        revgrad.adapt(seeded(Perceptron), source, target, layer="lower", **SMALL)
        for target in (inputs + 1, (inputs + 1, np.full(COUNT, -9)))
    ]
    assert digest(found[0]) == digest(found[1])
