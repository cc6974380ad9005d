"""A recipe is a whole way of training: by name, with changes, refused where it makes no sense."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from torch import nn

from revgrad.errors import InputError, UnknownNameError
from revgrad.recipes import PAPER, RECIPES, RECOMMENDED, Recipe, RecipeChanges, recipe_named
from revgrad.schedules import Annealed, Constant, RampUp
from revgrad.training.settings import Settings


def test_the_paper_s_recipe_is_the_paper_s_numbers() -> None:
    assert Recipe() == PAPER
    settings = PAPER.settings  # §4 and appendix C
    assert settings.learning_rate == Annealed(initial=0.01, alpha=10.0, beta=0.75)
    assert settings.adaptation_factor == RampUp(gamma=10.0, height=1.0)
    assert (settings.batch_size, settings.source_share, settings.momentum) == (128, 0.5, 0.9)
    assert PAPER.method == "adversarial"


def test_recipes_by_name() -> None:
    assert recipe_named("recommended") is RECOMMENDED
    assert recipe_named("paper") is RECIPES["paper"] is PAPER
    own = Recipe("two-losses")
    assert recipe_named(own) is own
    with pytest.raises(UnknownNameError, match="did you mean 'recommended'"):
        recipe_named("recomended")
    with pytest.raises(InputError, match="a Recipe or its name, not int"):
        recipe_named(3)  # type: ignore[arg-type]


def test_changes_go_where_they_belong() -> None:
    changed = RECOMMENDED.changed({"method": "two-losses", "steps": 5, "learning_rate": 0.1})
    assert changed.method == "two-losses"
    assert changed.settings.steps == 5
    assert changed.settings.learning_rate == Constant(0.1)
    assert changed.settings.optimiser == RECOMMENDED.settings.optimiser
    assert changed.balanced is True
    unknown: Any = {"learning_rte": 0.1}
    with pytest.raises(UnknownNameError, match="did you mean 'learning_rate'"):
        PAPER.changed(unknown)


def test_changes_are_typed_by_the_fields_there_are() -> None:
    """Every field of a recipe and of its settings can be given by name, and nothing else."""
    names = {item.name for kind in (Recipe, Settings) for item in fields(kind)} - {"settings"}
    assert set(RecipeChanges.__annotations__) == names


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"method": "adverserial"}, "did you mean 'adversarial'"),
        ({"preprocessing": "per-batch"}, "no preprocessing 'per-batch'"),
        ({"domain_classifier": 100}, "hidden widths from"),
        ({"domain_classifier": (100, 0)}, "hidden widths from"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(changes: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        PAPER.changed(changes)


def test_a_domain_classifier_is_widths_or_a_module() -> None:
    assert PAPER.changed({"domain_classifier": [8, 4]}).domain_classifier == (8, 4)
    own = nn.Linear(3, 1)
    assert PAPER.changed({"domain_classifier": own}).domain_classifier is own


def test_another_optimiser_brings_a_rate_that_is_safe_with_it() -> None:
    def rate(recipe: Recipe) -> float:
        return recipe.settings.at(0.0).learning_rate

    assert rate(PAPER) == 0.01
    assert rate(PAPER.changed({"optimiser": "adam"})) == 0.001
    assert rate(PAPER.changed({"optimiser": "adam", "learning_rate": 0.2})) == 0.2
    assert rate(RECOMMENDED.changed({"optimiser": "adam"})) == rate(RECOMMENDED)  # its own
    assert rate(RECOMMENDED.changed({"optimiser": "sgd"})) == 0.01
    assert rate(PAPER.changed({"optimiser": lambda groups, settings: None})) == 0.01  # type: ignore[arg-type,return-value]
