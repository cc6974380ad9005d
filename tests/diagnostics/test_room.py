"""The room in a fresh interpreter: what it is reached by, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import revgrad.diagnostics.recorder, revgrad.diagnostics.scores, revgrad.diagnostics.verdict
heavy = ("sklearn", "scipy", "matplotlib", "jinja2", "pandas", "PIL")
print([name for name in heavy if name in sys.modules], type(revgrad.diagnostics.verdict).__name__)
"""


def test_modules_load_nothing_heavy_and_hide_no_function() -> None:
    """`verdict` is a function of the room and a module in it: the function must be what is seen."""
    shown = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.strip() == "[] function"
