"""Several processes: on one folder at once, of another number on resuming, one of them killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from processes import PATIENCE, Ended
from works import DATA, SHAPES, WORKS, Bench

if TYPE_CHECKING:
    from trials import Outcome, Trial

#: A network of the user's own that fails on rank 1 alone, in a way that revgrad knows.
FAILING = """
import os, torch
from torch import nn
from revgrad.errors import DataError

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower, self.upper, self.calls = nn.Linear(4, 5), nn.Linear(5, 3), 0
    def forward(self, x):
        self.calls += self.training and torch.is_grad_enabled()
        if self.calls > 4 and os.environ.get("RANK") == "1":
            raise DataError("sample 17 can't be read")
        return self.upper(torch.tanh(self.lower(x)))

def build(classes=3, channels=1):
    return Network()
"""


def sharing(short: bool) -> Iterator[Trial]:
    from trials import Trial

    for what in () if short else ("train", "tune", "predict", "folder cache", "data make"):
        for number in range(3):
            yield Trial("two processes on one folder", what, number, _both_at_once(what))
    if short:
        return
    for number, (first, then) in enumerate(((1, 2), (2, 1), (2, 3))):
        do = _on_another_number(first, then)
        yield Trial("resumed on another number of processes", "train", number, do)
    for number in range(2):
        yield Trial("a rank killed under --max-restarts", "train", number, _killed_rank(number))
        killed = _killed_rank(number, "--shard")
        yield Trial("a rank killed under --max-restarts", "train --shard", number, killed)
    for number, (first, then) in enumerate(((2, 3), (3, 2))):
        do = _on_another_number(first, then, "--shard")
        yield Trial("resumed on another number of processes", "train --shard", number, do)
    yield Trial("an error on one rank alone", "train", 0, _failing_rank)


def _both_at_once(what: str) -> Callable[[Bench], Outcome]:
    """Either both come to the same, or the second is told of the first."""

    def do(bench: Bench) -> Outcome:
        from trials import Outcome, goes_on

        outcome, folder = Outcome(), bench.place("trial")
        ended = [one.wait() for one in [WORKS[what].start(folder) for _ in range(2)]]
        wrong = ""
        for one in ended:
            told = one.code == 1 and len(one.lines) == 1 and "another process" in one.lines[0]
            if one.untidy or not (one.code == 0 or told):
                wrong = f"{what}: {one.code}: {one.untidy} {one.said[-200:]}"
        if not wrong and not any(one.code == 0 for one in ended):
            wrong = f"{what}: neither of two came to an end"
        if what == "tune":  # what is tried second depends on which trial ended first
            wrong = wrong or ("" if len(list(folder.glob("search/trial-*"))) == 2 else "trials")
        else:
            wrong = wrong or goes_on(bench, what, folder)
        outcome.see(wrong)
        bench.leave(folder)
        return outcome

    return do


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def torchrun(
    count: int, folder: Path, words: tuple[object, ...], *more: str
) -> subprocess.Popen[str]:
    given = ["--nproc-per-node", str(count), "--master-port", str(_free_port()), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *given, "-m", "revgrad", *map(str, words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> Ended:
    began = time.monotonic()
    try:
        said, _ = process.communicate(timeout=3 * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        return Ended(-signal.SIGALRM, said, time.monotonic() - began)
    return Ended(process.returncode, said, time.monotonic() - began)


def _words(steps: int, *more: str) -> tuple[object, ...]:
    given = ("train", *DATA, "--recipe", "paper", "--steps", steps, *SHAPES, *more)
    every = ("--log-every", "20", "--checkpoint-every", "20", "--evaluate-every", "200")
    return (*given, *every, "-o", "run", "--quiet")


#: Steps of a training that is stopped in its middle, and of one of which a rank is killed.
STOPPED, KILLED = 1000, 1000


def _once(bench: Bench, count: int, words: tuple[object, ...]) -> tuple[Path, Ended]:
    """The undisturbed training on so many processes, made once for all trials."""
    folder = bench.base / f"whole {count} {' '.join(map(str, words))}".replace("/", "-")
    if (folder / "run" / "result.json").exists():
        return folder, Ended(0, "", 0.0)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder, _ended(torchrun(count, folder, words))


def _first_checkpoint(process: subprocess.Popen[str], folder: Path) -> None:
    """Until there is one, or the training has ended."""
    index = folder / "run" / "checkpoint.json"
    end = time.monotonic() + PATIENCE
    while not index.exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.01)


def _on_another_number(first: int, then: int, *more: str) -> Callable[[Bench], Outcome]:
    """Stopped in mid-run; the weights come out as one process makes them, but for rounding."""

    def do(bench: Bench) -> Outcome:
        from revgrad import Run
        from trials import Outcome

        outcome, folder = Outcome(), bench.place("trial")
        process = torchrun(first, folder, _words(STOPPED, *more))
        _first_checkpoint(process, folder)
        process.send_signal(signal.SIGTERM)
        _ended(process)
        saved = Run(folder / "run").checkpoint()
        done = _ended(torchrun(then, folder, _words(STOPPED, *more)))
        alone, whole = _once(bench, 1, _words(STOPPED))
        wrong = ""
        if done.code or whole.code or "Traceback" in done.said:
            wrong = f"{first} → {then}: {done.code} {done.said[-300:]} {whole.said[-100:]}"
        elif saved is None or not 0 < saved.step < STOPPED:
            wrong = f"{first} → {then}: it was not stopped in mid-run"
        else:
            one, other = (Run(at / "run").checkpoint() for at in (folder, alone))
            assert one is not None
            assert other is not None
            for name, value in one.tensors.items():
                if name.startswith("adapter.network"):
                    off = float((value - other.tensors[name]).abs().max())
                    if off > 1e-3:
                        wrong = f"{first} → {then}: {name} is {off} off"
        outcome.see(wrong)
        return outcome

    return do


def _killed_rank(number: int, *more: str) -> Callable[[Bench], Outcome]:
    """kill -9 of a rank in mid-run: torchrun starts both again, and they come to the same."""

    def do(bench: Bench) -> Outcome:
        from trials import Outcome
        from works import run_digest

        outcome, folder = Outcome(), bench.place("trial")
        process = torchrun(2, folder, _words(KILLED, *more), "--max-restarts", "3")
        _first_checkpoint(process, folder)
        ranks = _children(process.pid)
        if ranks:
            os.kill(ranks[number % len(ranks)], signal.SIGKILL)
        done = _ended(process)
        whole, undisturbed = _once(bench, 2, _words(KILLED, *more))
        wrong = "" if len(ranks) == 2 else f"{len(ranks)} ranks were found"
        if not wrong and (done.code or undisturbed.code):
            wrong = f"{done.code} {undisturbed.code} {done.said[-300:]}"
        if not wrong and run_digest(folder / "run") != run_digest(whole / "run"):
            wrong = "it came to something else"
        outcome.see(wrong)
        return outcome

    return do


def _children(pid: int) -> list[int]:
    """The processes that one has started itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def _failing_rank(bench: Bench) -> Outcome:
    """One line, from the rank that knows; every rank ends with the same code."""
    from trials import Outcome

    outcome, folder = Outcome(), bench.place("trial")
    (folder / "failing.py").write_text(FAILING)
    own = ("--network", "failing:build", "--layer", "lower")
    done = _ended(torchrun(2, folder, (*_words(40), *own)))
    lines = [line for line in done.said.splitlines() if "sample 17" in line]
    codes = re.findall(r"exitcode\s+: (-?\d+)", done.said)
    ours = done.said.split("torch/distributed/elastic", 1)[0]
    wrong = ""
    if lines != ["revgrad: sample 17 can't be read"] or "Traceback" in ours:
        wrong = f"said: {ours[-300:]}"
    elif set(codes) != {"1"}:
        wrong = f"exit codes {codes}"
    outcome.see(wrong)
    return outcome
