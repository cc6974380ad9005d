"""The figures of the pages as SVG, in light and dark: docs/images/NAME-light.svg, NAME-dark.svg.

python docs/figures.py                   those made of records: tables, error curves, architecture
python docs/figures.py --moons           the two moons too, trained anew
python docs/figures.py --demo FOLDER     the README's first picture too: `revgrad demo -o FOLDER`

A page names the light one; the site shows the one that fits (docs/website.py). Text is at least 11
pixels at a phone's 360.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

import numpy as np

from revgrad.reports.svg import element

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path += [str(ROOT / "docs"), str(ROOT / "studies" / "reversal")]
WIDTH = 440.0
#: Title, points, whether each is right and its class, a grid's cells.
Moons = tuple[str, np.ndarray, np.ndarray, np.ndarray]
#: Method, value, deviation, published value.
Row = tuple[str, float, float | None, float | None]
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Colours:
    """Of one mode. Source is blue and target red, as in Figure 3 of the paper."""

    name: str
    text: str
    quiet: str
    grid: str
    source: str
    target: str
    other: str
    fill: str
    ground: str


LIGHT = Colours(
    "light", "#1f2328", "#57606a", "#d8dee4", "#2160a8", "#c2334d", "#1f7a5c", "#eef2f7", "#ffffff"
)
DARK = Colours(
    "dark", "#e6edf3", "#9da7b1", "#3d444d", "#79b8ff", "#ff8a9a", "#6fd3ae", "#20262e", "#14181e"
)


def text(
    x: float,
    y: float,
    words: str,
    colour: str,
    size: float = 12,
    anchor: str = "start",
    **more: object,
) -> Element:
    return element("text", words, x=x, y=y, fill=colour, font_size=size, text_anchor=anchor, **more)


def write(
    name: str, colours: Colours, size: tuple[float, float], label: str, parts: Iterable[Element]
) -> None:
    """A whole SVG file, on its own ground, so that it is readable wherever it is shown."""
    width, height = size
    ground = element("rect", width=width, height=height, rx=6, fill=colours.ground)
    made = element(
        "svg",
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_label=label,
        font_family=FONT,
    )
    path = IMAGES / f"{name}-{colours.name}.svg"
    path.write_text(tostring(made, encoding="unicode") + "\n", encoding="utf-8")


# -- a table of results ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """What a table's chart is about: its quantity, the range of its axis, its two marks."""

    quantity: str = "Target accuracy in per cent"
    ticks: tuple[float, ...] = (0, 0.25, 0.5, 0.75, 1)
    dot: str = "ours, mean and deviation over seeds"
    line: str = "the paper"


#: Tables whose charts are not of target accuracy from 0 to 1 beside the paper's.
CHARTS = {
    "semi-supervised": Chart("Target error in per cent", (0, 0.1, 0.2, 0.3)),
    "office-caltech": Chart(
        ticks=(0.8, 0.85, 0.9, 0.95, 1),
        dot="weight by a label-free score",
        line="best weight by target labels",
    ),
}


def draw_table(name: str, cells: Sequence[tuple[str, Sequence[Row]]], colours: Colours) -> None:
    """Cell by cell, a line a method: a dot with its deviation for ours, a tick for the paper's."""
    left, right, row, head = 158.0, WIDTH - 60, 21.0, 38.0
    chart = CHARTS.get(name, Chart())
    first, last = chart.ticks[0], chart.ticks[-1]
    parts: list[Element] = []
    y = 16.0
    parts += [
        text(10, y, chart.quantity, colours.text, 12),
        element("circle", cx=14, cy=y + 15, r=4.5, fill=colours.source),
        text(24, y + 19, chart.dot, colours.quiet, 11),
        element("line", x1=252, x2=252, y1=y + 8, y2=y + 22, stroke=colours.target, stroke_width=3),
        text(260, y + 19, chart.line, colours.quiet, 11),
    ]
    y += 29

    def across(share: float) -> float:
        return left + (right - left) * (min(max(share, first), last) - first) / (last - first)

    for title, lines in cells:
        y += head - 12
        parts.append(text(10, y, title, colours.text, 13.5, font_weight=600))
        top, bottom = y + 7, y + 9 + row * len(lines)
        for tick in chart.ticks:
            x = across(tick)
            parts += [
                element("line", x1=x, x2=x, y1=top, y2=bottom, stroke=colours.grid),
                text(x, bottom + 13, f"{100 * tick:.0f}", colours.quiet, 11, "middle"),
            ]
        for method, value, deviation, published in lines:
            y += row
            parts.append(text(left - 8, y + 4, method, colours.text, 12, "end"))
            if published is not None:
                x = across(published)
                parts.append(
                    element(
                        "line",
                        x1=x,
                        x2=x,
                        y1=y - 7,
                        y2=y + 7,
                        stroke=colours.target,
                        stroke_width=3,
                    )
                )
            ends = [across(value)]
            if deviation:
                low, high = across(value - deviation), across(value + deviation)
                ends.append(high)
                parts.append(
                    element(
                        "line", x1=low, x2=high, y1=y, y2=y, stroke=colours.source, stroke_width=2
                    )
                )
            parts += [
                element("circle", cx=across(value), cy=y, r=4.5, fill=colours.source),
                text(right + 10, y + 4, f"{100 * value:.1f} %", colours.text, 12),
            ]
        y = bottom + 16
    label = f"{name}: {chart.quantity.lower()}, by method"
    write(f"results/{name}", colours, (WIDTH, y + 6), label, parts)


