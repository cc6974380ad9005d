"""The page of a run: what it says, of whatever run; numbers checked by slow second computations."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from page_runs import SOURCE_ROWS, TARGET_ROWS, Made, colours, config_of, make_run, metrics_of
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.kept import read_kept
from revgrad.errors import InputError, RunError
from revgrad.reports import clouds, serving, watching
from revgrad.reports.class_figures import balances, confusion_counts, confusion_of
from revgrad.reports.clouds import Cloud, project
from revgrad.reports.curves import Chart, Series, draw_chart
from revgrad.reports.findings import read_findings
from revgrad.reports.measures import measures_of
from revgrad.reports.page import make_page, render, write_report
from revgrad.reports.page_clouds import MARGIN, SIDE, _spots
from revgrad.reports.page_clouds_of_runs import clouds_of_runs
from revgrad.reports.page_curves import charts_of_run, charts_of_runs
from revgrad.reports.page_of_run import RunPage
from revgrad.reports.page_settings import differing, names_of
from revgrad.reports.predictions import least_sure, most_sure, predictions
from revgrad.reports.serving import server_of
from revgrad.reports.shared_tiles import SharedTiles
from revgrad.reports.sprites import BYTES, make_sheet
from revgrad.reports.svg import element, ticks
from revgrad.reports.watching import RememberedClouds, WatchedRun
from shown import Shown

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'"&'


class Read(HTMLParser):
    """What a browser would see: tags with their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def flat(title: str, source: np.ndarray, target: np.ndarray) -> Cloud:
    """In place of t-SNE, where a test is about something else."""
    return Cloud(title, source[:, :2], target[:, :2])


def page_of(*folders: Path) -> str:
    return render(make_page([read_findings(folder) for folder in folders], place=flat)).decode()


def policy_of(page: str) -> str:
    return next(a["content"] or "" for _, a in Read(page).tags if a.get("http-equiv"))


def data_of(page: str) -> dict:
    return json.loads(Read(page).scripts[0])


# one run


def test_a_whole_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", baseline=True)
    page = page_of(run)
    read = Read(page)
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert (
        headings
        == [
            "Source only against adapted",
            "Training",
            "Feature clouds",
            "Class by class",
            "Target images",
            "Label-free scores",
            "Settings",
        ]
        or headings[0] == "Signs of trouble"
    )
    findings = read_findings(run)
    assert findings.verdict is not None
    assert findings.verdict.sentence in html.unescape(re.sub(r"</?sub>", "", page))
    assert f"{findings.verdict.estimate.value:.1%}" in page
    for words in ("drawings → photos", "finished, 40 steps", "mnist at pool2", "ramp-up"):
        assert words in read.words or words == "ramp-up", words
    assert "Measured with labels; decided nothing." in read.words
    assert "revgrad train --source drawings --target photos -o runs/a" in read.words
    drawn = {attrs.get("id") for tag, attrs in read.tags if tag == "svg"}
    assert {f"chart-{name}" for name in ("label-loss", "domain-loss", "domain-accuracy")} <= drawn
    assert {"chart-factor", "chart-rate", "chart-held-out"} <= drawn
    assert {"cloud-before", "cloud-after", "confusion"} <= drawn
    assert all(attrs.get("aria-label") for tag, attrs in read.tags if attrs.get("role") == "img")


