"""Pictures as files, by matplotlib: samples of domains; and the colours of both domains."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from revgrad._system import write_atomically
from revgrad.domains.domain import Domain

#: The paper's colours of Figure 3: source blue, target red.
SOURCE_COLOUR, TARGET_COLOUR = "#2b6cb0", "#d1495b"


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib Figure; the suffix decides the format."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=130)
    write_atomically(path, buffer.getvalue())


def draw_samples(
    path: Path, domains: Sequence[tuple[str, Domain]], columns: int = 12, seed: int = 0
) -> None:
    """A line of random images for each (title, domain)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * 0.7 + 1.2, len(domains) * 0.75), layout="constrained")
    grid = figure.subplots(len(domains), columns, squeeze=False)
    for (title, domain), line in zip(domains, grid, strict=True):
        chosen = np.random.default_rng(seed).integers(0, len(domain), columns)
        images = domain.batch(chosen, augment=False).inputs
        for axes, image in zip(line, images, strict=True):
            pixels = np.asarray(image).transpose(1, 2, 0)
            axes.imshow(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels, cmap="gray")
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=10)
    save_figure(figure, path)
