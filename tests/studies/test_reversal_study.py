"""The study of plain reversal: its shares of digits, and that its records are of what it lists."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from revgrad import Adapted, from_arrays
from revgrad.tasks import ClassLabels

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "reversal"))
import variants


def test_samples_are_kept_by_shares() -> None:
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
    adapted = Adapted(
        nn.Sequential(nn.Identity(), nn.Linear(2, 2)), nn.Identity(), "0", None, (2,), ClassLabels()
    )
    assert variants.told_apart(adapted, near, far) > 0.99
    assert abs(variants.told_apart(adapted, near, same) - 0.5) < 0.1


def test_a_line_has_both_methods_and_a_dash_for_what_was_not_measured() -> None:
    run = {"variant": "b-placed", "target_accuracy": 0.8, "source_accuracy": 0.9}
    plain, only = {**run, "method": "adversarial"}, {**run, "method": "source-only"}
    told = {**plain, "told_apart": 0.7}
    assert variants.as_markdown([plain]).splitlines()[-1].endswith("| – | 0.800 | 0.900 | – |")
    line = variants.as_markdown([told, {**only, "target_accuracy": 0.75}]).splitlines()[-1]
    assert line.endswith("| 0.750 | 0.800 | 0.900 | 0.700 |")


@pytest.mark.parametrize("name", ["as-is", "b-dropout"])
def test_a_variant_is_trained_with_reversal_and_without(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = replace(variants.VARIANTS[name], steps=1)
    side = variants.SIZES[variant.network]
    pixels = np.random.default_rng(0).integers(0, 256, (60, side, side, 3), dtype=np.uint8)
    source, target = (from_arrays(part, np.arange(30) % 10) for part in (pixels[:30], pixels[30:]))
    monkeypatch.setitem(variants.VARIANTS, name, variant)
    monkeypatch.setattr(variants, "domains", lambda variant: (source, target, target))
    for method in ("source-only", "adversarial"):
        found = variants.run(name, method)
        assert set(found) == set(variants.read()[-1])
        assert (found["variant"], found["method"], found["rows"]) == (name, method, 30)
        assert 0 <= found["target_accuracy"] <= 1


def test_what_was_removed_is_neither_listed_nor_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["variants.py"])
    variants.main()
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert set(variants.VARIANTS) - listed == {"pen", "b-pen", "b-pen-blur"}
    monkeypatch.setattr(sys, "argv", ["variants.py", "pen"])
    with pytest.raises(SystemExit):
        variants.main()
    assert "no variant 'pen'" in capsys.readouterr().err
