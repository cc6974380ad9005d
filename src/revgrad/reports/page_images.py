"""The images that a page shows, on one sheet; grids of what the network is least, most sure of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from revgrad.diagnostics.kept import KeptEvidence
from revgrad.reports.findings import Findings
from revgrad.reports.page_clouds import CloudPair
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
    """Target rows under a title; how they were chosen, in words."""

    title: str
    says: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, eq=False)
class PageImages:
    """A sheet of every image that is shown, and which tile a kept row of a domain is."""

    sheet: Sheet | None = None
    source: dict[int, int] = field(default_factory=dict)
    target: dict[int, int] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()


def images_of(findings: Findings, pair: CloudPair) -> PageImages:
    """Of the clouds' points and of the grids; none where the inputs are no images."""
    kept, evidence = findings.kept, findings.evidence
    if kept is None or evidence is None or kept.target_images is None:
        return PageImages()
    said = predictions(evidence.target_logits)
    each = min(GRID, -(-len(said.classes) // 2))
    least, most = least_sure(said, each), most_sure(said, each)
    target = sorted({*pair.target.tolist(), *least.tolist(), *most.tolist()})
    source = pair.source.tolist() if _alike(kept) else []
    images = kept.target_images[target]
    if source and kept.source_images is not None:
        images = np.concatenate([kept.source_images[source], images])
    places = {row: len(source) + tile for tile, row in enumerate(target)}
    titles = {
        "Least sure": ("The least sure first.", least),
        "Most sure": ("The surest first, each predicted class in turn.", most),
    }
    grids = tuple(
        Grid(title, says, _tiles(rows, said, findings, kept, places))
        for title, (says, rows) in titles.items()
    )
    tiles = {row: tile for tile, row in enumerate(source)}
    return PageImages(make_sheet(images), tiles, places, grids)


def _tiles(
    rows: Array, said: Predictions, findings: Findings, kept: KeptEvidence, places: dict[int, int]
) -> tuple[Tile, ...]:
    classes = findings.classes
    return tuple(
        Tile(
            places[row],
            int(kept.target_rows[row]),
            classes[said.classes[row]],
            float(said.confidence[row]),
            classes[said.runner_up[row]],
        )
        for row in rows.tolist()
    )


def _alike(kept: KeptEvidence) -> bool:
    """Whether both domains' images fit on one sheet."""
    if kept.source_images is None or kept.target_images is None:
        return False
    return kept.source_images.shape[1:] == kept.target_images.shape[1:]
