"""The study of plain reversal: its shares of digits, and that its records are of what it lists."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from torch import nn

from revgrad import Adapted, from_arrays

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


def test_domains_are_told_apart_where_features_differ_and_not_where_they_agree() -> None:
    rng = np.random.default_rng(0)
    near, same, far = (
        from_arrays(rng.normal(shift, 1, (600, 2)).astype(np.float32)) for shift in (0, 0, 6)
    )
    adapted = Adapted(nn.Sequential(nn.Identity(), nn.Linear(2, 2)), nn.Identity(), "0", None)
    assert variants.told_apart(adapted, near, far) > 0.99
    assert abs(variants.told_apart(adapted, near, same) - 0.5) < 0.1


def test_a_line_has_both_methods_and_a_dash_for_what_was_not_measured() -> None:
    run = {"variant": "b-placed", "target_accuracy": 0.8, "source_accuracy": 0.9}
    plain, only = {**run, "method": "adversarial"}, {**run, "method": "source-only"}
    told = {**plain, "told_apart": 0.7}
    assert variants.as_markdown([plain]).splitlines()[-1].endswith("| – | 0.800 | 0.900 | – |")
    line = variants.as_markdown([told, {**only, "target_accuracy": 0.75}]).splitlines()[-1]
    assert line.endswith("| 0.750 | 0.800 | 0.900 | 0.700 |")
