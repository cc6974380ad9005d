"""Grids of target images: those that the network is least, and most, sure of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.recorder import RecordedEvidence
from revgrad.reports.clouds import CloudPair
from revgrad.reports.images import (
    Predictions,
    SharedTiles,
    Sheet,
    least_sure,
    most_sure,
    predictions,
)
from revgrad.reports.run_summary import RunSummary

#: Images in each grid.
GRID_IMAGES = 24


@dataclass(frozen=True)
class Tile:
    """A target sample: which tile of the sheet it is, and what is predicted for it.

    Attributes
    ----------
    index
        of the sample in the target
    """

    tile: int
    index: int
    predicted: str
    confidence: float
    runner_up: str


@dataclass(frozen=True)
class Grid:
    """Target samples under a title; how they were chosen, in words."""

    title: str
    says: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, eq=False)
class PageImages:
    """A sheet of every image that is shown, and grids of some.

    Attributes
    ----------
    points
        the tile of each point of the clouds, the source's first; −1 where it has no image
    """

    sheet: Sheet | None = None
    points: list[int] = field(default_factory=list)
    grids: tuple[Grid, ...] = ()


def images_of(summary: RunSummary, pair: CloudPair) -> PageImages:
    """Of the clouds' points and of the grids; none where the inputs are no images."""
    recorded, evidence = summary.recorded, summary.evidence
    if recorded is None or evidence is None or recorded.target_images is None:
        return PageImages(points=[-1] * (len(pair.source) + len(pair.target)))
    predicted = predictions(evidence.target_logits)
    each = min(GRID_IMAGES, -(-len(predicted.classes) // 2))
    least, most = least_sure(predicted, each), most_sure(predicted, each)
    tiles = SharedTiles()
    source = tiles.add(recorded.source_images, pair.source)
    shown = np.unique(np.concatenate([pair.target, least, most]))
    target = dict(zip(shown.tolist(), tiles.add(recorded.target_images, shown), strict=True))
    grids = tuple(
        Grid(title, says, _tiles(chosen, predicted, summary.classes, recorded, target))
        for title, says, chosen in (
            ("Least sure", "The least sure first.", least),
            ("Most sure", "The surest first, each predicted class in turn.", most),
        )
    )
    return PageImages(
        tiles.sheet(), [*source, *(target[sample] for sample in pair.target.tolist())], grids
    )


def _tiles(
    samples: Array,
    predicted: Predictions,
    classes: tuple[str, ...],
    recorded: RecordedEvidence,
    tiles: dict[int, int],
) -> tuple[Tile, ...]:
    return tuple(
        Tile(
            tiles[sample],
            int(recorded.target_indices[sample]),
            classes[predicted.classes[sample]],
            float(predicted.confidence[sample]),
            classes[predicted.runner_up[sample]],
        )
        for sample in samples.tolist()
    )
