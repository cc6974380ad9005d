"""The paper as data: numbers that agree with each other, cells and their jobs that are found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad.domains import from_arrays
from revgrad.errors import DataError, InputError, UnknownNameError
from revgrad.networks import NETWORKS
from revgrad.paper.tables import TABLES
from revgrad.paper.tables.bars import Bar, Panel, draw_bars
from revgrad.paper.tables.budgets import BUDGETS, Budget, budget_named
from revgrad.paper.tables.cells import available_cells, choose_cells, parse_seeds
from revgrad.paper.tables.experiment import METHOD_TITLES, Experiment
from revgrad.paper.tables.job import Job, folder_name
from revgrad.paper.tables.job_recipe import (
    LAST_HIDDEN,
    PAPER,
    RECOMMENDED,
    RECOMMENDED_NETWORK,
    TABLE_STABILISED,
    image_recipe,
    network_name,
)
from revgrad.paper.tables.mnist_to_svhn import MNIST_TO_SVHN
from revgrad.paper.tables.plan import decisive, job_settings, needs, plan
from revgrad.paper.tables.semi_supervised import SEMI_SUPERVISED
from revgrad.paper.tables.table1 import TABLE1
from revgrad.schedules import Annealed, Constant, RampUp
from revgrad.training.record import read_records

EVERY = [one for table in TABLES.values() for one in table]
QUICK = BUDGETS["quick"]


@pytest.mark.parametrize("experiment", TABLE1, ids=lambda one: one.cell)
def test_published_gaps_are_those_of_the_published_accuracies(experiment: Experiment) -> None:
    """To .3 points: the paper rounded, and two of its last digits are off."""
    numbers = experiment.published
    lower, upper = numbers["source-only"].value, numbers["train-on-target"].value
    for method in ("subspace-alignment-oracle", "adversarial"):
        covered = (numbers[method].value - lower) / (upper - lower)
        assert covered == pytest.approx(numbers[method].gap, abs=0.003)


def test_every_method_has_a_title_and_every_network_steps_and_a_last_hidden_layer() -> None:
    assert len({one.cell for one in EVERY}) == len(EVERY)
    for one in EVERY:
        assert set(one.methods) <= set(METHOD_TITLES)
        assert set(one.published) <= set(METHOD_TITLES)
        for budget in BUDGETS.values():
            assert budget.steps_of(one.network, one) >= 1
        if one.backbone is None:
            assert one.network in NETWORKS
            assert one.network in LAST_HIDDEN
    assert RECOMMENDED_NETWORK in LAST_HIDDEN


def test_last_hidden_layers_feed_the_last_linear_layer() -> None:
    """What the SVM replaces is the last layer: its inputs are as many as the hidden layer's."""
    from revgrad.evaluation import features_at
    from revgrad.networks import build_network

    for name, layer in LAST_HIDDEN.items():
        side = 64 if name == "alexnet" else 40
        images = from_arrays(np.zeros((2, side, side, 3), dtype=np.uint8), layout="NHWC")
        network = build_network(name, classes=7, channels=3, size=side, seed=0)
        last = [p for key, p in network.named_parameters() if key.endswith("weight")][-1]
        assert last.shape == (7, features_at(network, layer, images).shape[1])


def test_the_papers_recipe_is_as_printed() -> None:
    settings = PAPER.settings
    assert settings.learning_rate == Annealed(0.01, 10, 0.75)
    assert settings.adaptation_factor == RampUp(10)
    assert (settings.batch_size, settings.momentum, settings.optimiser) == (128, 0.9, "sgd")
    assert (settings.ema_decay, settings.max_gradient_norm, settings.weight_decay) == (
        None,
        None,
        0.0,
    )
    by_cell = {one.cell: image_recipe(one, "adversarial").settings for one in TABLE1}
    assert by_cell["svhn->mnist"].learning_rate == Constant(0.01)  # no annealing, §4.1
    assert by_cell["syn-numbers->svhn"].learning_rate == Annealed(0.01, 10, 0.75)
    assert by_cell["svhn->mnist"].max_weight_norm == 4.0
    assert by_cell["mnist->mnist-m"].max_weight_norm is None
    limits = {cell: own.max_gradient_norm for cell, own in by_cell.items()}
    assert limits == {**dict.fromkeys(by_cell), "svhn->mnist": 5.0}  # what keeps it finite
    assert all(
        image_recipe(one, "source-only").settings.max_gradient_norm is None for one in TABLE1
    )


