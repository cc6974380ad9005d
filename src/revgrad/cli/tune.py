"""`revgrad tune`: a search for the training that a label-free score likes best.

Its options are a few of its own and those of `revgrad train`: whoever has a command that trains
changes one word, and a --config file works for both.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from revgrad.cli.common import configure_logging, echo_json, exit_when_interrupted
from revgrad.cli.options import spread_options
from revgrad.cli.train_options import TrainOptions
from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.cli.trials import Trials
    from revgrad.model_selection.search import SearchResult


def _search_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Search")


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The options of a search beside those of its trainings."""

    trials: Annotated[int, _search_option("Trainings in all; may be raised later.")] = 20
    vary: Annotated[
        list[str],
        _search_option(
            "What to vary: height and gamma (of λ), learning-rate, layer, domain-classifier, "
            "domain-lr-factor, batch-norm, seed; with NAME=low:high or NAME=a,b,c your own values. "
            "May be repeated. Default: all but the seed, around what the options say."
        ),
    ] = field(default_factory=list)
    workers: Annotated[int, _search_option("Processes that share the trials.")] = 1
    score: Annotated[
        str | None,
        _search_option(
            "The label-free score to search by. Default: the one that our study recommends."
        ),
    ] = None
    pruner: Annotated[
        str, _search_option("Give up trials without prospect: median, hyperband, none.")
    ] = "median"
    search_seed: Annotated[
        int, _search_option("Decides what is tried; --seed is the trainings'.")
    ] = 0
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the search; each trial is a run in it. The same command goes on with "
            "an interrupted search, and joins one that is running.",
        ),
    ]
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            help="Steps between evaluations, each of which judges the trial.",
            show_default="a tenth of the steps",
            rich_help_panel="Running",
        ),
    ] = None

    def check(self, training: TrainOptions) -> None:
        """Mistakes that need no data to be seen."""
        if training.method in ("source-only", "train-on-target"):
            raise InputError(
                f"a search adapts to unlabelled data: method '{training.method}' does not"
            )
        if not training.target or not all(training.target):
            raise InputError("--target is missing: a search judges by unlabelled target data")
        if not training.held_out > 0:
            raise InputError("a search needs held-out source to evaluate on: --held-out above 0")
        if training.evidence_samples < 1:
            raise InputError("a search judges by evidence: --evidence-samples of 1 or more")
        if self.trials < 1:
            raise InputError(f"--trials takes 1 or more, not {self.trials}")
        if self.workers < 1:
            raise InputError(f"--workers takes 1 or more processes, not {self.workers}")
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:
            raise InputError("a search shares trials by --workers, not by torchrun")


@spread_options
def tune_command(options: TuneOptions, training: TrainOptions) -> None:
    """Search for the best training without target labels: λ, μ, layer, domain classifier.

    Takes every option of `revgrad train`, so write `tune` where you would write
    `train`: --source and --target say what to adapt, --steps how long a trial is.
    The first trial is what these options say; the others vary it. Trials are
    judged at each evaluation by a score that reads no target label. --test is
    looked at after the search, for the table's last column.
    """
    configure_logging(training.quiet)
    options.check(training)
    training.check()
    from revgrad.cli.trials import Trials
    from revgrad.cli.workers import train_trials
    from revgrad.model_selection.study import need_optuna
    from revgrad.recipes import AUTO

    need_optuna()
    if training.recipe == AUTO:  # a choice of its own: what a search varies is one recipe
        training = replace(training, recipe="paper")
    if training.evaluate_every is None:
        steps = training.make_recipe().settings.steps
        training = replace(training, evaluate_every=max(steps // 10, 1))
    trials = Trials(options, training)
    with exit_when_interrupted():
        train_trials(trials)
    _show_search(trials)


def _show_search(trials: Trials) -> None:
    from revgrad.model_selection.table import table_text, trial_table, write_search

    search = trials.search.result()
    tested = trials.tested(search)
    files = write_search(search, tested)
    best = search.best
    command = None if best is None else trials.command(best)
    if trials.training.as_json:
        echo_json(_search_json(search, tested, command))
        return
    typer.echo(table_text(trial_table(search, tested)))
    for trial in search.of("failed"):
        typer.echo(f"trial {trial.number} failed: {trial.failure}")
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


def _search_json(
    search: SearchResult, tested: dict[int, float] | None, command: str | None
) -> dict[str, Any]:
    """For programs."""
    return {
        "score": search.score,
        "best": None if search.best is None else search.best.number,
        "command": command,
        "trials": [
            {
                **asdict(trial),
                "folder": str(trial.folder),
                "target_accuracy": None if tested is None else tested.get(trial.number),
            }
            for trial in search.trials
        ],
    }
