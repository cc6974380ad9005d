"""What a page costs: a cloud of 10,000 points, the page of a demo run, against what is allowed."""

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

from measuring import Measurement, Worker, header, work

CLOUD, PAGE, SIZE = 30.0, 20.0, 3.0  # seconds, seconds and MB allowed

#: A run as the demo's, only shorter: what the page shows is of the same size.
TRAIN = "--source digits:train --target digits-m:train --test digits-m:test --network mnist"
TRAIN += " --steps 200 --evaluate-every 50 --domain-rate 0.3 --threads 1 --baseline --quiet"


def cloud() -> Callable[[], None]:
    """Lays out all 5,000 digits and as many over photographs, as an untrained network sees them."""
    import numpy as np
    import torch

    import revgrad
    from revgrad.domains import open_domain
    from revgrad.evaluation.features import features_at
    from revgrad.networks import MNISTNetwork
    from revgrad.reports.clouds import project

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = MNISTNetwork()
    prepare = revgrad.Preprocessing.fit(open_domain("digits:train").as_colour())
    source, target = (
        np.concatenate(
            [
                features_at(
                    network,
                    network.layer,
                    open_domain(f"{name}:{part}").as_colour(),
                    preprocessing=prepare,
                )
                for part in ("train", "test")
            ]
        )
        for name in ("digits", "digits-m")
    )
    assert (len(source), len(target)) == (5000, 5000)
    project("imports are not counted", source[:50], target[:50])

    def turn() -> None:
        project("10,000 points", source, target)

    return turn


def revgrad_command(*words: str) -> float:
    """Seconds of a command, its start included, on one thread."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "revgrad", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each; the median counts")
    parser.add_argument("--json", action="store_true", help="an object a line")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        work(cloud())
        return
    header("seconds and MB, against what is allowed")
    worker = Worker(__file__)
    took = statistics.median(worker.turn() for _ in range(chosen.rounds))
    worker.close()
    Measurement("cloud of 10,000 points, s", took, CLOUD, CLOUD / took).show()
    with tempfile.TemporaryDirectory() as place:
        run, page = str(Path(place) / "run"), Path(place) / "report.html"
        revgrad_command("train", *TRAIN.split(), "--output", run)
        took = statistics.median(
            revgrad_command("report", run, "--output", str(page)) for _ in range(chosen.rounds)
        )
        size = page.stat().st_size / 1e6
    Measurement("page of a demo run, s", took, PAGE, PAGE / took).show()
    Measurement("page of a demo run, MB", size, SIZE, SIZE / size).show()


if __name__ == "__main__":
    main()
