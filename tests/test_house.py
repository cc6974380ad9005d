"""The house itself: what imports what, what the front door shows, what is made and not typed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import revgrad

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "revgrad"
#: docs/architecture.md: a file imports lower levels and its own folder, nothing else.
LEVELS = {
    **dict.fromkeys(("errors", "files", "cores", "batches", "version"), 0),
    **dict.fromkeys(
        ("reversal", "schedules", "processes", "augmenting", "discrepancy", "shallow"), 1
    ),
    **dict.fromkeys(("cutting", "networks", "domains"), 2),
    **dict.fromkeys(("preprocessing", "adapter", "adaptation_layer", "objectives"), 3),
    "evaluation": 4,
    "training": 4.5,
    "placing": 5,
    "diagnostics": 5.5,
    **dict.fromkeys(("pretraining", "reports", "exporting"), 6),
    "adapting": 7,
    **dict.fromkeys(("choosing", "experiments"), 7.5),
    "cli": 8,
    **dict.fromkeys(("__init__", "__main__"), 9),
}
#: Files at the root of the package share a folder; these levels may look at one another.
NEIGHBOURS = {0, 3}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("revgrad."):
            found.add((node.module or "").split(".")[1])
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_a_file_imports_lower_levels_and_its_own_folder(path: Path) -> None:
    here = room(path)
    assert here in LEVELS, f"give {here} a level, here and in docs/architecture.md"
    for other in imported_rooms(path) - {here}:
        lower = LEVELS[other] < LEVELS[here]
        neighbour = LEVELS[other] == LEVELS[here] and LEVELS[here] in NEIGHBOURS
        assert lower or neighbour, f"{path.name} (level {LEVELS[here]}) imports {other}"


def test_levels_of_the_docs_and_of_the_test_agree() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name in LEVELS:
        if name not in ("version", "__init__", "__main__"):
            assert f"`{name}.py`" in text or f"`{name}/`" in text, name


def test_the_front_door_opens_every_name() -> None:
    assert revgrad.__all__ == sorted(revgrad.__all__)
    assert set(revgrad._HOMES) | {"__version__"} == set(revgrad.__all__)
    for name in revgrad.__all__:
        assert getattr(revgrad, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'adapted'"):
        revgrad.adapted  # noqa: B018


def test_functions_of_the_front_door_are_not_hidden_by_modules() -> None:
    """`revgrad.export` must stay the function, whichever module was imported first."""
    code = (
        "import revgrad.exporting, revgrad.adapting, revgrad.cutting, revgrad; "
        "print([callable(getattr(revgrad, n)) for n in ('adapt', 'export', 'cut', 'load')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[True, True, True, True]"


@pytest.mark.parametrize("command", [[], ["train"], ["demo"], ["export"]])
def test_help_does_not_import_torch(command: list[str]) -> None:
    code = (
        "import sys\nfrom revgrad.cli import app\n"
        f"try:\n    app({[*command, '--help']!r})\nexcept SystemExit:\n"
        "    print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip().splitlines()[-1] == "False False"


def test_import_adds_nothing_heavy_to_torch() -> None:
    code = (
        "import sys, revgrad\n"
        "revgrad.adapt, revgrad.from_folder, revgrad.Trainer\n"
        "heavy = ('sklearn', 'matplotlib', 'PIL', 'rich', 'typer', 'onnx', 'skimage', 'pandas')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_made_pages_are_up_to_date() -> None:
    shown = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make.py"), "--check"], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
