"""Other people's loops: three steps of each are those of our own trainer."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import revgrad
from revgrad import Annealed, Preprocessing, RampUp
from torchvision_schemas import declare

LOOPS = Path(__file__).parents[2] / "examples" / "loops"
STEPS = 3


@pytest.fixture
def moons(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(LOOPS))
    return importlib.import_module("moons").moons


def ours(source: Any, target: torch.Tensor) -> list[torch.Tensor]:
    """Parameters after three steps of `adapt` on all samples, from the same first weights."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    revgrad.adapt(
        network,
        source,
        target,
        layer="3",
        recipe="paper",
        preprocessing=Preprocessing.identity(),
        domain_classifier=(64,),
        held_out=0,
        steps=STEPS,
        batch_size=len(source[0]) + len(target),
        learning_rate=Annealed(0.05),
        adaptation_factor=RampUp(),
        progress=False,
        device="cpu",
    )
    return [one.detach() for one in network.parameters()]


def parameters_of(found: Any) -> list[torch.Tensor]:
    """Of the features and the label predictor, in order."""
    network = getattr(found, "module_", found)  # skorch's
    if hasattr(network, "features"):
        return [*network.features.parameters(), *network.labels.parameters()]
    return list(network.parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "package", "batch"),
    [
        ("by_hand", "torch", 600),
        ("with_lightning", "lightning", 600),
        ("with_accelerate", "accelerate", 600),
        ("with_skorch", "skorch", 1200),
        ("own_script", "torch", 600),
    ],
)
def test_three_steps_are_those_of_our_trainer(
    name: str, package: str, batch: int, moons: Any
) -> None:
    declare()
    pytest.importorskip(package)
    example = importlib.import_module(name)
    source, target = moons(), moons(turn=35)[0]
    found = parameters_of(example.train(*source, target, steps=STEPS, batch=batch))
    expected = ours(source, target)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=1e-4, atol=1e-6)
    torch.manual_seed(0)
    first = nn.Linear(2, 64).weight
    assert not torch.allclose(found[0], first, atol=1e-3)  # three steps were made


def test_each_is_forty_lines_at_most_but_imports_and_its_end() -> None:
    for path in sorted(LOOPS.glob("*.py")):
        text = path.read_text(encoding="utf-8").partition("\n\n\n")[2].partition("if __name__")[0]
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= 40, path.name
