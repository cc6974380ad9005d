"""A folder as a user has one: images of two domains, and a network of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

NETWORK = """
from torch import nn

from revgrad.networks import Blueprint

def small(classes, channels):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, classes)
    )

def explosive(classes, channels):
    network = small(classes, channels)
    network[0].weight.data.mul_(1e30)
    return network

class Planned(nn.Module):
    blueprint = Blueprint("layers.1", size=12, domain_classifier=(7,))

    def __init__(self, classes, channels):
        super().__init__()
        convolution = nn.Conv2d(channels, 4, 3)
        self.layers = nn.Sequential(convolution, nn.Flatten(), nn.Linear(400, classes))

    def forward(self, images):
        return self.layers(images)

def for_vectors(classes):
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, classes))

def two_values():
    return for_vectors(2)

def nothing():
    return 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: synthetic/, photos/ and photos-test/ of two classes, and mine.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for domain, background in (("synthetic", 0), ("photos", 60), ("photos-test", 60)):
        for number, name in enumerate(("dark", "light")):
            folder = tmp_path / domain / name
            folder.mkdir(parents=True)
            for i in range(12):
                pixels = random.integers(0, 40, (16, 16, 3)) + background + 120 * number
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "mine.py").write_text(NETWORK)
    sys.modules.pop("mine", None)
    return tmp_path


@pytest.fixture
def train_words() -> list[str]:
    """`revgrad train` of what lies there, but for --output."""
    words = "train --source synthetic --target photos --network mine:small --layer 2 --size 16"
    words += " --recipe paper --steps 30 --batch-size 16 --domain-classifier 8 --log-every 10"
    words += " --checkpoint-every 10 --evaluate-every 10 --quiet"
    return words.split()
