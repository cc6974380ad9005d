"""The command line: one short file a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, NoReturn

import typer
import typer.core
import typer.main

from revgrad._system import named
from revgrad.errors import RevgradError, unknown
from revgrad.version import __version__

#: The commands in the order of `--help`: "module:function", or of a group of commands its app.
COMMANDS = {
    "demo": "revgrad.cli.demo:demo_command",
    "train": "revgrad.cli.train:train_command",
    "evaluate": "revgrad.cli.evaluate:evaluate_command",
    "predict": "revgrad.cli.predict:predict_command",
    "export": "revgrad.cli.export:export_command",
    "verdict": "revgrad.cli.verdict:verdict_command",
    "layers": "revgrad.cli.layers:layers_command",
    "report": "revgrad.cli.report:report_command",
    "watch": "revgrad.cli.watch:watch_command",
    "select": "revgrad.cli.select:select_command",
    "tune": "revgrad.cli.tune:tune_command",
    "data": "revgrad.paper.cli.data:data_commands",
    "reproduce": "revgrad.paper.cli.reproduce:reproduce_command",
}
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Commands(typer.core.TyperGroup):
    """The commands by name, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        found = named(COMMANDS[cmd_name])
        if not isinstance(found, typer.Typer):
            holder = typer.Typer(add_completion=False, context_settings=HELP)
            holder.command(cmd_name)(found)
            found = holder
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="revgrad",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


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
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        _run()
        return
    code: Any = 0
    try:
        _run()
    except SystemExit as stop:
        code = stop.code
    # A thread of gloo that still lets go of its last tensor while Python ends aborts the process
    # (exit code -6), and torchrun would start all of them again: end without Python's own ending.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _run() -> None:
    try:
        code = app(standalone_mode=False)
    except RevgradError as error:
        _exit_with(str(error), error.exit_code)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # an error of usage, of typer's own click or of the click beside it
        _exit_with(_usage(error), getattr(error, "exit_code", 2))
    if code:
        raise SystemExit(code)


def _usage(error: Any) -> str:
    """What was wrong with the words; "" where the help has been shown instead."""
    if type(error).__name__ != "NoSuchOption" or error.ctx is None:
        return str(error.format_message())
    known = [option for p in error.ctx.command.params for option in p.opts if "--" in option]
    return str(unknown("option", error.option_name, known))


def _exit_with(text: str, code: int) -> NoReturn:
    if text:
        print("revgrad: " + " ".join(text.split()), file=sys.stderr)
    raise SystemExit(code)
