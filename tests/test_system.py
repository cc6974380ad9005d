"""Locks, whose holders may die; progress, which only a terminal is shown."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from revgrad._system import MANY, Lock, disk_errors, locked, progress_bar
from revgrad.errors import RunError

HOLDER = """
import sys, time
from pathlib import Path
from revgrad._system import Lock
lock = Lock(Path(sys.argv[1]))
assert lock.acquire()
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_is_one_holder_s(tmp_path: Path) -> None:
    one, other = Lock(tmp_path / "x" / "lock"), Lock(tmp_path / "x" / "lock")
    assert one.acquire()
    assert not other.acquire(wait=False)
    one.release()
    assert other.acquire(wait=False)
    other.release()


def test_a_killed_holder_leaves_the_lock_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        assert not Lock(path).acquire(wait=False)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    free = Lock(path)
    assert free.acquire(wait=False)
    free.release()


def test_who_waits_says_so_once_and_holds_the_lock_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "revgrad")
    path = tmp_path / "lock"
    with locked(path, "waiting"):
        assert not caplog.records  # nobody was waited for
    order = []
    entered = threading.Event()

    def first() -> None:
        with locked(path):
            entered.set()
            while not caplog.records:
                time.sleep(0.01)
            order.append("first leaves")

    other = threading.Thread(target=first)
    other.start()
    entered.wait()
    with locked(path, "waiting"):
        order.append("second enters")
    other.join()
    assert order == ["first leaves", "second enters"]
    assert [record.getMessage() for record in caplog.records] == ["waiting"]
    with locked(path):  # given back
        pass


def test_a_lock_that_the_disk_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(RunError, match="file could not be written: ")
    with refused as caught, disk_errors(tmp_path / "file"), locked(tmp_path / "file" / "lock"):
        pass
    assert "\n" not in str(caught.value)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "total", "wanted", "drawn"),
    [
        (Terminal(), MANY, True, True),
        (Terminal(), MANY - 1, True, False),
        (Terminal(), MANY, False, False),
        (io.StringIO(), MANY, True, False),
    ],
)
def test_a_bar_is_drawn_where_it_is_much_and_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, total: int, wanted: bool, drawn: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("making", total, wanted) as show:
        show(7)
    assert (f"7/{total}" in stream.getvalue()) == drawn
    assert drawn or not stream.getvalue()


def test_bytes_of_a_total_that_is_known_late(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("file", None, of_bytes=True) as show:
        show(500_000, 2_000_000)
    assert "0.5/2.0 MB" in stream.getvalue()
