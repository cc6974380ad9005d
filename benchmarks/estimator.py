"""CPU time of the scikit-learn estimator beside the same trainings through `adapt`: the weights are
the same, so that whatever is more is the estimator's own.

With a recipe it is one training; as it is, `DANNClassifier()` tries several ways and chooses, and
so does `adapt`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from measuring import BRIEF, Measurement, header
from revgrad import DANNClassifier, adapt
from revgrad.networks import build_network

ROUNDS, STEPS, SAMPLES = (1, 20, 200) if BRIEF else (5, 200, 1000)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(SAMPLES, 20)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
TARGET = X + 0.5


def estimated(**options: Any) -> DANNClassifier:
    return DANNClassifier(steps=STEPS, device="cpu", random_state=0, **options).fit(
        X, Y, X_target=TARGET
    )


def adapted(**options: Any) -> Any:
    network = build_network("perceptron", classes=2, channels=1, size=1, shape=X.shape[1:], seed=0)
    more = {"steps": STEPS, "seed": 0, "device": "cpu", "progress": False}
    return adapt(network, (X, Y), TARGET, **more, **options)


def one_training() -> Any:
    return adapted(recipe="vectors", held_out=0)


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    header("CPU seconds, against the same trainings through adapt")
    torch.set_num_threads(1)
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("DANNClassifier(recipe='vectors')", lambda: estimated(recipe="vectors"), one_training),
        ("DANNClassifier()", estimated, adapted),
    ]
    for name, one, other in cases:
        learnt, expected = one().network_.state_dict(), other().network.state_dict()
        if not all(torch.equal(learnt[key], value) for key, value in expected.items()):
            raise SystemExit(f"{name} and adapt trained different networks")
        pairs = [(seconds(one), seconds(other)) for _ in range(ROUNDS)]  # in turns
        took, allowed = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        Measurement(name, took, allowed, ratio).show()


if __name__ == "__main__":
    main()
