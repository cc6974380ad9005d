"""`--recipe recommended`: a whole way of training by its name; the command line comes first."""

from __future__ import annotations

from typing import Any

import typer

from revgrad.errors import unknown


def take_recipe(context: typer.Context, name: str | None) -> str | None:
    """Take the recipe's values as the command's defaults; a file of --config comes before them."""
    if name is not None:
        context.default_map = {**recipe_options(name), **(context.default_map or {})}
    return name


def recipe_options(name: str) -> dict[str, Any]:
    """What a recipe says, as the options of `revgrad train`."""
    from revgrad.experiments.recipes import RECIPES

    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    recipe = RECIPES[name]
    settings = recipe.settings.describe()
    taken = ("rate", "factor", "optimiser", "batch_norm", "average", "domain_rate", "clip")
    found = {key: settings[key] for key in taken if settings[key] is not None}
    found |= {"method": recipe.objective, "per_image": recipe.per_image}
    found |= {"balance": recipe.balanced}
    return found if recipe.network is None else {**found, "network": recipe.network}
