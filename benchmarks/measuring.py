"""Two programs measured side by side: each in a process of its own, taking turns, medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from revgrad import Trainer

#: As a test runs it: everything once and small, so that the numbers mean nothing.
BRIEF = "--brief" in sys.argv


Clock = Literal["wall", "cpu"]


@dataclass(frozen=True)
class Measurement:
    """ratio > 1: better than the reference, measured in the same run."""

    name: str
    value: float
    reference: float
    ratio: float

    def show(self) -> None:
        if "--json" in sys.argv:
            print(json.dumps(asdict(self)), flush=True)
        else:
            print(f"{self.name:<44} {self.value:>12.5g} {self.reference:>12.5g} {self.ratio:>8.3f}")


def header(text: str) -> None:
    """A line above the table, for people."""
    if "--json" not in sys.argv:
        print(f"{text}\n{'':<44} {'value':>12} {'reference':>12} {'ratio':>8}", flush=True)


class Seconds(NamedTuple):
    """Of the clock on the wall, and of the processor: the second is nearly the same beside other
    programs, but counts no waiting and no other process."""

    wall: float
    cpu: float


class Worker:
    """A process that runs `FILE --worker NAME…` and times a turn whenever it is told to."""

    def __init__(self, file: str, *name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, file, *(["--brief"] if BRIEF else []), "--worker", *name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def turn(self) -> Seconds:
        """What one turn took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return Seconds(*map(float, self.process.stdout.readline().split()))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def work(turn: Callable[[], None]) -> None:
    """The worker's side: time a turn for every line that comes."""
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        turn()
        print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


def compare(
    file: str, ours: list[str], reference: list[str], turns: int, clock: Clock = "cpu"
) -> tuple[float, float]:
    """Median seconds of a turn of ours and of the reference's; the first turns are warm-up."""
    workers = [Worker(file, *ours), Worker(file, *reference)]
    times: list[list[float]] = [[], []]
    for number in range(1 if BRIEF else turns + 1):
        for worker, taken in zip(workers, times, strict=True):
            seconds = getattr(worker.turn(), clock)
            if number or BRIEF:
                taken.append(seconds)
    for worker in workers:
        worker.close()
    return statistics.median(times[0]), statistics.median(times[1])


def steps_of(trainer: Trainer, steps: int) -> Callable[[], None]:
    """A turn: so many further steps of the training, in memory that is kept."""
    from revgrad.training.session import keep_large_buffers

    trainer.adapter.train()
    keep_large_buffers()
    done = 0

    def turn() -> None:
        nonlocal done
        for _ in range(steps):
            trainer.train_step(done)
            done += 1
        trainer.window.clear()

    return turn
