"""`revgrad demo`: trains, compares, draws, and says what to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from page_runs import make_run
from revgrad.cli import demo
from revgrad.diagnostics import Verdict, verdict
from revgrad.reports import page, run_summary
from revgrad.training.record import RESULT, read_record
from revgrad.training.run import Run
from shown import Shown

FOLDERS = ("recommended-0/baseline", "dann-0", "recommended-0", "train-on-target-0")


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_demo_trains_compares_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Shown]
) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown = call("demo", "-o", tmp_path / "demo", "--steps", "40", "--json")
    assert shown.code == 0, shown.err
    result = json.loads(shown.out)
    lower, upper = result["source-only"], result["train-on-target"]
    assert upper > lower
    assert result["gap_covered"] == pytest.approx((result["recommended"] - lower) / (upper - lower))
    trained = {name: read_record(tmp_path / "demo" / name / RESULT) for name in FOLDERS}
    assert all(
        record is not None and record.settings["threads"] == 1 for record in trained.values()
    )
    networks = [record.settings["network"] for record in trained.values() if record is not None]
    assert networks == ["compact", "mnist", "compact", "compact"]
    assert set(result["estimated"]) == {"source-only", "dann", "recommended"}
    assert all(0 < value < 1 for value in result["estimated"].values())
    report = Path(result["report"])
    written = report.read_text()
    assert report == tmp_path / "demo" / "report.html"
    assert report.stat().st_size < 3_000_000
    for words in (
        "Source only against adapted",
        "After: this run",
        f"</span> {result['verdicts']['recommended']}",
    ):
        assert words.replace("'", "&#39;") in written
    for picture in result["pictures"]:
        with Image.open(picture) as image:
            pixels = np.asarray(image.convert("RGB"))
        assert pixels.shape[1] > 600
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50  # something is drawn


def test_demo_judges_once_and_says_what_to_look_at(
    tmp_path: Path, call: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = {"source-only": 0.5, "dann": 0.6, "recommended": 0.7, "train-on-target": 0.9}
    output, judged = tmp_path / "demo", []

    def judge(run: Run) -> Verdict:
        judged.append(run)
        return verdict(run)

    monkeypatch.setattr(demo, "_demo_domains", lambda: ("one", "two", "three"))
    monkeypatch.setattr(demo, "_train_all", lambda *_: accuracies)
    monkeypatch.setattr(
        demo, "_draw_pictures", lambda *_: [output / "samples.png", output / "clouds.png"]
    )
    counted = partial(run_summary.read_summary, judge=judge)
    for module in (run_summary, page):
        monkeypatch.setattr(module, "read_summary", counted)
    make_run(output / "recommended-0", baseline=True)
    make_run(output / "dann-0")
    shown = call("demo", "-o", output)
    assert shown.code == 0, shown.err
    seen = [line.removeprefix("see ") for line in shown.out.splitlines() if line[:4] == "see "]
    assert seen == [str(output / name) for name in ("report.html", "samples.png", "clouds.png")]
    assert "Feature clouds" in (output / "report.html").read_text()
    assert len(judged) == 1
    by_title = {line[:18].strip(): line[18:] for line in shown.out.splitlines()}
    page_says = verdict(output / "recommended-0")
    assert page_says.estimate is not None
    assert f"{page_says.outcome}, {100 * page_says.estimate.value:.1f} %" in by_title["recommended"]
    assert by_title["recommended"].endswith("70.0 %  +20.0 points")
    assert by_title["source only"].endswith("50.0 %")
    assert "covers 50% of the gap" in shown.out
    assert "same machine, with the same number of threads" in shown.out
    assert len(shown.out.splitlines()) < 20
