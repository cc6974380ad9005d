"""The trials of a search, as they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from revgrad.choosing.configuration import Value
from revgrad.choosing.space import Space

State = Literal["done", "pruned", "failed", "running"]
_ORDER: tuple[State, ...] = ("done", "pruned", "failed", "running")


@dataclass(frozen=True)
class TrialRow:
    """A trial of a search.

    score             at the end of training; of a pruned trial, its last
    step              how far it came
    values            of what was varied
    source_accuracy   on held-out source, at the last evaluation
    """

    number: int
    state: State
    score: float | None
    step: int
    values: dict[str, Value]
    folder: Path
    source_accuracy: float | None = None
    seconds: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Search:
    """Where a search is kept, what it varies, and its trials, the best first."""

    folder: Path
    score: str
    steps: int
    space: Space
    rows: tuple[TrialRow, ...]

    @property
    def best(self) -> TrialRow | None:
        """The finished trial of the highest score, the first of several."""
        return next((row for row in self.rows if row.state == "done"), None)

    def of(self, state: State) -> list[TrialRow]:
        return [row for row in self.rows if row.state == state]


def best_first(rows: Iterable[TrialRow]) -> tuple[TrialRow, ...]:
    """Finished ones by score, then the pruned that came farthest, failed ones, running ones."""

    def key(row: TrialRow) -> tuple[float, ...]:
        score = -math.inf if row.score is None else row.score
        far = row.step if row.state == "pruned" else 0
        return (_ORDER.index(row.state), -far, -score, row.number)

    return tuple(sorted(rows, key=key))


def show_value(value: Value | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
