"""What a page costs: a cloud of 10,000 points, the page of a demo run, against what is allowed.

Seconds are given as they pass and as the processor spent them: where other programs run beside this
one, the second is what a quiet machine would take.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measuring import BRIEF, Measurement, header

CLOUD, PAGE, SIZE = 30.0, 20.0, 3.0  # seconds, seconds and MB allowed

#: A run as the demo's, only shorter: what the page shows is of the same size.
TRAIN = "--recipe paper --source digits:train --target digits-m:train --test digits-m:test"
TRAIN += " --network mnist"
TRAIN += " --steps 2 --evidence-samples 60" if BRIEF else " --steps 200 --evaluate-every 50"
TRAIN += " --domain-lr-factor 0.3 --threads 1 --baseline --quiet"


class Seconds(NamedTuple):
    """Since some moment: that passed, and that the processor spent on this program."""

    passed: float
    spent: float

    @classmethod
    def now(cls) -> Seconds:
        """Processes that ended are counted in."""
        used = os.times()
        spent = used.user + used.system + used.children_user + used.children_system
        return cls(time.perf_counter(), spent)

    def since(self, start: Seconds) -> Seconds:
        return Seconds(self.passed - start.passed, self.spent - start.spent)


def timed(turn: Callable[[], object]) -> Seconds:
    start = Seconds.now()
    turn()
    return Seconds.now().since(start)


def show(name: str, rounds: list[Seconds], allowed: float) -> None:
    """Medians, both ways."""
    for kind, taken in zip(("s", "s of CPU"), zip(*rounds, strict=True), strict=True):
        median = statistics.median(taken)
        Measurement(f"{name}, {kind}", median, allowed, allowed / median).show()


def cloud() -> Callable[[], None]:
    """Lays out all 5,000 digits and as many over photographs, as an untrained network sees them."""
    import numpy as np
    import torch

    import revgrad
    from revgrad.domains import open_domain
    from revgrad.evaluation import features_at
    from revgrad.paper.networks.mnist import MNISTNetwork
    from revgrad.reports.clouds import tsne_cloud

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = MNISTNetwork()
    prepare = revgrad.Preprocessing.fit(open_domain("digits:train").as_colour())
    source, target = (
        np.concatenate(
            [
                features_at(
                    network,
                    network.blueprint.layer,
                    open_domain(f"{name}:{part}").as_colour(),
                    preprocessing=prepare,
                )
                for part in ("train", "test")
            ]
        )
        for name in ("digits", "digits-m")
    )
    assert (len(source), len(target)) == (5000, 5000)
    source, target = (source[:100], target[:100]) if BRIEF else (source, target)
    tsne_cloud("imports are not counted", source[:50], target[:50])

    def turn() -> None:
        tsne_cloud("10,000 points", source, target)

    return turn


def run(*words: str) -> str:
    """What a Python program prints, on one thread."""
    return subprocess.run(
        [sys.executable, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each; the median counts")
    parser.add_argument("--brief", action="store_true", help="once and small, as a test runs it")
    parser.add_argument("--json", action="store_true", help="an object a line")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    count = 1 if BRIEF else chosen.rounds
    rounds = range(count)
    if chosen.worker:
        turn = cloud()
        for _ in rounds:
            print(*timed(turn))
        return
    header("seconds and MB, against what is allowed")
    brief = ["--brief"] if BRIEF else []
    printed = run(__file__, "--worker", "--rounds", str(count), *brief).splitlines()
    show("cloud of 10,000 points", [Seconds(*map(float, one.split())) for one in printed], CLOUD)
    with tempfile.TemporaryDirectory() as place:
        folder, page = str(Path(place) / "run"), Path(place) / "report.html"
        run("-m", "revgrad", "train", *TRAIN.split(), "--output", folder)
        report = ["-m", "revgrad", "report", folder, "--output", str(page)]
        show("page of a demo run", [timed(lambda: run(*report)) for _ in rounds], PAGE)
        size = page.stat().st_size / 1e6
    Measurement("page of a demo run, MB", size, SIZE, SIZE / size).show()


if __name__ == "__main__":
    main()
