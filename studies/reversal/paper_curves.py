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
#: Curve → what the figure calls it.
CURVES = {
    "real-only": "real data only",
    "synthetic-only": "synthetic data only",
    "both": "both",
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
