"""Shared by several commands: notes, interruption, json."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

JSON = typer.Option(False, "--json", help="Print json on standard output, for programs.")
NETWORK_AGAIN = typer.Option(
    None, "--network", help="module:function, again, where the run's network is your own."
)
FOLLOW_LINKS = typer.Option(
    False,
    "--follow-links",
    help="Take what links out of a folder of images lead to; else it is left out.",
)
TASK_AGAIN = typer.Option(
    None, "--task", help="module:name, again, where the run's task is your own."
)


def configure_logging(quiet: bool = False) -> None:
    """Notes and warnings as plain lines on standard error, from the first process only."""
    logger = logging.getLogger("revgrad")
    level = logging.WARNING if quiet else logging.INFO
    logger.setLevel(level if is_first_process() else logging.ERROR)
    if not logger.handlers:
        logger.addHandler(_Lines())


class _Lines(logging.Handler):
    """Each record as one line on whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = "note" if record.levelno <= logging.INFO else "warning"
        print(f"{kind}: {record.getMessage()}", file=sys.stderr)


def is_first_process() -> bool:
    """Whether this is the process of a torchrun that speaks; alone, every process is."""
    return int(os.environ.get("RANK", 0)) == 0


@contextmanager
def exit_when_interrupted() -> Iterator[None]:
    """Say where training stopped and exit with 130 or 143: typer would only say "aborted"."""
    from revgrad.training.session import Interrupted

    try:
        yield
    except Interrupted as stop:
        if is_first_process():
            print(f"revgrad: {stop}", file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None


def echo_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))
