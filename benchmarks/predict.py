"""Passes without gradients: `Adapted.outputs` and `evaluate` of 2,000 samples against the bare
network's own forward over the same samples, written by hand in batches of 500 and of 100.

CPU seconds, the turns of all in one process, one after the other; one thread.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from measuring import BRIEF, Measurement, header

TURNS = 1 if BRIEF else 7
COUNT = 200 if BRIEF else 2000
SIZES = {"mnist": 28, "svhn": 32, "mlp": 0}
BY_HAND = (500, 100)


def network_of(kind: str) -> nn.Module:
    from revgrad.paper.networks.mnist import MNISTNetwork
    from revgrad.paper.networks.svhn import SVHNNetwork

    torch.manual_seed(0)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    return MNISTNetwork() if kind == "mnist" else SVHNNetwork()


def programs(kind: str) -> dict[str, Callable[[], Any]]:
    import revgrad
    from revgrad.adapted import Adapted
    from revgrad.tasks import task_named

    random, side = np.random.default_rng(0), SIZES[kind]
    inputs: np.ndarray = (
        random.integers(0, 256, (COUNT, 3, side, side), dtype=np.uint8)
        if side
        else random.normal(size=(COUNT, 32)).astype(np.float32)
    )
    network = network_of(kind).eval()
    scale = 255.0 if side else 1.0
    labels = np.arange(COUNT) % 10
    data, shape = revgrad.from_arrays(inputs, labels), inputs.shape[1:]
    task = task_named("classes").completed(labels, None)
    prepare = revgrad.Preprocessing(0.0, scale)
    adapted = Adapted(network, prepare, "", None, shape, task)
    whole = torch.from_numpy(inputs)

    def by_hand(batch: int) -> None:
        with torch.no_grad():
            for start in range(0, COUNT, batch):
                network(whole[start : start + batch].float() / scale)

    hand = {f"by hand {size}": (lambda size=size: by_hand(size)) for size in BY_HAND}
    return {
        "outputs": lambda: adapted.outputs(data),
        "evaluate": lambda: adapted.evaluate(data),
        **hand,
    }


def main() -> None:
    torch.set_num_threads(1)
    header("CPU seconds of a pass, ours against the bare network's forward")
    for kind in [word for word in sys.argv[1:] if word in SIZES] or SIZES:
        made = programs(kind)
        taken: dict[str, list[float]] = {name: [] for name in made}
        for turn in range(TURNS + 1):
            for name, program in made.items():
                start = time.process_time()
                program()
                if turn or BRIEF:
                    taken[name].append(max(time.process_time() - start, 1e-9))
        median = {name: statistics.median(times) for name, times in taken.items()}
        for ours in ("outputs", "evaluate"):
            for size in BY_HAND:
                hand = median[f"by hand {size}"]
                label = f"{ours}, {kind}, against batches of {size}"
                Measurement(label, median[ours], hand, hand / median[ours]).show()


if __name__ == "__main__":
    main()
