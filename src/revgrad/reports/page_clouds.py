"""Source and target feature clouds before and after, for a page: pictures, and what hover shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from markupsafe import Markup

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.kept import KeptEvidence
from revgrad.reports.clouds import Cloud, project
from revgrad.reports.findings import Findings
from revgrad.reports.predictions import Predictions, predictions
from revgrad.reports.svg import drawing, element
from revgrad.shallow.inputs import Array

#: Points of each domain, unless said.
POINTS = 600
SIDE, MARGIN = 1000, 40
#: Half the width of a target point's cross.
ARM = 7

Project = Callable[[str, np.ndarray, np.ndarray], Cloud]


@dataclass(frozen=True, eq=False)
class CloudPanel:
    """One cloud: its picture, and the numbers that JavaScript shows under the pointer."""

    title: str
    says: str
    picture: Markup
    data: dict[str, Any]


@dataclass(frozen=True, eq=False)
class CloudPair:
    """Panels of the same rows; `source`, `target`: which of the kept rows they are."""

    panels: tuple[CloudPanel, ...]
    source: Array
    target: Array


def cloud_pair(findings: Findings, points: int = POINTS, place: Project = project) -> CloudPair:
    """The clouds that the evidence suffices for: before, after, either, or none."""
    kept = findings.kept
    found = _moments(findings)
    if kept is None or not found:
        return CloudPair((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    source = some_rows(len(kept.source_rows), points)
    target = some_rows(len(kept.target_rows), points)
    panels = tuple(
        cloud_panel(key, title, says, evidence, (source, target), place)
        for key, title, says, evidence in found
    )
    return CloudPair(panels, source, target)


def _moments(findings: Findings) -> list[tuple[str, str, str, Evidence]]:
    """Key, title, words and evidence of each cloud."""
    kept, below = findings.kept, findings.baseline
    if kept is None:
        return []
    layer = findings.config.layer
    before = ("before", "Before the first step", f"Features at {layer} of the untrained network.")
    first = kept.start
    if below is not None and below.kept is not None and _same_rows(below.kept, kept):
        before = (
            "before",
            "Before: source only",
            f"Features at {layer} of the source-only network.",
        )
        first = below.kept.end
    after = (
        "after",
        "After: this run",
        f"Features at {layer} of the weights that were handed back.",
    )
    return [
        (*words, evidence)
        for words, evidence in ((before, first), (after, kept.end))
        if evidence is not None and evidence.source_features is not None
    ]


def _same_rows(one: KeptEvidence, other: KeptEvidence) -> bool:
    return np.array_equal(one.source_rows, other.source_rows) and np.array_equal(
        one.target_rows, other.target_rows
    )


def cloud_panel(
    key: str, title: str, says: str, evidence: Evidence, rows: tuple[Array, Array], place: Project
) -> CloudPanel:
    """Of the features, and what is said of each row; `rows`: which of the source, of the target."""
    source, target = rows
    assert evidence.source_features is not None
    assert evidence.target_features is not None
    assert evidence.source_logits is not None
    cloud = place(title, evidence.source_features[source], evidence.target_features[target])
    of_source, of_target = (
        predictions(evidence.source_logits[source]),
        predictions(evidence.target_logits[target]),
    )
    spots = _spots(np.concatenate([cloud.source, cloud.target]))
    labels = evidence.source_labels
    groups = of_source.classes if labels is None else labels[source]
    picture = _draw(key, title, spots, groups, of_target.classes)
    if not np.ptp(spots):
        says += " All rows have the same features: the points lie on one another."
    data = {
        "id": f"cloud-{key}",
        "x": spots[:, 0].tolist(),
        "y": spots[:, 1].tolist(),
        "said": _both(of_source, of_target, "classes"),
        "sure": [round(value, 4) for value in _both(of_source, of_target, "confidence")],
    }
    return CloudPanel(title, says, picture, data)


def cloud_data(
    findings: Findings,
    kept: KeptEvidence,
    rows: tuple[Array, Array],
    tiles: list[int],
    panels: list[dict[str, Any]],
) -> dict[str, Any]:
    """What the pointer shows of a point in any of the panels: the source's rows come first."""
    source, target = rows
    evidence = kept.end or kept.start
    labels = None if evidence is None else evidence.source_labels
    return {
        "classes": findings.classes,
        "sources": len(source),
        "rows": [*kept.source_rows[source].tolist(), *kept.target_rows[target].tolist()],
        "labels": [] if labels is None else labels[source].tolist(),
        "tiles": tiles,
        "panels": panels,
    }


def _draw(key: str, title: str, spots: Array, source: Array, target: Array) -> Markup:
    """Source points are discs, target points crosses; one path for each class of each domain."""
    count = len(source)
    discs = element("g", *_paths(spots[:count], source, lambda x, y: f"M{x} {y}h0"), class_="discs")
    crosses = element(
        "g",
        *_paths(
            spots[count:],
            target,
            lambda x, y: (
                f"M{x - ARM} {y - ARM}l{2 * ARM} {2 * ARM}m0-{2 * ARM}l-{2 * ARM} {2 * ARM}"
            ),
        ),
        class_="crosses",
    )
    label = f"{title}: {count} source rows as discs, {len(target)} target rows as crosses"
    ring = element("circle", r=22, class_="ring")
    parts = (discs, crosses, ring)
    return drawing((SIDE, SIDE), label, parts, class_="cloud", id=f"cloud-{key}", tabindex=0)


def _paths(spots: Array, classes: Array, mark: Callable[[int, int], str]) -> list[Element]:
    return [
        element(
            "path",
            d="".join(mark(int(x), int(y)) for x, y in spots[classes == label]),
            data_class=int(label),
        )
        for label in np.unique(classes)
    ]


def _spots(points: Array) -> Array:
    """Points to whole pixels of the picture, turned to fill it, proportions kept."""
    points = _turned(points)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = float((high - low).max()) or 1.0
    scaled = (points - (low + high) / 2) / extent * (SIDE - 2 * MARGIN) + SIDE / 2
    found: Array = np.rint(scaled).astype(np.int64)
    return found


def _turned(points: Array) -> Array:
    """By the angle that needs the smallest square: t-SNE knows no up and no left."""
    angles = np.deg2rad(np.arange(0, 90, 3))
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    turned = [points @ turns[:, :, i] for i in range(len(angles))]
    return min(turned, key=lambda one: float(np.ptp(one, axis=0).max()))


def some_rows(count: int, most: int) -> Array:
    """At most so many of the rows, the same ones each time."""
    found: Array = np.sort(np.random.default_rng(0).permutation(count)[:most])
    return found


def _both(source: Predictions, target: Predictions, field: str) -> list[Any]:
    joined = np.concatenate([getattr(source, field), getattr(target, field)])
    return joined.tolist()  # type: ignore[no-any-return]
