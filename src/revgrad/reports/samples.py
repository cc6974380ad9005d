"""A picture of what the domains look like: rows of samples, as in the paper's Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from revgrad.domains.domain import Domain
from revgrad.reports.drawing import save_figure


def draw_samples(
    path: Path, rows: Sequence[tuple[str, Domain]], columns: int = 12, seed: int = 0
) -> None:
    """One row of random images for each (title, domain)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * 0.7 + 1.2, len(rows) * 0.75), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for (title, domain), line in zip(rows, grid, strict=True):
        chosen = np.random.default_rng(seed).integers(0, len(domain), columns)
        images = domain.batch(chosen, augment=False).inputs
        for axes, image in zip(line, images, strict=True):
            pixels = np.asarray(image).transpose(1, 2, 0)
            axes.imshow(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels, cmap="gray")
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=10)
    save_figure(figure, path)
