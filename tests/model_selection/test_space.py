"""The space of a search: what is varied around a training, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from revgrad import layers
from revgrad.errors import InputError
from revgrad.model_selection.space import (
    Configuration,
    LogRange,
    OneOf,
    make_space,
    starting_values,
)
from revgrad.networks import CompactNetwork, blueprint_of
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.recipes import PAPER
from revgrad.schedules import Annealed, Constant, RampUp


def found_layers(network: nn.Module) -> Any:
    return layers(network, torch.zeros(2, 3, 28, 28))


def configured(network: nn.Module, **changes: Any) -> Configuration:
    """As the network's blueprint says, with changes of the paper's recipe."""
    blueprint = blueprint_of(network)
    assert blueprint is not None
    widths = blueprint.domain_classifier
    recipe = PAPER.changed({"domain_classifier": widths, "steps": 100, **changes})
    return Configuration(recipe, blueprint.layer)


def test_everything_that_means_something_is_varied_around_what_is_given() -> None:
    network = MNISTNetwork(seed=0)
    start = configured(network)
    space = make_space(start, network, found_layers(network))
    assert {name: str(what) for name, what in space.items()} == {
        "height": "0.1:3",
        "gamma": "2.5:20",
        "learning-rate": "0.001:0.03",
        "layer": "conv2,pool2,fc3,fc4",
        "domain-classifier": "50,100,200",
        "domain-lr-factor": "0.1:3",
    }
    assert starting_values(space, start) == {
        "height": 1.0,
        "gamma": 10.0,
        "learning-rate": 0.01,
        "layer": "pool2",
        "domain-classifier": "100",
        "domain-lr-factor": 1.0,
    }
    by_means = configured(network, method="mean-matching")
    matching = make_space(by_means, network, found_layers(network))
    assert list(matching) == ["height", "gamma", "learning-rate", "layer"]
    fixed = configured(network, adaptation_factor=Constant(0.5))
    assert list(make_space(fixed, network, found_layers(network)))[:2] == [
        *("height", "learning-rate")
    ]
    with_norm = CompactNetwork(seed=0)
    space = make_space(configured(with_norm), with_norm, found_layers(with_norm))
    assert str(space["batch-norm"]) == "joint,separate,target"


def test_what_is_asked_for_is_varied_and_nothing_else() -> None:
    network = MNISTNetwork(seed=0)
    asked = [
        "seed=3,4",
        "height=0.5:2",
        "layer=fc3,pool1",
        "learning-rate=0.01,0.02",
        "domain-classifier=8,16x16",
    ]
    space = make_space(configured(network), network, found_layers(network), asked)
    assert space == {
        "height": LogRange(0.5, 2.0),
        "learning-rate": OneOf((0.01, 0.02)),
        "layer": OneOf(("fc3", "pool1")),
        "domain-classifier": OneOf(("8", "16x16")),
        "seed": OneOf(("3", "4")),
    }
    # the default layer, width and seed are not among them: the search begins elsewhere
    assert starting_values(space, configured(network)) == {"height": 1.0, "learning-rate": 0.01}
    alone = make_space(configured(network), network, found_layers(network), ["seed"])
    assert list(alone) == ["seed"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["heigth"], "did you mean 'height'"),
        (["height", "height=1:2"], "twice"),
        (["height="], "names no values"),
        (["height=2:1"], "from a number above 0 to a larger one"),
        (["height=0:1"], "numbers above 0, not '0'"),
        (["learning-rate=fast"], "learning-rate takes numbers above 0, not 'fast'"),
        (["layer=pool1:pool2"], "not the range"),
        (["layer=pol1"], "did you mean 'pool1'"),
        (["layer=fc5"], "can't be cut at 'fc5'"),
        (["domain-classifier=wide"], "100 or 1024x1024"),
        (["seed=-1"], "whole numbers"),
        (["batch-norm"], "no BatchNorm"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(asked: list[str], expected: str) -> None:
    network = MNISTNetwork(seed=0)
    with pytest.raises(InputError, match=expected):
        make_space(configured(network), network, found_layers(network), asked)


def test_what_changes_nothing_is_refused() -> None:
    network = MNISTNetwork(seed=0)
    start = configured(network, adaptation_factor=Constant(1.0))
    with pytest.raises(InputError, match="λ does not ramp up"):
        make_space(start, network, found_layers(network), ["gamma"])
    by_means = configured(network, method="mean-matching")
    with pytest.raises(InputError, match="mean-matching has no domain classifier"):
        make_space(by_means, network, found_layers(network), ["domain-classifier=4,8"])


def test_values_go_where_they_belong_and_come_back() -> None:
    network = CompactNetwork(seed=0)
    start = configured(network)
    values: dict[str, float | str] = {
        "height": 0.25,
        "gamma": 5.0,
        "learning-rate": 0.002,
        "layer": "hidden",
        "domain-classifier": "32x16",
        "domain-lr-factor": 0.5,
        "batch-norm": "target",
        "seed": "7",
    }
    changed = start.changed(values)
    assert {name: changed.value(name) for name in values} == values
    assert changed.recipe.settings.adaptation_factor == RampUp(gamma=5.0, height=0.25)
    assert changed.recipe.settings.learning_rate == Annealed(initial=0.002)
    assert (changed.recipe.settings.domain_lr_factor, changed.recipe.settings.seed) == (0.5, 7)
    assert (changed.layer, changed.widths) == ("hidden", (32, 16))
    constant = configured(network, adaptation_factor=Constant(1), learning_rate=Constant(1))
    changed = constant.changed({"height": 0.3, "learning-rate": 0.2})
    assert changed.recipe.settings.adaptation_factor == Constant(0.3)
    assert changed.recipe.settings.learning_rate == Constant(0.2)
    rounded = start.changed({"learning-rate": 0.0123456})  # to what a command can say
    assert rounded.value("learning-rate") == 0.0123
