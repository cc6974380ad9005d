"""`revgrad train`: from data and a network to a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from revgrad.cli.common import (
    configure_logging,
    echo_json,
    exit_when_interrupted,
    is_first_process,
)
from revgrad.cli.options import shown_command, spread_options
from revgrad.cli.train_options import TrainOptions

if TYPE_CHECKING:
    from revgrad.training.record import Record


@spread_options
def train_command(options: TrainOptions) -> None:
    """Adapt a network: train it on a labelled source and an unlabelled target.

    Without --recipe it trains source only first, tries a few ways to adapt from there, and
    hands back the one that is judged best without target labels; where none is judged
    better, the source-only network. Defaults in parentheses are those of --recipe paper.
    """
    configure_logging(options.quiet)
    options.check()
    import torch

    from revgrad.training.record import RESULT, read_record

    if options.threads:
        torch.set_num_threads(options.threads)
    options.make_recipe()  # its mistakes are seen before any data is read
    with exit_when_interrupted():
        options.train(options.open_data(), progress=not options.quiet)
    if not is_first_process():
        return
    record = read_record(options.output / RESULT)
    assert record is not None  # the trainer has written it
    if options.as_json:
        echo_json(asdict(record))
    else:
        _show_result(options, record)


def _show_result(options: TrainOptions, record: Record) -> None:
    from revgrad.diagnostics.choice import read_choice
    from revgrad.tasks.metrics import shown_metrics

    for shown, accuracy, further in (
        ("held-out source", record.source_accuracy, record.source_metrics),
        ("target test", record.target_accuracy, record.target_metrics),
    ):
        figures = {**({} if accuracy is None else {"accuracy": accuracy}), **further}
        if figures:
            typer.echo(f"{shown} {shown_metrics(figures)}")
    choice = read_choice(options.output)
    if choice is not None:
        typer.echo(choice.sentence)
    words = ["export", str(options.output), "model.onnx"]
    if (
        options.network and ":" in options.network
    ):  # code of the user's own is run only where the user says so
        words += ["--network", options.network]
    typer.echo(f"run in {options.output}  ({record.seconds:.0f} s); next: {shown_command(*words)}")
