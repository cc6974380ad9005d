"""Seals: no flipped bit and no cut tail of a file that a run or a cache keeps goes unnoticed."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load, save

import revgrad
from revgrad import Run, from_folder, from_shards
from revgrad._seals import (
    SEAL_METADATA,
    check_tensors,
    sealed_line,
    sealed_tensors,
    sealed_text,
    unsealed,
    unsealed_line,
)
from revgrad._system import cache_folder
from revgrad.diagnostics.recorder import read_evidence
from revgrad.errors import DataError, RevgradError, RunError
from revgrad.training.record import RESULT, read_record, read_records, write_records
from revgrad.training.run import CONFIG, METRICS
from tiny import Perceptron, seeded, vectors

VALUES = {"name": "ü", "steps": 30, "rate": 1e-5, "list": [1, 2.5, None], "nested": {"a": True}}


def altered_everywhere(data: bytes) -> list[bytes]:
    """Every bit flipped once, and every tail cut off."""
    flips = [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    return flips + [data[:end] for end in range(len(data))]


def test_what_was_sealed_is_read_back() -> None:
    assert unsealed(sealed_text(VALUES)) == VALUES
    assert unsealed_line(sealed_line(VALUES)) == VALUES
    assert unsealed(sealed_text({"by": {9: 1, 10: 2}})) == {"by": {"9": 1, "10": 2}}


def test_what_has_no_seal_is_read_as_it_is() -> None:
    assert unsealed('{"a":1}') == {"a": 1}
    assert unsealed_line('{"a":1}') == {"a": 1}
    with pytest.raises(ValueError, match="altered"):
        unsealed('{"a":1}', required=True)
    check_tensors(save({"x": torch.zeros(3)}))


@pytest.mark.parametrize(
    ("text", "read"), [(sealed_text(VALUES), unsealed), (sealed_line(VALUES), unsealed_line)]
)
def test_every_bit_of_a_sealed_text_counts(text: str, read: Callable[[str], Any]) -> None:
    for data in altered_everywhere(text.encode()):
        with pytest.raises(ValueError):
            read(data.decode())


def test_every_bit_of_sealed_tensors_counts() -> None:
    data = sealed_tensors(save({"x": torch.arange(3.0), "y": torch.ones(2, 2)}, SEAL_METADATA))
    check_tensors(data)
    unnoticed = []
    for one in altered_everywhere(data):
        try:
            check_tensors(one)
            load(one)
        except Exception:  # safetensors raises several kinds
            continue
        unnoticed.append(one)
    assert unnoticed == []


def test_deep_json_is_a_mistake_not_a_crash() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        unsealed('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")


# -- a run ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sealed") / "run"
    revgrad.adapt(
        *(seeded(Perceptron), vectors(60, 1), vectors(60, 2, 1.0)),
        recipe="paper",
        layer="lower",
        run=folder,
        steps=6,
        batch_size=16,
        log_every=2,
        evaluate_every=3,
        device="cpu",  # type: ignore[arg-type]
        domain_classifier=(6,),
        progress=False,
    )
    return folder


def read_all(folder: Path) -> None:
    """Everything that a run's folder keeps."""
    run = Run(folder)
    assert run.config
    run.records()
    assert run.checkpoint() is not None
    read_evidence(folder)
    read_record(folder / RESULT)


FILES = [
    CONFIG,
    METRICS,
    RESULT,
    "checkpoint.json",
    "checkpoint",
    "samples",
    "start",
    "end",
    "step",
]


