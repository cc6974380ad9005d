"""Clouds: neighbours stay neighbours, points are those of their samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from page_runs import SOURCE_SAMPLES, TARGET_SAMPLES, Made, make_run
from pages import Read, data_of, flat, page_of
from revgrad.diagnostics.recorder import read_evidence
from revgrad.reports import clouds
from revgrad.reports.clouds import CLOUD_MARGIN, CLOUD_SIDE, clouds_of_runs, spots_of, tsne_cloud
from revgrad.reports.contents import RunPage
from revgrad.reports.curves import charts_of_run
from revgrad.reports.page import make_page
from revgrad.reports.run_summary import read_summary


def separated(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(count, 6)), rng.normal(size=(count, 6)) + 25])


@pytest.mark.parametrize("many", [10_000, 20])
def test_neighbours_stay_neighbours(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With scikit-learn's t-SNE, and with openTSNE where it is installed."""
    if many == 20:
        pytest.importorskip("openTSNE", reason="openTSNE wanted: pip install 'revgrad[report]'")
    monkeypatch.setattr(clouds, "MANY_POINTS", many)
    both = separated(60)
    cloud = tsne_cloud("x", both[:40], both[40:])
    points = np.concatenate([cloud.source, cloud.target])
    assert points.shape == (120, 2)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    assert ((distances.argmin(axis=1) < 60) == (np.arange(120) < 60)).mean() > 0.95


def test_a_cloud_is_turned_to_fill_its_picture_and_not_bent() -> None:
    points = np.random.default_rng(0).normal(size=(50, 2)) * (1, 9)
    spots = spots_of(points)
    assert spots.min() >= CLOUD_MARGIN
    assert spots.max() <= CLOUD_SIDE - CLOUD_MARGIN
    upright = np.ptp(points, axis=0)
    assert np.ptp(spots, axis=0).min() > 2 * upright.min() / upright.max() * (
        CLOUD_SIDE - 2 * CLOUD_MARGIN
    )
    real, drawn = (np.linalg.norm(p[:, None] - p[None], axis=2) for p in (points, spots))
    scale = drawn.max() / real.max()
    assert np.abs(drawn - scale * real).max() < 3  # of rounding to whole pixels


def test_features_that_are_all_alike_are_one_point(tmp_path: Path) -> None:
    cloud = tsne_cloud("x", np.full((30, 5), 3.0), np.full((20, 5), 3.0))
    assert not cloud.source.any()
    assert cloud.target.shape == (20, 2)
    assert tsne_cloud("x", np.zeros((1, 3)), np.ones((1, 3))).source.shape == (1, 2)


def test_the_baseline_is_grey_and_on_the_same_samples(tmp_path: Path) -> None:
    summary = read_summary(make_run(tmp_path / "run", baseline=True))
    looks = [one.look for one in charts_of_run(summary)[0].series]
    assert looks == ["baseline plain", "plain"]
    page = make_page([summary], lay_out=flat)
    assert isinstance(page, RunPage)
    assert [panel.title for panel in page.panels] == ["Before: source only", "After: this run"]
    below = read_evidence(tmp_path / "run" / "baseline")
    assert below is not None
    assert below.end is not None
    shares = [one.baseline for one in page.balances]
    guesses = below.end.target_logits.argmax(axis=1).tolist()
    assert shares == pytest.approx([guesses.count(k) / TARGET_SAMPLES for k in range(3)])


def test_what_hover_says_of_a_point_is_of_its_sample(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    data = data_of(page_of(run))
    recorded, cloud = read_evidence(run), data["clouds"][0]
    assert recorded is not None
    assert recorded.end is not None
    assert cloud["sources"] == SOURCE_SAMPLES
    assert cloud["indices"] == [
        *recorded.source_indices.tolist(),
        *recorded.target_indices.tolist(),
    ]
    assert recorded.end.source_labels is not None
    assert cloud["labels"] == recorded.end.source_labels.tolist()
    after = cloud["panels"][-1]
    assert after["predicted"][SOURCE_SAMPLES:] == recorded.end.target_logits.argmax(axis=1).tolist()
    assert len(set(cloud["tiles"])) == SOURCE_SAMPLES + TARGET_SAMPLES


def test_no_domain_outnumbers_the_other_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revgrad.reports.clouds.FEWEST_POINTS", 10)
    monkeypatch.setattr("revgrad.reports.clouds.TIMES_THE_FEWER", 1)
    page = make_page([read_summary(make_run(tmp_path / "run"))], lay_out=flat)
    cloud = page.data["clouds"][0]
    fewer = min(SOURCE_SAMPLES, TARGET_SAMPLES)
    assert cloud["sources"] == fewer
    assert len(cloud["indices"]) == 2 * fewer


def test_fewer_points_are_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    page = make_page([read_summary(run)], points=10, lay_out=flat)
    assert page.data["clouds"][0]["sources"] == 10
    assert len(page.data["clouds"][0]["panels"][0]["x"]) == 20


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
        recorded = read_evidence(folder)
        assert recorded is not None
        assert recorded.end is not None
        assert (
            panel["predicted"][SOURCE_SAMPLES:]
            == recorded.end.target_logits.argmax(axis=1).tolist()
        )
    for words in (
        "d has no cloud. It has not come to its end",
        "e has no cloud. It recorded no held-out source samples",
        "f has no cloud. It recorded no evidence",
        "g has no cloud. It failed",
        "At most 285 samples of each domain",
    ):
        assert words in read.words
    assert data_of(page_of(folders[3], folders[5]))["clouds"] == []
    assert 'id="only"' not in page  # their classes have other names
    assert 'id="only"' in page_of(*folders[:2])
    # every image is there once, and under the points of its own sample
    assert groups[0]["tiles"] == groups[1]["tiles"]
    assert sorted(set(groups[0]["tiles"])) == list(range(len(set(groups[0]["tiles"]))))


def test_more_runs_have_fewer_points_each(tmp_path: Path) -> None:
    run = read_summary(make_run(tmp_path / "run"))

    def shown(runs: int, points: int) -> int:
        return clouds_of_runs([run] * runs, ["x"] * runs, points, flat).points

    assert [shown(runs, 600) for runs in (2, 4, 8, 40)] == [600, 500, 250, 100]
    assert shown(4, 30) == 30
    cut = clouds_of_runs([run, run], ["x", "y"], 10, flat)
    assert len(cut.groups[0]["panels"][1]["x"]) == 20


def test_samples_of_other_data_are_not_linked(tmp_path: Path) -> None:
    """Without images the index of a sample says nothing of which data it is of."""
    makes = [Made(images=False), Made(images=False, target="elsewhere"), Made(images=False, seed=9)]
    runs = [read_summary(make_run(tmp_path / str(i), made)) for i, made in enumerate(makes)]
    found = clouds_of_runs(runs, ["a", "b", "c"], 10, flat)
    linked = [[panel["name"] for panel in group["panels"]] for group in found.groups]
    assert linked == [["a", "c"], ["b"]]
    assert found.sheet is None
