"""The page of a run: what it says, of whatever run, and that names stay names."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from page_runs import Made, make_run, metrics_of
from pages import HOSTILE, Read, data_of, page_of, policy_of
from revgrad.errors import InputError, RunError
from revgrad.reports.page import write_report
from revgrad.reports.run_summary import read_summary
from shown import Shown


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
    summary = read_summary(run)
    assert summary.verdict is not None
    assert summary.verdict.sentence in html.unescape(re.sub(r"</?sub>", "", page))
    assert f"{summary.verdict.estimate.value:.1%}" in page
    for words in ("drawings → photos", "finished, 40 steps", "mnist, layer pool2", "ramp-up"):
        assert words in read.words or words == "ramp-up", words
    assert "Measured with labels; decided nothing." in read.words
    assert "revgrad train --source drawings --target photos -o runs/a" in read.words
    drawn = {attrs.get("id") for tag, attrs in read.tags if tag == "svg"}
    assert {f"chart-{name}" for name in ("label-loss", "domain-loss", "domain-accuracy")} <= drawn
    assert {"chart-adaptation-factor", "chart-learning-rate", "chart-held-out-accuracy"} <= drawn
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
        (Made(evidence=False), "The run recorded no evidence"),
        (
            Made(regression=True, classes=None),
            "The verdict judges predicted classes, and this run is a regression",
        ),
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
    assert "adaptation factor" in heads
    assert "momentum" not in heads
    for name in read_summary(first).verdict.scores:  # type: ignore[union-attr]
        assert name in heads


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


def test_reading_a_run_loads_nothing_heavy(tmp_path: Path) -> None:
    """What draws and what renders is imported when it is used."""
    run = make_run(tmp_path / "run")
    code = (
        "import json, sys\n"
        "import revgrad.model_selection.selection, revgrad.model_selection.table\n"
        "import revgrad.reports.page, revgrad.reports.watch\n"
        "from revgrad.reports.run_summary import read_summary\n"
        f"summary = read_summary({str(run)!r}, judge=lambda run: None)\n"
        "assert summary.evidence is not None\n"
        "print(json.dumps(list(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = ("matplotlib", "jinja2", "sklearn", "scipy", "optuna", "PIL", "rich", "openTSNE")
    assert set(heavy) & set(json.loads(shown.stdout)) == set()
