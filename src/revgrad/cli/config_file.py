"""`--config run.toml`: the options of a command, by their names; the command line comes first."""

from __future__ import annotations

import tomllib
from pathlib import Path

import typer

from revgrad.errors import InputError, unknown


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the file's values as the command's defaults."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    names = {p.name for p in context.command.params if p.name not in ("config", "recipe", "help")}
    defaults = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in names:
            raise unknown(f"option in {path}", key, sorted(n.replace("_", "-") for n in names if n))
        if isinstance(value, dict):
            raise InputError(f"{path}: options stand at the top level, not under [{key}]")
        if isinstance(value, list):
            value = ",".join(str(item) for item in value)
        defaults[name] = value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path
