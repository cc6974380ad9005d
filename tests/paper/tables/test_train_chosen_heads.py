"""Heads on Office-Caltech10 whose weight a label-free score chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad import Domain
from revgrad.paper.tables import feature_split, train_chosen_heads
from revgrad.paper.tables.feature_split import open_split
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.office_caltech import CHOSEN_METHODS, OFFICE_CALTECH
from revgrad.paper.tables.plan import job_settings, run_job
from revgrad.paper.tables.train_chosen_heads import CANDIDATES, Trained, choose
from table_jobs import TINY, job


def test_all_pairs_of_the_four_domains() -> None:
    assert len(OFFICE_CALTECH) == 12
    assert len({one.cell for one in OFFICE_CALTECH}) == 12
    assert set(CANDIDATES) == set(CHOSEN_METHODS)


def test_the_whole_source_is_labelled_but_a_held_out_fifth(tmp_path: Path) -> None:
    split = open_split(Job(OFFICE_CALTECH[0], "mcc", 0, TINY, tmp_path))
    assert split.held_out is not None
    assert len(split.held_out) == round(0.2 * (len(split.held_out) + len(split.source)))


@pytest.mark.parametrize("method", ["source-only", "mcc", "auto"])
def test_a_job_trains_every_candidate_and_records_the_choice(method: str, tmp_path: Path) -> None:
    brief = replace(TINY, steps={**TINY.steps, "bottleneck": 6})
    record = run_job(Job(OFFICE_CALTECH[0], method, 0, brief, tmp_path))
    assert record.target_accuracy is not None
    factors = CANDIDATES[method].factors
    if factors is None:
        assert record.target_accuracy_oracle is None
        assert "chosen_factor" not in record.settings
        return
    assert record.settings["chosen_factor"] in factors
    assert record.settings["rule"] == "mutual-information"
    assert record.target_accuracy_oracle is not None
    assert record.target_accuracy_oracle >= record.target_accuracy


def test_target_labels_choose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def labelled(seed: int) -> tuple[float | None, Any, float | None]:
        def poisoned(given: Job) -> feature_split.FeatureSplit:
            split = open_split(given)
            wrong = np.random.default_rng(seed).integers(0, 10, len(split.target))
            target: Domain = split.target.with_labels(wrong)
            return split._replace(target=target)

        monkeypatch.setattr(train_chosen_heads, "open_split", poisoned)
        record = run_job(job(OFFICE_CALTECH[0], "mcc", tmp_path / str(seed)))
        return record.source_accuracy, record.settings["chosen_factor"], record.target_accuracy

    first, second = labelled(0), labelled(1)
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_a_candidate_that_lost_the_source_is_not_chosen() -> None:
    def one(score: float, source: float) -> Trained:
        return Trained(None, None, score, source)  # type: ignore[arg-type]

    high_but_lost, kept, low = one(2.0, 0.5), one(1.0, 0.95), one(0.5, 0.99)
    assert choose([high_but_lost, kept, low]) is kept


def test_settings_say_what_was_chosen_among(tmp_path: Path) -> None:
    settings = job_settings(Job(OFFICE_CALTECH[0], "cdan", 0, TINY, tmp_path))
    assert settings["adaptation_factor"] == [0.1, 0.3, 1.0]
    assert settings["backbone"] is not None