def test_recommended_is_one_set_of_settings_for_all_cells() -> None:
    images = [one for one in EVERY if one.backbone is None]
    assert all(image_recipe(one, "recommended") is RECOMMENDED for one in images)
    assert {network_name(one, "recommended") for one in images} == {"compact"}


def test_stabilised_is_reversal_alone_and_one_set_of_settings_for_all_cells() -> None:
    recipes = {one.cell: image_recipe(one, "stabilised") for one in (*TABLE1, *MNIST_TO_SVHN)}
    norms = {cell: recipe.settings.max_weight_norm for cell, recipe in recipes.items()}
    own = {one.cell: 4.0 if one.network == "svhn" else None for one in (*TABLE1, *MNIST_TO_SVHN)}
    assert norms == own  # the network's own limit, as for every other method
    assert {recipe.changed({"max_weight_norm": None}) for recipe in recipes.values()} == {
        TABLE_STABILISED
    }
    assert (TABLE_STABILISED.method, TABLE_STABILISED.normalise) == ("stabilised", "rms")
    assert network_name(TABLE1[0], "stabilised") == TABLE1[0].network


def without_none(settings: Any) -> Any:
    """Settings that are there: one that is newer than a record is None unless it is used."""
    if not isinstance(settings, dict):
        return settings
    return {key: without_none(one) for key, one in settings.items() if one is not None}


def test_committed_records_were_made_with_the_settings_that_the_code_has() -> None:
    cells = {one.cell: one for one in EVERY}
    counts: Counter[str] = Counter()
    for record in read_records(Path(__file__).parents[3] / "results"):
        budget = re.search(r"--budget (\w+)", record.command)
        if record.cell in cells and budget is not None:
            job = Job(cells[record.cell], record.method, record.seed, BUDGETS[budget[1]], Path())
            assert job.command == record.command
            now = decisive(job_settings(job))
            recorded = {key: decisive(record.settings).get(key) for key in now}
            assert without_none(recorded) == without_none(now), record.command
            counts[job.experiment.table] += 1
    assert set(counts) == set(TABLES) - {"office31"}  # whose data and weights are the user's
    assert sum(counts.values()) > 300


def test_a_budget_takes_more_steps_than_the_one_before() -> None:
    names = list(BUDGETS)
    for shorter, longer in pairwise(names):
        for one in EVERY:
            own = {one.network} | ({"compact"} if "recommended" in one.methods else set())
            for network in own:
                steps = [BUDGETS[name].steps_of(network, one) for name in (shorter, longer)]
                assert steps[0] < steps[1]


def test_a_budget_may_give_a_table_or_a_cell_its_own_steps() -> None:
    budget = Budget(
        "short",
        {"gtsrb": 4000, "compact": 300},
        svm_samples=10,
        exceptions={("semi-supervised", "gtsrb"): 1000, ("syn-signs->gtsrb", "gtsrb"): 5000},
    )
    signs, semi = TABLE1[-1], SEMI_SUPERVISED[0]
    assert budget.steps_of("gtsrb", semi) == 1000
    assert budget.steps_of("gtsrb", signs) == 5000
    assert budget.steps_of("compact", semi) == budget.steps_of("compact", signs) == 300
    assert budget.steps_of("gtsrb", replace(signs, cell="other")) == 4000
    by_method = replace(budget, exceptions={("stabilised", "gtsrb"): 700})
    assert by_method.steps_of("gtsrb", signs, "stabilised") == 700
    assert by_method.steps_of("gtsrb", signs, "adversarial") == 4000


def test_jobs_that_need_others_come_after_them_and_each_comes_once(tmp_path: Path) -> None:
    jobs = plan(TABLES["semi-supervised"], QUICK, tmp_path, methods=["synthetic-only"], seeds=[3])
    assert [(job.experiment.cell, job.method) for job in jobs] == [
        ("syn-signs->gtsrb", "source-only"),
        (SEMI_SUPERVISED[0].cell, "synthetic-only"),
        (SEMI_SUPERVISED[1].cell, "synthetic-only"),
    ]
    every = plan(TABLE1, QUICK, tmp_path, seeds=[0, 1])
    assert len({job.folder for job in every}) == len(every) == 4 * 6 * 2
    for place, job in enumerate(every):
        assert all(one in every[:place] for one in needs(job))


