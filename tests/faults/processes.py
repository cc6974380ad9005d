"""Real processes of the command line, forked from one that has imported all it needs."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from injection import NOTHING, SIGNALS, Fault, Writes

#: Seconds after which a process that was asked to stop hangs: the machine may be busy.
PATIENCE = 600.0


class Ended(NamedTuple):
    """How a process ended.

    Attributes
    ----------
    writes
        how often it changed a file, where it lived to say
    peak
        most bytes of memory that it held at once
    """

    code: int
    said: str
    seconds: float
    writes: int = 0
    peak: int = 0

    @property
    def lines(self) -> list[str]:
        """What it said of mistakes or stops, a line each."""
        return [line for line in self.said.splitlines() if line.startswith("revgrad: ")]

    @property
    def untidy(self) -> str:
        """Why a user would not like to see this; "" where there is nothing."""
        if self.code == -signal.SIGALRM:
            return "it hung"
        if "Traceback" in self.said:
            return self.said.strip().splitlines()[-1][:200]
        if len(self.lines) > 1:
            return f"{len(self.lines)} lines"
        return ""


class Running:
    """A forked process of `revgrad WORDS` in a folder."""

    def __init__(
        self,
        words: Sequence[object],
        folder: Path,
        fault: Fault = NOTHING,
        *,
        before: Callable[[], None] = lambda: None,
        **variables: str,
    ) -> None:
        self.fault = fault
        self._reading, writing = os.pipe()
        self._began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            _run([str(word) for word in words], folder, fault, before, variables)
        os.close(writing)

    def wait(self) -> Ended:
        """Until it has ended; the fault that is the parent's to do comes at its time."""
        if self.fault.after is not None:
            send(self.fault, self.pid)
        parts = []
        while data := os.read(self._reading, 1 << 16):
            parts.append(data)
        os.close(self._reading)
        _, status, used = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        said = b"".join(parts).decode(errors="replace")
        said, _, note = said.partition("\0")
        note = note if note.isdigit() else ""
        writes = json.loads(note) if note else 0
        return Ended(code, said, time.monotonic() - self._began, writes, used.ru_maxrss << 10)


def send(fault: Fault, pid: int) -> None:
    """The signal, so many seconds from now; one that can be handled, from the moment on at which
    the process handles it: what comes before its first line of ours is the system's to answer."""
    assert fault.after is not None
    while fault.kind != "kill" and not _handles(pid):
        time.sleep(0.002)
    time.sleep(fault.after)
    os.kill(pid, SIGNALS[fault.kind])


def _handles(pid: int) -> bool:
    """Whether a handler of the process's own waits for SIGTERM (Python itself has one for SIGINT),
    or the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    fields = dict(line.split(":", 1) for line in status.splitlines())
    handled = int(fields["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1
    return bool(handled) or fields["State"].split()[0] == "Z"


def run(words: Sequence[object], folder: Path, fault: Fault = NOTHING, **more: str) -> Ended:
    """`revgrad WORDS` in that folder, to its end."""
    return Running(words, folder, fault, **more).wait()


def _run(
    words: list[str],
    folder: Path,
    fault: Fault,
    before: Callable[[], None],
    variables: dict[str, str],
) -> None:
    """Never comes back: what the parent would do at its end is not to be done here."""
    atexit._clear()
    code, ended = 1, False
    writes = Writes(fault)
    try:
        os.chdir(folder)
        os.environ.update(variables)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        sys.argv = ["revgrad", *words]
        before()
        from revgrad.cli import main

        writes.install()
        try:
            main()
            code, ended = 0, True
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            ended = True
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    except BaseException:
        if not ended:
            traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os.write(2, b"\0" + str(writes.count).encode())
        os._exit(code)


def fresh(words: Sequence[object], folder: Path, fault: Fault, **variables: str) -> Ended:
    """`python -m revgrad WORDS` in an interpreter of its own: faults in the import phase."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "revgrad", *map(str, words)],
        cwd=folder,
        env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if fault.after is not None:
        send(fault, process.pid)
    try:
        said, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Ended(-signal.SIGALRM, "", time.monotonic() - began)
    return Ended(process.returncode, said.decode(errors="replace"), time.monotonic() - began)
