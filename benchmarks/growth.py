"""How a step's time and a process's memory grow: with the batch, the samples, the parameters.

The samples are computed by their store, so that 10⁹ of them fit on any disk; each case runs in a
process of its own. `make scale` writes benchmarks/scale.jsonl, which docs/scale.md shows.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn

import revgrad
from measuring import BRIEF, Measurement, header
from revgrad.domains import Domain

FEATURES = 64
STEPS = 2 if BRIEF else 12
#: (what grows, its values); the first value is the reference.
BATCHES = (32, 128, 512, 1024)
SAMPLES = (10**3, 10**5, 10**7, 10**9)
PARAMETERS = (10**6, 10**7, 10**8)


class Computed:
    """Sample i is a few waves of i."""

    is_resident = any_thread = True

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def take(self, indices: np.ndarray) -> torch.Tensor:
        places = torch.from_numpy(indices).double()[:, None] * torch.arange(1, FEATURES + 1)
        return torch.sin(places / 1000).float()

    def fingerprint(self) -> str:
        return f"waves of {self.count}"


def measure(batch: int, samples: int, parameters: int) -> tuple[float, float]:
    """CPU seconds of a step, and the process's peak in MB above what it had before it began."""
    width = int((parameters + FEATURES**2) ** 0.5) - FEATURES // 2
    before = peak()
    labels = np.zeros(samples, np.int8) if samples <= 10**7 else mapped_labels(samples)
    labels[:2] = 0, 1
    network = nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 2),
    )  # fmt: skip
    adapter = revgrad.DomainAdapter(
        network, "3", revgrad.DomainClassifier(width, hidden=(16,)), preprocessing=None
    )
    trainer = revgrad.Trainer(
        adapter,
        Domain(Computed(samples), labels, name="source"),
        Domain(Computed(samples), name="target"),
        settings=revgrad.Settings(steps=10**6, batch_size=batch, device="cpu"),
    )
    adapter.train()
    taken = []
    for step in range(STEPS):
        start = time.process_time()
        trainer.train_step(step)
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:]), peak() - before


def mapped_labels(samples: int) -> np.ndarray:
    file = tempfile.NamedTemporaryFile(prefix="labels")  # noqa: SIM115 (as long as the process)
    mapped_labels.file = file  # type: ignore[attr-defined]
    return np.memmap(file.name, dtype=np.int8, mode="w+", shape=(samples,))


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(batch: int, samples: int, parameters: int) -> tuple[float, float]:
    words = [str(one) for one in (batch, samples, parameters)]
    flags = ["--brief"] if BRIEF else []
    done = subprocess.run(
        [sys.executable, __file__, *flags, "--worker", *words], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def main() -> None:
    torch.set_num_threads(1)
    if "--worker" in sys.argv:
        batch, samples, parameters = (int(one) for one in sys.argv[-3:])
        print(json.dumps(measure(batch, samples, parameters)))
        return
    header("CPU seconds of a step and peak MB, against the smallest of each kind")
    cases = {
        "batch": [(n, (n, 10**5, 10**6)) for n in BATCHES],
        "samples": [(n, (128, n, 10**6)) for n in SAMPLES],
        "parameters": [(n, (128, 10**5, n)) for n in PARAMETERS],
    }
    for kind, given in cases.items():
        chosen = given[::2][:2] if BRIEF else given
        first = None
        for number, case in chosen:
            found = in_a_process(*case)
            first = first or found
            for unit, value, least in zip(("step s", "peak MB"), found, first, strict=True):
                name = f"scale: {kind} {number:,}, {unit}"
                Measurement(name, value, least, least / value if value else 1.0).show()


if __name__ == "__main__":
    main()
