"""Where to attach the domain classifier: which layers are tried, which is suggested, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import Blueprint, adapt, from_arrays, layers
from revgrad.cutting.listing import Layer
from revgrad.diagnostics import layer_choice
from revgrad.diagnostics.layer_choice import (
    attachable,
    layer_shift,
    layers_around,
    rank_network_layers,
    suggest_layer,
)
from revgrad.errors import CheckpointError, InputError
from revgrad.networks import CompactNetwork
from revgrad.paper.networks.mnist import MNISTNetwork
from shown import Shown
from tiny import Images, images, seeded

MODULE = """
import torch
from revgrad import Blueprint
from torch import nn

class Shifty(nn.Module):
    # `second` keeps the channel that both domains share, `first` keeps all
    blueprint = Blueprint("first")

    def __init__(self, classes, channels):
        super().__init__()
        self.first = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
        self.second = nn.Linear(channels * 64, 64)
        self.third = nn.Linear(64, classes)
        with torch.no_grad():
            self.second.weight.copy_(torch.eye(channels * 64)[:64])

    def forward(self, x):
        return self.third(self.second(self.first(x)))
"""


def pair(n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 8, 8, 3) of two domains that differ in all channels but the first; labels."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, 150, (n, 8, 8, 3))
    target = rng.integers(0, 150, (n, 8, 8, 3))
    target[:, :, :, 1:] += 90
    return source.astype(np.uint8), target.astype(np.uint8), np.arange(n) % 3


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shifty.py").write_text(MODULE)
    source, target, labels = pair()
    np.savez(tmp_path / "s.npz", images=source, labels=labels)
    np.savez(tmp_path / "t.npz", images=target, labels=labels)
    np.savez(tmp_path / "poisoned.npz", images=target, labels=labels[::-1])
    return tmp_path


def test_layers_that_say_what_another_says_are_left_out() -> None:
    compact = layers(CompactNetwork(seed=0), torch.zeros(2, 3, 28, 28))
    assert [layer.name for layer in attachable(compact)] == [
        *("stages.0", "stages.1.0", "stages.1", "stages.2.0", "stages", "pool", "hidden")
    ]
    plain = layers(MNISTNetwork(seed=0), torch.zeros(2, 3, 28, 28))
    assert [layer.name for layer in attachable(plain)] == [
        *("conv1", "pool1", "conv2", "pool2", "fc3", "fc4")  # fc5 is the output: not cuttable
    ]
    assert layers_around(plain, "pool2") == ["conv2", "pool2", "fc3", "fc4"]
    assert layers_around(plain, "conv1") == ["conv1", "pool1", "conv2"]
    # what the user wants is tried, and its error seen
    assert layers_around(plain, "fc5") == ["fc5"]
    assert layers_around(plain, None) == ["conv2", "pool2", "fc3", "fc4"]


def test_a_dropout_is_left_out_and_a_layer_of_unknown_shape_is_kept() -> None:
    given = [
        Layer("a", "Linear", (4,), True, None),
        Layer("b", "Dropout", (4,), True, None),
        Layer("c", "Own", None, True, None),
        Layer("d", "Linear", (4,), False, "called 2 times"),
    ]
    assert [layer.name for layer in attachable(given)] == ["a", "c"]


class Constant(nn.Module):
    blueprint = Blueprint("flat")

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Flatten()
        self.zero = nn.Linear(192, 5)
        self.out = nn.Linear(5, 3)
        nn.init.zeros_(self.zero.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.zero(self.flat(x)))


def test_the_nearest_layer_is_suggested_and_the_distances_are_those_of_its_features() -> None:
    source, target, _ = pair()
    network = seeded(MNISTNetwork)
    domains = [from_arrays(np.kron(x, np.ones((1, 4, 4, 1), np.uint8))[:, 2:30, 2:30])
               for x in (source, target)]  # fmt: skip
    found = suggest_layer(network, *domains, samples=40)
    assert found.samples == 40
    assert found.default == "pool2"
    assert not found.trained
    ranked = found.ranking.ranked
    assert found.layer == min(ranked, key=lambda shift: shift.relative_difference).layer
    by_mmd = suggest_layer(network, *domains, samples=40, rule="mmd")
    assert by_mmd.layer == min(ranked, key=lambda shift: shift.mmd).layer
    # the first layer by hand, on the same evenly spaced samples
    rows = np.linspace(0, 59, 40).astype(int)
    both = [domain.batch(rows, augment=False).inputs.double() for domain in domains]
    every = torch.cat([d.batch(np.arange(60), augment=False).inputs for d in domains]).double()
    mean = every.mean((0, 2, 3), keepdim=True)
    scale = every.var((0, 2, 3), unbiased=False).mean().sqrt()
    with torch.no_grad():
        first = [network.conv1(((x - mean) / scale).float()).flatten(1).numpy() for x in both]
    expected = layer_shift("conv1", *first)
    shown = next(shift for shift in ranked if shift.layer == "conv1")
    assert shown.width == 32 * 24 * 24
    assert shown.mmd == pytest.approx(expected.mmd, rel=0.02, abs=0.002)


def test_a_wide_layer_is_looked_at_on_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = pair()
    monkeypatch.setattr(layer_choice, "MOST_NUMBERS", 192 * 20 + 5)
    found = suggest_layer(Constant(), from_arrays(source), from_arrays(target))
    assert found.samples == 20


def test_a_layer_that_tells_nothing_is_not_suggested() -> None:
    source, target, _ = pair()
    found = suggest_layer(Constant(), from_arrays(source), from_arrays(target))
    assert found.layer == "flat"
    assert [shift.layer for shift in found.ranking.ranked] == ["flat", "zero"]
    assert found.as_json()["layers"][1]["mmd"] is None
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["suggested"] == "flat"


def test_two_samples_are_needed() -> None:
    source, target, _ = pair()
    with pytest.raises(InputError, match="two or more"):
        suggest_layer(Constant(), from_arrays(source[:1]), from_arrays(target))
    with pytest.raises(InputError, match="two samples or more, not 1"):
        suggest_layer(Constant(), from_arrays(source), from_arrays(target), samples=1)


def test_the_command_marks_the_suggestion_and_says_why(
    place: Path, call: Callable[..., Shown]
) -> None:
    words = ["layers", "shifty:Shifty", "--suggest", "--source", "s.npz"]
    shown = call(*words, "--target", "t.npz")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert "60 samples of each" in lines[0]
    # 64 of 192 features: the first channel, which the domains share
    assert lines[2].split()[:3] == ["→", "second", "64"]
    assert lines[2].endswith("(suggested)")
    assert lines[3].split()[:2] == ["first", "192"]
    assert lines[3].endswith("(default)")
    assert "--layer second" in lines[4]
    assert lines[4].endswith("MMD agrees.")
    assert "--init RUN" in lines[5]
    values = json.loads(call(*words, "--target", "t.npz", "--json").out)
    assert values["suggested"] == "second"
    assert [layer["layer"] for layer in values["layers"]] == ["second", "first"]
    poisoned = json.loads(call(*words, "--target", "poisoned.npz", "--json").out)
    assert poisoned == values


def test_weights_of_a_run_are_used_with_its_preprocessing(tmp_path: Path) -> None:
    """Second computation: the network and the preprocessing that the training handed back."""
    source, target = images(40, 1), images(30, 2, shift=40)
    changes: dict[str, Any] = {
        "recipe": "paper",
        "steps": 4,
        "batch_size": 8,
        "preprocessing": "per-image",
    }
    adapted = adapt(
        *(seeded(Images), source, target), layer="flat", run=tmp_path, progress=False, **changes
    )
    found = suggest_layer(seeded(Images, 7), source, target, trained=tmp_path)
    assert found.trained
    assert "--init" not in " ".join(found.sentences)
    names = [shift.layer for shift in found.ranking.shifts]
    expected = rank_network_layers(
        adapted.network, names, source, target, preprocessing=adapted.preprocessing
    )
    assert found.ranking == expected
    random = suggest_layer(seeded(Images, 7), source, target)
    assert not random.trained
    assert random.ranking != expected


def test_weights_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    source, target = images(20, 1), images(20, 2)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        suggest_layer(Constant(), source, target, trained=tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--suggest", "--source", "s.npz"], "needs two domains"),
        (["--source", "s.npz"], "--source is for a suggestion: add --suggest"),
        (["--init", "run"], "--init is for a suggestion"),
        (
            ["--suggest", "--source", "s.npz", "--target", "t.npz", "--rule", "mdm"],
            "is not one of 'difference', 'mmd'",
        ),
        (["--suggest", "--source", "s.npz", "--target", "t.npz", "--samples", "1"], "not 1"),
    ],
)
def test_mistakes_are_one_line(
    place: Path, call: Callable[..., Shown], words: list[str], expected: str
) -> None:
    shown = call("layers", "shifty:Shifty", *words)
    assert shown.code == 2
    assert expected in shown.line
