"""Office-31 as printed, end to end, on a small well-formed fake of folder and weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from revgrad import Run, from_arrays, load
from revgrad.cli import app
from revgrad.domains.few_per_class import few_per_class
from revgrad.errors import DataError, InputError
from revgrad.networks import build_network
from revgrad.paper.data.office import CLASSES31, labelled_per_class
from revgrad.paper.networks.alexnet import TORCHVISION_NAMES, AlexNet
from revgrad.paper.tables import TABLES
from revgrad.paper.tables.office31 import with_files

#: Images a class: more than the protocol's 8, so that some are left over.
IMAGES = {"amazon": 1, "dslr": 9, "webcam": 3}


def fake_office(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for domain, count in IMAGES.items():
        for number, name in enumerate(CLASSES31):
            place = folder / domain / "images" / name
            place.mkdir(parents=True)
            for one in range(count):
                pixels = rng.integers(0, 120, (12, 16, 3)) + 4 * number
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"frame_{one:04d}.jpg")
    return folder


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    """torchvision's keys and shapes, its 1000 classes among them; random weights."""
    ours = AlexNet(seed=7).state_dict()
    found = {
        f"{theirs}.{kind}": ours[f"{name}.{kind}"]
        for name, theirs in TORCHVISION_NAMES.items()
        for kind in ("weight", "bias")
    }
    return {**found, "classifier.6.weight": torch.zeros(1000, 4096)}


def test_the_experiment_is_the_printed_one() -> None:
    cells = {one.cell: one for one in TABLES["office31"]}
    assert set(cells) == {"amazon->webcam", "dslr->webcam", "webcam->dslr"}
    for cell in cells.values():
        assert (cell.network, cell.size, cell.seeds) == ("alexnet", 224, (0, 1, 2, 3, 4))
        assert cell.test == cell.target  # transductive
    method = [cell.published["adversarial"] for cell in cells.values()]
    assert [(one.value, one.sd) for one in method] == [
        (0.673, 0.017),
        (0.940, 0.008),
        (0.937, 0.010),
    ]
    assert [labelled_per_class(c.source) for c in cells.values()] == [20, 8, 8]
    assert labelled_per_class("office31:amazon@/some/folder") == 20
    assert AlexNet(classes=31).bottleneck.out_features == 256


def test_few_per_class_and_the_others() -> None:
    labels = np.array([0, 1, 1, 0, 1, 2, 0, 1])
    domain = from_arrays(np.arange(8, dtype=np.float32)[:, None], labels)
    few, others = few_per_class(domain, 2, seed=3)
    assert others is not None
    assert sorted(few.labels.tolist()) == [0, 0, 1, 1, 2]
    rows = [one.batch(np.arange(len(one))).inputs.flatten().tolist() for one in (few, others)]
    assert sorted(rows[0] + rows[1]) == list(range(8))
    again, _ = few_per_class(domain, 2, seed=3)
    assert again.batch(np.arange(5)).inputs.flatten().tolist() == rows[0]
    assert few_per_class(domain, 9, seed=0)[1] is None


@pytest.mark.parametrize(
    ("table", "words", "said"),
    [
        ("office31", [], "name torchvision's state dict, --weights alexnet.pth"),
        ("office31", ["--weights", "no.pth"], "there is no file of weights no.pth"),
        ("table1", ["--weights", "no.pth"], "are for office31, not for table1"),
    ],
)
def test_what_is_missing_is_named(table: str, words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["reproduce", table, *words])
    assert isinstance(done.exception, InputError | DataError)
    assert said in str(done.exception)


def test_a_folder_of_another_place(tmp_path: Path) -> None:
    (tmp_path / "a.pth").touch()
    cell = with_files(TABLES["office31"][0], tmp_path, tmp_path / "a.pth")
    assert cell.source == f"office31:amazon@{tmp_path}"
    with pytest.raises(DataError, match="no folder"):
        with_files(TABLES["office31"][0], tmp_path / "none", tmp_path / "a.pth")


@pytest.mark.slow
def test_reproduce_and_train_end_to_end(state: dict[str, torch.Tensor], tmp_path: Path) -> None:
    data, weights, out = (
        fake_office(tmp_path / "office31"),
        tmp_path / "alexnet.pth",
        tmp_path / "o",
    )
    torch.save(state, weights)
    words = [
        "reproduce",
        "office31",
        "--data",
        str(data),
        "--weights",
        str(weights),
        "-o",
        str(out),
    ]
    words += [
        "--cell",
        "dslr->webcam",
        "--method",
        "adversarial",
        "--budget",
        "tiny",
        "--jobs",
        "1",
    ]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    folder = out / "tiny" / "dslr-to-webcam" / "adversarial-0"
    config = Run(folder).config
    assert (config.network, config.layer, config.outputs) == ("alexnet", "bottleneck", 31)
    assert config.input_shape == [3, 224, 224]
    assert config.domains["source"]["samples"] == config.domains["source"]["labels"] == 31 * 8
    assert config.domains["target"]["samples"] == 31 * 3
    assert config.domains["target"]["labels"] == 0
    assert config.domains["held_out"]["samples"] == 31
    assert config.settings["pretrained_lr_factor"] == 0.1
    assert config.domain_classifier == [1024, 1024]
    assert "mean=[123.7, 116.3, 103.5]" in config.preprocessing
    record = json.loads((folder / "job.json").read_text())
    assert f"--data {data} --weights {weights}" in json.dumps(record)
    moved = load(folder).network.state_dict()
    first = build_network(
        "alexnet", classes=31, channels=3, size=224, seed=0, weights=weights
    ).state_dict()
    change = {name: float((moved[name] - first[name]).abs().max()) for name in moved}
    assert torch.equal(first["conv1.weight"], state["features.0.weight"])
    assert change["fc7.weight"] > 0
    assert change["bottleneck.weight"] > 0
    shutil.rmtree(out)  # each checkpoint has half a gigabyte
    _train(data, weights, out)


def _train(data: Path, weights: Path, out: Path) -> None:
    words = ["train", "--recipe", "paper"]
    words += ["--source", f"office31:dslr@{data}", "--target", f"office31:webcam@{data}"]
    words += ["--test", f"office31:webcam@{data}", "--network", "alexnet"]
    words += ["--weights", str(weights), "--per-class", "8", "--steps", "1", "--batch-size", "8"]
    words += ["--evidence-samples", "0", "--quiet", "--json", "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    config: Any = Run(out).config
    assert config.domains["source"]["samples"] == 31 * 8
    assert config.domains["held_out"]["samples"] == 31
    assert config.settings["pretrained_lr_factor"] == 0.1
    assert config.provenance.weights == str(weights)
