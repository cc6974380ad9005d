"""Attributes on a page: clouds of features at each adversary's layer, coloured by its attribute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from revgrad.diagnostics.attribute_evidence import AttributeEvidence, read_attribute_evidence
from revgrad.diagnostics.attribute_verdict import AttributeVerdict
from revgrad.diagnostics.inputs import Array
from revgrad.domains.domain import drawn_indices
from revgrad.errors import RevgradError
from revgrad.reports.clouds import CLOUD_SIDE, LayOut, spots_of
from revgrad.reports.run_summary import RunSummary
from revgrad.reports.svg import drawing, element, shown_number
from revgrad.training.run import BASELINE

#: Colours of categories (Okabe and Ito), beginning again beyond; and of numbers from low to high.
CATEGORY_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
NUMBER_COLOURS = ("#3b4cc0", "#7b9ff9", "#c0c0c0", "#f4987a", "#b40426")


@dataclass(frozen=True)
class LegendColour:
    """A line of a cloud's legend."""

    name: str
    colour: str


@dataclass(frozen=True, eq=False)
class AttributeCloud:
    """One picture of the features of a layer."""

    title: str
    picture: Markup


@dataclass(frozen=True, eq=False)
class AttributePanel:
    """What a page shows of one adversary's attribute."""

    title: str
    verdict: AttributeVerdict
    clouds: tuple[AttributeCloud, ...]
    legend: tuple[LegendColour, ...]


def attribute_panels(
    summary: RunSummary, points: int, lay_out: LayOut
) -> tuple[AttributePanel, ...]:
    """Of every adversary that the verdict speaks of: without adversaries and with them."""
    if summary.verdict is None or not summary.verdict.attributes:
        return ()
    after, before = _evidence(summary.folder), _evidence(summary.folder / BASELINE)
    if after is None:
        return ()
    found = []
    for number, judged in enumerate(summary.verdict.attributes):
        about = summary.config.adversaries[number]
        kinds, legend = _coloured(after.values[number], judged.values)
        moments = [("Without adversaries", before), ("After: this run", after)]
        clouds = tuple(
            AttributeCloud(
                title,
                _drawn(f"{number}-{at}", title, evidence.features[number], kinds, points, lay_out),
            )
            for at, (title, evidence) in enumerate(moments)
            if evidence is not None and len(evidence.values) == len(after.values)
        )
        title = f"{about['attribute']} at {about['layer']}"
        found.append(AttributePanel(title, judged, clouds, legend))
    return tuple(found)


def _evidence(folder: Path) -> AttributeEvidence | None:
    try:
        return read_attribute_evidence(folder)
    except RevgradError:
        return None  # the verdict's own line says why


def _coloured(
    values: Array, names: tuple[str, ...] | None
) -> tuple[list[str | None], tuple[LegendColour, ...]]:
    """The colour of each sample, None where its value is missing, and what colours mean."""
    known = ~np.isnan(values)
    if names is not None:
        colours = [CATEGORY_COLOURS[i % len(CATEGORY_COLOURS)] for i in range(len(names))]
        legend = [LegendColour(name, one) for name, one in zip(names, colours, strict=True)]
        of = np.where(known, values, 0).astype(np.int64)
    else:
        colours = list(NUMBER_COLOURS)
        ends = np.quantile(values[known], np.linspace(0, 1, len(colours) + 1))
        of = np.clip(np.searchsorted(ends[1:-1], np.where(known, values, 0)), 0, len(colours) - 1)
        legend = [
            LegendColour(f"{shown_number(low)} to {shown_number(high)}", one)
            for low, high, one in zip(ends, ends[1:], colours, strict=False)
        ]
    found = [colours[i] if sure else None for i, sure in zip(of, known, strict=True)]
    return found, tuple(legend)


def _drawn(
    key: str,
    title: str,
    features: Array,
    colours: list[str | None],
    points: int,
    lay_out: LayOut,
) -> Markup:
    """One path of discs a colour; samples without a value are left out."""
    known = np.array([i for i, one in enumerate(colours) if one is not None], dtype=np.int64)
    shown = known[drawn_indices(len(known), 2 * points)]
    cloud = lay_out(title, features[shown], features[:0])
    spots, of = spots_of(cloud.source), np.array([colours[i] for i in shown])
    paths = [
        element(
            "path",
            d="".join(f"M{int(x)} {int(y)}h0" for x, y in spots[of == colour]),
            style=f"stroke:{colour}",
        )
        for colour in dict.fromkeys(of.tolist())
    ]
    discs = element("g", *paths, class_="discs")
    label = f"{title}: {len(shown)} samples, coloured by the attribute"
    size = (CLOUD_SIDE, CLOUD_SIDE)
    return drawing(size, label, (discs,), class_="cloud-still", id=f"attribute-{key}")