#: Methods as a chart has room for them.
SHORT = {
    "subspace alignment, oracle components": "SA, oracle components",
    "subspace alignment": "subspace alignment",
    "source only, with the bottleneck": "source, bottleneck",
    "source only, with the bottleneck, own means": "source, bottleneck*",
    "DANN, as printed, own means": "DANN, as printed*",
    "DaNN (MMD), own means": "DaNN (MMD)*",
    "DDC, own means": "DDC*",
    "DANN, stabilised, own means": "DANN, stabilised*",
    "CDAN, own means": "CDAN*",
    "MCC, own means": "MCC*",
    "DANN and MCC, own means": "DANN and MCC*",
    "recommended, random colours": "random colours",
}


def draw_tables(colours: Colours) -> None:
    """A chart for each of the paper's tables that there are records of."""
    import make

    from revgrad.paper.tables import TABLES
    from revgrad.paper.tables.render import table_lines

    for name, table in TABLES.items():
        own = make.of_table(table)
        if not own:
            continue
        cells: dict[str, list[Row]] = {}
        for line in table_lines(own, table):
            if line.value is not None:
                published = None if line.published is None else line.published.value
                shown = (SHORT.get(line.title, line.title), line.value, line.sd, published)
                cells.setdefault(line.cell, []).append(shown)
        titled = [
            (cell.replace("->", " → ").replace(":", ", "), got) for cell, got in cells.items()
        ]
        if name == "office-caltech":
            rows = make.office_caltech()["rows"]
            means = [(one["title"], one["mean"], None, one["oracle"]) for one in rows]
            titled = [("Mean of the pairs", means)]
        draw_table(name, titled, colours)


# -- curves ----------------------------------------------------------------------------------------


def draw_semi_supervised(colours: Colours) -> None:
    """The paper's validation errors over training, and where each training of ours ended."""
    import make

    import paper_curves

    left, right, top, bottom = 46.0, WIDTH - 14, 86.0, 300.0
    shades = {"real-only": colours.source, "synthetic-only": colours.other, "both": colours.target}
    ends = make.semi_supervised_ends()

    def across(batches: float) -> float:
        return left + (right - left) * batches / 50_000

    def up(error: float) -> float:
        return bottom - (bottom - top) * error

    parts: list[Element] = []
    for error in (0, 0.25, 0.5, 0.75, 1):
        y = up(error)
        parts += [
            element("line", x1=left, x2=right, y1=y, y2=y, stroke=colours.grid),
            text(left - 7, y + 4, f"{100 * error:.0f} %", colours.quiet, 11, "end"),
        ]
    for batches in range(0, 50_001, 10_000):
        anchor = "end" if batches == 50_000 else "middle"
        parts.append(text(across(batches), bottom + 17, f"{batches:,}", colours.quiet, 11, anchor))
    parts.append(text((left + right) / 2, bottom + 34, "steps", colours.quiet, 11.5, "middle"))
    for number, (name, curve) in enumerate(paper_curves.read().items()):
        colour, y = shades[name], 20 + 19 * number
        points = " ".join(f"{across(x):.1f},{up(value):.1f}" for x, value in curve.items())
        parts.append(element("polyline", points=points, fill="none", stroke=colour, stroke_width=2))
        said = paper_curves.CURVES[name]
        if name in ends:
            end = ends[name]
            said += f"; dot: ours, {100 * end.error:.1f} % after {end.steps:,}"
            parts.append(
                element("circle", cx=across(end.steps), cy=up(end.error), r=5, fill=colour)
            )
        parts += [
            element("line", x1=14, x2=34, y1=y - 4, y2=y - 4, stroke=colour, stroke_width=3),
            text(42, y, said, colours.text, 12),
        ]
    label = "Validation error over training: the paper's three curves and where ours ended"
    write("results/semi-supervised-curves", colours, (WIDTH, 344), label, parts)


