"""Feature clouds of the two domains, as in the paper's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revgrad.reports.drawing import SOURCE, TARGET, save_figure

#: Above so many points openTSNE, whose time grows with their number, is the faster one.
MANY = 3000
#: Iterations that pull groups apart, and after them: beyond, the picture hardly changes.
EXAGGERATED, ITERATIONS = 200, 250
#: Up to so many points, comparing all of them is faster than an index.
COMPARED = 20_000
#: Spread over size below which features count as one point.
CONSTANT = 1e-9


@dataclass(frozen=True)
class Cloud:
    """One panel: points (n, 2) of each domain."""

    title: str
    source: np.ndarray
    target: np.ndarray


def project(title: str, source: np.ndarray, target: np.ndarray, seed: int = 0) -> Cloud:
    """t-SNE of both domains' features (n, d) together, after PCA to 50 dimensions.

    Features that are all alike are one point: the origin.
    """
    from sklearn.decomposition import PCA

    both = np.concatenate([source, target]).astype(np.float64)
    centred = both - both.mean(axis=0)
    spread, size = np.abs(centred).max(initial=0.0), np.abs(both).max(initial=0.0)
    if len(both) < 4 or spread <= CONSTANT * size:
        points = np.zeros((len(both), 2))
    else:
        # t-SNE does not depend on the scale, but its arithmetic does
        reduced = PCA(min(50, *both.shape), random_state=seed).fit_transform(centred / spread)
        points = _embedded(reduced, seed)
    return Cloud(title, points[: len(source)], points[len(source) :])


def _embedded(rows: np.ndarray, seed: int) -> np.ndarray:
    """(n, d) → (n, 2), on one core: neighbours stay neighbours."""
    perplexity = min(30.0, (len(rows) - 1) / 3)
    if len(rows) > MANY:
        try:
            from openTSNE import TSNE as Fast  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            pass  # slower, and as good
        else:
            fast = Fast(
                perplexity=perplexity,
                early_exaggeration_iter=EXAGGERATED,
                n_iter=ITERATIONS,
                neighbors="exact" if len(rows) <= COMPARED else "auto",
                random_state=seed,
                n_jobs=1,
            )
            return np.asarray(fast.fit(rows), dtype=np.float64)
    from sklearn.manifold import TSNE

    plain = TSNE(perplexity=perplexity, init="pca", random_state=seed)
    # scikit-learn 1.5 gave it another name
    name = "max_iter" if "max_iter" in plain.get_params() else "n_iter"
    plain.set_params(**{name: EXAGGERATED + ITERATIONS})
    return np.asarray(plain.fit_transform(rows), dtype=np.float64)


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
    names = axes.get_legend_handles_labels()
    place = "outside lower center"  # within a panel it would hide points
    figure.legend(*names, loc=place, ncols=2, fontsize=10, markerscale=2.5, frameon=False)
    save_figure(figure, path)
