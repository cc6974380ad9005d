"""The summary of a run: numbers that are said, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from page_runs import Made, make_run
from pages import Read, page_of
from revgrad.reports.contents import title_of
from revgrad.reports.run_summary import measures_of, read_summary


def test_a_measured_accuracy_beyond_the_interval_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(gain=4.0), baseline=True)
    summary = read_summary(run)
    assert summary.verdict is not None
    estimate = summary.verdict.estimate
    estimated, *_, measured = measures_of(summary)
    assert estimated.points is None
    assert [reading.value for reading in estimated.readings][-1] == estimate.value
    value = measured.readings[-1].value
    assert value == pytest.approx(0.8)
    assert ("wrong here" in measured.says) == (not estimate.low <= value <= estimate.high)
    assert measured.points == pytest.approx(100 * (0.8 - 0.43))


def test_a_verdict_that_can_t_tell_says_what_to_do_next(tmp_path: Path) -> None:
    summary = read_summary(make_run(tmp_path / "run", baseline=True))
    assert summary.verdict is not None
    unsure = replace(summary.verdict, outcome="can't tell", sentence="It can't be told.")
    alone = replace(unsure, sentence="Train the source-only network too: --baseline.")
    told = replace(unsure, outcome="adapted")
    steps = [replace(summary, verdict=one).next_step for one in (unsure, alone, told, None)]
    assert "revgrad evaluate" in steps[0]
    assert steps[1:] == ["", "", ""]


def test_an_objective_without_a_name_is_called_by_its_class(tmp_path: Path) -> None:
    summary = read_summary(make_run(tmp_path / "run"))
    config = replace(summary.config, method="Terms(parts=(1, 2))")
    assert replace(summary, config=config).method == "Terms"


def test_a_run_on_arrays_has_its_folder_s_name(tmp_path: Path) -> None:
    arrays = read_summary(make_run(tmp_path / "first", Made(source="arrays", target="arrays")))
    assert title_of(arrays) == "first"
    named = read_summary(make_run(tmp_path / "second"))
    assert title_of(named) == "drawings → photos"


def test_damaged_evidence_is_said_and_the_rest_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evidence" / "end.safetensors").write_bytes(b"nothing")
    read = Read(page_of(run))
    assert "The recorded evidence can't be used" in read.words
    assert "Label loss" in read.words