def test_it_needs_nothing_from_outside(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run"))
    read = Read(page)
    assert not {"link", "iframe", "object", "embed", "img", "base"} & {tag for tag, _ in read.tags}
    assert not [attrs for _, attrs in read.tags if {"src", "href"} & set(attrs)]
    assert all(
        where.startswith("data:image/jpeg;base64,") for where in re.findall(r"url\((.*?)\)", page)
    )
    policy = policy_of(page)
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    digest = base64.b64encode(hashlib.sha256(read.scripts[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy  # or the browser would refuse our own script


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    made = Made(
        classes=(HOSTILE, "b</style>", "\u2028{{ 7*7 }}"),
        source=f"/data/{HOSTILE.replace('/', '∕')}",
        target=HOSTILE,
        command=f"revgrad train --source {HOSTILE}",
    )
    run = make_run(tmp_path / "a <b>bold</b> run", made, baseline=True)
    for page in (page_of(run), page_of(run, make_run(tmp_path / "<i>", made))):
        read = Read(page)
        assert HOSTILE not in page
        assert "<b>bold" not in page
        assert len(read.scripts) == 2  # the data and our own
        assert not [a for _, a in read.tags if any(name.startswith("on") for name in a)]
        assert "img" not in {tag for tag, _ in read.tags}
        assert "{{ 7*7 }}" in page or "7*7" not in page
        assert "49" not in re.findall(r"<option[^>]*>([^<]*)", page)
    assert data_of(page_of(run))["classes"][0] == HOSTILE
    assert HOSTILE in Read(page_of(run)).text


def test_a_folder_of_no_utf8_can_be_shown(tmp_path: Path) -> None:
    name = os.fsdecode(b"run-\xff")
    try:
        run = make_run(tmp_path / name, Made(evidence=False))
    except OSError:
        pytest.skip("this file system takes no such names")
    assert "run-?" in page_of(run)


def test_numbers_that_are_not_finite_are_null_in_the_data(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    with open(run / "metrics.jsonl", "a") as file:
        record = json.loads(metrics_of(Made())[0]) | {"step": 41, "label_loss": float("nan")}
        file.write(json.dumps(record) + "\n")
    page = page_of(run)
    series = data_of(page)["charts"][0]["series"][0]
    assert series["steps"][-1] == 41
    assert series["values"][-1] is None
    assert "not finite" in Read(page).text
    assert "NaN" not in Read(page).scripts[0]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Made(evidence=False), "The run kept no evidence"),
        (Made(regression=True, classes=None), "The labels are numbers, not classes"),
        (Made(reached=0, evidence=False), "Nothing is recorded"),
        (Made(reached=20), "unfinished, step 20 of 40"),
        (Made(reached=20), "step 20, the last evaluation so far"),
        (Made(reached=5), "the start, before the first step"),
        (Made(reached=15, failure="the loss is not finite at step 17"), "failed after step 15"),
        (Made(reached=15, failure="the loss is not finite at step 17"), "non-finite loss"),
        (Made(images=False), "Class by class"),
        (Made(classes=None), "finished"),
        (Made(tested=False), "Held-out source accuracy"),
        (Made(method="source-only"), "source-only"),
        (Made(held_out=False), "Target images"),
    ],
)
def test_every_kind_of_run_has_a_page(tmp_path: Path, made: Made, words: str) -> None:
    read = Read(page_of(make_run(tmp_path / "run", made)))
    assert words in read.words
    assert not made.regression or "Held-out loss" in read.words
    assert made.tested or "decided nothing" not in read.words
    assert made.images or not [a for _, a in read.tags if a.get("class") == "tile"]


def test_damaged_evidence_is_said_and_the_rest_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evidence" / "end.safetensors").write_bytes(b"nothing")
    read = Read(page_of(run))
    assert "The kept evidence can't be used" in read.words
    assert "Label loss" in read.words


def test_a_measured_accuracy_beyond_the_interval_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(gain=4.0), baseline=True)
    findings = read_findings(run)
    assert findings.verdict is not None
    estimate = findings.verdict.estimate
    estimated, *_, measured = measures_of(findings)
    assert estimated.points is None
    assert [reading.value for reading in estimated.readings][-1] == estimate.value
    value = measured.readings[-1].value
    assert value == pytest.approx(0.8)
    assert ("wrong here" in measured.says) == (not estimate.low <= value <= estimate.high)
    assert measured.points == pytest.approx(100 * (0.8 - 0.43))


# the figures, by second computations


def test_predictions_by_hand() -> None:
    logits = np.array([[0.0, 3.0, 1.0], [800.0, 0.0, 700.0], [0.1, 0.0, 0.2]])
    said = predictions(logits)
    for row, values in enumerate(logits.tolist()):
        top = max(values)
        shares = [math.exp(v - top) for v in values]
        shares = [s / sum(shares) for s in shares]
        first = values.index(top)
        assert said.classes[row] == first
        assert said.confidence[row] == pytest.approx(shares[first], rel=1e-12)
        assert said.runner_up[row] == sorted(range(3), key=lambda i: -values[i])[1]
        others = sum(s for i, s in enumerate(shares) if i != first)
        if others > 1e-300:
            odds = math.log(shares[first] / others)
            assert said.margin[row] == pytest.approx(odds, rel=1e-9)
    assert said.margin[1] == pytest.approx(100.0)  # where confidence is 1
    assert least_sure(said, 2).tolist() == [2, 0]


def test_the_surest_are_of_every_class_in_turn() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 3)) + np.array([4.0, 0.0, 0.0])
    said = predictions(logits)
    chosen = most_sure(said, 9).tolist()
    kinds = [int(said.classes[row]) for row in chosen]
    present = len(set(said.classes.tolist()))
    assert len(set(kinds[:present])) == present
    for label in set(kinds):
        rows = [row for row in range(40) if said.classes[row] == label]
        best = sorted(rows, key=lambda row: -said.margin[row])[: kinds.count(label)]
        assert best == [row for row in chosen if said.classes[row] == label]


