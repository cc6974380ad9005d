"""Images of several runs on one sheet: one that two runs show is there once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from revgrad.reports.sprites import Sheet, fitted, make_sheet
from revgrad.shallow.inputs import Array


@dataclass
class SharedTiles:
    """Collects images, whatever their sizes; the sheet's tiles are as large as the largest."""

    _images: list[np.ndarray] = field(default_factory=list)
    _places: dict[tuple[tuple[int, ...], bytes], int] = field(default_factory=dict)

    def add(self, images: np.ndarray | None, rows: Array) -> list[int]:
        """The tiles of these rows of (n, height, width, 3) images; −1 where there are none."""
        if images is None:
            return [-1] * len(rows)
        return [self._tile(images[row]) for row in rows.tolist()]

    def sheet(self) -> Sheet | None:
        """Of all that were added; None where none were."""
        if not self._images:
            return None
        height, width = (max(image.shape[side] for image in self._images) for side in (0, 1))
        return make_sheet(np.stack([fitted(image, height, width) for image in self._images]))

    def _tile(self, image: np.ndarray) -> int:
        key = image.shape, image.tobytes()
        if key not in self._places:
            self._places[key] = len(self._images)
            self._images.append(image)
        return self._places[key]
