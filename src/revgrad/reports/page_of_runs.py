"""What the page of several runs shows: a line for each, curves together, clouds side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from revgrad.reports.curves import Drawn, draw_chart
from revgrad.reports.findings import Findings
from revgrad.reports.measures import handed_back
from revgrad.reports.page_clouds import POINTS, CloudPanel, Project
from revgrad.reports.page_clouds_of_runs import clouds_of_runs
from revgrad.reports.page_curves import charts_of_runs, look_of
from revgrad.reports.page_of_run import title_of
from revgrad.reports.page_settings import differing, names_of
from revgrad.reports.sprites import Sheet
from revgrad.training.events import EvaluationRecord


@dataclass(frozen=True, eq=False)
class RunLine:
    """A run among others."""

    name: str
    title: str
    look: str
    findings: Findings
    evaluated: EvaluationRecord | None
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
    charts: tuple[Drawn, ...]
    tested: bool
    classes: tuple[str, ...]  # of the runs that have clouds, where they have the same ones
    points: int  # of each domain in a cloud, at most
    linked: bool  # whether clouds show the same rows
    sheet: Sheet | None
    data: dict[str, Any]

    @property
    def clouds(self) -> tuple[RunLine, ...]:
        """The runs that have one."""
        return tuple(line for line in self.lines if line.cloud is not None)


def page_of_runs(
    runs: Sequence[Findings], points: int = POINTS, place: Project | None = None
) -> RunsPage:
    """Every run in the order given; `place` is what lays out clouds."""
    names = names_of([run.folder for run in runs])
    changed = differing([run.config for run in runs])
    scores = list(
        dict.fromkeys(
            name for run in runs if run.verdict is not None for name in run.verdict.scores
        )
    )
    clouds = clouds_of_runs(runs, names, points, place)
    charts = tuple(draw_chart(chart) for chart in charts_of_runs(runs, names))
    lines = tuple(
        RunLine(
            name,
            title_of(run),
            look_of(number),
            run,
            handed_back(run),
            tuple(None if run.verdict is None else run.verdict.scores.get(s) for s in scores),
            tuple(values[number] for _, values in changed),
            clouds.panels[number],
            clouds.why[number],
        )
        for number, (name, run) in enumerate(zip(names, runs, strict=True))
    )
    kinds = {line.findings.classes for line in lines if line.cloud is not None}
    titles = list(dict.fromkeys(line.title for line in lines))
    return RunsPage(
        titles[0] if len(titles) == 1 else f"{len(runs)} runs",
        lines,
        tuple(scores),
        tuple(name for name, _ in changed),
        charts,
        any(line.evaluated and line.evaluated.target_accuracy is not None for line in lines),
        kinds.pop() if len(kinds) == 1 else (),
        clouds.points,
        any(len(group["panels"]) > 1 for group in clouds.groups),
        clouds.sheet,
        {
            "charts": [drawn.data for drawn in charts],
            "clouds": list(clouds.groups),
            "sheet": None if clouds.sheet is None else clouds.sheet.data,
        },
    )