def test_confusion_and_balance_by_loops() -> None:
    rng = np.random.default_rng(1)
    source, target, labels = (
        rng.normal(size=(30, 4)),
        rng.normal(size=(50, 4)),
        rng.integers(4, size=30),
    )
    counts = confusion_counts(source, labels)
    for label in range(4):
        for guess in range(4):
            rows = [i for i in range(30) if labels[i] == label and source[i].argmax() == guess]
            assert counts[label, guess] == len(rows)
    evidence = Evidence(target, source, labels)
    found = confusion_of(evidence, "abcd")
    assert found is not None
    worst = found.mistakes[0]
    assert worst.rows == max(counts[i, j] for i in range(4) for j in range(4) if i != j)
    assert worst.of == list(labels).count("abcd".index(worst.label))
    assert found.right == sum(counts[i, i] for i in range(4))
    for number, one in enumerate(balances(evidence, "abcd", baseline=-target)):
        assert one.source == pytest.approx(list(labels).count(number) / 30)
        assert one.target == pytest.approx(sum(t.argmax() == number for t in target) / 50)
        assert one.baseline == pytest.approx(sum(t.argmin() == number for t in target) / 50)


def test_many_classes_are_still_shown() -> None:
    rng = np.random.default_rng(2)
    evidence = Evidence(
        rng.normal(size=(300, 150)), rng.normal(size=(200, 150)), rng.integers(150, size=200)
    )
    names = [f"class {i}" for i in range(150)]
    found = confusion_of(evidence, names)
    assert found is not None
    assert found.picture is None
    assert found.mistakes
    assert len(balances(evidence, names)) == 50


def test_every_tile_of_the_sheet_is_its_image() -> None:
    images = np.random.default_rng(0).integers(0, 255, (23, 5, 7, 3))
    images = np.broadcast_to(images[:, 2:3, 3:4], (23, 5, 7, 3)).astype(np.uint8)
    sheet = make_sheet(images)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.jpeg)))
    for tile, image in enumerate(images):
        left, top = tile % sheet.columns * sheet.stride_x, tile // sheet.columns * sheet.stride_y
        part = pixels[top : top + sheet.height, left : left + sheet.width]
        assert np.abs(part.astype(int) - image).max() < 6, tile
        assert f"-{left}px -{top}px" in sheet.style(tile, 50)


def test_a_sheet_stays_small_however_noisy() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 48, 48, 3)).astype(np.uint8)
    most = 300_000
    sheet = make_sheet(noise, most)
    assert len(sheet.jpeg) <= most
    assert sheet.tiles == 400
    assert BYTES * 4 / 3 < 2_100_000  # leaves room in 3 MB for the rest


def test_a_curve_is_drawn_where_its_numbers_are() -> None:
    values = (0.0, float("nan"), 1.0, 2.0)
    series = Series("one", "plain", (0, 25, 50, 100), values)
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
    series = Series("one", "plain", tuple(range(100)), (*values[:-1], 1e6))
    drawn = draw_chart(Chart("x", "X", "", (series,), "", steps=100))
    assert "1,000,000" in drawn.note
    heights = [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", str(drawn.picture))]
    assert max(heights[:-1]) - min(heights[:-1]) > 5


def test_a_long_curve_is_thinned_to_means() -> None:
    series = Series("one", "plain", tuple(range(1, 1001)), tuple(float(i) for i in range(1000)))
    thin = series.thinned(100)
    assert len(thin.steps) == 100
    assert thin.steps[-1] == 1000
    for i in (0, 7, 99):
        assert thin.values[i] == pytest.approx(sum(range(10 * i, 10 * i + 10)) / 10)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.00931), (-3.2, 17), (0, 10_000), (5, 5)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)
    assert all(len(f"{tick:g}") <= 7 for tick in found)


