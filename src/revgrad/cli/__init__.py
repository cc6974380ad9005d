"""The command line: one short file per command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys

import typer

from revgrad.cli import (
    data,
    demo,
    evaluate,
    export,
    layers,
    predict,
    report,
    reproduce,
    select,
    train,
    tune,
    verdict,
    watch,
)
from revgrad.errors import RevgradError
from revgrad.version import __version__

app = typer.Typer(
    name="revgrad",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("verdict")(verdict.verdict)
app.command("layers")(layers.layers)
app.command("report")(report.report)
app.command("watch")(watch.watch)
app.command("reproduce")(reproduce.reproduce)
app.command("select")(select.select)
app.command(
    "tune",
    options_metavar="[OPTIONS, AND THOSE OF revgrad train]",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(tune.tune)
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"revgrad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Adapt a network from labelled source data to unlabelled target data, by gradient reversal."""


def main() -> None:
    """Run a command; a mistake of the user's is one line and a non-zero exit."""
    try:
        app()
    except RevgradError as error:
        _fail(str(error), error.exit_code)


def _fail(text: str, code: int) -> None:
    print("revgrad: " + " ".join(text.split()), file=sys.stderr)
    raise SystemExit(code)
