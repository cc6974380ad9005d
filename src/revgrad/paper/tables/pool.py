"""Jobs in several processes, one thread each; stopped and resumed as one.

A signal stops every training at a step's boundary, after a checkpoint (`Trainer`); jobs that were
not begun wait for the next call. A job that fails stops no other, but for those that need it.
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

from revgrad._distributed import choose_device
from revgrad._system import usable_cores
from revgrad.errors import RevgradError
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.plan import finished, needs, run_job
from revgrad.training.record import Record
from revgrad.training.session import Interrupted, stop_request

#: Seconds that a process gets to save its training before it is killed.
SAVING_SECONDS = 120.0
#: Bytes of memory for a process: data as uint8, a network, room for both.
MEMORY = 2 * 1024**3


class Listener(Protocol):
    """Who is told what goes on."""

    def began(self, job: Job) -> None: ...

    def stepped(self, job: Job, done: int, steps: int) -> None: ...

    def ended(self, job: Job, record: Record, skipped: bool) -> None: ...

    def failed(self, job: Job, reason: str) -> None: ...


@dataclass
class JobResults:
    """Records of jobs that are done, by folder; reasons of those that failed."""

    records: dict[Path, Record] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


def jobs_at_once() -> int:
    """Processes that this machine has room for: one a core, as far as memory goes; where jobs train
    on a GPU, one."""
    if choose_device("auto").type != "cpu":
        return 1
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that doesn't say
        memory = MEMORY
    return max(min(usable_cores(), memory // MEMORY), 1)


def run_jobs(jobs: Sequence[Job], listener: Listener, processes: int = 1) -> JobResults:
    """Run all jobs; those that others need come first. Jobs that are done are skipped."""
    results = JobResults()
    waiting = []
    for job in jobs:
        done = finished(job)
        if done is None:
            waiting.append(job)
        else:
            results.records[job.folder] = done
            listener.ended(job, done, True)
    try:
        with stop_request() as stop:
            if processes == 1 or len(waiting) <= 1:
                _run_here(waiting, listener, results, stop)
            else:
                _run_there(waiting, listener, results, stop, min(processes, len(waiting)))
    except Interrupted as interrupted:
        done_count = len(results.records)
        raise Interrupted(
            interrupted.exit_code - 128,
            f"stopped with {done_count} of {len(jobs)} jobs done; the same command goes on from "
            "there",
        ) from None
    return results


def _run_here(waiting: Sequence[Job], listener: Listener, results: JobResults, stop: Any) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in waiting:
            if stop.number:
                raise Interrupted(stop.number, "")
            if _lacking(job, results):
                _fail(job, "what it needs failed", listener, results)
                continue
            listener.began(job)
            try:
                # the job's own, for the listener may be asked later
                def report(done: int, steps: int, job: Job = job) -> None:
                    listener.stepped(job, done, steps)

                record = run_job(job, report)
            except RevgradError as error:
                _fail(job, str(error), listener, results)
                continue
            results.records[job.folder] = record
            listener.ended(job, record, False)
    finally:
        torch.set_num_threads(threads)


class _Worker:
    """A process and the job it is at."""

    def __init__(self, context: Any, messages: Any, number: int) -> None:
        self.number = number
        ours, theirs = context.Pipe()
        self.tasks = ours
        self.process = context.Process(target=_work, args=(number, theirs, messages), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None


def _run_there(
    waiting: list[Job], listener: Listener, results: JobResults, stop: Any, processes: int
) -> None:
    context = multiprocessing.get_context("spawn")
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    messages = context.Queue()
    workers = [_Worker(context, messages, number) for number in range(processes)]
    try:
        while waiting or any(worker.job is not None for worker in workers):
            if stop.number:
                raise Interrupted(stop.number, "")
            for job in [job for job in waiting if _lacking(job, results)]:
                waiting.remove(job)
                _fail(job, "what it needs failed", listener, results)
            for worker in workers:
                ready = next(
                    (job for job in waiting if _ready(job, results, waiting, workers)), None
                )
                if worker.job is None and ready is not None and worker.process.is_alive():
                    waiting.remove(ready)
                    worker.job = ready
                    worker.tasks.send(ready)
                    listener.began(ready)
            _listen(workers, messages, listener, results)
            if not any(worker.process.is_alive() for worker in workers):
                break
        for job in waiting:
            _fail(job, "no process was left to run it", listener, results)
    finally:
        _end(workers)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _listen(workers: list[_Worker], messages: Any, listener: Listener, results: JobResults) -> None:
    try:
        number, kind, content = messages.get(timeout=0.2)
    except queue.Empty:
        for worker in workers:
            if worker.job is not None and not worker.process.is_alive():
                code = worker.process.exitcode
                _fail(worker.job, f"its process ended with code {code}", listener, results)
                worker.job = None
        return
    worker = workers[number]
    job = worker.job
    if job is None:
        return
    if kind == "step":
        listener.stepped(job, *content)
        return
    worker.job = None
    if kind == "record":
        results.records[job.folder] = content
        listener.ended(job, content, False)
    elif kind == "error":
        _fail(job, content, listener, results)


def _end(workers: list[_Worker]) -> None:
    """Idle processes leave; those at work save what they have, for SIGTERM asks them to."""
    for worker in workers:
        if worker.job is not None and worker.process.is_alive():
            worker.process.terminate()
        else:
            try:
                worker.tasks.send(None)
            except OSError:
                continue
    for worker in workers:
        worker.process.join(SAVING_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.tasks.close()


def _work(number: int, tasks: Any, messages: Any) -> None:
    """A process: jobs come through the pipe until there is none."""
    import logging

    import torch

    # Ctrl-C reaches the whole group: the parent decides, and asks by SIGTERM
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    logging.getLogger("revgrad").setLevel(logging.ERROR)
    while True:
        try:
            job = tasks.recv()
        except EOFError:  # the parent is gone
            return
        if job is None:
            return

        def report(done: int, steps: int) -> None:
            messages.put((number, "step", (done, steps)))

        try:
            messages.put((number, "record", run_job(job, report)))
        except RevgradError as error:
            messages.put((number, "error", str(error)))
        except KeyboardInterrupt:
            return


def _ready(job: Job, results: JobResults, waiting: list[Job], workers: list[_Worker]) -> bool:
    """Nothing that it needs is still to come."""
    folders = {one.folder for one in needs(job)}
    open_jobs = [*waiting, *(worker.job for worker in workers if worker.job is not None)]
    return not folders & {one.folder for one in open_jobs}


def _lacking(job: Job, results: JobResults) -> bool:
    return any(one.folder in results.failures for one in needs(job))


def _fail(job: Job, reason: str, listener: Listener, results: JobResults) -> None:
    results.failures[job.folder] = reason
    listener.failed(job, reason)