def test_text_of_a_drawing_is_escaped() -> None:
    from xml.etree.ElementTree import tostring

    made = tostring(element("text", HOSTILE, x=1.25, aria_label=HOSTILE), encoding="unicode")
    ((tag, attributes),) = Read(made).tags
    assert (tag, attributes) == ("text", {"x": "1.2", "aria-label": HOSTILE})
    assert Read(made).text == HOSTILE


def test_the_level_of_guessing_is_for_domain_classifiers_only(tmp_path: Path) -> None:
    with_one = charts_of_run(read_findings(make_run(tmp_path / "a", Made(evidence=False))))
    level = next(c.level for c in with_one if c.key == "domain-loss")
    assert level is not None
    assert level[0] == pytest.approx(math.log(2))
    run = make_run(tmp_path / "b", Made(evidence=False))
    text = (run / "metrics.jsonl").read_text()
    text = re.sub(r'"domain_accuracy": [\d.]+', '"domain_accuracy": null', text)
    (run / "metrics.jsonl").write_text(text)
    matching = charts_of_run(read_findings(run))
    assert next(c.level for c in matching if c.key == "domain-loss") is None


def test_the_baseline_is_grey_and_on_the_same_rows(tmp_path: Path) -> None:
    findings = read_findings(make_run(tmp_path / "run", baseline=True))
    looks = [one.look for one in charts_of_run(findings)[0].series]
    assert looks == ["baseline plain", "plain"]
    page = make_page([findings], place=flat)
    assert isinstance(page, RunPage)
    assert [panel.title for panel in page.panels] == ["Before: source only", "After: this run"]
    below = read_kept(tmp_path / "run" / "baseline")
    assert below is not None
    assert below.end is not None
    shares = [one.baseline for one in page.balances]
    guesses = below.end.target_logits.argmax(axis=1).tolist()
    assert shares == pytest.approx([guesses.count(k) / TARGET_ROWS for k in range(3)])


def test_what_hover_says_of_a_point_is_its_row(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    data = data_of(page_of(run))
    kept, cloud = read_kept(run), data["clouds"][0]
    assert kept is not None
    assert kept.end is not None
    assert cloud["sources"] == SOURCE_ROWS
    assert cloud["rows"] == [*kept.source_rows.tolist(), *kept.target_rows.tolist()]
    assert kept.end.source_labels is not None
    assert cloud["labels"] == kept.end.source_labels.tolist()
    after = cloud["panels"][-1]
    assert after["said"][SOURCE_ROWS:] == kept.end.target_logits.argmax(axis=1).tolist()
    assert len(set(cloud["tiles"])) == SOURCE_ROWS + TARGET_ROWS


def test_fewer_points_are_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    page = make_page([read_findings(run)], points=10, place=flat)
    assert page.data["clouds"][0]["sources"] == 10
    assert len(page.data["clouds"][0]["panels"][0]["x"]) == 20


# clouds


def separated(rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(rows, 6)), rng.normal(size=(rows, 6)) + 25])


