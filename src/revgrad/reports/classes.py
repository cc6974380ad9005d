"""Classes one by one: confusion on the source, predicted balance on the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from markupsafe import Markup

from revgrad.diagnostics.certainty import predicted_shares
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import Array, shares_of
from revgrad.reports.svg import drawing, element

#: Side of the picture of a confusion; room in it for names of up to three letters, and of more.
CONFUSION_SIDE, NARROW_MARGIN, WIDE_MARGIN = 400.0, 40.0, 66.0
#: Above so many classes cells are too small for numbers, for names, and to be drawn at all.
CLASSES_NUMBERED, CLASSES_NAMED, CLASSES_DRAWN = 12, 26, 100
#: Letters of a class's name beside a cell.
NAME_LETTERS = 9
#: Classes whose balance is listed; the ones that differ most where there are more.
CLASSES_LISTED = 50
#: Kinds of mistakes that are listed.
MISTAKES_LISTED = 6


@dataclass(frozen=True)
class Mistake:
    """Samples of one class that are taken for another."""

    label: str
    taken_for: str
    count: int
    of: int


@dataclass(frozen=True, eq=False)
class Confusion:
    """Of held-out source samples; `picture` is None where there are too many classes for one."""

    picture: Markup | None
    data: dict[str, Any]
    mistakes: tuple[Mistake, ...]
    right: int
    samples: int


@dataclass(frozen=True)
class Balance:
    """A class's share of the source's labels, and of the predictions on the target; `baseline`: of
    those by the source-only network."""

    name: str
    source: float
    target: float
    baseline: float | None


def confusion_counts(logits: Array, labels: Array) -> Array:
    """(k, k): samples of label i that are predicted as j."""
    counts = np.zeros((logits.shape[1], logits.shape[1]), np.int64)
    np.add.at(counts, (labels, logits.argmax(axis=1)), 1)
    return counts


def confusion_of(evidence: Evidence, classes: Sequence[str]) -> Confusion | None:
    """Of the held-out source samples; None where there are none."""
    if evidence.source_logits is None or evidence.source_labels is None:
        return None
    counts = confusion_counts(evidence.source_logits, evidence.source_labels)
    wrong = counts - np.diag(counts.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:MISTAKES_LISTED]
    mistakes = tuple(
        Mistake(classes[i], classes[j], int(wrong[i, j]), int(counts[i].sum()))
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[i, j]
    )
    right, samples = int(counts.trace()), int(counts.sum())
    if len(counts) > CLASSES_DRAWN:
        return Confusion(None, {}, mistakes, right, samples)
    margin = _margin(classes)
    data = {
        "id": "confusion",
        "margin": margin,
        "extent": _cells_extent(margin),
        "counts": counts.tolist(),
    }
    return Confusion(_draw_confusion(counts, classes), data, mistakes, right, samples)


def balances(evidence: Evidence, classes: Sequence[str]) -> tuple[Balance, ...]:
    """Every class; of very many, those that differ most. None without the source's labels."""
    if evidence.source_labels is None:
        return ()
    target = predicted_shares(evidence.target_logits)
    source = shares_of(evidence.source_labels, len(target))
    source_only = evidence.source_only_logits
    below = None if source_only is None else predicted_shares(source_only)
    chosen = np.arange(len(target))
    if len(chosen) > CLASSES_LISTED:
        chosen = np.sort(np.argsort(-np.abs(target - source), kind="stable")[:CLASSES_LISTED])
    return tuple(
        Balance(
            classes[i],
            float(source[i]),
            float(target[i]),
            None if below is None else float(below[i]),
        )
        for i in chosen.tolist()
    )


def _draw_confusion(counts: Array, classes: Sequence[str]) -> Markup:
    """Lines are labels, columns predictions; a cell is as dark as its share of its line."""
    kinds, margin = len(counts), _margin(classes)
    extent = _cells_extent(margin)
    cell, middle = extent / kinds, margin + extent / 2
    parts = [element("rect", x=margin, y=0, width=extent, height=extent, class_="frame")]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i, j in zip(*np.nonzero(counts), strict=True):
        parts += _draw_cell(
            int(counts[i, j]), float(shares[i, j]), bool(i == j), (i, j), cell, margin
        )
        if kinds > CLASSES_NUMBERED:
            parts.pop()
    every = 1 if kinds <= CLASSES_NAMED else -(-kinds // 20)
    for i in range(0, kinds, every):
        parts += _draw_names(_shortened(classes[i]), (i + 0.5) * cell, margin)
    side = f"rotate(-90 10 {extent / 2:.0f})"
    parts += [
        element("text", "label", x=10, y=extent / 2, transform=side, class_="unit middle"),
        element("text", "predicted", x=middle, y=CONFUSION_SIDE - 3, class_="unit middle"),
    ]
    return drawing(
        (CONFUSION_SIDE, CONFUSION_SIDE),
        "Confusion on held-out source samples: labels against predictions",
        parts,
        class_="confusion",
        id="confusion",
    )


def _draw_cell(
    count: int, share: float, right: bool, place: tuple[int, int], cell: float, margin: float
) -> list[Element]:
    """A square and the number in it."""
    x, y = margin + place[1] * cell, place[0] * cell
    square = element(
        "rect",
        x=f"{x:.2f}",
        y=f"{y:.2f}",
        width=f"{cell:.2f}",
        height=f"{cell:.2f}",
        fill_opacity=f"{0.08 + 0.92 * share:.2f}",
        class_="right" if right else "wrong",
    )
    kind = "count middle dark" if share > 0.5 else "count middle"
    return [square, element("text", str(count), x=x + cell / 2, y=y + cell / 2 + 4, class_=kind)]


def _draw_names(name: str, at: float, margin: float) -> list[Element]:
    """A class's name beside its line and below its column, there turned where it is long."""
    x, y = margin + at, CONFUSION_SIDE - margin + 11
    turn = None if margin == NARROW_MARGIN else f"rotate(-55 {x:.1f} {y - 5:.1f})"
    return [
        element("text", name, x=margin - 6, y=at + 4, class_="tick end"),
        element(
            "text",
            name,
            x=x,
            y=y,
            transform=turn,
            class_="tick middle" if turn is None else "tick end",
        ),
    ]


def _margin(classes: Sequence[str]) -> float:
    return NARROW_MARGIN if max(len(name) for name in classes) <= 3 else WIDE_MARGIN


def _cells_extent(margin: float) -> float:
    """Side of the square of all cells."""
    return CONFUSION_SIDE - margin - 4


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…"
