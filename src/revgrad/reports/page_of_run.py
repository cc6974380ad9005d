"""What the page of one run shows, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from revgrad.diagnostics.scores import SCORES
from revgrad.reports.class_figures import Balance, Confusion, balances, confusion_of
from revgrad.reports.clouds import project
from revgrad.reports.curves import Drawn, draw_chart
from revgrad.reports.findings import Findings
from revgrad.reports.measures import Measure, measures_of
from revgrad.reports.page_clouds import POINTS, CloudPair, CloudPanel, Project, cloud_pair
from revgrad.reports.page_curves import charts_of_run
from revgrad.reports.page_settings import Data, data_of, machine_of, settings_of
from revgrad.reports.predictions import Predictions, least_sure, most_sure, predictions
from revgrad.reports.sprites import Sheet, make_sheet
from revgrad.shallow.inputs import Array

#: Images in each grid.
GRID = 24


@dataclass(frozen=True)
class Tile:
    """A target row: which tile of the sheet it is, and what is said of it."""

    tile: int
    row: int
    said: str
    sure: float
    runner_up: str


@dataclass(frozen=True)
class Grid:
    title: str
    says: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class ScoreRow:
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
    confusion, shares, chosen = None, [], _Chosen(None, {})
    if evidence is not None:
        confusion = confusion_of(evidence, classes)
        shares = balances(evidence, classes, evidence.source_only_logits)
        chosen = _grids(findings, predictions(evidence.target_logits), classes)
    sheet, tiles = _sheet(findings, pair, chosen)
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
        grids=_filled(chosen, tiles) if sheet is not None else (),
        sheet=sheet,
        scores=_scores(findings),
        domains=tuple(data_of(config)),
        settings=settings_of(config),
        machine=machine_of(config),
        data={
            "classes": classes,
            "charts": [drawn.data for drawn in charts],
            "cloud": _cloud_data(findings, pair, tiles),
            "confusion": None if confusion is None else confusion.data,
            "sheet": None if sheet is None else _sheet_data(sheet),
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


@dataclass(frozen=True)
class _Chosen:
    """Which target rows go into the grids, before the sheet's tiles are known."""

    said: Predictions | None
    grids: dict[str, tuple[str, Array]]
    classes: Sequence[str] = ()
    rows: Array | None = None


def _grids(findings: Findings, said: Predictions, classes: Sequence[str]) -> _Chosen:
    assert findings.kept is not None
    count = len(said.classes)
    each = min(GRID, count // 2) or count
    return _Chosen(
        said,
        {
            "Least sure": ("The least sure first.", least_sure(said, each)),
            "Most sure": ("The surest first, each predicted class in turn.", most_sure(said, each)),
        },
        classes,
        findings.kept.target_rows,
    )


def _sheet(
    findings: Findings, pair: CloudPair, chosen: _Chosen
) -> tuple[Sheet | None, dict[tuple[str, int], int]]:
    """One sheet of every image that is shown, and which tile a kept row of a domain is."""
    kept = findings.kept
    if kept is None or kept.source_images is None or kept.target_images is None:
        return None, {}
    shown = [row for _, rows in chosen.grids.values() for row in rows.tolist()]
    target = sorted({*pair.target.tolist(), *shown})
    source = pair.source.tolist()
    if kept.source_images.shape[1:] != kept.target_images.shape[1:] or not target:
        return None, {}
    images = np.concatenate([kept.source_images[source], kept.target_images[target]])
    places = {("source", row): tile for tile, row in enumerate(source)}
    places |= {("target", row): len(source) + tile for tile, row in enumerate(target)}
    return make_sheet(images), places


def _filled(chosen: _Chosen, places: dict[tuple[str, int], int]) -> tuple[Grid, ...]:
    said, rows = chosen.said, chosen.rows
    if said is None or rows is None:
        return ()
    return tuple(
        Grid(
            title,
            says,
            tuple(
                Tile(
                    places["target", row],
                    int(rows[row]),
                    chosen.classes[said.classes[row]],
                    float(said.confidence[row]),
                    chosen.classes[said.runner_up[row]],
                )
                for row in chosen_rows.tolist()
            ),
        )
        for title, (says, chosen_rows) in chosen.grids.items()
    )


def _cloud_data(
    findings: Findings, pair: CloudPair, places: dict[tuple[str, int], int]
) -> dict[str, Any] | None:
    """What the pointer shows of a point: the source's come first."""
    kept = findings.kept
    if kept is None or not pair.panels:
        return None
    evidence = kept.end or kept.start
    labels = None if evidence is None else evidence.source_labels
    return {
        "sources": len(pair.source),
        "rows": [*kept.source_rows[pair.source].tolist(), *kept.target_rows[pair.target].tolist()],
        "labels": [] if labels is None else labels[pair.source].tolist(),
        "tiles": [
            *(places.get(("source", row), -1) for row in pair.source.tolist()),
            *(places.get(("target", row), -1) for row in pair.target.tolist()),
        ],
        "panels": [panel.data for panel in pair.panels],
    }


def _sheet_data(sheet: Sheet) -> dict[str, int]:
    return {
        "columns": sheet.columns,
        "lines": sheet.lines,
        "width": sheet.width,
        "height": sheet.height,
        "strideX": sheet.stride_x,
        "strideY": sheet.stride_y,
    }


def _scores(findings: Findings) -> tuple[ScoreRow, ...]:
    if findings.verdict is None:
        return ()
    return tuple(
        ScoreRow(name, value, SCORES[name].says if name in SCORES else "")
        for name, value in findings.verdict.scores.items()
    )
