"""The options of `revgrad train`, read and written by another command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import typer.main

from revgrad.cli import train
from revgrad.errors import InputError, unknown

if TYPE_CHECKING:
    from revgrad.training import Settings


def parse_train_options(
    words: Sequence[str], output: Path, others: Sequence[str] = ()
) -> tuple[dict[str, Any], set[str]]:
    """What `revgrad train` would make of these words: its parameters by name, and which of them
    were given, in words or by --config.

    others   options of the command that asks, for a misspelt one to be recognised
    """
    command = _command()
    try:
        context = command.make_context("train", [*words, "--output", str(output)])
    except typer.Exit:
        raise
    except Exception as error:
        name = getattr(error, "option_name", None)
        if name is not None:  # there is no such option
            known = sorted(option for p in command.params for option in p.opts if "--" in option)
            raise unknown("option", str(name), [*others, *known]) from None
        if not hasattr(error, "format_message"):
            raise
        raise InputError(error.format_message()) from None
    given = {
        name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"
    }
    return dict(context.params), given


def train_command(options: Mapping[str, Any]) -> str:
    """The command that trains with these options, as one could type it; defaults are left out."""
    words = ["revgrad", "train"]
    for parameter in _command().params:
        value = options.get(parameter.name or "")
        if value is None or value == parameter.default or parameter.name in ("config", "as_json"):
            continue
        option = next(text for text in parameter.opts if text.startswith("--"))
        words += [option] if value is True else [option, _shown(value)]
    return shlex.join(words)


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The settings that `revgrad train` would train with."""
    from dataclasses import fields

    from revgrad.networks import NETWORKS
    from revgrad.schedules import parse_schedule
    from revgrad.training import Settings

    values = {f.name: options[f.name] for f in fields(Settings) if f.name in options}
    values |= {name: parse_schedule(options[name]) for name in ("rate", "factor")}
    usual = getattr(NETWORKS.get(options["network"]), "max_norm", None)
    values["max_norm"] = usual if options["max_norm"] is None else options["max_norm"] or None
    return Settings(**values)


@cache
def _command() -> Any:
    holder = typer.Typer(add_completion=False)
    holder.command()(train.train)
    return typer.main.get_command(holder)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
