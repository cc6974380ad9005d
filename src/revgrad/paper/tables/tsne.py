"""Figure 3 of the paper: features of both domains before and after adaptation, by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from revgrad import load
from revgrad.errors import unknown
from revgrad.evaluation import features_at
from revgrad.networks import build_network
from revgrad.paper.tables.budgets import Budget
from revgrad.paper.tables.cells import choose_cells
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import Job, folder_name
from revgrad.paper.tables.job_data import image_size, open_job_data, random_sample
from revgrad.paper.tables.job_recipe import LAST_HIDDEN, network_name
from revgrad.paper.tables.reproduce import reproduce_table
from revgrad.reports.clouds import Cloud, draw_clouds, tsne_cloud

#: The paper's panels: the top of the feature extractor here, the last hidden layer there.
CELLS = ("mnist->mnist-m", "syn-numbers->svhn")
AT_LAST_HIDDEN = frozenset({"syn-numbers->svhn"})
PANELS = {"source-only": "before", "adversarial": "after", "recommended": "recommended"}
CLOUD_SAMPLES = 500  # of each domain


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

    Parameters
    ----------
    layer
        any layer of the network; by default the one of the paper's own panel
    """
    shown = tuple(methods) or ("source-only", "adversarial")
    for method in shown:
        if method not in PANELS:
            raise unknown("method with a network to look into", method, PANELS)
    seed = (*seeds, 0)[0]
    chosen = choose_cells("table1", cells or CELLS)
    if layer is not None:
        _check_layer(layer, chosen, shown)
    done = reproduce_table(
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
        jobs = [Job(experiment, method, seed, budget, output) for method in shown]
        clouds = [_cloud(job, layer) for job in jobs if (job.folder / "checkpoint.json").exists()]
        if clouds:
            name = f"tsne-{folder_name(experiment.cell)}{'' if layer is None else '-' + layer}.png"
            pictures.append(output / budget.name / name)
            draw_clouds(pictures[-1], clouds)
    return pictures


def _check_layer(layer: str, chosen: Sequence[Experiment], methods: Sequence[str]) -> None:
    """Before any training: every network must have the layer."""
    for experiment in chosen:
        for method in methods:
            name = network_name(experiment, method)
            network = build_network(name, classes=10, channels=3, size=experiment.size, seed=0)
            known = [place for place, _ in network.named_modules() if place]
            if layer not in known:
                raise unknown(f"layer of the network '{name}'", layer, known)


def _cloud(job: Job, layer: str | None) -> Cloud:
    adapted = load(job.folder)
    data = open_job_data(replace(job, method="source-only"), image_size(job))
    points = [
        random_sample(domain, CLOUD_SAMPLES).without_labels() for domain in (data.source, data.test)
    ]
    place = layer or _papers_layer(job, adapted.layer)
    source, target = (
        features_at(adapted.network, place, domain, preprocessing=adapted.preprocessing)
        for domain in points
    )
    return tsne_cloud(f"{PANELS[job.method]}: features at {place}", source, target)


def _papers_layer(job: Job, attached: str) -> str:
    if job.experiment.cell in AT_LAST_HIDDEN and job.method != "recommended":
        return LAST_HIDDEN[job.experiment.network]
    return attached
