"""Series, images of many bands and inputs of several parts, from arrays to the verdict."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import revgrad
from shown import Shown

NETWORKS = """
import torch
from torch import nn

class Network(nn.Module):
    def __init__(self, body, width, classes):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, classes)

    def forward(self, inputs):
        return self.head(self.body(inputs).flatten(1))

def series(classes):
    body = nn.Sequential(nn.Conv1d(2, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(2))
    return Network(body, 16, classes)

def bands(classes):
    body = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return Network(body, 8, classes)

class parts(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(14, 16), nn.ReLU()), nn.Linear(16, classes)

    def forward(self, table, wave):
        return self.head(self.body(torch.cat([table, wave.flatten(1)], 1)))
"""


def series(labels: np.ndarray, random: np.random.Generator) -> Any:
    waves = np.sin(np.arange(24) * (0.3 + 0.4 * labels[:, None, None]))
    return (waves + 0.3 * random.normal(size=(len(labels), 2, 24))).astype(np.float32)


def bands(labels: np.ndarray, random: np.random.Generator) -> Any:
    images = random.integers(0, 80, (len(labels), 8, 8, 6))
    images[np.arange(len(labels)), :, :, labels] += 120
    return images.astype(np.uint8)


def parts(labels: np.ndarray, random: np.random.Generator) -> Any:
    table = random.normal(size=(len(labels), 4)) + 3 * np.eye(4)[labels]
    wave = random.normal(size=(len(labels), 2, 5)) + labels[:, None, None]
    return {"table": table.astype(np.float32), "wave": wave.astype(np.float32)}


@pytest.mark.slow
@pytest.mark.parametrize("make", [series, bands, parts])
def test_from_files_to_the_verdict(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NETWORKS)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    random = np.random.default_rng(0)
    source, target = random.integers(0, 3, 200), random.integers(0, 3, 150)
    inputs, others = make(source, random), make(target, random)

    def arrays_of(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            return {"images": data}
        return {f"inputs.{name}": part for name, part in data.items()}

    np.savez("a.npz", y=source, **arrays_of(inputs))
    np.savez("b.npz", **arrays_of(others))

    def run(*words: str) -> str:
        shown: Shown = call(*words)
        assert shown.code == 0, shown.err
        return shown.out

    own = ("--network", f"nets:{make.__name__}")
    options = "train --source a.npz --target b.npz --layer body --steps 60 --batch-size 64 -o run"
    bands_of = ("--layout", "NHWC") if make is bands else ()
    short = ("--domain-classifier", "4", "--quiet", "--evidence-samples", "100")
    run(*options.split(), *own, *bands_of, *short)
    lines = list(csv.DictReader(run("predict", "run", "b.npz", *own).splitlines()))
    example = ("--example", "b.npz") if make is parts else ()
    assert "checked" in run("export", "run", "model.onnx", *own, *example)
    run("export", "run", "model.safetensors", *own)
    assert Path("model.safetensors").exists()
    assert "target" in run("verdict", "run")
    run("report", "run")
    assert "Estimated target accuracy" in Path("run/report.html").read_text(encoding="utf-8")
    # from Python, with raw arrays: images of many bands need no layout again
    network = getattr(importlib.import_module("nets"), make.__name__)(3)
    loaded = revgrad.load("run", network)
    assert [line["class"] for line in lines] == [str(one) for one in loaded.predict(others)]
    accuracy = loaded.evaluate(others, target).accuracy
    assert accuracy == pytest.approx((loaded.predict(others) == target).mean())
    assert accuracy > 0.5  # it has learnt something
    if make is parts:
        refused = call("export", "run", "model.pt2", *own)
        assert refused.code == 2
        assert "inputs of several parts" in refused.line


def test_an_npz_file_of_many_bands_says_what_it_needs(tmp_path: Path) -> None:
    images = np.zeros((3, 8, 8, 6), np.uint8)
    np.savez(tmp_path / "a.npz", images=images)
    with pytest.raises(revgrad.errors.InputError, match=r'layout="NHWC" said \(--layout NHWC\)'):
        revgrad.domains.from_npz(tmp_path / "a.npz")
    assert revgrad.domains.from_npz(tmp_path / "a.npz", channels=6).shape == (6, 8, 8)
    swapped = np.zeros((3, 6, 8, 8), np.uint8)
    np.savez(tmp_path / "b.npz", images=swapped)
    assert revgrad.domains.from_npz(tmp_path / "b.npz", channels=6).shape == (6, 8, 8)
