"""Hostile words and data: each is one line, whatever the room it comes from."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import revgrad
from revgrad import Settings, from_arrays
from revgrad.diagnostics.recorder import read_evidence
from revgrad.domains import from_frame
from revgrad.errors import InputError
from revgrad.recipes import RECIPES
from shown import Shown
from tiny import Perceptron, seeded, vectors

Call = Callable[..., Shown]
COUNT = 24


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    """Vectors of three classes, and vectors without labels."""
    inputs = np.random.default_rng(0).normal(size=(COUNT, 4)).astype(np.float32)
    np.savez(tmp_path / "source.npz", inputs=inputs, labels=np.arange(COUNT) % 3)
    np.savez(tmp_path / "target.npz", inputs=inputs + 1)
    return {"--source": tmp_path / "source.npz", "--target": tmp_path / "target.npz"}


def train(call: Call, data: dict[str, Path], *words: object) -> Shown:
    given = [word for pair in data.items() for word in pair]
    output = data["--source"].parent / "run"
    return call(
        "train",
        *given,
        "--recipe",
        "paper",
        "--steps",
        2,
        "--batch-size",
        8,
        *words,
        "--output",
        output,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seed", 10**23), "seed must be below 2^63"),
        (("--batch-size", 10**23), "batch_size must be below 2^63"),
        (("--batch-size", 10**13), "not enough memory"),
        (("--domain-classifier", 10**11), "widths from 1 to 1000000"),
        (("--weight-decay", "inf"), "weight_decay must be ≥ 0 and finite"),
        (("--domain-lr-factor", "inf"), "domain_lr_factor must be above 0 and finite"),
    ],
)
def test_numbers_that_nothing_can_hold(
    words: tuple[object, ...], said: str, data: dict[str, Path], call: Call
) -> None:
    shown = train(call, data, *words)
    assert shown.code == (1 if "memory" in said else 2)
    assert said in shown.line
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("label", [10**6, 10**12, 2**63 - 1])
def test_a_label_that_is_no_class_number(label: int, data: dict[str, Path], call: Call) -> None:
    """Before any network of as many classes is built."""
    inputs = np.load(data["--source"])["inputs"]
    np.savez(data["--source"], inputs=inputs, labels=np.where(np.arange(COUNT), 0, label))
    for words in (("--recipe", "paper"), ("--recipe", "auto")):
        shown = train(call, data, *words)
        assert shown.code == 2
        assert f"label {label} would be class" in shown.line
    assert call("data", "check", data["--source"]).out.strip().endswith("labels are numbers")


def test_a_table_whose_header_is_nested_too_deeply(data: dict[str, Path], call: Call) -> None:
    header = "{'descr': '<f4', 'shape': (4, 4), 'x': " + "(" * 500 + "}"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    with zipfile.ZipFile(data["--source"], "w") as archive:
        archive.writestr("inputs.npy", start + header.encode())
    shown = train(call, data)
    assert shown.code == 1
    assert f"{data['--source']} can't be read" in shown.line


def test_what_pytorch_says_is_kept_short(data: dict[str, Path], call: Call, tmp_path: Path) -> None:
    """Of a device that is not there it names every backend; of a pickle, how to run its code."""
    shown = train(call, data, "--device", "mps")
    assert (shown.code, len(shown.line) < 250) == (2, True)
    torch.save({"weights": print}, tmp_path / "own.pt")
    shown = train(call, data, "--init", tmp_path / "own.pt")
    assert shown.code == 1
    assert "holds more than tensors, which is never loaded" in shown.line


def test_inputs_of_another_type_are_refused_before_training() -> None:
    whole = from_arrays(np.arange(80).reshape(20, 4), np.arange(20) % 3, name="whole")
    small: dict[str, Any] = {
        "recipe": "paper",
        "layer": "lower",
        "steps": 1,
        "batch_size": 8,
        "progress": False,
    }
    for given in ({"target": whole}, {"target": vectors(20, 2), "test": whole}):
        with pytest.raises(InputError, match="those of whole int64: they must be of one type"):
            revgrad.adapt(seeded(Perceptron), vectors(20, 1), **given, **small)


def test_a_pipe_that_is_called_a_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table.csv")
    with pytest.raises(InputError, match="no regular file"):
        from_frame(tmp_path / "table.csv")


def test_labels_of_bytes_that_are_no_text() -> None:
    with pytest.raises(InputError, match="must be text in UTF-8"):
        from_arrays(np.zeros((2, 4)), np.array([b"a", b"\xff"]))


def test_images_without_pixels() -> None:
    with pytest.raises(InputError, match="have no pixels"):
        from_arrays(np.zeros((3, 0, 5, 3), np.uint8))


@pytest.mark.parametrize("method", ["cdan", "cdan-e"])
def test_a_conditional_domain_classifier_leaves_evidence(method: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    revgrad.adapt(
        *(seeded(Perceptron), vectors(60, 1), vectors(60, 2, 1.0)),
        layer="lower",
        method=method,
        run=run,
        steps=4,
        batch_size=16,
        log_every=1,
        progress=False,
        domain_classifier=(6,),
    )
    found = read_evidence(run)
    assert found is not None
    assert found.end is not None
    assert np.shape(found.end.target_domain_logits) == (60,)


def test_every_recipe_has_bounds() -> None:
    """What the settings refuse they refuse in every recipe."""
    for recipe in RECIPES.values():
        with pytest.raises(InputError, match="finite"):
            recipe.changed({"weight_decay": float("inf")})
    with pytest.raises(InputError, match="below"):
        Settings(steps=2**63)
