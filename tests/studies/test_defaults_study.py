"""The table of studies/defaults is that of its records."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "defaults"))
from defaults_table import RECORDS, gains, lines


def test_gains_are_against_source_only_of_the_same_pair_and_seed() -> None:
    records = [
        {"pair": pair, "seed": seed, "method": method, "accuracy": accuracy}
        for pair, seed, method, accuracy in (
            ("a", 0, "source only", 0.5),
            ("a", 1, "source only", 0.7),
            ("b", 0, "source only", 0.2),
            ("a", 0, "auto", 0.6),
            ("a", 1, "auto", 0.6),
            ("b", 0, "auto", 0.2),
        )
    ]
    assert gains(records)["auto"] == pytest.approx([0.1, -0.1, 0.0])
    (line,) = lines(records)
    assert (line.runs, line.gained, line.harmed) == (3, 1, 1)
    assert line.worst == pytest.approx(-0.1)


def test_every_record_has_its_source_only() -> None:
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    found = gains(records)
    assert len(found["auto, first form"]) == len(found["plain"]) >= 30
    assert len(found["auto"]) >= 28


def test_every_pair_of_the_layers_has_all_three_and_one_baseline() -> None:
    lines = (RECORDS.parent / "layers.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    pairs = {(one["pair"], one["seed"]) for one in records}
    assert len(pairs) >= 9
    for pair in pairs:
        own = [one for one in records if (one["pair"], one["seed"]) == pair]
        assert [one["layer"] for one in own] == ["early", "features", "hidden"]
        assert len({one["baseline"] for one in own}) == 1