# -- the architecture ------------------------------------------------------------------------------


def draw_architecture(colours: Colours) -> None:
    """Figure 1 of the paper with our names: the cut, both heads, the reversal, two losses."""
    parts: list[Element] = [
        element(
            "defs",
            *(
                element(
                    "marker",
                    element("path", d="M0 0L8 4L0 8z", fill=colour),
                    id=f"{name}-{colours.name}",
                    viewBox="0 0 8 8",
                    refX=7,
                    refY=4,
                    markerWidth=7,
                    markerHeight=7,
                    orient="auto",
                )
                for name, colour in (
                    ("flow", colours.quiet),
                    ("back", colours.other),
                    ("reversed", colours.target),
                )
            ),
        )
    ]

    def box(
        x: float, y: float, width: float, height: float, words: Sequence[str], colour: str
    ) -> None:
        parts.append(
            element(
                "rect",
                x=x,
                y=y,
                width=width,
                height=height,
                rx=6,
                fill=colours.fill,
                stroke=colour,
                stroke_width=1.6,
            )
        )
        first = y + height / 2 + 4.5 - 8 * (len(words) - 1)
        for number, word in enumerate(words):
            size, shade = (13, colours.text) if number == 0 else (11, colours.quiet)
            weight = 600 if number == 0 else 400
            parts.append(
                text(
                    x + width / 2,
                    first + 16 * number,
                    word,
                    shade,
                    size,
                    "middle",
                    font_weight=weight,
                )
            )

    def arrow(points: str, kind: str, dashed: bool = False) -> None:
        shade = {"flow": colours.quiet, "back": colours.other, "reversed": colours.target}[kind]
        parts.append(
            element(
                "path",
                d=points,
                fill="none",
                stroke=shade,
                stroke_width=1.8,
                stroke_dasharray="5 4" if dashed else None,
                marker_end=f"url(#{kind}-{colours.name})",
            )
        )

    box(14, 14, 196, 46, ("source", "samples with labels"), colours.source)
    box(230, 14, 196, 46, ("target", "samples, labels dropped unread"), colours.target)
    arrow("M112 60V92", "flow")
    arrow("M328 60V92", "flow")
    box(
        14,
        94,
        412,
        52,
        ("feature extractor", "your network up to the layer that you name"),
        colours.text,
    )
    arrow("M90 146V206", "flow")
    arrow("M330 146V206", "flow")
    arrow("M140 206V150", "back", dashed=True)
    arrow("M374 206V150", "reversed", dashed=True)
    parts += [
        text(148, 174, "∂L_y / ∂features", colours.other, 11),
        text(148, 188, "labelled samples", colours.quiet, 11),
        text(322, 174, "all", colours.quiet, 11, "end"),
        text(322, 188, "samples", colours.quiet, 11, "end"),
        text(382, 174, "−λ ·", colours.target, 11),
        text(382, 188, "∂L_d", colours.target, 11),
    ]
    box(14, 208, 196, 52, ("label predictor", "the rest of your network"), colours.source)
    box(
        230, 208, 196, 40, ("gradient reversal", "forward: the same · backward: −λ"), colours.target
    )
    arrow("M330 248V272", "flow")
    box(230, 274, 196, 52, ("domain classifier", "attached for training alone"), colours.target)
    arrow("M112 260V356", "flow")
    arrow("M328 326V356", "flow")
    box(14, 358, 196, 46, ("label loss L_y", "which class?"), colours.source)
    box(230, 358, 196, 46, ("domain loss L_d", "source or target?"), colours.target)
    parts.append(
        text(
            WIDTH / 2,
            428,
            "The result: your network, feature extractor and label predictor.",
            colours.quiet,
            12,
            "middle",
        )
    )
    label = (
        "Architecture: a feature extractor feeds a label predictor and, through a gradient "
        "reversal, a domain classifier"
    )
    write("architecture", colours, (WIDTH, 442), label, parts)


# -- points ----------------------------------------------------------------------------------------


