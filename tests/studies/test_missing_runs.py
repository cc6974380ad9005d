"""The queue of missing runs: every entry is a job of a table, records end it, and one is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from revgrad.paper.tables.cells import choose_cells

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "numbers"))
import missing_runs


def test_every_run_is_of_a_cell_and_method_of_its_table_and_comes_once() -> None:
    assert len(set(missing_runs.QUEUE)) == len(missing_runs.QUEUE)
    for one in missing_runs.QUEUE:
        (cell,) = choose_cells(one.table, [one.cell])
        assert one.method in cell.methods
        assert one.record.parent.is_dir()


def test_what_has_a_record_is_left_out() -> None:
    done = {
        (one.cell, one.method, one.seed)
        for one in missing_runs.QUEUE
        if one not in missing_runs.missing()
    }
    assert ("mnist->mnist-m", "stabilised", 0) in done
    assert all(
        one.record.exists() == (one not in missing_runs.missing()) for one in missing_runs.QUEUE
    )


def test_a_run_leaves_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = missing_runs.Wanted("table1", "mnist->mnist-m", "stabilised", 7, 1)
    monkeypatch.setattr(missing_runs, "ROOT", tmp_path)

    def trained(words: list[str], **_: object) -> None:
        assert words[2:5] == ["revgrad", "reproduce", "table1"]
        made = one.job_record(tmp_path / "runs")
        made.parent.mkdir(parents=True)
        made.write_text("{}")

    monkeypatch.setattr(missing_runs.subprocess, "run", trained)
    assert missing_runs.missing([one]) == [one]
    missing_runs.run(one, tmp_path / "runs")
    assert missing_runs.missing([one]) == []
    assert one.record == tmp_path / "results" / "mnist-m" / "stabilised-7.json"
