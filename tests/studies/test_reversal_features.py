"""The study of features under reversal: its records, its table, and the paper's figure."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from revgrad import from_arrays
from revgrad.paper.tables.semi_supervised import PAPERS

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "reversal"))
import features
import paper_curves


def test_the_papers_figure_ends_at_its_published_errors() -> None:
    curves = paper_curves.read()
    assert list(curves["both"]) == list(range(10_500, 50_001, 500))
    for name, curve in curves.items():
        assert curve[50_000] == pytest.approx(PAPERS.published[name].value, abs=6e-4)
    # so many validation images: errors are whole counts of them
    for name, images in (("real-only", 38_016), ("synthetic-only", 1_280), ("both", 38_016)):
        counts = np.array(list(curves[name].values())) * images
        assert np.abs(counts - counts.round()).max() < 0.025


def test_the_first_batches_below_an_error_are_found() -> None:
    curves = paper_curves.read()
    assert paper_curves.first_below(curves["both"], 0.9) == 12_500
    assert paper_curves.first_below({10: 0.5, 20: 0.1, 30: 0.3}, 0.2) == 20


def test_every_record_is_of_a_variant_and_has_its_points() -> None:
    runs = features.read()
    assert len({run["variant"] for run in runs}) == len(runs)
    for run in runs:
        assert run["variant"] in features.VARIANTS
        assert run["steps"] == features.STEPS
        assert [point["step"] for point in run["points"]] == [
            features.EVERY * (at + 1) for at in range(len(run["points"]))
        ]
        whole = len(run["points"]) == features.STEPS // features.EVERY
        assert whole == (run["ended"] == f"{features.STEPS} steps")


def test_a_line_has_the_largest_size_and_loss() -> None:
    points = [
        {"step": 10, "label_loss": 2.3, "domain_loss": 0.7, "size": [0.5, 0.4]},
        {"step": 20, "label_loss": 1.5, "domain_loss": 8.0, "size": [2.0, 3.0]},
        {"step": 30, "label_loss": 2.0, "domain_loss": None, "size": [None, None]},
    ]
    run = {"variant": "limited", "ended": "30 steps", "points": points}
    line = features.as_markdown([run]).splitlines()[-1]
    assert line == "| weights and gradients limited | 0.5, 3 | 8 | 2 | 30 steps |"


@pytest.mark.parametrize("name", ["source-only", "printed", "waiting"])
def test_a_variant_is_trained_and_its_features_measured(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 32, 32, 3), dtype=np.uint8)
    domain = from_arrays(pixels, np.arange(64) % 10)
    monkeypatch.setattr(features, "open_domain", lambda text, size: domain)
    monkeypatch.setattr(features, "MEASURED", 8)
    monkeypatch.setattr(features, "BATCH", 8)
    monkeypatch.setattr(features, "EVERY", 1)
    found = features.run(name, steps=2)
    assert found["ended"] == "2 steps"
    assert [point["step"] for point in found["points"]] == [1, 2]
    assert all(size > 0 for point in found["points"] for size in point["size"])
    assert 0 <= found["target_accuracy"] <= 1
