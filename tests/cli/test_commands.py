"""The commands as a whole: what texts say of their options is true, and mistakes are one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from revgrad.cli import COMMANDS, app
from shown import Shown

ROOT = Path(__file__).resolve().parents[2]
#: Options of other programs that our texts name.
OTHERS = {
    *("--nproc-per-node", "--max-restarts", "--nnodes", "--rdzv-backend", "--rdzv-endpoint"),
    *("--nodes", "--gpus-per-node", "--ntasks-per-node"),
    *("--only-binary", "--no-binary", "--no-deps"),
}
#: Made from records of earlier runs, whose commands were as they are there.
MADE = {"results.md", "cli.md", "runs.md"}


def all_options() -> set[str]:
    """Of every command, and of the commands of a group."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    commands = [group, *(group.get_command(context, name) for name in COMMANDS)]
    for command in list(commands):
        commands += getattr(command, "commands", {}).values()
    parameters = [parameter for command in commands for parameter in command.params]
    named = {option for one in parameters for option in (*one.opts, *one.secondary_opts)}
    return named | {"--help"}


def texts() -> list[Path]:
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name not in MADE]
    sources = [path for kind in ("py", "jinja") for path in (ROOT / "src").rglob(f"*.{kind}")]
    return [*sources, *pages, ROOT / "README.md"]


def test_options_that_texts_name_exist() -> None:
    """A remedy, an error or a page that names an option must name one there is."""
    known, wrong = all_options() | OTHERS, []
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])", line):
                if option not in known:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {option}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--versoin"], "no option '--versoin'; did you mean '--version'?"),
        (["trane"], "No such command 'trane'"),
        (["predict", "run"], "Missing argument"),
        (["verdict", "run", "--basline", "x"], "did you mean '--baseline'?"),
    ],
)
def test_a_mistake_of_usage_is_one_line(
    words: list[str], expected: str, call: Callable[..., Shown]
) -> None:
    shown = call(*words)
    assert shown.code == 2
    assert expected in shown.line
    assert len(shown.err.splitlines()) == 1


def test_without_a_command_the_help_is_shown(call: Callable[..., Shown]) -> None:
    shown = call()
    assert shown.code == 2
    assert all(name in shown.out for name in COMMANDS)
    assert not shown.err
