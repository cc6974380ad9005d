"""Feature clouds of several runs at their end, side by side; runs of the same rows are linked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.kept import KeptEvidence
from revgrad.reports.clouds import project
from revgrad.reports.findings import Findings
from revgrad.reports.page_clouds import (
    POINTS,
    CloudPanel,
    Project,
    cloud_data,
    cloud_panel,
    some_rows,
)
from revgrad.reports.page_curves import look_of
from revgrad.reports.shared_tiles import SharedTiles
from revgrad.reports.sprites import Sheet

#: Points of each domain in all the clouds together, and in one at the least: many runs still make
#: a page that is small, in time.
TOGETHER, FEWEST = 2000, 100


@dataclass(frozen=True, eq=False)
class RunClouds:
    """A panel for each run, None where there is none; `why` says the reason, else it is empty.

    points   of each domain in a cloud at most
    groups   for JavaScript: the panels by the rows that they show
    """

    panels: tuple[CloudPanel | None, ...]
    why: tuple[str, ...]
    points: int
    groups: tuple[dict[str, Any], ...]
    sheet: Sheet | None


def clouds_of_runs(
    runs: Sequence[Findings],
    names: Sequence[str],
    points: int = POINTS,
    place: Project | None = None,
) -> RunClouds:
    """Of each run's features at its end, in the order given."""
    points = min(points, max(TOGETHER // len(runs), FEWEST))
    tiles = SharedTiles()
    groups: dict[str, dict[str, Any]] = {}
    panels: list[CloudPanel | None] = []
    why = [_why_not(run) for run in runs]
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        kept = run.kept
        if why[number] or kept is None or kept.end is None:
            panels.append(None)
            continue
        rows = some_rows(len(kept.source_rows), points), some_rows(len(kept.target_rows), points)
        counts = f"{len(rows[0])} source and {len(rows[1])} target rows"
        says = f"Features at {run.config.layer}, {counts}."
        panel = cloud_panel(str(number), name, says, kept.end, rows, place or project)
        key = _identity(run, kept, kept.end)
        if key not in groups:
            images = kept.source_images, kept.target_images
            shown = [*tiles.add(images[0], rows[0]), *tiles.add(images[1], rows[1])]
            groups[key] = cloud_data(run, kept, rows, shown, [])
        groups[key]["panels"].append({**panel.data, "name": name, "look": look_of(number)})
        panels.append(panel)
    return RunClouds(tuple(panels), tuple(why), points, tuple(groups.values()), tiles.sheet())


def _identity(run: Findings, kept: KeptEvidence, evidence: Evidence) -> str:
    """The same for runs that kept the same rows, with the same labels and names of classes."""
    digest = hashlib.sha256(repr((run.classes, kept.source_rows.shape)).encode())
    parts = (kept.source_rows, kept.target_rows, evidence.source_labels)
    for part in (*parts, kept.source_inputs, kept.target_inputs):
        digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
    if kept.target_inputs is None:  # then numbers of rows alone don't tell which data they are of
        digest.update(repr(sorted(run.config.domains.items())).encode())
    return digest.hexdigest()


def _why_not(run: Findings) -> str:
    """Why a run has no cloud, in a sentence; empty where it has one."""
    if run.kept is None:
        return "It kept no evidence that can be used; the reason stands below."
    if run.kept.end is None:
        state = "failed before its end" if run.failure is not None else "has not come to its end"
        return f"It {state}, where features are kept."
    if run.kept.end.source_features is None or run.kept.end.source_logits is None:
        return "It kept no held-out source rows to lay beside the target's."
    return ""
