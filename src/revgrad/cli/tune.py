"""`revgrad tune`: a search for the training that a label-free score likes best.

Its options are those of `revgrad train` and a few of its own: whoever has a command that trains
changes one word and adds -o, and a --config file works for both. They are read by train's own
parser, so that there is one list of them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.cli.common import JSON, echo_json, speak, told_when_interrupted
from revgrad.cli.train_options import parse_train_options
from revgrad.cli.trials import Plan, Trials
from revgrad.cores import usable_cores
from revgrad.errors import InputError, RevgradError, RunError

if TYPE_CHECKING:
    from revgrad.choosing.trials import Search

#: Seconds that a process gets to save its training before it is killed.
PATIENCE = 120.0


def tune(
    context: typer.Context,
    output: Path = typer.Option(
        ...,
        "--output",
        "-o",
        help="Folder of the search; each trial is a run in it. The same command goes on with an "
        "interrupted search, and joins one that is running.",
    ),
    trials: int = typer.Option(20, help="Trainings in all; may be raised later."),
    workers: int = typer.Option(1, help="Processes that share the trials."),
    vary: list[str] = typer.Option(
        [],
        help="What to vary: height and gamma (of λ), rate, layer, hidden, domain-rate, batch-norm, "
        "seed; with NAME=low:high or NAME=a,b,c your own values. May be repeated. "
        "Default: all but the seed, around what the options say.",
    ),
    score: str | None = typer.Option(
        None,
        help="The label-free score to search by. Default: the one that our study recommends.",
    ),
    pruner: str = typer.Option(
        "median", help="Give up trials without prospect: median, hyperband, none."
    ),
    search_seed: int = typer.Option(0, help="Decides what is tried; --seed is the trainings'."),
    quiet: bool = typer.Option(False, help="No progress, no notes."),
    as_json: bool = JSON,
) -> None:
    """Search for the best training without target labels: λ, μ, layer, domain classifier.

    Takes every option of `revgrad train`, so write `tune` where you would write
    `train`: --source and --target say what to adapt, --steps how long a trial is.
    The first trial is what these options say; the others vary it. Trials are
    judged at each evaluation (by default ten times) by a score that reads no
    target label. --test is looked at after the search, for the table's last
    column.
    """
    speak(quiet)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise InputError("a search shares trials by --workers, not by torchrun")
    own = [option for p in context.command.params for option in p.opts if "--" in option]
    options, given = parse_train_options(context.args, output, own)
    if "evaluate_every" not in given:
        options["evaluate_every"] = max(options["steps"] // 10, 1)
    from revgrad.choosing.study import need_optuna
    from revgrad.diagnostics.scores import RECOMMENDED

    need_optuna()
    plan = Plan(
        options,
        output,
        score or RECOMMENDED,
        tuple(vary),
        trials,
        pruner,
        search_seed,
        workers,
        quiet,
    )
    plan.check()
    prepared = Trials(plan)
    with told_when_interrupted():
        _work(prepared)
    _show(prepared, as_json)


def _work(prepared: Trials) -> None:
    """Here, or in as many processes as were asked for."""
    plan = prepared.plan
    if plan.workers == 1:
        prepared.work()
        return
    from revgrad.choosing.locks import LOCKS
    from revgrad.training.stopping import Interrupted, stop_request

    if not LOCKS:
        raise InputError("--workers needs file locks, which this system does not have")
    searching = prepared.searching  # mistakes are seen here, once
    threads = plan.options["threads"] or max(usable_cores() // plan.workers, 1)
    theirs = replace(plan, options={**plan.options, "threads": threads})
    spawning = multiprocessing.get_context("spawn")
    errors: Any = spawning.SimpleQueue()
    arguments = (theirs, os.getpid(), errors)
    processes = [
        spawning.Process(target=_take_part, args=arguments, daemon=True)
        for _ in range(plan.workers)
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
                process.join(PATIENCE)
                if process.is_alive():
                    process.kill()
                    process.join()
        if stop.number:
            raise Interrupted(stop.number, searching.stopped(plan.trials))
    if not errors.empty():
        raise RunError(errors.get())
    broken = next((p.exitcode for p in processes if p.exitcode), None)
    if broken is not None:
        raise RunError(
            f"a process of the search ended with code {broken}; the same command goes on"
        )


def _take_part(plan: Plan, parent: int, errors: Any) -> None:
    """A process of its own: trials until there are enough, or its parent is gone."""
    # Ctrl-C reaches the whole group: the parent decides, and asks by SIGTERM
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    speak(quiet=True)  # what the parent has said is not said again
    try:
        prepared = Trials(plan)
        speak(plan.quiet)
        prepared.work(lambda: os.getppid() == parent)
    except RevgradError as error:
        errors.put(str(error))
    except KeyboardInterrupt:
        return


def _show(prepared: Trials, as_json: bool) -> None:
    from revgrad.choosing.search_table import as_text, table, write_search

    search = prepared.searching.result()
    tested = prepared.tested(search)
    files = write_search(search, tested)
    best = search.best
    command = None if best is None else prepared.command(best)
    if as_json:
        echo_json(_record(search, tested, command))
        return
    typer.echo(as_text(table(search, tested)))
    for row in search.of("failed"):
        typer.echo(f"trial {row.number} failed: {row.failure}")
    if running := search.of("running"):
        typer.echo(f"{len(running)} of them still running in other processes")
    typer.echo(f"see {', '.join(str(file) for file in files)}")
    if best is None:
        typer.echo("no trial came to its end; see why above")
        return
    typer.echo(
        f"best by {search.score}, which reads no target label: trial {best.number}, a run in "
        f"{best.folder}. To train it afresh, longer if you like:"
    )
    typer.echo(f"  {command}")


def _record(search: Search, tested: dict[int, float] | None, command: str | None) -> dict[str, Any]:
    """For programs."""
    return {
        "score": search.score,
        "best": None if search.best is None else search.best.number,
        "command": command,
        "trials": [
            {
                **asdict(row),
                "folder": str(row.folder),
                "target_accuracy": None if tested is None else tested.get(row.number),
            }
            for row in search.rows
        ],
    }
