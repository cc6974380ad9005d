"""Tiny networks and domains, and hashes of whole training states, shared by the tests."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from revgrad import (
    Domain,
    DomainAdapter,
    DomainClassifier,
    Run,
    Settings,
    Trainer,
    from_arrays,
    from_dataset,
)
from revgrad.cutting import cut
from revgrad.preprocessing import Preprocessing

HERE = Path(__file__).parent


class Perceptron(nn.Module):
    """4 → 5 features → 3 outputs, with an in-place ReLU right behind the layer it is cut at."""

    def __init__(self, outputs: int = 3, width: int = 5) -> None:
        super().__init__()
        self.lower = nn.Linear(4, width)
        self.relu = nn.ReLU(inplace=True)
        self.upper = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(self.relu(self.lower(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Linear(4, 5)
        self.block = nn.Linear(5, 5)
        self.joined = nn.Identity()
        self.upper = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.lower(x))
        x = self.joined(x + torch.relu(self.block(x)))
        return self.upper(x)


class Images(nn.Module):
    """Everything that could go out of step: convolution, BatchNorm on both sides, dropout."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(4, 4, 2)
        self.flat = nn.Flatten()
        self.fc = nn.Linear(16, 6)
        self.norm2 = nn.BatchNorm1d(6)
        self.out = nn.Linear(6, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.norm(self.conv(x))))
        x = self.flat(self.drop(self.conv2(x)))
        return self.out(self.norm2(torch.relu(self.fc(x))))


def seeded(build: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """`build()` with weights of that seed, the global generator left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().to(dtype)


def vectors(
    n: int, seed: int, shift: float = 0.0, classes: int = 3, dtype: Any = np.float32
) -> Domain:
    """Labelled vectors (n, 4) whose classes can be learnt."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    inputs = rng.normal(size=(n, 4)) + shift
    inputs[np.arange(n), labels % 4] += 2.0
    return from_arrays(inputs.astype(dtype), labels, name=f"vectors{seed}")


def images(n: int, seed: int, shift: int = 0, classes: int = 3) -> Domain:
    """Labelled uint8 images (n, 3, 8, 8)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    pixels = rng.integers(0, 150, (n, 8, 8, 3)) + shift
    pixels[np.arange(n), :, :, labels % 3] += 50
    return from_arrays(pixels.clip(0, 255).astype(np.uint8), labels, name=f"images{seed}")


class Drawing(Dataset[Any]):
    """Images whose items draw from every generator that there is.

    failing  items that raise `error`; without one, reading them kills the process
    """

    def __init__(self, n: int, seed: int) -> None:
        self.images = images(n, seed)
        self.failing: Collection[int] = ()
        self.error: Exception | None = None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index in self.failing:
            if self.error is None:
                os.kill(os.getpid(), signal.SIGKILL)
            raise self.error
        sample = self.images.batch([index])
        drawn = random.randrange(5) + np.random.randint(5) + int(torch.randint(5, ()))
        return (sample.inputs[0] // 2 + drawn).to(torch.uint8), int(sample.labels[0])


def drawing(n: int, seed: int) -> Domain:
    """A labelled domain of such items."""
    return from_dataset(Drawing(n, seed), name=f"drawing{seed}")


def image_trainer(
    folder: Path | str | None = None,
    *,
    network: nn.Module | None = None,
    layer: str = "flat",
    callbacks: tuple[Any, ...] = (),
    objective: Any = None,
    source: Domain | None = None,
    target: Domain | None = None,
    held_out: Domain | None = None,
    test: Domain | None = None,
    **settings: Any,
) -> Trainer:
    """The `Images` network, or one like it, on two domains; the same call, the same trainer."""
    source = images(40, 1) if source is None else source
    target = images(30, 2, shift=40) if target is None else target
    network = seeded(Images) if network is None else network
    width = {"flat": 16, "conv2": 16, "fc": 6, "pool": 36}[layer]
    classifier = DomainClassifier(width, hidden=(7,), seed=3)
    prepare = Preprocessing.fit(source, target)
    values: dict[str, Any] = {
        "steps": 30,
        "batch_size": 12,
        "device": "cpu",
        "checkpoint_every": 0,
        "log_every": 4,
        "evaluate_every": 0,
    }
    return Trainer(
        DomainAdapter(network, layer, classifier, prepare),
        source,
        target.without_labels(),
        objective=objective,
        settings=Settings(**{**values, **settings}),
        held_out=held_out,
        test=test,
        run=None if folder is None else Run(folder),
        callbacks=callbacks,
    )


def digest(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, shapes, types and bytes."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def weights_digest(module: nn.Module) -> str:
    return digest(module.state_dict())


def checkpoint_digest(folder: Path | str) -> str:
    """SHA-256 over every weight and optimiser tensor of a run's checkpoint, and its step."""
    checkpoint = Run(folder).checkpoint()
    assert checkpoint is not None
    names = set(checkpoint.tensors)
    assert any(name.startswith("optimiser.") for name in names)
    return f"{checkpoint.step}:{digest(checkpoint.tensors)}"


def environment(**more: str) -> dict[str, str]:
    """For subprocesses: one thread, this folder importable, not part of any torchrun."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")
    }
    path = os.pathsep.join([str(HERE), *(p for p in [os.environ.get("PYTHONPATH")] if p)])
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **more}


def command(script: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(script), *arguments]


def cut_by_tap(monkeypatch: Any, tap: bool = True) -> None:
    """Adapters that are made from now on tap their networks, or trace them."""
    for place in ("revgrad.adapter.cut", "revgrad.cutting.cuts.cut"):
        monkeypatch.setattr(place, lambda *of, **how: cut(*of, **{**how, "tap": tap}))