@pytest.mark.parametrize("many", [10_000, 20])
def test_neighbours_stay_neighbours(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With scikit-learn's t-SNE, and with openTSNE where it is installed."""
    if many == 20:
        pytest.importorskip("openTSNE", reason="openTSNE wanted: pip install 'revgrad[report]'")
    monkeypatch.setattr(clouds, "MANY", many)
    both = separated(60)
    cloud = project("x", both[:40], both[40:])
    points = np.concatenate([cloud.source, cloud.target])
    assert points.shape == (120, 2)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    assert ((distances.argmin(axis=1) < 60) == (np.arange(120) < 60)).mean() > 0.95


def test_a_cloud_is_turned_to_fill_its_picture_and_not_bent() -> None:
    points = np.random.default_rng(0).normal(size=(50, 2)) * (1, 9)
    spots = _spots(points)
    assert spots.min() >= MARGIN
    assert spots.max() <= SIDE - MARGIN
    upright = np.ptp(points, axis=0)
    assert np.ptp(spots, axis=0).min() > 2 * upright.min() / upright.max() * (SIDE - 2 * MARGIN)
    real, drawn = (np.linalg.norm(p[:, None] - p[None], axis=2) for p in (points, spots))
    scale = drawn.max() / real.max()
    assert np.abs(drawn - scale * real).max() < 3  # of rounding to whole pixels


def test_features_that_are_all_alike_are_one_point(tmp_path: Path) -> None:
    cloud = project("x", np.full((30, 5), 3.0), np.full((20, 5), 3.0))
    assert not cloud.source.any()
    assert cloud.target.shape == (20, 2)
    assert project("x", np.zeros((1, 3)), np.ones((1, 3))).source.shape == (1, 2)


# several runs


def test_several_runs_are_side_by_side(tmp_path: Path) -> None:
    first = make_run(tmp_path / "x" / "run", Made(), baseline=True)
    second = make_run(tmp_path / "y" / "run", Made(factor=5.0, seed=3))
    failed = make_run(
        tmp_path / "z", Made(reached=0, evidence=False, failure="the loss is not finite")
    )
    page = page_of(first, second, failed)
    read = Read(page)
    for words in ("3 runs side by side", "x/run", "y/run", "estimated target accuracy"):
        assert words in read.words
    data = data_of(page)
    assert [one["name"] for one in data["charts"][0]["series"]] == ["x/run", "y/run"]
    assert read.words.count("The training failed") == 1
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)', page)
    assert "seed" in heads
    assert "factor" in heads
    assert "momentum" not in heads
    for name in read_findings(first).verdict.scores:  # type: ignore[union-attr]
        assert name in heads


def test_clouds_of_several_runs(tmp_path: Path) -> None:
    makes = [
        Made(),
        Made(seed=3),
        Made(classes=("x", "y", "z")),
        Made(reached=20),
        Made(held_out=False),
    ]
    folders = [make_run(tmp_path / n, made) for n, made in zip("abcde", makes, strict=True)]
    folders += [make_run(tmp_path / "f", Made(evidence=False))]
    folders += [make_run(tmp_path / "g", Made(reached=15, failure="the loss is not finite"))]
    page = page_of(*folders)
    data, read = data_of(page), Read(page)
    groups = data["clouds"]
    assert [[panel["name"] for panel in group["panels"]] for group in groups] == [["a", "b"], ["c"]]
    drawn = [attrs["id"] for tag, attrs in read.tags if attrs.get("class") == "cloud"]
    assert drawn == ["cloud-0", "cloud-1", "cloud-2"]
    for folder, panel in zip(folders, [*groups[0]["panels"], *groups[1]["panels"]], strict=False):
        kept = read_kept(folder)
        assert kept is not None
        assert kept.end is not None
        assert panel["said"][SOURCE_ROWS:] == kept.end.target_logits.argmax(axis=1).tolist()
    for words in (
        "d has no cloud. It has not come to its end",
        "e has no cloud. It kept no held-out source rows",
        "f has no cloud. It kept no evidence",
        "g has no cloud. It failed",
        "At most 285 rows of each domain",
    ):
        assert words in read.words
    assert data_of(page_of(folders[3], folders[5]))["clouds"] == []
    assert 'id="only"' not in page  # their classes have other names
    assert 'id="only"' in page_of(*folders[:2])
    # every image is there once, and under the points of its own row
    assert groups[0]["tiles"] == groups[1]["tiles"]
    assert sorted(set(groups[0]["tiles"])) == list(range(len(set(groups[0]["tiles"]))))


def test_more_runs_have_fewer_points_each(tmp_path: Path) -> None:
    run = read_findings(make_run(tmp_path / "run"))

    def shown(runs: int, points: int) -> int:
        return clouds_of_runs([run] * runs, ["x"] * runs, points, flat).points

    assert [shown(runs, 600) for runs in (2, 4, 8, 40)] == [600, 500, 250, 100]
    assert shown(4, 30) == 30
    cut = clouds_of_runs([run, run], ["x", "y"], 10, flat)
    assert len(cut.groups[0]["panels"][1]["x"]) == 20


