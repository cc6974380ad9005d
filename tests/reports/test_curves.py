"""Curves: drawn where their numbers are."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from page_runs import Made, make_run
from revgrad.reports.curves import Chart, CurveLine, charts_of_run, charts_of_runs, draw_chart
from revgrad.reports.run_summary import read_summary


def test_a_curve_is_drawn_where_its_numbers_are() -> None:
    values = (0.0, float("nan"), 1.0, 2.0)
    series = CurveLine("one", "plain", (0, 25, 50, 100), values)
    drawn = draw_chart(Chart("x", "X", "", (series,), "", steps=100))
    path = re.search(r'<path d="(M[^"]*)" class="line plain"', str(drawn.picture))
    assert path is not None
    assert re.sub(r"[^ML]", "", path[1]) == "MML"  # a gap after the first
    spots = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path[1])]
    left, right = drawn.data["left"], drawn.data["right"]
    assert [x for x, _ in spots] == pytest.approx([left, (left + right) / 2, right], abs=0.1)
    heights = [y for _, y in spots]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    assert heights[0] > heights[2]
    assert drawn.data["series"][0]["values"][2] == 1.0


def test_spikes_do_not_hide_the_rest() -> None:
    values = [0.5 + 0.001 * i for i in range(100)]
    series = CurveLine("one", "plain", tuple(range(100)), (*values[:-1], 1e6))
    drawn = draw_chart(Chart("x", "X", "", (series,), "", steps=100))
    assert "1,000,000" in drawn.note
    heights = [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", str(drawn.picture))]
    assert max(heights[:-1]) - min(heights[:-1]) > 5


def test_a_share_lies_on_the_side_of_a_tick_that_its_text_says() -> None:
    series = CurveLine("one", "plain", (1, 2), (0.925, 0.95))
    drawn = str(draw_chart(Chart("x", "X", "", (series,), "", share=True, steps=2)).picture)
    ticks = re.findall(r'y="([\d.]+)"[^>]*>([\d.]+)%<', drawn)
    assert len(ticks) >= 4
    lines = [float(y) for y in re.findall(r'<line [^>]*y1="([\d.]+)"[^>]*class="grid"', drawn)]
    per_point = (lines[0] - lines[-1]) / (float(ticks[-1][1]) - float(ticks[0][1]))
    for y, (_, text) in zip(lines, ticks, strict=True):
        assert lines[0] - y == pytest.approx(
            per_point * (float(text) - float(ticks[0][1])), abs=0.2
        )


@pytest.mark.parametrize("shift", [-0.04, 0.04])
def test_no_curve_runs_through_the_name_of_a_level(shift: float) -> None:
    level = (0.693, "guessing, ln 2")
    steps = tuple(range(0, 1000, 10))
    curve = CurveLine("one", "plain", steps, (1.2,) * 30 + (0.693 + shift,) * 70)
    drawn = draw_chart(Chart("x", "X", "", (curve,), "", level=level, steps=1000))
    found = re.search(r"<text ([^>]*level-name[^>]*)>", str(drawn.picture))
    assert found is not None
    x, y = (float(value) for value in re.findall(r' (?:x|y)="([\d.]+)"', " " + found[1]))
    left = x - 6.4 * len(level[1]) if "end" in found[1] else x
    path = re.findall(r"[ML]([\d.]+) ([\d.]+)", str(drawn.picture))
    struck = [at for at in path if left <= float(at[0]) <= x + 90 and y - 11 <= float(at[1]) <= y]
    assert len(path) == 100
    assert not struck


def test_a_long_curve_is_thinned_to_means() -> None:
    series = CurveLine("one", "plain", tuple(range(1, 1001)), tuple(float(i) for i in range(1000)))
    thin = series.thinned(100)
    assert len(thin.steps) == 100
    assert thin.steps[-1] == 1000
    for i in (0, 7, 99):
        assert thin.values[i] == pytest.approx(sum(range(10 * i, 10 * i + 10)) / 10)


def test_the_level_of_guessing_is_for_domain_classifiers_only(tmp_path: Path) -> None:
    with_one = charts_of_run(read_summary(make_run(tmp_path / "a", Made(evidence=False))))
    level = next(c.level for c in with_one if c.key == "domain-loss")
    assert level is not None
    assert level[0] == pytest.approx(math.log(2))
    run = make_run(tmp_path / "b", Made(evidence=False))
    text = (run / "metrics.jsonl").read_text()
    text = re.sub(r'"domain_accuracy": [\d.]+', '"domain_accuracy": null', text)
    (run / "metrics.jsonl").write_text(text)
    matching = charts_of_run(read_summary(run))
    assert next(c.level for c in matching if c.key == "domain-loss") is None


def test_curves_of_several_runs_share_axes(tmp_path: Path) -> None:
    runs = [
        read_summary(make_run(tmp_path / str(i), Made(seed=i, evidence=False))) for i in range(10)
    ]
    charts = charts_of_runs(runs, [str(i) for i in range(10)])
    looks = [one.look for one in charts[0].series]
    assert len(set(looks)) == 10
