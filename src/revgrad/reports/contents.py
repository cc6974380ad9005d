"""Contents of a page: of one run, part by part; of several runs, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revgrad.diagnostics.scores import SCORES
from revgrad.reports.attributes import AttributePanel, attribute_panels
from revgrad.reports.classes import Balance, Confusion, balances, confusion_of
from revgrad.reports.clouds import (
    CLOUD_POINTS,
    CloudPanel,
    LayOut,
    cloud_pair,
    clouds_of_runs,
    pair_data,
    tsne_cloud,
)
from revgrad.reports.curves import DrawnChart, charts_of_run, charts_of_runs, draw_chart, look_of
from revgrad.reports.grids import Grid, images_of
from revgrad.reports.images import Sheet
from revgrad.reports.run_summary import (
    Measure,
    RunSummary,
    Side,
    evaluated_metrics,
    kind_of,
    measures_of,
    value_of,
)
from revgrad.reports.settings import (
    ShownDomain,
    differing_settings,
    short_names,
    shown_domains,
    shown_machine,
    shown_settings,
)
from revgrad.tasks.metrics import MetricKind


@dataclass(frozen=True)
class ShownScore:
    """A label-free score and what makes it high."""

    name: str
    value: float
    says: str


@dataclass(frozen=True, eq=False)
class RunPage:
    """The template's view of one run: everything is ready to be written."""

    summary: RunSummary
    title: str
    measures: tuple[Measure, ...]
    charts: tuple[DrawnChart, ...]
    panels: tuple[CloudPanel, ...]
    attributes: tuple[AttributePanel, ...]
    confusion: Confusion | None
    balances: tuple[Balance, ...]
    grids: tuple[Grid, ...]
    sheet: Sheet | None
    scores: tuple[ShownScore, ...]
    domains: tuple[ShownDomain, ...]
    settings: dict[str, str]
    machine: dict[str, str]
    data: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """The metric that says most of a task, and how it is shown."""

    value: float
    text: str


@dataclass(frozen=True, eq=False)
class RunLine:
    """A run among others."""

    name: str
    title: str
    look: str
    summary: RunSummary
    source: Figure | None
    target: Figure | None
    scores: tuple[float | None, ...]
    settings: tuple[str, ...]
    cloud: CloudPanel | None
    no_cloud: str  # why there is none


@dataclass(frozen=True, eq=False)
class RunsPage:
    """The template's view of several runs."""

    title: str
    lines: tuple[RunLine, ...]
    score_names: tuple[str, ...]
    setting_names: tuple[str, ...]
    charts: tuple[DrawnChart, ...]
    metric: str  # that the runs' figures are of; "" where they are of several, or of accuracy
    tested: bool
    classes: tuple[str, ...]  # of the runs that have clouds, where they have the same ones
    points: int  # of each domain in a cloud, at most
    linked: bool  # whether clouds show the same samples
    sheet: Sheet | None
    data: dict[str, Any]

    @property
    def clouds(self) -> tuple[RunLine, ...]:
        """The runs that have one."""
        return tuple(line for line in self.lines if line.cloud is not None)


def page_of_run(
    summary: RunSummary, points: int = CLOUD_POINTS, lay_out: LayOut = tsne_cloud
) -> RunPage:
    """Lay out a run; what there is no evidence for is left empty."""
    pair = cloud_pair(summary, points, lay_out)
    images = images_of(summary, pair)
    charts = tuple(draw_chart(chart) for chart in charts_of_run(summary))
    config, classes, evidence = summary.config, summary.classes, summary.evidence
    confusion = None if evidence is None else confusion_of(evidence, classes)
    return RunPage(
        summary=summary,
        title=title_of(summary),
        measures=measures_of(summary),
        charts=charts,
        panels=pair.panels,
        attributes=attribute_panels(summary, points, lay_out),
        confusion=confusion,
        balances=() if evidence is None else balances(evidence, classes),
        grids=images.grids,
        sheet=images.sheet,
        scores=_shown_scores(summary),
        domains=shown_domains(config),
        settings=shown_settings(config),
        machine=shown_machine(config),
        data={
            "classes": classes,
            "charts": [drawn.data for drawn in charts],
            "clouds": pair_data(summary, pair, images.points),
            "confusion": None if confusion is None else confusion.data,
            "sheet": None if images.sheet is None else images.sheet.data,
        },
    )


def page_of_runs(
    runs: Sequence[RunSummary], points: int = CLOUD_POINTS, lay_out: LayOut = tsne_cloud
) -> RunsPage:
    """Lay out several runs, in the order given."""
    names = short_names([run.folder for run in runs])
    differing = differing_settings([run.config for run in runs])
    judged = [{} if run.verdict is None else run.verdict.scores for run in runs]
    scores = tuple(dict.fromkeys(name for values in judged for name in values))
    clouds = clouds_of_runs(runs, names, points, lay_out)
    charts = tuple(draw_chart(chart) for chart in charts_of_runs(runs, names))
    metrics = {_leading(run).title for run in runs}
    mixed = len(metrics) > 1
    lines = tuple(
        RunLine(
            name=names[number],
            title=title_of(run),
            look=look_of(number),
            summary=run,
            source=_figure(run, "source", mixed),
            target=_figure(run, "target", mixed),
            scores=tuple(judged[number].get(name) for name in scores),
            settings=tuple(one.values[number] for one in differing),
            cloud=clouds.panels[number],
            no_cloud=clouds.why[number],
        )
        for number, run in enumerate(runs)
    )
    kinds = {line.summary.classes for line in lines if line.cloud is not None}
    titles = {line.title for line in lines}
    return RunsPage(
        title=titles.pop() if len(titles) == 1 else f"{len(runs)} runs",
        lines=lines,
        score_names=scores,
        setting_names=tuple(one.name for one in differing),
        charts=charts,
        metric=next(iter(metrics)) if len(metrics) == 1 and metrics != {"accuracy"} else "",
        tested=any(line.target is not None for line in lines),
        classes=kinds.pop() if len(kinds) == 1 else (),
        points=clouds.points,
        linked=any(len(group["panels"]) > 1 for group in clouds.groups),
        sheet=clouds.sheet,
        data={
            "charts": [drawn.data for drawn in charts],
            "clouds": list(clouds.groups),
            "sheet": None if clouds.sheet is None else clouds.sheet.data,
        },
    )


def title_of(summary: RunSummary) -> str:
    """Source → target, as the data are called; folders by their own names.

    Two arrays say nothing: then it is the run's folder.
    """
    known = summary.config.provenance
    names = [Path(name).name or name for name in (known.source, known.target) if name]
    return " → ".join(names) if len(set(names)) == len(names) > 0 else summary.folder.name


def _leading(run: RunSummary) -> MetricKind:
    return kind_of(evaluated_metrics([run])[0], run.task)


def _figure(run: RunSummary, side: Side, named: bool) -> Figure | None:
    value, kind = value_of(run.returned, evaluated_metrics([run])[0], side), _leading(run)
    if value is None:
        return None
    text = Measure("", "", (), kind=kind).shown(value)
    return Figure(value, f"{kind.title} {text}" if named else text)


def _shown_scores(summary: RunSummary) -> tuple[ShownScore, ...]:
    if summary.verdict is None:
        return ()
    return tuple(
        ShownScore(name, value, SCORES[name].says if name in SCORES else "")
        for name, value in summary.verdict.scores.items()
    )
