"""The study of plain reversal: its shares of digits, and that its records are of what it lists."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from revgrad import from_arrays

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "reversal"))
import variants


def test_rows_are_kept_by_shares() -> None:
    labels = np.repeat(np.arange(3), 100)
    domain = from_arrays(np.zeros((300, 2), dtype=np.float32), labels)
    kept = variants.with_shares(domain, np.array([0.5, 0.3, 0.2]))
    assert np.bincount(np.asarray(kept.labels)).tolist() == [100, 60, 40]


def test_every_record_is_of_a_variant_and_of_its_steps() -> None:
    runs = variants.read()
    assert len({(run["variant"], run["method"]) for run in runs}) == len(runs)
    for run in runs:
        assert run["steps"] == variants.VARIANTS[run["variant"]].steps
    for variant in variants.VARIANTS.values():
        assert variant.like is None or variant.like in variants.VARIANTS
