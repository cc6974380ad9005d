"""Rows in several processes, one thread each; stopped and resumed as one.

A signal stops every training at a step's boundary, after a checkpoint (`Trainer`); rows that were
not begun wait for the next call. A row that fails stops no other, but for those that need it.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from revgrad.cores import usable_cores
from revgrad.errors import RevgradError
from revgrad.experiments.records import Record
from revgrad.experiments.row import Row
from revgrad.experiments.running import finished, needs, run_row
from revgrad.training.distributed import choose_device
from revgrad.training.stopping import Interrupted, stop_request

#: Seconds that a process gets to save its training before it is killed.
PATIENCE = 120.0
#: Bytes of memory for a process: data as uint8, a network, room for both.
MEMORY = 2 * 1024**3


class Listener(Protocol):
    """Who is told what goes on."""

    def began(self, row: Row) -> None: ...

    def stepped(self, row: Row, done: int, steps: int) -> None: ...

    def ended(self, row: Row, record: Record, skipped: bool) -> None: ...

    def failed(self, row: Row, reason: str) -> None: ...


@dataclass
class Outcome:
    """Records of rows that are done, by folder; reasons of those that failed."""

    records: dict[Path, Record] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


def rows_at_once() -> int:
    """Processes that this machine has room for: one a core, as far as memory goes; where rows train
    on a GPU, one."""
    if choose_device("auto").type != "cpu":
        return 1
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that doesn't say
        memory = MEMORY
    return max(min(usable_cores(), memory // MEMORY), 1)


def run_rows(rows: Sequence[Row], listener: Listener, processes: int = 1) -> Outcome:
    """Run all rows; those that others need come first. Rows that are done are skipped."""
    outcome = Outcome()
    waiting = []
    for row in rows:
        done = finished(row)
        if done is None:
            waiting.append(row)
        else:
            outcome.records[row.folder] = done
            listener.ended(row, done, True)
    try:
        with stop_request() as stop:
            if processes == 1 or len(waiting) <= 1:
                _run_here(waiting, listener, outcome, stop)
            else:
                _run_there(waiting, listener, outcome, stop, min(processes, len(waiting)))
    except Interrupted as interrupted:
        done_count = len(outcome.records)
        raise Interrupted(
            interrupted.exit_code - 128,
            f"stopped with {done_count} of {len(rows)} rows done; the same command goes on from "
            "there",
        ) from None
    return outcome


def _run_here(waiting: Sequence[Row], listener: Listener, outcome: Outcome, stop: Any) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for row in waiting:
            if stop.number:
                raise Interrupted(stop.number, "")
            if _lacking(row, outcome):
                _fail(row, "what it needs failed", listener, outcome)
                continue
            listener.began(row)
            try:
                # the row's own, for the listener may be asked later
                def report(done: int, steps: int, row: Row = row) -> None:
                    listener.stepped(row, done, steps)

                record = run_row(row, report)
            except RevgradError as error:
                _fail(row, str(error), listener, outcome)
                continue
            outcome.records[row.folder] = record
            listener.ended(row, record, False)
    finally:
        torch.set_num_threads(threads)


class _Worker:
    """A process and the row it is at."""

    def __init__(self, context: Any, messages: Any, number: int) -> None:
        self.number = number
        ours, theirs = context.Pipe()
        self.tasks = ours
        self.process = context.Process(target=_work, args=(number, theirs, messages), daemon=True)
        self.process.start()
        theirs.close()
        self.row: Row | None = None


def _run_there(
    waiting: list[Row], listener: Listener, outcome: Outcome, stop: Any, processes: int
) -> None:
    context = multiprocessing.get_context("spawn")
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    messages = context.Queue()
    workers = [_Worker(context, messages, number) for number in range(processes)]
    try:
        while waiting or any(worker.row is not None for worker in workers):
            if stop.number:
                raise Interrupted(stop.number, "")
            for row in [row for row in waiting if _lacking(row, outcome)]:
                waiting.remove(row)
                _fail(row, "what it needs failed", listener, outcome)
            for worker in workers:
                ready = next(
                    (row for row in waiting if _ready(row, outcome, waiting, workers)), None
                )
                if worker.row is None and ready is not None and worker.process.is_alive():
                    waiting.remove(ready)
                    worker.row = ready
                    worker.tasks.send(ready)
                    listener.began(ready)
            _listen(workers, messages, listener, outcome)
            if not any(worker.process.is_alive() for worker in workers):
                break
        for row in waiting:
            _fail(row, "no process was left to run it", listener, outcome)
    finally:
        _end(workers)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _listen(workers: list[_Worker], messages: Any, listener: Listener, outcome: Outcome) -> None:
    try:
        number, kind, content = messages.get(timeout=0.2)
    except queue.Empty:
        for worker in workers:
            if worker.row is not None and not worker.process.is_alive():
                code = worker.process.exitcode
                _fail(worker.row, f"its process ended with code {code}", listener, outcome)
                worker.row = None
        return
    worker = workers[number]
    row = worker.row
    if row is None:
        return
    if kind == "step":
        listener.stepped(row, *content)
        return
    worker.row = None
    if kind == "record":
        outcome.records[row.folder] = content
        listener.ended(row, content, False)
    elif kind == "error":
        _fail(row, content, listener, outcome)


def _end(workers: list[_Worker]) -> None:
    """Idle processes leave; those at work save what they have, for SIGTERM asks them to."""
    for worker in workers:
        if worker.row is not None and worker.process.is_alive():
            worker.process.terminate()
        else:
            try:
                worker.tasks.send(None)
            except OSError:
                continue
    for worker in workers:
        worker.process.join(PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.tasks.close()


def _work(number: int, tasks: Any, messages: Any) -> None:
    """A process: rows come through the pipe until there is none."""
    import logging

    import torch

    # Ctrl-C reaches the whole group: the parent decides, and asks by SIGTERM
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    logging.getLogger("revgrad").setLevel(logging.ERROR)
    while True:
        try:
            row = tasks.recv()
        except EOFError:  # the parent is gone
            return
        if row is None:
            return

        def report(done: int, steps: int) -> None:
            messages.put((number, "step", (done, steps)))

        try:
            messages.put((number, "record", run_row(row, report)))
        except RevgradError as error:
            messages.put((number, "error", str(error)))
        except KeyboardInterrupt:
            return


def _ready(row: Row, outcome: Outcome, waiting: list[Row], workers: list[_Worker]) -> bool:
    """Nothing that it needs is still to come."""
    folders = {one.folder for one in needs(row)}
    open_rows = [*waiting, *(worker.row for worker in workers if worker.row is not None)]
    return not folders & {one.folder for one in open_rows}


def _lacking(row: Row, outcome: Outcome) -> bool:
    return any(one.folder in outcome.failures for one in needs(row))


def _fail(row: Row, reason: str, listener: Listener, outcome: Outcome) -> None:
    outcome.failures[row.folder] = reason
    listener.failed(row, reason)
