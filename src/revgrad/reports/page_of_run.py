"""What the page of one run shows, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revgrad.diagnostics.scores import SCORES
from revgrad.reports.class_figures import Balance, Confusion, balances, confusion_of
from revgrad.reports.clouds import project
from revgrad.reports.curves import Drawn, draw_chart
from revgrad.reports.findings import Findings
from revgrad.reports.measures import Measure, measures_of
from revgrad.reports.page_clouds import (
    POINTS,
    CloudPair,
    CloudPanel,
    Project,
    cloud_data,
    cloud_pair,
)
from revgrad.reports.page_curves import charts_of_run
from revgrad.reports.page_images import Grid, PageImages, images_of
from revgrad.reports.page_settings import Data, data_of, machine_of, settings_of
from revgrad.reports.sprites import Sheet


@dataclass(frozen=True)
class ScoreRow:
    """A label-free score and what makes it high."""

    name: str
    value: float
    says: str


@dataclass(frozen=True, eq=False)
class RunPage:
    """The template's view of one run: everything is ready to be written."""

    findings: Findings
    title: str
    measures: tuple[Measure, ...]
    charts: tuple[Drawn, ...]
    panels: tuple[CloudPanel, ...]
    confusion: Confusion | None
    balances: tuple[Balance, ...]
    grids: tuple[Grid, ...]
    sheet: Sheet | None
    scores: tuple[ScoreRow, ...]
    domains: tuple[Data, ...]
    settings: dict[str, str]
    machine: dict[str, str]
    data: dict[str, Any]


def page_of_run(findings: Findings, points: int = POINTS, place: Project | None = None) -> RunPage:
    """Lay out a run; what there is no evidence for is left empty."""
    pair = cloud_pair(findings, points, place or project)
    evidence, classes = findings.evidence, findings.classes
    confusion, shares = None, []
    if evidence is not None:
        confusion = confusion_of(evidence, classes)
        shares = balances(evidence, classes, evidence.source_only_logits)
    images = images_of(findings, pair)
    charts = tuple(draw_chart(chart) for chart in charts_of_run(findings))
    config = findings.config
    return RunPage(
        findings=findings,
        title=title_of(findings),
        measures=measures_of(findings),
        charts=charts,
        panels=pair.panels,
        confusion=confusion,
        balances=tuple(shares),
        grids=images.grids,
        sheet=images.sheet,
        scores=_scores(findings),
        domains=tuple(data_of(config)),
        settings=settings_of(config),
        machine=machine_of(config),
        data={
            "classes": classes,
            "charts": [drawn.data for drawn in charts],
            "clouds": _cloud_data(findings, pair, images),
            "confusion": None if confusion is None else confusion.data,
            "sheet": None if images.sheet is None else images.sheet.data,
        },
    )


def title_of(findings: Findings) -> str:
    """Source → target, as the data are called."""
    domains, options = findings.config.domains, findings.config.options
    names = [
        str(options.get(role) or domains.get(role, {}).get("name", ""))
        for role in ("source", "target")
    ]
    return " → ".join(_last_part(name) for name in names if name) or findings.folder.name


def _last_part(name: str) -> str:
    """A folder's own name; a domain's as it is."""
    return Path(name).name or name


def _cloud_data(findings: Findings, pair: CloudPair, images: PageImages) -> list[dict[str, Any]]:
    """Both panels are of the same rows."""
    kept = findings.kept
    if kept is None or not pair.panels:
        return []
    tiles = [
        *(images.source.get(row, -1) for row in pair.source.tolist()),
        *(images.target.get(row, -1) for row in pair.target.tolist()),
    ]
    panels = [panel.data for panel in pair.panels]
    return [cloud_data(findings, kept, (pair.source, pair.target), tiles, panels)]


def _scores(findings: Findings) -> tuple[ScoreRow, ...]:
    if findings.verdict is None:
        return ()
    return tuple(
        ScoreRow(name, value, SCORES[name].says if name in SCORES else "")
        for name, value in findings.verdict.scores.items()
    )
