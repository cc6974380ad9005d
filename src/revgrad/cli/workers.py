"""Processes of `revgrad tune --workers` that share the trials of one search."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from typing import Any

from revgrad._system import usable_cores
from revgrad.cli.common import configure_logging
from revgrad.cli.train_options import TrainOptions
from revgrad.cli.trials import Trials
from revgrad.cli.tune import TuneOptions
from revgrad.errors import RevgradError, RunError

#: Seconds that a process gets to save its training before it is killed.
SECONDS_TO_SAVE = 120.0


def train_trials(trials: Trials) -> None:
    """Train the trials here, or in as many processes as were asked for."""
    workers = trials.options.workers
    if workers == 1:
        trials.work()
        return
    from revgrad.training.session import Interrupted, stop_request

    search = trials.search  # mistakes are seen here, once
    threads = trials.training.threads or max(usable_cores() // workers, 1)
    training = replace(trials.training, threads=threads)
    spawning = multiprocessing.get_context("spawn")
    errors: Any = spawning.SimpleQueue()
    arguments = (trials.options, training, os.getpid(), errors)
    processes = [
        spawning.Process(target=_take_part, args=arguments, daemon=True) for _ in range(workers)
    ]
    with stop_request() as stop:
        for process in processes:
            process.start()
        try:
            while any(process.is_alive() for process in processes) and not stop.number:
                for process in processes:
                    process.join(0.1)
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()  # SIGTERM: it saves its training first
            for process in processes:
                process.join(SECONDS_TO_SAVE)
                if process.is_alive():
                    process.kill()
                    process.join()
        if stop.number:
            raise Interrupted(stop.number, search.stopped(trials.options.trials))
    if not errors.empty():
        raise RunError(errors.get())
    broken = next((p.exitcode for p in processes if p.exitcode), None)
    if broken is not None:
        raise RunError(
            f"a process of the search ended with code {broken}; the same command goes on"
        )


def _take_part(options: TuneOptions, training: TrainOptions, parent: int, errors: Any) -> None:
    """A process of its own: trials until there are enough, or its parent is gone."""
    # Ctrl-C reaches the whole group: the parent decides, and asks by SIGTERM
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging(quiet=True)  # what the parent has said is not said again
    try:
        trials = Trials(options, training)
        configure_logging(training.quiet)
        trials.work(lambda: os.getppid() == parent)
    except RevgradError as error:
        errors.put(str(error))
    except KeyboardInterrupt:
        return
