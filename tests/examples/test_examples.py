"""Every example runs in its short form and draws its picture."""

from __future__ import annotations

import ast
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import pytest

from revgrad.errors import RevgradError
from torchvision_schemas import declare

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
RECORDS = ROOT / "studies" / "examples"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_its_form(example: Path) -> None:
    """Under 80 lines, a title and an explanation, a picture of its name."""
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    title, line, *rest = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert line == "=" * len(title)
    assert f"python examples/{example.name}" in "\n".join(rest)
    assert f'"{example.stem.replace("_", "-")}.png"' in text


def test_records_are_of_examples() -> None:
    for path in RECORDS.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["command"] == f"python examples/{path.stem}.py"
        assert (ROOT / "examples" / f"{path.stem}.py").exists()
        assert all(record["scores"].values())


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_in_its_short_form(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [example.name, "--short"])
    monkeypatch.chdir(tmp_path)
    declare()  # transformers imports torchvision
    try:
        found: dict[str, Any] = runpy.run_path(str(example), run_name="__main__")
    except RevgradError as error:
        pytest.skip(f"its data are not here: {error}")
    finally:
        plt.close("all")
    picture = tmp_path / (example.stem.replace("_", "-") + ".png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert all(values for values in found["scores"].values())


@pytest.mark.slow
def test_the_border_turns_with_the_moons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one picture that everybody wants, in full."""
    monkeypatch.setattr(sys, "argv", ["two_moons.py", "--short"])
    monkeypatch.chdir(tmp_path)
    found = SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "two_moons.py")))
    assert found.scores["35 degrees, source only"][0] < 0.75
    assert found.scores["35 degrees, adapted"][0] > 0.95
