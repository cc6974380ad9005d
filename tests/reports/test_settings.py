"""Settings of runs in words, and those in which runs differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from page_runs import Made, config_of
from revgrad.reports.settings import differing_settings, short_names, shown_settings
from revgrad.training.run import Difference


def test_settings_are_shown_as_one_would_type_them() -> None:
    shown = shown_settings(config_of(Made(steps=5000)))
    assert shown["steps"] == "5000"
    assert shown["learning rate"] == "annealed:0.01,10,0.75"  # recorded as 10.0
    assert shown["domain classifier"] == "100 → 1"
    assert shown["init"] == "none"
    assert shown["momentum"] == "0.9"


def test_settings_that_differ() -> None:
    configs = [config_of(Made(seed=seed, factor=factor)) for seed, factor in ((1, 2.0), (1, 3.0))]
    assert differing_settings(configs) == [Difference("adaptation factor", ("2", "3"))]
    assert differing_settings([configs[0], configs[0]]) == []


def test_what_changes_nothing_is_no_difference() -> None:
    config = config_of(Made())
    other = replace(config, settings={**config.settings, "device": "cuda", "log_every": 7})
    fitted = [
        replace(config, preprocessing=f"Preprocessing(mean=[{mean}], scale=1)") for mean in (1, 2)
    ]
    assert differing_settings([config, other]) == []
    assert differing_settings(fitted) == []
    per_image = replace(config, preprocessing="Preprocessing(per image)")
    (found,) = differing_settings([fitted[0], per_image])
    assert found == Difference("preprocessing", ("Preprocessing", "Preprocessing(per image)"))


def test_an_objective_that_differs_is_shown_where_the_method_does_not_say_it() -> None:
    config = config_of(Made())
    one, two = (replace(config, objective=f"{name}()", method=name) for name in ("One", "Two"))
    assert differing_settings([one, two]) == [Difference("method", ("One", "Two"))]
    same = replace(two, method="One")
    assert differing_settings([one, same]) == [Difference("objective", ("One()", "Two()"))]


@pytest.mark.parametrize("labels", [0, 30])
def test_kept_target_labels_are_a_difference(labels: int) -> None:
    config = config_of(Made())
    domains = {**config.domains, "target": {**config.domains["target"], "labels": labels}}
    found = differing_settings([config, replace(config, domains=domains)])
    assert [one.name for one in found] == (["target labels"] if labels else [])


def test_runs_are_called_by_as_little_as_tells_them_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/run", "b/run")]
    assert short_names(paths) == ["a/run", "b/run"]
    assert short_names([tmp_path / "one", tmp_path / "two"]) == ["one", "two"]
    assert short_names([tmp_path, tmp_path]) == [tmp_path.name] * 2
