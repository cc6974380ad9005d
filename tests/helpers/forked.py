"""Real processes that start at once: forked from one that has imported torch already."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

from tiny import environment

_context = multiprocessing.get_context("forkserver")


@cache
def _started() -> None:
    """Start the server, once; it finds `warm` by PYTHONPATH, as it does not get our sys.path."""
    before = dict(os.environ)
    _context.set_forkserver_preload(["warm"])
    os.environ.update(environment())
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)


class Forked:
    """A script run as a process of its own; what it prints goes to files beside the script."""

    def __init__(self, script: Path, *arguments: str, **variables: str) -> None:
        _started()
        number = len(list(script.parent.glob("*.out")))
        self.out, self.err = (script.parent / f"{number}.{kind}" for kind in ("out", "err"))
        self.out.touch()
        files = (str(self.out), str(self.err))
        self.process = _context.Process(
            target=_run, args=(str(script), arguments, variables, files), daemon=True
        )
        self.process.start()

    @property
    def returncode(self) -> int | None:
        """As subprocess has it: negative where a signal ended the process."""
        return self.process.exitcode

    def communicate(self, timeout: float = 200) -> tuple[str, str]:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.out), timeout)
        return self.out.read_text(), self.err.read_text()

    def wait_for(self, line: str, timeout: float = 100) -> None:
        """Until it has printed that line."""
        end = time.monotonic() + timeout
        while line not in self.out.read_text().splitlines():
            assert time.monotonic() < end, self.err.read_text()
            assert self.returncode is None, self.err.read_text()
            time.sleep(0.005)

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
        self.process.join()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(script: Path, world: int, *arguments: str) -> list[Forked]:
    """The processes of one training, joined by the variables that torchrun sets."""
    place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [
        Forked(script, *arguments, RANK=str(rank), LOCAL_RANK=str(rank), **place)
        for rank in range(world)
    ]


def finish(processes: list[Forked]) -> list[tuple[str, str]]:
    try:
        return [process.communicate() for process in processes]
    finally:
        for process in processes:
            process.kill()


def _run(
    script: str, arguments: tuple[str, ...], variables: dict[str, str], files: tuple[str, str]
) -> None:
    for number, name in enumerate(files, start=1):
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, number)
    os.environ.update(variables)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