@pytest.mark.parametrize("kept", FILES)
def test_no_file_of_a_run_is_read_when_it_is_damaged(kept: str, run: Path) -> None:
    path = run / kept if (run / kept).is_file() else next(run.rglob(f"{kept}*.safetensors"))
    whole, chance = path.read_bytes(), random.Random(0)
    every = altered_everywhere(whole) if len(whole) < 200 else []
    for _ in range(60):
        at = chance.randrange(len(whole))
        every.append(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        every.append(whole[: chance.randrange(len(whole))])
    lines = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    every += [whole[: at + 1] for at in lines[:-1]]  # tails of whole lines
    try:
        for data in every:
            path.write_bytes(data)
            with pytest.raises(RevgradError, match=path.name) as caught:
                read_all(run)
            assert "\n" not in str(caught.value)
    finally:
        path.write_bytes(whole)
    read_all(run)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kept", FILES)
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_regular_file_is_not_read(kind: str, kept: str, run: Path) -> None:
    """A pipe would make its reader wait for ever, a device never ends."""
    path = run / kept if (run / kept).is_file() else next(run.rglob(f"{kept}*.safetensors"))
    whole = path.read_bytes()
    path.unlink()
    try:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
        with pytest.raises(RevgradError, match=f"{path.name} can't be read.*no regular file"):
            read_all(run)
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
        path.write_bytes(whole)


def test_metrics_that_were_deleted_are_done_without(run: Path, tmp_path: Path) -> None:
    """The way out that the error names."""
    metrics = run / METRICS
    whole = metrics.read_bytes()
    try:
        metrics.unlink()
        assert Run(run).records() == []
        Run(run).cut_back(6)
    finally:
        metrics.write_bytes(whole)


def test_a_line_cut_by_a_kill_behind_the_checkpoint_is_left_out(run: Path) -> None:
    metrics = run / METRICS
    whole, before = metrics.read_bytes(), Run(run).records()
    try:
        metrics.write_bytes(whole + b'{"kind": "train')
        assert Run(run).records() == before
        Run(run).cut_back(6)
        assert metrics.read_bytes() == whole
    finally:
        metrics.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settings", []),
        ("settings", {"seed": "a"}),
        ("domains", {"source": 7}),
        ("layer", 5),
        ("classes", {"a": 1}),
        ("classes", [1]),
        ("input_shape", 7),
        ("input_shape", ["x"]),
        ("domain_classifier", ["x"]),
        ("provenance", []),
        ("provenance", {"network": 3}),
        ("machine", None),
    ],
)
def test_a_configuration_of_wrong_types_is_one_line(name: str, value: Any, run: Path) -> None:
    path = run / CONFIG
    whole = path.read_text()
    try:
        path.write_text(json.dumps({**unsealed(whole), name: value}))
        with pytest.raises(RunError, match=f"{CONFIG} can't be read") as caught:
            assert Run(run).config
        assert "\n" not in str(caught.value)
    finally:
        path.write_text(whole)


def test_records_in_one_file_are_sealed_line_by_line(run: Path, tmp_path: Path) -> None:
    record = read_record(run / RESULT)
    assert record is not None
    path = tmp_path / "all.jsonl"
    write_records(path, [record, record])
    assert read_records(tmp_path) == [record, record]
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(DataError, match=path.name):
            read_records(tmp_path)


# -- a cache --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(12):
        path = tmp_path / "images" / f"class{number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "images"


@pytest.mark.parametrize("name", ["images.npy", "about.json", "order.npy"])
def test_a_damaged_cache_is_built_anew(name: str, folder: Path, tmp_path: Path) -> None:
    cache, chance = tmp_path / "cache", random.Random(1)
    first = from_folder(folder, cache=cache)
    expected = first.batch(range(12)).inputs
    [path] = cache.rglob(name)
    whole = path.read_bytes()
    for turn in range(30):
        at = chance.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        path.write_bytes(flipped if turn % 3 else whole[:at])
        again = from_folder(folder, cache=cache)
        assert torch.equal(again.batch(range(12)).inputs, expected)  # type: ignore[arg-type]
        assert again.fingerprint() == first.fingerprint()
        assert path.read_bytes() == whole


def test_a_damaged_index_of_a_shard_is_made_anew(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for name in ("0.npy", "0.cls", "1.npy", "1.cls"):
            data = io.BytesIO(name[:1].encode())
            if name.endswith("npy"):
                np.save(data, np.full(3, float(name[0])))
            about = tarfile.TarInfo(name)
            about.size = len(data.getvalue())
            data.seek(0)
            shard.addfile(about, data)
    labels = from_shards(tmp_path / "a.tar").labels
    [path] = (cache_folder() / "shards").glob("*.arrays")
    whole, chance = path.read_bytes(), random.Random(1)
    for turn in range(30):
        at = chance.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        path.write_bytes(flipped if turn % 3 else whole[:at])
        again = from_shards(tmp_path / "a.tar")
        assert np.array_equal(again.labels, labels)  # type: ignore[arg-type]
        assert again.batch([0, 1]).inputs.tolist() == [[0.0] * 3, [1.0] * 3]  # type: ignore[union-attr]
        assert path.read_bytes() == whole


def test_a_cache_is_compared_once_for_each_change(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from revgrad.domains import cache as module

    compared = []
    whole = module._is_whole
    monkeypatch.setattr(
        module, "_is_whole", lambda *given: compared.append(given[0]) or whole(*given)
    )
    for _ in range(3):
        from_folder(folder, cache=tmp_path / "cache")
    assert compared == []  # whoever wrote it knows it
    [images] = (tmp_path / "cache").rglob("images.npy")
    images.touch()
    for _ in range(3):
        from_folder(folder, cache=tmp_path / "cache")
    assert compared == [images.parent]
