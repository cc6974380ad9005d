"""Two gloo processes, one thread each, against one: CPU seconds of the same training, one batch
shared by both, or a batch each. What two spend beyond one is what sharing the work costs: 1.0 were
for nothing.

The processes of both take turns; other programs on the machine change little, as no time is
counted that a process waits for another.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time

from measuring import BRIEF, Measurement, header

KINDS = {"mnist": 12, "svhn": 4}  # steps of a turn
TURNS = 1 if BRIEF else 5
#: Samples of a step of one process.
BATCH = 128


def worker(kind: str, batch: int) -> None:
    """One process of a training: prints its CPU seconds of a turn."""
    import numpy as np
    import torch

    import revgrad
    from revgrad._distributed import process_group, rank
    from revgrad.paper.networks.mnist import MNISTNetwork
    from revgrad.paper.networks.svhn import SVHNNetwork
    from revgrad.training.session import keep_large_buffers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    side = 28 if kind == "mnist" else 32
    images = np.random.default_rng(0).integers(0, 256, (2, 1000, 3, side, side), dtype=np.uint8)
    source = revgrad.from_arrays(images[0], np.arange(1000) % 10)
    target = revgrad.from_arrays(images[1])
    network = MNISTNetwork() if kind == "mnist" else SVHNNetwork()
    with process_group("cpu"):
        adapter = revgrad.DomainAdapter.attach(
            network,
            network.blueprint.layer,
            source.batch([0, 1]).inputs,
            hidden=network.blueprint.domain_classifier,
            preprocessing=revgrad.Preprocessing(127.5, 74.0),
        )
        settings = revgrad.Settings(steps=10**6, device="cpu", batch_size=batch)
        trainer = revgrad.Trainer(adapter, source, target, settings=settings)
        adapter.train()
        keep_large_buffers()
        done, steps = 0, 1 if BRIEF else KINDS[kind]
        for turn in range(TURNS + 1):
            began = time.process_time()
            for _ in range(steps):
                trainer.train_step(done)
                done += 1
            if turn:
                print(rank(), (time.process_time() - began) / steps, flush=True)


def started(kind: str, world: int, batch: int) -> list[subprocess.Popen[str]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [
        sys.executable,
        __file__,
        *(["--brief"] if BRIEF else []),
        "--worker",
        kind,
        str(batch),
    ]
    return [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}
            | ({**place, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}),
        )
        for rank in range(world)
    ]


def seconds(kind: str, world: int, batch: int) -> float:
    """CPU seconds of a step, of all processes together: the median over turns."""
    told = [process.communicate()[0] for process in started(kind, world, batch)]
    turns = [[float(line.split()[1]) for line in one.splitlines()] for one in told]
    return statistics.median(sum(parts) for parts in zip(*turns, strict=True))


def main() -> None:
    if "--worker" in sys.argv:
        worker(sys.argv[-2], int(sys.argv[-1]))
        return
    header("CPU seconds of a step: two processes together, and one")
    chosen = [word for word in sys.argv[1:] if word in KINDS] or list(KINDS)
    for kind in ["mnist"] if BRIEF else chosen:
        one = seconds(kind, 1, BATCH)
        two = seconds(kind, 2, BATCH)
        Measurement(f"two processes share a batch, {kind}", two, one, one / two).show()
        two = seconds(kind, 2, 2 * BATCH)
        name = f"two processes, a batch each, {kind}"
        Measurement(name, two, 2 * one, 2 * one / two).show()


if __name__ == "__main__":
    main()