def test_seeds_are_the_experiments_own_but_no_more_than_the_budget_says(tmp_path: Path) -> None:
    def seeds(budget: str, table: str) -> set[int]:
        return {job.seed for job in plan(TABLES[table], budget_named(budget), tmp_path)}

    assert seeds("standard", "table1") == {0, 1, 2}
    assert seeds("standard", "table2") == {0, 1, 2, 3, 4}
    assert seeds("quick", "table2") == {0}


def test_cells_are_found_by_several_spellings() -> None:
    def cells(*texts: str, table: str = "table1") -> list[str]:
        return [one.cell for one in choose_cells(table, texts)]

    for text in ("svhn->mnist", "svhn→mnist", "svhn-to-mnist"):
        assert cells(text) == ["svhn->mnist"]
    assert len(cells()) == 4
    folder = "syn-signs+1280-to-gtsrb-the-papers-protocol"
    assert cells(folder, table="semi-supervised") == [SEMI_SUPERVISED[0].cell]
    both = cells("amazon->webcam", table="table2")
    assert both == ["amazon->webcam:alexnet-conv5", "amazon->webcam:efficientnet-lite0"]
    named = cells("amazon->webcam:alexnet-fc7", table="table2")
    assert named == ["amazon->webcam:alexnet-fc7"]
    with pytest.raises(UnknownNameError, match=r"did you mean 'svhn->mnist'"):
        cells("svnh->mnist")
    with pytest.raises(UnknownNameError, match="no table 'tabel1'; did you mean 'table1'"):
        choose_cells("tabel1")


def test_seeds_are_lists_or_ranges() -> None:
    assert parse_seeds(None) == ()
    assert parse_seeds("0,2") == (0, 2)
    assert parse_seeds("1-3,7") == (1, 2, 3, 7)
    for text in ("", "a", "3-1", "-1"):
        with pytest.raises(InputError, match="seeds are numbers"):
            parse_seeds(text)


def test_folders_of_cells_differ_and_need_no_quotes() -> None:
    names = {folder_name(one.cell) for one in EVERY}
    assert len(names) == len(EVERY)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-+") for name in names)
    assert "mnist-to-mnist-m" in names


def test_missing_data_is_one_line_that_says_what_to_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    with pytest.raises(DataError, match="revgrad data fetch svhn"):
        available_cells(choose_cells("table1", ["svhn->mnist"]), QUICK, named=True)
    with pytest.raises(DataError, match="AlexNet's convolutions are missing"):
        available_cells(
            choose_cells("table2", ["amazon->webcam:alexnet-conv5"]), QUICK, named=False
        )
    with pytest.raises(DataError, match=r"[Oo]ffice"):
        available_cells(
            choose_cells("table2", ["amazon->webcam:efficientnet-lite0"]), QUICK, named=False
        )


def test_bars_show_what_is_there_and_leave_room_for_what_is_not(tmp_path: Path) -> None:
    from PIL import Image

    def colours(*bars: Bar) -> tuple[int, int]:
        draw_bars(tmp_path / "bars.png", [Panel("a → b", bars)])
        pixels = np.asarray(Image.open(tmp_path / "bars.png").convert("RGB")).astype(int)
        legend = int(0.16 * len(pixels))  # it shows both colours itself
        blue, red = ((0x2B, 0x6C, 0xB0), (0xD1, 0x49, 0x5B))
        return tuple(int((np.abs(pixels[legend:] - c).sum(2) < 12).sum()) for c in (blue, red))

    short, marked = colours(Bar("one", 0.2, 0.05, 0.6), Bar("two", None))
    long, unmarked = colours(Bar("one", 0.8, 0.05), Bar("two", None))
    assert marked > 20
    assert unmarked == 0
    assert long / short == pytest.approx(4.0, rel=0.15)
    # errors of a few points have an axis of their own: half of it here
    error, _ = colours(Bar("one", 0.05), Bar("two", None))
    assert error / short == pytest.approx(2.5, rel=0.15)
