"""The paper's semi-supervised figure as numbers: validation error over batches, three trainings.

`semi_supervised_figure.csv` holds the points that the figure is drawn from in the paper's LaTeX
source: every 500 batches from 10,500 to 50,000, for "real data only", "synthetic data only" and
"both". Nothing of it is measured here.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FIGURE = Path(__file__).with_name("semi_supervised_figure.csv")
#: Curve → what the figure calls it, and its colour here.
CURVES = {
    "real-only": ("real data only", "#2b6cb0"),
    "synthetic-only": ("synthetic data only", "#3aa6b9"),
    "both": ("both", "#d1495b"),
}


@dataclass(frozen=True)
class End:
    """Where a training of ours ended: mean error over seeds after so many steps."""

    steps: int
    error: float


def read(path: Path = FIGURE) -> dict[str, dict[int, float]]:
    """Curve → batches → error."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: {int(row["batches"]): float(row[name]) for row in rows} for name in CURVES}


def first_below(curve: Mapping[int, float], error: float) -> int:
    """The first batches at which the curve is below `error`."""
    return next(batches for batches, value in sorted(curve.items()) if value < error)


def draw(path: Path, ours: Mapping[str, End]) -> None:
    """The paper's three curves, and a mark where each training of ours ended."""
    from matplotlib.figure import Figure

    from revgrad.reports.figures import save_figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, curve in read().items():
        title, colour = CURVES[name]
        axes.plot(list(curve), list(curve.values()), color=colour, label=f"the paper: {title}")
        if name in ours:
            end = ours[name]
            text = f"ours, {end.steps:,} steps: {title} ({end.error:.3f})"
            axes.plot([end.steps], [end.error], "o", color=colour, label=text)
    axes.set_xlim(0, 51_000)
    axes.set_ylim(0, 1)
    axes.set_xlabel("batches seen", fontsize=9)
    axes.set_ylabel("validation error", fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, path)