def draw_moons(colours: Colours, panels: Sequence[Moons]) -> None:
    """Side by side: the border of each model over the target's points; hollow: predicted wrong.

    `panels` are (title, points, right and class of each, the cells of a grid that class 1 holds).
    """
    side, gap = (WIDTH - 30) / 2, 10.0
    parts: list[Element] = []
    for number, (title, points, right, grid) in enumerate(panels):
        x0, y0 = 10 + number * (side + gap), 44.0
        low, high = points.min(axis=0) - 0.4, points.max(axis=0) + 0.4

        def place(
            at: np.ndarray, x0: float = x0, low: np.ndarray = low, high: np.ndarray = high
        ) -> np.ndarray:
            unit = (at - low) / (high - low)
            return np.stack([x0 + side * unit[..., 0], 44.0 + side * (1 - unit[..., 1])], axis=-1)

        model, _, share = title.partition(": ")
        parts += [
            text(x0 + 2, 18, model, colours.text, 13.5, font_weight=600),
            text(x0 + 2, 35, share, colours.quiet, 12),
            element("rect", x=x0, y=y0, width=side, height=side, fill=colours.fill, rx=4),
        ]
        cells = len(grid)
        size = side / cells
        runs = []
        for row in range(cells):
            starts = np.flatnonzero(np.diff(np.concatenate([[0], grid[row], [0]])))
            for begin, end in zip(starts[::2], starts[1::2], strict=True):
                top = y0 + side - (row + 1) * size
                across, wide = x0 + begin * size, (end - begin) * size
                runs.append(f"M{across:.1f} {top:.1f}h{wide:.1f}v{size:.1f}h{-wide:.1f}z")
        parts.append(element("path", d="".join(runs), fill=colours.target, fill_opacity=".22"))
        for label in (0, 1):
            shade = (colours.source, colours.target)[label]
            for correct in (True, False):
                found = place(points[(right[:, 1] == label) & (right[:, 0] == correct)])
                dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in found)
                if correct:
                    parts.append(
                        element(
                            "path", d=dots, stroke=shade, stroke_width=4, stroke_linecap="round"
                        )
                    )
                else:
                    parts += [
                        element(
                            "circle",
                            cx=float(x),
                            cy=float(y),
                            r=3,
                            fill="none",
                            stroke=shade,
                            stroke_width=1.4,
                        )
                        for x, y in found
                    ]
    parts.append(
        text(
            10,
            44 + side + 20,
            "Colour: true class. Hollow: predicted wrong. Shade: predicted class.",
            colours.quiet,
            11.5,
        )
    )
    y = 44 + side + 32
    label = "Two moons, turned: the border before and after adaptation."
    write("two-moons", colours, (WIDTH, y), label, parts)


