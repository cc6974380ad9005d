"""The table of a search, and its picture."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from revgrad.model_selection.search import SearchResult, Trial
from revgrad.model_selection.space import LogRange, OneOf, Space
from revgrad.model_selection.table import draw_search, table_text, trial_table, write_search

SPACE: Space = {
    "learning-rate": LogRange(0.001, 1.0),
    "layer": OneOf(("a|very|long|name", "b")),
    "height": OneOf((0.1,)),
}
FOLDER = Path("x")
DONE = Trial(0, "done", 0.5, 9, {"learning-rate": 0.1, "layer": "b", "height": 0.1}, FOLDER, 0.9, 3)
PRUNED = Trial(1, "pruned", 0.2, 3, {"learning-rate": 0.01, "layer": "a|very|long|name"}, FOLDER)
RUNNING = Trial(2, "running", None, 0, {"learning-rate": 0.3}, FOLDER)


def found(folder: Path, *trials: Trial) -> SearchResult:
    return SearchResult(folder, "agreement", 9, SPACE, trials)


def test_a_line_for_each_trial_the_target_test_last() -> None:
    search = found(FOLDER, DONE, PRUNED, RUNNING)
    heading, *lines = trial_table(search, {0: 0.75})
    assert heading[:4] == ["trial", "state", "steps", "agreement"]
    assert heading[4:] == [*SPACE, "held-out source", "seconds", "target test"]
    assert lines[0] == ["0", "done", "9", "0.5000", "0.1", "b", "0.1", "0.9000", "3", "0.7500"]
    assert lines[1][3:] == ["0.2000", "0.01", "a|very|long|name", "–", "", "", ""]
    assert len(trial_table(search)[0]) == len(heading) - 1
    text = table_text([heading, *lines]).splitlines()
    states = ("state", "done", "pruned", "running")
    assert len({line.index(cell) for line, cell in zip(text, states, strict=True)}) == 1


def test_files_hold_the_same_table(tmp_path: Path) -> None:
    search = found(tmp_path, DONE, PRUNED)
    markdown, table, picture = write_search(search)
    with open(table, newline="") as file:
        assert list(csv.reader(file)) == trial_table(search)
    lines = markdown.read_text().splitlines()
    assert len(lines) == 4
    assert r"a\|very\|long\|name" in lines[3]  # else it would be columns
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("trials", [(), (PRUNED,), (RUNNING,), (DONE, PRUNED, RUNNING)])
def test_the_picture_is_drawn_of_whatever_there_is(
    tmp_path: Path, trials: tuple[Trial, ...]
) -> None:
    draw_search(tmp_path / "search.png", found(tmp_path, *trials))
    assert (tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")
