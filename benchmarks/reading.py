"""Reading ahead: prefetch on data in memory and in a memory map, workers for a slow Dataset.

Each line is steps a second of training, against the same training read in another way. The slow
Dataset sleeps, or computes, 2 ms a sample: with workers it is compared with none, and, where the
network is the slower part (SVHN's), with the same images in memory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from measuring import BRIEF, Clock, Measurement, compare, header, steps_of, work

WORKERS, SAMPLE_SECONDS = 2, 0.002
TURNS = 7
#: steps of a turn
STEPS = {"mlp": 200, "mnist": 10, "svhn": 3, "slow": 3}
COUNT = 2000


class Slow(Dataset[Any]):
    """Images that take their time: asleep, or at work."""

    def __init__(self, images: np.ndarray, how: str) -> None:
        self.images, self.how = torch.from_numpy(images), how

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        if self.how == "sleeps":
            time.sleep(SAMPLE_SECONDS)
        else:
            end = time.thread_time() + SAMPLE_SECONDS
            while time.thread_time() < end:
                pass
        return self.images[index]


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.out = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.hidden(inputs))
        return logits


def inputs_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "mlp":
        return rng.normal(size=(COUNT, 32)).astype(np.float32)
    side = 32 if kind == "svhn" else 28
    return rng.integers(0, 256, (COUNT, 3, side, side), dtype=np.uint8)


def training(kind: str, way: str, folder: Path) -> Callable[[], None]:
    """Some steps of a training, its data read in that way."""
    import revgrad
    from revgrad.paper.networks.mnist import MNISTNetwork
    from revgrad.paper.networks.svhn import SVHNNetwork

    inputs = inputs_of(kind)
    labels = np.arange(COUNT) % 10
    place, _, reading = way.partition(" ")
    if place == "mapped":
        file = folder / f"{time.monotonic_ns()}.npy"
        np.save(file, inputs)
        inputs = np.load(file, mmap_mode="r")
    if place in ("sleeps", "computes"):
        source = revgrad.Domain(
            revgrad.from_dataset(Slow(inputs, place), labels=False).store, labels
        )
    else:
        source = revgrad.from_arrays(inputs, labels)
    network: Any = {"mlp": Small, "svhn": SVHNNetwork}.get(kind, MNISTNetwork)()
    adapter = revgrad.DomainAdapter.attach(
        network,
        "hidden" if kind == "mlp" else network.blueprint.layer,
        source.batch([0, 1]).inputs,
        hidden=(64,) if kind == "mlp" else network.blueprint.domain_classifier,
        preprocessing=revgrad.Preprocessing(0.0 if kind == "mlp" else 127.5, 74.0),
    )
    trainer = revgrad.Trainer(
        adapter,
        source,
        source.without_labels(),
        settings=revgrad.Settings(
            steps=10**6,
            workers=WORKERS if reading == "workers" else 0,
            prefetch={"on": True, "off": False}.get(reading),
        ),
    )
    return steps_of(trainer, 1 if BRIEF else STEPS[kind])


#: name, network, ours, reference
CASES = [
    ("prefetch, data in memory, two-layer perceptron", "mlp", "memory on", "memory off"),
    ("prefetch, data in memory, MNIST network", "mnist", "memory on", "memory off"),
    ("prefetch by itself, data in memory, two-layer perceptron", "mlp", "memory", "memory off"),
    ("prefetch by itself, memory map, MNIST network", "mnist", "mapped", "mapped off"),
    ("2 workers, Dataset sleeps 2 ms a sample", "slow", "sleeps workers", "sleeps"),
    ("2 workers, Dataset computes 2 ms a sample", "slow", "computes workers", "computes"),
    ("2 workers, sleeps, against in memory, SVHN network", "svhn", "sleeps workers", "memory"),
    ("2 workers, computes, against in memory, SVHN network", "svhn", "computes workers", "memory"),
]


def main() -> None:
    torch.set_num_threads(1)
    if "--worker" in sys.argv:
        kind, way, folder = sys.argv[-3:]
        work(training(kind, way, Path(folder)))
        return
    header("steps a second, by the way of reading")
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, ours, reference in CASES[::3] if BRIEF else CASES:
            # what sleeps, or is done by other processes, is seen by the clock on the wall alone
            clock: Clock = "wall" if "workers" in ours else "cpu"
            ways = [kind, ours, folder], [kind, reference, folder]
            mine, other = compare(__file__, *ways, TURNS, clock)
            steps = STEPS[kind]
            Measurement(f"scale: {name}", steps / mine, steps / other, other / mine).show()


if __name__ == "__main__":
    main()
