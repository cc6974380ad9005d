"""A recipe by its name says just what the tables are made with, and gives way to what is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from revgrad.cli import app
from revgrad.cli.recipe import recipe_options
from revgrad.errors import UnknownNameError
from revgrad.experiments.recipes import RECIPES, RECOMMENDED
from revgrad.schedules import parse_schedule
from revgrad.training import Run, Settings


@pytest.mark.parametrize("name", RECIPES)
def test_its_options_make_its_settings(name: str) -> None:
    """Second computation: options back to settings, as `train` reads them."""
    recipe, options = RECIPES[name], recipe_options(name)
    fields = {key: options[key] for key in options if key in Settings.__dataclass_fields__}
    fields |= {key: parse_schedule(options[key]) for key in ("rate", "factor")}
    assert Settings(**fields) == recipe.settings
    assert options["method"] == recipe.objective
    known = {parameter.name for parameter in typer.main.get_command(app).commands["train"].params}  # type: ignore[attr-defined]
    assert set(options) <= known


def test_what_is_typed_comes_first(tmp_path: Path) -> None:
    text = "--recipe recommended --source digits:train --target digits-m:train --steps 1 --batch 8"
    more = f"--rate 0.5 --held-out 0 --evidence 0 --quiet -o {tmp_path / 'run'}"
    result = CliRunner().invoke(app, ["train", *text.split(), *more.split()])
    assert result.exit_code == 0, result.output
    config = Run(tmp_path / "run").config
    assert config.settings["rate"] == "constant:0.5"
    assert config.settings["optimiser"] == RECOMMENDED.settings.optimiser
    assert (config.network, config.method) == ("compact", "adversarial-consistency")
    assert config.options["per_image"] is True


def test_an_unknown_recipe_gets_one_line() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'recommended'"):
        recipe_options("recomended")
