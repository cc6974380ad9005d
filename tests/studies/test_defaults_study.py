"""The table of studies/defaults is that of its records."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from revgrad.diagnostics.choice import Signals

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "defaults"))
from defaults_table import RECORDS, RESERVE, gains, lines, reached, read_records


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
    assert len(found["plain"]) >= len(found["auto"]) >= 60


def test_the_reserve_is_whole_and_was_run_once() -> None:
    records = read_records(RESERVE)
    own = [(one["pair"], one["method"]) for one in records]
    assert len(own) == len(set(own)) == 29 * 4
    assert {one["seed"] for one in records} == {0}


def test_the_choice_of_a_record_is_that_of_the_rule_on_its_signals() -> None:
    """What was chosen was not refused, has the highest judged gain, and its own accuracy."""
    for one in (*read_records(RECORDS), *read_records(RESERVE)):
        if one["method"] != "auto":
            continue
        tried, chosen = one["candidates"], one["chosen"]
        if chosen == "source-only":
            assert one["accuracy"] == one["baseline"]
            continue
        assert one["accuracy"] == tried[chosen]["accuracy"]
        signals = Signals(**tried[chosen]["signals"])
        assert signals.gain >= 0.01 + 2 * signals.chance
        assert signals.is_clear_cut or signals.agreed + signals.smoother > 0


def test_half_of_a_large_gain() -> None:
    records = [
        {"pair": pair, "seed": 0, "method": method, "accuracy": accuracy}
        for pair, method, accuracy in (
            *(("a", "source only", 0.5), ("a", "plain", 0.58), ("a", "auto", 0.55)),
            *(("b", "source only", 0.5), ("b", "plain", 0.58), ("b", "auto", 0.53)),
            *(("c", "source only", 0.5), ("c", "plain", 0.54), ("c", "auto", 0.5)),
        )
    ]
    assert reached(records) == (1, 2)


def test_every_pair_of_the_layers_has_all_three_and_one_baseline() -> None:
    lines = (RECORDS.parent / "layers.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    pairs = {(one["pair"], one["seed"]) for one in records}
    assert len(pairs) >= 9
    for pair in pairs:
        own = [one for one in records if (one["pair"], one["seed"]) == pair]
        assert [one["layer"] for one in own] == ["early", "features", "hidden"]
        assert len({one["baseline"] for one in own}) == 1
