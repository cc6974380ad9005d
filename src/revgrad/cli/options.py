"""Options as dataclasses: each option of a command is a field, written once.

    @dataclass(frozen=True, kw_only=True)
    class WalkOptions:
        steps: Annotated[int, typer.Option(help="How far.")] = 100

    @spread_options
    def walk(options: WalkOptions) -> None: ...        # revgrad walk --steps 20

`--config FILE.toml` (`CONFIG`) gives any of a command's options by name; the command line comes
first.
"""

from __future__ import annotations

import inspect
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from revgrad.errors import InputError, unknown


def spread_options(function: Callable[..., None]) -> Callable[..., None]:
    """The typer command of a `function` that takes dataclasses of options: a parameter a field.

    An option that several of the dataclasses have is one option: described by the first, in the
    last one's order, and its value goes to all.
    """
    groups = {name: kind for name, kind in get_type_hints(function).items() if name != "return"}
    parameters: dict[str, inspect.Parameter] = {}
    for kind in groups.values():
        hints = get_type_hints(kind, include_extras=True)
        for item in fields(kind):
            described = parameters.pop(item.name, None)
            parameters[item.name] = described or _parameter(item, hints[item.name])

    @wraps(function)
    def command(**values: Any) -> None:
        made = {
            name: kind(**{item.name: values[item.name] for item in fields(kind)})
            for name, kind in groups.items()
        }
        function(**made)

    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return command


def option_words(options: Any, leave_out: Collection[str] = ()) -> list[str]:
    """The words that give these options on the command line; defaults are left out."""
    return list(_words(options, leave_out))


def shown_command(*words: str) -> str:
    """`revgrad WORDS…`, as one could type it."""
    return shlex.join(["revgrad", *words])


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the values of a TOML file as the command's defaults."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    known = {p.name: p for p in context.command.params if p.name not in (None, "config", "help")}
    defaults: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            choices = sorted(str(name).replace("_", "-") for name in known)
            raise unknown(f"option in {path}", key, choices)
        if isinstance(value, dict):
            raise InputError(f"{path}: options stand at the top level, not under [{key}]")
        if isinstance(value, list) and not getattr(known[name], "multiple", False):
            value = ",".join(str(item) for item in value)
        elif not isinstance(value, list) and getattr(known[name], "multiple", False):
            value = [value]
        defaults[name] = value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


CONFIG = typer.Option(
    callback=read_config,
    is_eager=True,
    help="A TOML file with any of these options; the command line comes first.",
)


def _parameter(item: Field[Any], annotation: Any) -> inspect.Parameter:
    default = _default_of(item)
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=annotation,
    )


def _declared(annotation: Any) -> str | None:
    """The option's own name where it is not the field's: `--layer-rate` → layer-rate."""
    info = next(iter(get_args(annotation)[1:]), None)
    # beside an annotation, typer keeps the first of an option's names in the default's place
    flags = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
    named = (one for one in flags if isinstance(one, str) and one.startswith("--"))
    return next((one.removeprefix("--") for one in named), None)


def _default_of(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _words(options: Any, leave_out: Collection[str]) -> Iterator[str]:
    hints = get_type_hints(type(options), include_extras=True)
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name in leave_out or value == _default_of(item):
            continue
        name = _declared(hints[item.name]) or item.name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from (f"--{name}", str(one))
