"""The study of removed attributes: its data, one short training, and the committed record."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "studies" / "attributes" / "removal.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("removal_study", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["shifted", "mixed", "spread"])
def test_planted_sets_are_drawn_alike_every_time(study: ModuleType, name: str) -> None:
    one, same, other = (study.SETS[name](200, seed) for seed in (1, 1, 2))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert min(np.bincount(one.attributes["attribute"].values)) > 40


def test_the_census_is_of_people_who_worked(study: ModuleType) -> None:
    line = [f" v{place}" for place in range(42)]
    idle = [*line[:39], " 0", *line[40:]]
    (read,) = study.workers(io.StringIO(",".join(line) + "\n" + ",".join(idle) + "\n"))
    assert read["age"] == "v0"
    assert read["attribute"] == "v12"
    assert read["income"] == "v41"


def test_a_line_of_the_record(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HELD_OUT", 120), ("STEPS", 3)):
        monkeypatch.setattr(study, name, value)
    line = study.trained("mixed", "an earlier layer too", 0, 300)
    assert line["chance"] == pytest.approx(1 / 3, abs=1e-3)
    assert 0 < line["recovered"] <= 1
    assert line["interval"][0] <= line["recovered"] <= line["interval"][1]
    committed = [json.loads(one) for one in study.RECORD.read_text().splitlines()]
    assert all(set(line) == set(one) for one in committed)
