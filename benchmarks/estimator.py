"""CPU time of the scikit-learn estimator beside the same trainings through `adapt`: the weights are
the same, so that whatever is more is the estimator's own.

With a recipe it is one training. Without one, `DANNClassifier()` trains three times and chooses:
its reference is three trainings.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from measuring import BRIEF, Measurement, header
from revgrad import DANNClassifier, adapt
from revgrad.networks import build_network
from revgrad.recipes import recipe_named

ROUNDS, STEPS, SAMPLES = (1, 20, 200) if BRIEF else (5, 200, 1000)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(SAMPLES, 20)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
TARGET = X + 0.5


def estimated(**options: Any) -> DANNClassifier:
    return DANNClassifier(steps=STEPS, device="cpu", random_state=0, **options).fit(
        X, Y, X_target=TARGET
    )


def adapted(method: str | None = None) -> Any:
    recipe = recipe_named("vectors")
    recipe = replace(recipe, settings=replace(recipe.settings, steps=STEPS, seed=0, device="cpu"))
    network = build_network("perceptron", classes=2, channels=1, size=1, shape=X.shape[1:], seed=0)
    changes = {} if method is None else {"method": method}
    return adapt(network, (X, Y), TARGET, recipe=recipe, held_out=0, progress=False, **changes)


def three() -> None:
    adapted("source-only")
    adapted()
    adapted()


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    header("CPU seconds, against the same trainings through adapt")
    torch.set_num_threads(1)
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("DANNClassifier(recipe='vectors')", lambda: estimated(recipe="vectors"), adapted),
        ("DANNClassifier(), three trainings", estimated, three),
    ]
    ours, reference = estimated(recipe="vectors"), adapted()
    learnt, expected = ours.adapted_.network.state_dict(), reference.network.state_dict()
    if not all(torch.equal(learnt[name], value) for name, value in expected.items()):
        raise SystemExit("the estimator and adapt trained different networks")
    for name, one, other in cases:
        pairs = [(seconds(one), seconds(other)) for _ in range(ROUNDS)]  # in turns
        took, allowed = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        Measurement(name, took, allowed, ratio).show()


if __name__ == "__main__":
    main()
