"""The house itself: what imports what, what the front door shows, what loads what."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import revgrad
from revgrad.recipes import Recipe, RecipeChanges
from revgrad.training.settings import Settings, SettingsChanges

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "revgrad"
#: Room (a folder or a file at the package's root) → level, from the one file that says so.
LEVELS = {
    room: level["number"]
    for level in tomllib.loads((ROOT / "docs" / "levels.toml").read_text())["level"]
    for room in level["rooms"]
}
FILES = sorted(PACKAGE.rglob("*.py"))
#: Rooms that share a level and may look at one another: preprocessing is part of an adapter, which
#: objectives work on; errors and the version are of no room; source-free adaptation hands over its
#: last round as auto does its choice.
NEIGHBOURS = {
    ("adapter", "preprocessing"),
    ("objectives", "adapter"),
    ("_system", "errors"),
    ("_seals", "_system"),
    ("source_free", "auto"),
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, text: str | None = None) -> Iterator[tuple[int, str]]:
    """Every module of ours that a file imports, by whatever form of import: (line, module)."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text() if text is None else text)):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
            base = base if node.level else node.module or ""
            found = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if name in ("import_module", "__import__", "find_spec", "reload"):
                found = [text for text in texts if isinstance(text, str)]
        for one in found:
            if one == "revgrad" or one.startswith("revgrad."):
                yield node.lineno, one


def imported_rooms(path: Path, text: str | None = None) -> set[str]:
    rooms = {one.split(".")[1] for _, one in imported_modules(path, text) if "." in one}
    return {name for name in rooms if name in LEVELS}


@pytest.mark.parametrize(
    "form",
    [
        "import revgrad.paper.data.mnist",
        "import revgrad.paper as p",
        "from revgrad import paper",
        "from revgrad.paper import data",
        "from revgrad.paper.data.mnist import mnist",
        "from .paper import data",
        "from . import paper",
        "def f():\n    from revgrad.paper.data import mnist",
        "import importlib\nimportlib.import_module('revgrad.paper.data')",
        "from importlib import import_module\nimport_module('revgrad.paper')",
        "__import__('revgrad.paper')",
    ],
)
def test_every_form_of_import_is_seen(form: str) -> None:
    assert "paper" in imported_rooms(PACKAGE / "batch.py", form)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_imports_lower_levels_and_its_own_room(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__"):
        return  # the front door opens on all rooms, when asked
    assert here in LEVELS, f"give {here} a level in docs/levels.toml"
    for other in imported_rooms(path) - {here}:
        lower = LEVELS[other] < LEVELS[here]
        assert lower or (here, other) in NEIGHBOURS, (
            f"{path.name} (level {LEVELS[here]}) imports {other} (level {LEVELS[other]})"
        )


def test_nothing_outside_reaches_into_the_paper() -> None:
    reaching = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        if room(path) != "paper"
        for line, one in imported_modules(path)
        if one.startswith("revgrad.paper")
    ]
    assert reaching == []


def test_levels_are_whole_numbers_and_name_what_is_there() -> None:
    assert sorted(set(LEVELS.values())) == list(range(12))
    there = {room(path) for path in FILES} - {"__init__", "__main__"}
    assert set(LEVELS) == there


def test_the_docs_show_the_levels() -> None:
    """A line a level in docs/architecture.md, with exactly the rooms of docs/levels.toml."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    shown = {}
    for number, cells in re.findall(r"^\| (\d+) \| (.*) \|$", text, flags=re.M):
        shown |= dict.fromkeys(re.findall(r"`(\w+)(?:\.py|/)`", cells), int(number))
    assert shown == LEVELS


def test_the_front_door_opens_every_name() -> None:
    assert set(revgrad._HOMES) | {"__version__"} == set(revgrad.__all__)
    for name in revgrad.__all__:
        assert getattr(revgrad, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'adaptt'"):
        revgrad.adaptt  # noqa: B018


def in_a_fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_functions_of_the_front_door_are_not_hidden_by_modules() -> None:
    """`revgrad.export` must stay the function, whichever module was imported first."""
    code = (
        "import revgrad.exporting, revgrad.api, revgrad.cutting, revgrad.reports, revgrad\n"
        "import revgrad.diagnostics.verdict\n"
        "names = ('adapt', 'export', 'cut', 'load', 'verdict', 'report')\n"
        "print(all(callable(getattr(revgrad, n)) for n in names))"
    )
    assert in_a_fresh_interpreter(code) == "True"


@pytest.mark.parametrize(
    "name",
    [
        "revgrad.diagnostics.verdict",
        "revgrad.domains.open_domain",
        "revgrad.model_selection.select",
        "revgrad.networks.CompactNetwork",
        "revgrad.recipes.RECOMMENDED",
        "revgrad.errors.InputError",
        "revgrad.training.Settings",
    ],
)
def test_names_in_rooms_need_no_further_import(name: str) -> None:
    assert in_a_fresh_interpreter(f"import revgrad; print({name} is not None)") == "True"


@pytest.mark.parametrize("command", [[], ["train"], ["demo"], ["export"], ["tune"]])
def test_help_does_not_import_torch(command: list[str]) -> None:
    code = (
        "import sys\nfrom revgrad.cli import app\n"
        f"try:\n    app({[*command, '--help']!r})\nexcept SystemExit:\n"
        "    print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    assert in_a_fresh_interpreter(code).splitlines()[-1] == "False False"


ADAPT = """
import json, sys
import numpy as np
import revgrad
X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
domain = revgrad.from_arrays(X, np.arange(60) % 2)
after_arrays = sorted(sys.modules)
from torch import nn
network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
how = dict(recipe="paper", steps=3, domain_classifier=(4,))  # "auto" judges by scikit-learn
revgrad.adapt(network, domain, X + 1, layer="0", progress=False, **how)
print(json.dumps([after_arrays, sorted(sys.modules)]))
"""


def test_one_s_own_arrays_load_neither_the_paper_nor_anything_heavy() -> None:
    arrays, adapted = json.loads(in_a_fresh_interpreter(ADAPT))
    heavy = ("matplotlib", "jinja2", "sklearn", "scipy", "pandas", "PIL", "rich", "typer", "optuna")
    for modules in (arrays, adapted):
        paper = [name for name in modules if name.startswith("revgrad.paper")]
        assert paper == []
        assert [name for name in heavy if name in modules] == []


def test_typed_changes_are_the_fields_they_change() -> None:
    settings = {item.name for item in fields(Settings)}
    assert set(SettingsChanges.__annotations__) == settings
    own = {item.name for item in fields(Recipe)} - {"settings"}
    assert set(RecipeChanges.__annotations__) - settings == own


def test_made_pages_are_up_to_date() -> None:
    shown = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make.py"), "--check"], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