def two_moons(seed: int, turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """600 points and their classes, turned about their middle by `turn` degrees."""
    from sklearn.datasets import make_moons

    points, classes = make_moons(600, noise=0.1, random_state=seed)
    angle = np.deg2rad(turn)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = points.mean(axis=0)
    return ((points - middle) @ matrix + middle).astype(np.float32), classes


def moons() -> list[Moons]:
    """The data of `examples/two_moons.py`, seed 0, before and after."""
    from revgrad import DANNClassifier

    (x, y), (target, truth) = two_moons(0), two_moons(1000, 35.0)
    low, high = target.min(axis=0) - 0.4, target.max(axis=0) + 0.4
    axes = [np.linspace(a, b, 81)[:-1] + (b - a) / 160 for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2).astype(np.float32)
    adapted = DANNClassifier(random_state=0).fit(x, y, X_target=target)
    alone = DANNClassifier(method="source-only", random_state=0).fit(x, y)
    panels = []
    for title, model in {"Source only": alone, "Adapted": adapted}.items():
        right = np.stack([model.predict(target) == truth, truth], axis=1).astype(int)
        said = f"{title}: {right[:, 0].mean():.0%} of the target right"
        panels.append((said, target, right, model.predict(grid).reshape(80, 80).astype(int)))
    return panels


# -- the first picture of the README ---------------------------------------------------------------


@dataclass(frozen=True)
class Hero:
    """What the demo made: images of both domains, features before and after, and the verdict.

    Attributes
    ----------
    images
        of source and target, some of each
    clouds
        before and after: features of source and of target, laid out in two dimensions
    right
        before and after: the share of the target's test that is predicted right
    said
        the verdict
    """

    images: tuple[list[np.ndarray], list[np.ndarray]]
    clouds: list[tuple[np.ndarray, np.ndarray]]
    right: tuple[float, float]
    said: str


def hero_of(demo: Path) -> Hero:
    """Of a folder that `revgrad demo` has written."""
    import revgrad
    from revgrad.diagnostics import read_evidence
    from revgrad.domains.domain import spaced_indices
    from revgrad.reports.clouds import tsne_cloud
    from revgrad.training import EvaluationRecord, Run

    adapted = next(demo.glob("recommended-*"))
    clouds, shares, images = [], [], ([], [])
    for folder in (adapted / "baseline", adapted):
        recorded = read_evidence(folder)
        if recorded is None or recorded.end is None:
            raise SystemExit(f"{folder} has recorded no features: is the demo finished?")
        features = (recorded.end.source_features, recorded.end.target_features)
        chosen = [one[spaced_indices(len(one), min(400, len(one)))] for one in features]
        cloud = tsne_cloud("", *chosen)
        clouds.append((cloud.source, cloud.target))
        last = [one for one in Run(folder).records() if isinstance(one, EvaluationRecord)][-1]
        shares.append(last.target_accuracy)
        images = tuple(
            [kept[i] for i in np.linspace(0, len(kept) - 1, 6).astype(int)]
            for kept in (recorded.source_inputs, recorded.target_inputs)
        )
    verdict = revgrad.verdict(adapted)
    said = f"{verdict.outcome}. {verdict.sentence}"
    return Hero(images, clouds, (shares[0], shares[1]), said)


def as_png(image: np.ndarray) -> str:
    """An image as an address of its own."""
    import base64
    import io

    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(image).save(kept, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(kept.getvalue()).decode()


def draw_hero(colours: Colours, hero: Hero) -> None:
    """Samples of both domains, their features before and after, what is right, and the verdict."""
    width, side, gap, margin = 720.0, 340.0, 16.0, 12.0
    columns = (margin, margin + side + gap)
    parts: list[Element] = []
    heads = (("Source: labelled", colours.source), ("Target: no labels", colours.target))
    for x, (head, colour), images in zip(columns, heads, hero.images, strict=True):
        parts += [
            element("circle", cx=x + 9, cy=23, r=8, fill=colour),
            text(x + 26, 31, head, colours.text, 23, font_weight=600),
        ]
        parts += [
            element(
                "image",
                x=x + 57.4 * number,
                y=46,
                width=53,
                height=53,
                href=as_png(np.array(image)),
            )
            for number, image in enumerate(images)
        ]
    top, tall = 152.0, 270.0
    titles = ("Before: source only", "After: adapted")
    for x, title, cloud, right in zip(columns, titles, hero.clouds, hero.right, strict=True):
        both = np.concatenate(cloud)
        low, high = both.min(axis=0), both.max(axis=0)
        parts += [
            text(x, top - 12, title, colours.text, 23, font_weight=600),
            element("rect", x=x, y=top, width=side, height=tall, fill=colours.fill, rx=6),
        ]
        room = np.array([side - 28, tall - 28])
        for points, colour in zip(cloud, (colours.source, colours.target), strict=True):
            places = (points - low) / (high - low) * room + (x + 14, top + 14)
            dots = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in places)
            style = {"stroke_width": 5, "stroke_linecap": "round", "stroke_opacity": ".75"}
            parts.append(element("path", d=dots, stroke=colour, fill="none", **style))
        parts += [
            text(x, top + tall + 32, f"{right:.0%}", colours.text, 27, font_weight=700),
            text(x + 74, top + tall + 32, "of the target right", colours.text, 23),
        ]
    y = top + tall + 76
    parts.append(text(margin, y, "The verdict, without target labels:", colours.quiet, 22))
    lines = textwrap.wrap(hero.said[0].upper() + hero.said[1:], 57)
    parts += [
        text(margin, y + 31 * (number + 1), line, colours.text, 23)
        for number, line in enumerate(lines)
    ]
    label = (
        "Digits of both domains; their features before and after adaptation: apart, then together; "
        f"{hero.right[0]:.0%} and {hero.right[1]:.0%} of the target right. {hero.said}"
    )
    write("hero", colours, (width, y + 31 * len(lines) + 18), label, parts)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--moons", action="store_true")
    options.add_argument("--demo", type=Path, metavar="FOLDER")
    given = options.parse_args()
    panels = moons() if given.moons else []
    hero = hero_of(given.demo) if given.demo else None
    for colours in (LIGHT, DARK):
        draw_tables(colours)
        draw_semi_supervised(colours)
        draw_architecture(colours)
        if panels:
            draw_moons(colours, panels)
        if hero:
            draw_hero(colours, hero)


if __name__ == "__main__":
    main()
