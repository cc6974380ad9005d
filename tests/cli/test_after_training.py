"""What comes after training: `evaluate`, `predict`, `export` of a run, from data of any size."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from revgrad import adapt, from_folder
from shown import Shown

Call = Callable[..., Shown]


def pixels_of(path: Path | str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.slow
def test_from_a_run_to_a_shipped_model(place: Path, train_words: list[str], call: Call) -> None:
    trained = call(*train_words, "--test", "photos-test", "--output", "runs/a", "--json")
    assert trained.code == 0, trained.err
    network = ["--network", "mine:small"]
    evaluated = json.loads(call("evaluate", "runs/a", "photos-test", *network, "--json").out)
    accuracy = json.loads(trained.out)["target_accuracy"]
    assert evaluated["accuracy"] == pytest.approx(accuracy, abs=1e-9)
    assert set(evaluated["by_class"]) == {"dark", "light"}
    shown = call("evaluate", "runs/a", "photos-test", *network).out
    assert shown.startswith(f"photos-test: accuracy {accuracy:.4f}, loss ")
    assert shown.count("(12)") == 2

    assert call("predict", "runs/a", "photos", *network, "-o", "out.csv").code == 0
    rows = list(csv.DictReader((place / "out.csv").read_text().splitlines()))
    assert len(rows) == 24
    assert {row["class"] for row in rows} <= {"dark", "light"}
    assert all(0.5 <= float(row["confidence"]) <= 1 for row in rows)
    assert all((place / "photos" / row["file"]).exists() for row in rows)
    printed = call("predict", "runs/a", "photos", *network, "--json").out.splitlines()
    assert [json.loads(line)["class"] for line in printed] == [row["class"] for row in rows]

    for name in ("net.safetensors", "net.pt", "net.pt2", "net.onnx"):
        exported = call("export", "runs/a", name, *network, "--json")
        assert exported.code == 0, exported.err
        assert json.loads(exported.out)["bytes"] == (place / name).stat().st_size
    state = torch.load(place / "net.pt", weights_only=True)
    assert list(state) == ["0.weight", "0.bias", "3.weight", "3.bias"]  # the network's own keys

    import onnxruntime

    session = onnxruntime.InferenceSession(place / "net.onnx")
    files = [place / "photos" / row["file"] for row in rows]
    images = np.stack([pixels_of(file) for file in files])
    logits = session.run(None, {session.get_inputs()[0].name: images.transpose(0, 3, 1, 2)})[0]
    assert [["dark", "light"][i] for i in logits.argmax(1)] == [row["class"] for row in rows]


def test_a_run_made_from_python_is_read_in_its_own_size(
    place: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """The next command after a snippet of Python: nobody has told it the size of the images."""
    monkeypatch.syspath_prepend(str(place))
    network = importlib.import_module("mine").small(2, 3)
    for name in ("photos", "photos-test"):
        for file in (place / name).rglob("*.png"):
            Image.fromarray(pixels_of(file)).resize((20, 24)).save(file)
    source = from_folder("synthetic", size=16)
    target = from_folder("photos", size=16, labels=False)
    made = adapt(
        *(network, source, target),
        recipe="paper",
        layer="2",
        steps=2,
        batch_size=8,
        run="runs/p",
        progress=False,
    )
    words = ["--network", "mine:small", "--json"]
    shown = call("predict", "runs/p", "photos", *words)
    assert shown.code == 0, shown.err
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["file"] for line in lines] == sorted(target.files or ())  # as a reader looks
    found = dict(zip(target.files or (), made.predict(target).tolist(), strict=True))
    assert {line["file"]: line["class"] for line in lines} == found
    evaluated = call("evaluate", "runs/p", "photos-test", *words)
    assert evaluated.code == 0, evaluated.err
    assert json.loads(evaluated.out)["count"] == 24


def test_a_regression_has_values_and_a_loss(place: Path, call: Call) -> None:
    """No class 0 of confidence 1, no loss 0.0."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 3)).astype(np.float32)
    np.savez("s.npz", inputs=inputs, labels=inputs.sum(1))
    np.savez("t.npz", inputs=inputs + 1, labels=inputs.sum(1) + 3)
    network = ["--network", "mine:for_vectors"]
    words = ["--source", "s.npz", "--target", "t.npz", "--layer", "0", *network]
    trained = call("train", *words, "--steps", "20", "--batch-size", "8", "-o", "r", "--quiet")
    assert trained.code == 0, trained.err
    shown = call("predict", "r", "t.npz", *network)
    assert shown.code == 0, shown.err
    rows = list(csv.DictReader(shown.out.splitlines()))
    assert list(rows[0]) == ["file", "value"]
    values = np.array([float(row["value"]) for row in rows])
    evaluated = call("evaluate", "r", "t.npz", *network)
    expected = np.mean((values - (inputs.sum(1) + 3)) ** 2)
    assert evaluated.out.startswith("t.npz: R² ")
    assert evaluated.out.endswith(f", loss {expected:.4f} (60 samples)\n")
    result = json.loads(call("evaluate", "r", "t.npz", *network, "--json").out)
    assert result["accuracy"] is None
    assert result["loss"] == pytest.approx(expected, rel=1e-4)


def test_a_regression_of_several_values_names_each(place: Path, call: Call) -> None:
    inputs = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez("s.npz", inputs=inputs, labels=inputs[:, :2])
    network = ["--network", "mine:two_values"]
    words = ["--source", "s.npz", "--target", "s.npz", "--layer", "0", *network]
    trained = call("train", *words, "--steps", "2", "--batch-size", "8", "-o", "r", "--quiet")
    assert trained.code == 0, trained.err
    shown = call("predict", "r", "s.npz", *network)
    assert shown.out.splitlines()[0] == "file,value_0,value_1"


def test_a_run_that_is_none_and_an_altered_checkpoint(
    place: Path, train_words: list[str], call: Call
) -> None:
    assert "is not a run" in call("evaluate", "photos", "photos-test").line
    assert call(*train_words, "--output", "runs/a").code == 0
    assert "of your own (mine:small)" in call("predict", "runs/a", "photos").line
    [tensors] = (place / "runs/a").glob("*.safetensors")
    data = bytearray(tensors.read_bytes())
    data[len(data) // 2] ^= 1
    tensors.write_bytes(data)
    for words in (
        ["predict", "runs/a", "photos", "--network", "mine:small"],
        [*train_words, "--output", "runs/a"],
    ):
        shown = call(*words)
        assert shown.code == 1
        assert "was altered" in shown.line


def test_layers_lists_where_one_can_cut(place: Path, call: Call) -> None:
    shown = call("layers", "mnist")
    assert shown.code == 0
    assert "48×4×4" in shown.out
    [default] = [line for line in shown.out.splitlines() if "(default)" in line]
    assert default.split()[0] == "pool2"
    wrong = call("layers", "mine:small")
    assert wrong.code == 2
    assert "can't be run on inputs of (3, 32, 32)" in wrong.line
    lines = [
        json.loads(line)
        for line in call("layers", "mine:small", "--size", "16", "--json").out.splitlines()
    ]
    assert [line["name"] for line in lines] == ["0", "1", "2", "3"]
    assert [line["cuttable"] for line in lines] == [True, True, True, False]
