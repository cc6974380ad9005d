"""Every benchmark runs, briefly, and prints what `make bench` keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import environment

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
#: Not a benchmark but what they share.
SHARED = {"measuring.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({f.name for f in BENCHMARKS.glob("*.py")} - SHARED))
def test_it_runs_and_prints_ratios(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), "--brief", "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert all({"name", "value", "reference", "ratio"} <= set(line) for line in lines)
    assert all(line["ratio"] > 0 for line in lines)
