"""CPU time of a training step with two adversaries beside one, on the MNIST network.

One is the domain at `pool2`, the network's usual layer. The second tells a site of three values,
from the same layer or from `pool1`, whose features are six times as many. One thread, in turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

import revgrad
from measuring import BRIEF, Measurement, header
from revgrad import Adversary, DomainAdapter, Settings, Trainer
from revgrad.objectives import Adversaries
from revgrad.objectives.adversaries import heads_for
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.training.session import keep_large_buffers

#: turns of each, and steps of a turn
TURNS, STEPS = (1, 1) if BRIEF else (21, 6)
SAMPLES = 2000
ONE = (Adversary(layer="pool2"),)
CASES = {
    "two adversaries at pool2": (*ONE, Adversary("site", layer="pool2")),
    "two adversaries, the second at pool1": (*ONE, Adversary("site", layer="pool1")),
}


def domain(seed: int, labels: bool) -> revgrad.Domain:
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (SAMPLES, 3, 28, 28), dtype=np.uint8)
    sites = random.choice(["a", "b", "c"], SAMPLES)
    known = random.integers(0, 10, SAMPLES) if labels else None
    return revgrad.from_arrays(images, known, attributes={"site": sites})


def trained(adversaries: tuple[Adversary, ...]) -> Callable[[], float]:
    """CPU seconds of some steps of a training, each time that it is called."""
    source, target = domain(0, True), domain(1, False)
    heads = heads_for(
        adversaries, "pool2", {"domain": 1, "site": 3}, MNISTNetwork.blueprint.domain_classifier, 0
    )
    adapter = DomainAdapter.attach_heads(
        MNISTNetwork(),
        heads,
        source.batch([0, 1]).inputs,
        preprocessing=revgrad.Preprocessing.fit(source, target),
    )
    settings = Settings(
        steps=10**6,
        device="cpu",
        prefetch=False,
        **dict.fromkeys(("evaluate_every", "checkpoint_every"), 0),
    )
    trainer = Trainer(
        adapter, source, target, objective=Adversaries(adversaries), settings=settings
    )
    adapter.train()
    done = 0

    def turn() -> float:
        nonlocal done
        start = time.process_time()
        for _ in range(STEPS):
            factor, rate = trainer.train_step(done)
            done += 1
            trainer._after(done, factor, rate)
        return time.process_time() - start

    return turn


def main() -> None:
    torch.set_num_threads(1)
    keep_large_buffers()
    header("CPU seconds of a step, two adversaries against one: a ratio of .87 is 1.15 times")
    turns = [trained(ONE), *(trained(case) for case in CASES.values())]
    times: list[list[float]] = []
    for number in range(TURNS + (not BRIEF)):  # the first turns are warm-up
        taken = [turn() for turn in turns]
        if number or BRIEF:
            times.append(taken)
    one, *others = (statistics.median(each) / STEPS for each in zip(*times, strict=True))
    for place, (name, other) in enumerate(zip(CASES, others, strict=True), start=1):
        ratio = statistics.median(taken[0] / taken[place] for taken in times)
        Measurement(name, other, one, ratio).show()


if __name__ == "__main__":
    sys.exit(main())