def test_rows_of_other_data_are_not_linked(tmp_path: Path) -> None:
    """Without images the number of a row says nothing of which data it is of."""
    makes = [Made(images=False), Made(images=False, target="elsewhere"), Made(images=False, seed=9)]
    runs = [read_findings(make_run(tmp_path / str(i), made)) for i, made in enumerate(makes)]
    found = clouds_of_runs(runs, ["a", "b", "c"], 10, flat)
    linked = [[panel["name"] for panel in group["panels"]] for group in found.groups]
    assert linked == [["a", "c"], ["b"]]
    assert found.sheet is None


def test_images_of_several_sizes_share_a_sheet() -> None:
    small, large = colours(4, 0)[:, :6, :9], colours(7, 1)
    tiles = SharedTiles()
    assert tiles.add(small, np.array([3, 1])) == [0, 1]
    assert tiles.add(large, np.array([0, 5])) == [2, 3]
    assert tiles.add(small, np.array([1, 2])) == [1, 4]
    assert tiles.add(None, np.array([0, 1])) == [-1, -1]
    sheet = tiles.sheet()
    assert sheet is not None
    assert (sheet.width, sheet.height, sheet.tiles) == (12, 12, 5)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.jpeg)).convert("RGB")).astype(int)
    expected = [small[3], small[1], large[0], large[5], small[2]]
    for tile, image in enumerate(expected):
        x, y = tile % sheet.columns * sheet.stride_x, tile // sheet.columns * sheet.stride_y
        assert np.abs(pixels[y + 6, x + 6] - image[0, 0]).max() < 8
    # proportions are kept: 9 × 6 becomes 12 × 8, with grey above and below
    assert np.abs(pixels[0, 6] - 128).max() < 16
    assert SharedTiles().sheet() is None


def test_settings_that_differ() -> None:
    configs = [config_of(Made(seed=seed, factor=factor)) for seed, factor in ((1, 2.0), (1, 3.0))]
    assert differing(configs) == [("factor", ["2", "3"])]
    assert differing([configs[0], configs[0]]) == []


def test_runs_are_called_by_as_little_as_tells_them_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/run", "b/run")]
    assert names_of(paths) == ["a/run", "b/run"]
    assert names_of([tmp_path / "one", tmp_path / "two"]) == ["one", "two"]
    assert names_of([tmp_path, tmp_path]) == [tmp_path.name] * 2


def test_curves_of_several_runs_share_axes(tmp_path: Path) -> None:
    runs = [
        read_findings(make_run(tmp_path / str(i), Made(seed=i, evidence=False))) for i in range(10)
    ]
    charts = charts_of_runs(runs, [str(i) for i in range(10)])
    looks = [one.look for one in charts[0].series]
    assert len(set(looks)) == 10


# the command


