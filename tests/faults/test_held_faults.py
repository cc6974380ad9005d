"""The short form of `make faults`: a few trials of each kind, all of which must hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import environment

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute on an idle core, minutes on a busy one
def test_a_few_faults_of_each_kind_are_held(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--short", "--ledger", str(ledger)],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line["notes"] for line in lines if line["notes"]] == []
    assert done.returncode == 0, done.stderr[-3000:]
    tried = {line["fault"]: 0 for line in lines}
    for line in lines:
        tried[line["fault"]] += line["tried"]
    assert len(tried) >= 6
    assert all(tried.values())
