"""Figure 3 of the paper: features of both domains before and after adaptation, by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from revgrad.adapting import load
from revgrad.errors import unknown
from revgrad.evaluation.features import features_at
from revgrad.experiments.budgets import Budget
from revgrad.experiments.choosing import choose_cells
from revgrad.experiments.experiment import Experiment
from revgrad.experiments.image_rows import LAST_HIDDEN, any_rows, image_size, open_data
from revgrad.experiments.recipes import recipe_for
from revgrad.experiments.reproducing import reproduce
from revgrad.experiments.row import Row, folder_name
from revgrad.networks import build_network
from revgrad.reports.clouds import Cloud, draw_clouds, project

#: The paper's panels: the top of the feature extractor here, the last hidden layer there.
CELLS = ("mnist->mnist-m", "syn-numbers->svhn")
AT_LAST_HIDDEN = frozenset({"syn-numbers->svhn"})
METHODS = {"source-only": "before", "adversarial": "after", "recommended": "recommended"}
POINTS = 500  # of each domain


def reproduce_tsne(
    budget: Budget,
    output: Path,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    layer: str | None = None,
    processes: int = 1,
    quiet: bool = False,
) -> list[Path]:
    """A picture a cell, source blue, target red: of the networks of Table 1, trained where missing.

    layer   any layer of the network; by default the one of the paper's own panel
    """
    shown = tuple(methods) or ("source-only", "adversarial")
    for method in shown:
        if method not in METHODS:
            raise unknown("method with a network to look into", method, METHODS)
    seed = (*seeds, 0)[0]
    chosen = choose_cells("table1", cells or CELLS)
    if layer is not None:
        _check_layer(layer, chosen, shown)
    done = reproduce(
        "table1",
        budget,
        output,
        cells=[one.cell for one in chosen],
        methods=shown,
        seeds=[seed],
        processes=processes,
        quiet=quiet,
    )
    pictures = []
    for experiment in done.experiments:
        rows = [Row(experiment, method, seed, budget, output) for method in shown]
        clouds = [_cloud(row, layer) for row in rows if (row.folder / "checkpoint.json").exists()]
        if clouds:
            name = f"tsne-{folder_name(experiment.cell)}{'' if layer is None else '-' + layer}.png"
            pictures.append(output / budget.name / name)
            draw_clouds(pictures[-1], clouds)
    return pictures


def _check_layer(layer: str, chosen: Sequence[Experiment], methods: Sequence[str]) -> None:
    """Before any training: every network must have the layer."""
    for experiment in chosen:
        for method in methods:
            name = recipe_for(experiment, method).network or experiment.network
            network = build_network(name, classes=10, channels=3, size=experiment.size, seed=0)
            known = [place for place, _ in network.named_modules() if place]
            if layer not in known:
                raise unknown(f"layer of the network '{name}'", layer, known)


def _cloud(row: Row, layer: str | None) -> Cloud:
    adapted = load(row.folder)
    data = open_data(replace(row, method="source-only"), image_size(row))
    points = [any_rows(domain, POINTS).without_labels() for domain in (data.source, data.test)]
    place = layer or _papers_layer(row, adapted.layer)
    source, target = (
        features_at(adapted.network, place, domain, preprocessing=adapted.preprocessing)
        for domain in points
    )
    return project(f"{METHODS[row.method]}: features at {place}", source, target)


def _papers_layer(row: Row, attached: str) -> str:
    if row.experiment.cell in AT_LAST_HIDDEN and row.method != "recommended":
        return LAST_HIDDEN[row.experiment.network]
    return attached