def test_the_command_writes_where_it_says(
    tmp_path: Path, call: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = make_run(tmp_path / "one"), make_run(tmp_path / "other")
    shown = call("report", one, "--points", 20)
    assert shown.code == 0, shown.err
    assert "see " in shown.out
    assert (one / "report.html").stat().st_size < 500_000
    assert call("report", "one", "other").code == 0
    assert "2 runs side by side" in (tmp_path / "report.html").read_text()
    shown = call("report", one, "-o", tmp_path / "page.html", "--json", "--points", 5)
    assert json.loads(shown.out)["bytes"] == (tmp_path / "page.html").stat().st_size
    assert call("report", other, "-o", tmp_path, "--points", 5).code == 0
    assert "Feature clouds" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "nowhere"], "nowhere is not a run"),
        (["report", "run", "--points", "0"], "a point of each domain at least, not 0"),
        (["report", "run", "-o", "no/such/folder.html"], "could not be written"),
        (["watch", "nowhere"], "nowhere is not a run"),
        (["watch", "run", "--port", "70000"], "a port is a number"),
        (["watch", "run", "--every", "0"], "must be above 0"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    said: str,
    tmp_path: Path,
    call: Callable[..., Shown],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", Made(evidence=False))
    shown = call(*words)
    assert shown.code > 0
    assert said in shown.line


def test_no_run_is_refused() -> None:
    with pytest.raises(InputError, match="needs a run at least"):
        write_report([])
    with pytest.raises(RunError, match="is not a run"):
        write_report(["/nowhere"])


# watching


@contextmanager
def served(run: Path) -> Iterator[serving.Server]:
    with server_of(run, port=0, every=0.1) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: serving.Server, path: str, host: str | None = None, how: str = "GET"
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        headers = {} if host is None else {"Host": host}
        connection.request(how, path, headers=headers)
        answer = connection.getresponse()
        assert how == "POST" or answer.getheader("Cache-Control") == "no-store"
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_watched_run_is_served_to_this_machine_only(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False, reached=20))
    with served(run) as server:
        assert server.server_address[0] == "127.0.0.1"
        status, page = ask(server, "/")
        assert status == 200
        assert "unfinished, step 20 of 40" in page
        assert "connect-src 'self'" in policy_of(page)
        assert data_of(page)["watch"]["version"] == ask(server, "/version")[1]
        port = server.server_port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}"):
            assert ask(server, "/version", host)[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1", ""):
            assert ask(server, "/", host)[0] == 403
        assert ask(server, "/config.json")[0] == 404
        assert ask(server, "/../config.json")[0] == 404
        assert ask(server, "/", how="HEAD") == (200, "")
        assert ask(server, "/", how="POST")[0] == 501


def test_a_page_is_made_anew_only_when_the_run_has_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed, judged = [], []

    def place(title: str, source: np.ndarray, target: np.ndarray) -> Cloud:
        placed.append(title)
        return flat(title, source, target)

    judge = watching.verdict
    monkeypatch.setattr(watching, "verdict", lambda run: judged.append(run) or judge(run))
    run = make_run(tmp_path / "run", Made(reached=20))
    watched = WatchedRun(run, 1.0)
    watched._clouds = RememberedClouds(place)
    first = watched.page()
    assert watched.page() is first
    assert (len(placed), len(judged)) == (1, 1)  # the start's cloud
    with open(run / "metrics.jsonl", "a") as file:
        file.write(metrics_of(Made())[6] + "\n")  # of step 25
    version = watched.version()
    second = watched.page()
    assert b"step 25 of 40" in second
    assert version.encode() in second
    assert "of step 25 of 40" in Read(second.decode()).words  # a symptom of the new records
    assert (len(placed), len(judged)) == (1, 1)
    make_run(tmp_path / "finished")
    (tmp_path / "finished/evidence/end.safetensors").rename(run / "evidence/end.safetensors")
    watched.page()
    assert (len(placed), len(judged)) == (2, 2)


def test_a_run_that_goes_away_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    with served(run) as server:
        (run / "config.json").unlink()
        status, said = ask(server, "/")
        assert status == 500
        assert "is not a run" in said


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    with served(run) as server, pytest.raises(InputError, match="taken by another program"):
        server_of(run, port=server.server_port)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Made(evidence=False))
    command = [sys.executable, "-m", "revgrad", "watch", str(run), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        where = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert where is not None, line
        with urllib.request.urlopen(where[0], timeout=60) as answer:
            assert b"<!doctype html>" in answer.read(200)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # else leaving `with` would wait for it
    assert process.returncode == 0
    assert "no longer watching" in out
    assert err == ""


def test_images_are_what_was_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    kept = read_kept(run)
    assert kept is not None
    assert np.array_equal(kept.target_images, colours(TARGET_ROWS, 1))
    page = make_page([read_findings(run)], place=flat)
    assert isinstance(page, RunPage)
    assert page.sheet is not None
    pixels = np.asarray(Image.open(io.BytesIO(page.sheet.jpeg)).convert("RGB")).astype(int)
    for grid in page.grids:
        for tile in grid.tiles:
            x = tile.tile % page.sheet.columns * page.sheet.stride_x
            y = tile.tile // page.sheet.columns * page.sheet.stride_y
            place = kept.target_rows.tolist().index(tile.row)
            assert np.abs(pixels[y + 3, x + 3] - kept.target_images[place, 0, 0]).max() < 8
