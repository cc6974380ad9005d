"""The order of writes, on which every promise about kills rests."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from revgrad._system import write_atomically
from revgrad.training.checkpoint import INDEX, Checkpoint, load_checkpoint, save_checkpoint


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the disk, in order."""
    found: list[str] = []

    def watched(name: str) -> None:
        real = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            what = Path(os.fspath(given[-1])).name if name != "fsync" else ""
            found.append(f"{name} {what}".strip())
            return real(*given, **named)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace", "unlink"):
        watched(name)
    return found


def test_a_file_gets_its_name_when_its_bytes_are_on_the_disk(
    tmp_path: Path, happened: list[str]
) -> None:
    write_atomically(tmp_path / "a", b"new")
    assert happened == ["fsync", "replace a", "fsync"]  # the bytes, the name, the folder


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a", []
    path.write_bytes(b"old")
    real = os.replace

    def look(*given: Any) -> None:
        seen.append(path.read_bytes())
        real(*given)

    monkeypatch.setattr(os, "replace", look)
    write_atomically(path, b"new")
    assert (seen, path.read_bytes()) == ([b"old"], b"new")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "full")])
def test_nothing_half_written_is_left(
    error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((KeyboardInterrupt, Exception)):
        write_atomically(tmp_path / "a", b"new")
    assert list(tmp_path.iterdir()) == []


def test_old_tensors_go_when_the_new_index_stands(tmp_path: Path, happened: list[str]) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, Checkpoint(step, 0.0, {"x": torch.ones(step)}, {}))
    second = happened[happened.index(f"replace {INDEX}") + 1 :]
    names = [one.split("-")[0] for one in second if not one.startswith("fsync")]
    assert names == ["replace checkpoint", f"replace {INDEX}", "unlink checkpoint"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2


def test_sixty_mutants_are_of_lines_that_are_there() -> None:
    """Who changes one of these lines changes it in mutants.toml too; `make mutants` names them."""
    root = Path(__file__).resolve().parents[2]
    listed = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    there = [
        one
        for one in listed
        if (root / "src" / "revgrad" / one["file"]).read_text().count(one["line"]) == 1
    ]
    assert len(there) >= 60
    for one in there:
        for test in one["tests"]:
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (root / file).read_text(), test
        assert one["broken"] != one["line"]
