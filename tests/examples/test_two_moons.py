"""The example of two turned moons runs as its page says, and gains what its picture shows."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_moons.py"


@pytest.mark.slow
def test_the_border_turns_with_the_moons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "moons.png"
    monkeypatch.setattr(sys, "argv", ["two_moons.py", "--seeds", "1", "--picture", str(picture)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = capsys.readouterr().out
    before, after = map(float, re.findall(r"(?:source only|adapted) ([\d.]+)", shown))
    assert before < 0.85
    assert after > 0.95
    assert picture.read_bytes().startswith(b"\x89PNG")
