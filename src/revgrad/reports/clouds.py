"""Feature clouds of the two domains, as in the paper's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revgrad.reports.drawing import SOURCE, TARGET, save_figure


@dataclass(frozen=True)
class Cloud:
    """One panel: points (n, 2) of each domain."""

    title: str
    source: np.ndarray
    target: np.ndarray


def project(title: str, source: np.ndarray, target: np.ndarray, seed: int = 0) -> Cloud:
    """t-SNE of both domains' features (n, d) together, after PCA to 50 dimensions."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    both = np.concatenate([source, target]).astype(np.float64)
    reduced = PCA(min(50, *both.shape), random_state=seed).fit_transform(both)
    points = TSNE(
        perplexity=min(30.0, (len(both) - 1) / 3), init="pca", random_state=seed
    ).fit_transform(reduced)
    return Cloud(title, points[: len(source)], points[len(source) :])


def draw_clouds(path: Path, clouds: Sequence[Cloud]) -> None:
    """The panels side by side, source blue, target red."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(clouds), 5.2), layout="constrained")
    for axes, cloud in zip(figure.subplots(1, len(clouds), squeeze=False)[0], clouds, strict=True):
        style = {"s": 9, "alpha": 0.65, "linewidths": 0}
        axes.scatter(*cloud.source.T, color=SOURCE, label="source", **style)
        axes.scatter(*cloud.target.T, color=TARGET, label="target", **style)
        axes.set_title(cloud.title, fontsize=12)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_color("#bbbbbb")
        axes.legend(loc="upper right", fontsize=10, markerscale=2.5, framealpha=0.9)
    save_figure(figure, path)
