"""Feature clouds of the two domains, as in the paper's Figure 3: for files and for pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from markupsafe import Markup

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.recorder import RecordedEvidence
from revgrad.domains.domain import drawn_indices
from revgrad.reports.curves import look_of
from revgrad.reports.figures import SOURCE_COLOUR, TARGET_COLOUR, save_figure
from revgrad.reports.images import Predictions, SharedTiles, Sheet, predictions
from revgrad.reports.run_summary import RunSummary
from revgrad.reports.svg import drawing, element

#: Above so many points openTSNE, whose time grows with their number, is the faster one.
MANY_POINTS = 3000
#: Iterations that pull groups apart, and after them: beyond, the picture hardly changes.
EXAGGERATED, ITERATIONS = 200, 250
#: Up to so many points, comparing all of them is faster than an index.
COMPARED = 20_000
#: Spread over size below which features count as one point.
ONE_POINT = 1e-9
#: Points of each domain in a page's cloud, unless said.
CLOUD_POINTS = 600
#: Points of each domain in all the clouds together, and in one at the least: many runs still make
#: a page that is small, in time.
POINTS_TOGETHER, FEWEST_POINTS = 2000, 100
#: Points of one domain at most for each of the other.
TIMES_THE_FEWER = 2
#: Side and margin of a page's cloud; half the width of a target point's cross.
CLOUD_SIDE, CLOUD_MARGIN, ARM = 1000, 40, 7


@dataclass(frozen=True)
class Cloud:
    """One panel: points (n, 2) of each domain."""

    title: str
    source: np.ndarray
    target: np.ndarray


#: Lays out features (n, d) of source and target under a title.
LayOut = Callable[[str, np.ndarray, np.ndarray], Cloud]


@dataclass(frozen=True, eq=False)
class CloudPanel:
    """One cloud of a page: its picture, and the numbers that JavaScript shows under the pointer."""

    title: str
    says: str
    picture: Markup
    data: dict[str, Any]


@dataclass(frozen=True, eq=False)
class CloudPair:
    """Panels of the same samples; `source`, `target`: which of the recorded ones they are."""

    panels: tuple[CloudPanel, ...]
    source: Array
    target: Array


@dataclass(frozen=True, eq=False)
class RunClouds:
    """A panel for each run, None where there is none; `why` says the reason, else it is empty.

    Attributes
    ----------
    points
        of each domain in a cloud at most
    groups
        for JavaScript: the panels by the samples that they show
    """

    panels: tuple[CloudPanel | None, ...]
    why: tuple[str, ...]
    points: int
    groups: tuple[dict[str, Any], ...]
    sheet: Sheet | None


def tsne_cloud(title: str, source: np.ndarray, target: np.ndarray, seed: int = 0) -> Cloud:
    """t-SNE of both domains' features (n, d) together, after PCA to 50 dimensions.

    Features that are all alike are one point: the origin.
    """
    from sklearn.decomposition import PCA

    both = np.concatenate([source, target]).astype(np.float64)
    centred = both - both.mean(axis=0)
    spread, size = np.abs(centred).max(initial=0.0), np.abs(both).max(initial=0.0)
    if len(both) < 4 or spread <= ONE_POINT * size:
        points = np.zeros((len(both), 2))
    else:
        # t-SNE does not depend on the scale, but its arithmetic does
        reduced = PCA(min(50, *both.shape), random_state=seed).fit_transform(centred / spread)
        points = _tsne(reduced, seed)
    return Cloud(title, points[: len(source)], points[len(source) :])


def draw_clouds(path: Path, clouds: Sequence[Cloud]) -> None:
    """A file of the panels side by side, source blue, target red."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(clouds), 5.2), layout="constrained")
    for axes, cloud in zip(figure.subplots(1, len(clouds), squeeze=False)[0], clouds, strict=True):
        style = {"s": 9, "alpha": 0.65, "linewidths": 0}
        axes.scatter(*cloud.source.T, color=SOURCE_COLOUR, label="source", **style)
        axes.scatter(*cloud.target.T, color=TARGET_COLOUR, label="target", **style)
        axes.set_title(cloud.title, fontsize=12)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_color("#bbbbbb")
    names = axes.get_legend_handles_labels()
    place = "outside lower center"  # within a panel it would hide points
    figure.legend(*names, loc=place, ncols=2, fontsize=10, markerscale=2.5, frameon=False)
    save_figure(figure, path)


def cloud_pair(
    summary: RunSummary, points: int = CLOUD_POINTS, lay_out: LayOut = tsne_cloud
) -> CloudPair:
    """The clouds that a run's evidence suffices for: before, after, either, or none."""
    recorded, moments = summary.recorded, _cloud_moments(summary)
    if recorded is None or not moments:
        return CloudPair((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    samples = _drawn_samples(recorded, points)
    panels = tuple(
        _panel(key, title, says, evidence, samples, lay_out)
        for key, title, says, evidence in moments
    )
    return CloudPair(panels, *samples)


def pair_data(summary: RunSummary, pair: CloudPair, tiles: list[int]) -> list[dict[str, Any]]:
    """What the pointer shows of a pair's points, whose images are these tiles: one group."""
    if summary.recorded is None or not pair.panels:
        return []
    group = _group(summary, summary.recorded, (pair.source, pair.target), tiles)
    return [{**group, "panels": [panel.data for panel in pair.panels]}]


def clouds_of_runs(
    runs: Sequence[RunSummary],
    names: Sequence[str],
    points: int = CLOUD_POINTS,
    lay_out: LayOut = tsne_cloud,
) -> RunClouds:
    """Of each run's features at its end, in the order given."""
    points = min(points, max(POINTS_TOGETHER // len(runs), FEWEST_POINTS))
    tiles = SharedTiles()
    groups: dict[str, dict[str, Any]] = {}
    panels: list[CloudPanel | None] = []
    why = [_why_not(run) for run in runs]
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        recorded = run.recorded
        if why[number] or recorded is None or recorded.end is None:
            panels.append(None)
            continue
        samples = source, target = _drawn_samples(recorded, points)
        counts = f"{len(source)} source and {len(target)} target samples"
        says = f"Features at the layer {run.config.layer}, {counts}."
        panel = _panel(str(number), name, says, recorded.end, samples, lay_out)
        key = _identity(run, recorded, recorded.end)
        if key not in groups:
            shown = tiles.add(recorded.source_images, source)
            shown += tiles.add(recorded.target_images, target)
            groups[key] = {**_group(run, recorded, samples, shown), "panels": []}
        groups[key]["panels"].append({**panel.data, "name": name, "look": look_of(number)})
        panels.append(panel)
    return RunClouds(tuple(panels), tuple(why), points, tuple(groups.values()), tiles.sheet())


def _tsne(values: np.ndarray, seed: int) -> np.ndarray:
    """(n, d) → (n, 2), on one core: neighbours stay neighbours."""
    perplexity = min(30.0, (len(values) - 1) / 3)
    if len(values) > MANY_POINTS:
        try:
            from openTSNE import TSNE as Fast  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            pass  # slower, and as good
        else:
            fast = Fast(
                perplexity=perplexity,
                early_exaggeration_iter=EXAGGERATED,
                n_iter=ITERATIONS,
                neighbors="exact" if len(values) <= COMPARED else "auto",
                random_state=seed,
                n_jobs=1,
            )
            return np.asarray(fast.fit(values), dtype=np.float64)
    from sklearn.manifold import TSNE

    plain = TSNE(perplexity=perplexity, init="pca", random_state=seed)
    # scikit-learn 1.5 gave it another name
    name = "max_iter" if "max_iter" in plain.get_params() else "n_iter"
    plain.set_params(**{name: EXAGGERATED + ITERATIONS})
    return np.asarray(plain.fit_transform(values), dtype=np.float64)


def _cloud_moments(summary: RunSummary) -> list[tuple[str, str, str, Evidence]]:
    """Key, title, words and evidence of each cloud."""
    recorded, below = summary.recorded, summary.baseline
    if recorded is None:
        return []
    layer = summary.config.layer
    before = (
        "before",
        "Before the first step",
        f"Features at the layer {layer} of the untrained network.",
    )
    first = recorded.start
    if below is not None and below.recorded is not None and _alike(below.recorded, recorded):
        before = (
            "before",
            "Before: source only",
            f"Features at the layer {layer} of the source-only network.",
        )
        first = below.recorded.end
    after = (
        "after",
        "After: this run",
        f"Features at the layer {layer} of the weights that were handed back.",
    )
    return [
        (*words, evidence)
        for words, evidence in ((before, first), (after, recorded.end))
        if evidence is not None and evidence.source_features is not None
    ]


def _alike(one: RecordedEvidence, other: RecordedEvidence) -> bool:
    """Whether both are of the same samples."""
    return np.array_equal(one.source_indices, other.source_indices) and np.array_equal(
        one.target_indices, other.target_indices
    )


def _drawn_samples(recorded: RecordedEvidence, points: int) -> tuple[Array, Array]:
    """Which of the recorded source and target samples a cloud shows.

    Neither domain comes with more than twice as many as the other: a few discs among many crosses
    would look as if the domains were apart. A hundred are shown in any case.
    """
    counts = len(recorded.source_indices), len(recorded.target_indices)
    most = min(points, max(TIMES_THE_FEWER * min(counts), FEWEST_POINTS))
    return drawn_indices(counts[0], most), drawn_indices(counts[1], most)


def _panel(
    key: str,
    title: str,
    says: str,
    evidence: Evidence,
    samples: tuple[Array, Array],
    lay_out: LayOut,
) -> CloudPanel:
    """Of the features of these source and target samples, and what is predicted for each."""
    source, target = samples
    assert evidence.source_features is not None
    assert evidence.target_features is not None
    assert evidence.source_logits is not None
    cloud = lay_out(title, evidence.source_features[source], evidence.target_features[target])
    of_source, of_target = (
        predictions(evidence.source_logits[source]),
        predictions(evidence.target_logits[target]),
    )
    spots = spots_of(np.concatenate([cloud.source, cloud.target]))
    labels = evidence.source_labels
    groups = of_source.classes if labels is None else labels[source]
    picture = _draw_cloud(key, title, spots, groups, of_target.classes)
    if not np.ptp(spots):
        says += " All samples have the same features: the points lie on one another."
    data = {
        "id": f"cloud-{key}",
        "x": spots[:, 0].tolist(),
        "y": spots[:, 1].tolist(),
        "predicted": _both(of_source, of_target, "classes"),
        "sure": [round(value, 4) for value in _both(of_source, of_target, "confidence")],
    }
    return CloudPanel(title, says, picture, data)


def _group(
    summary: RunSummary,
    recorded: RecordedEvidence,
    samples: tuple[Array, Array],
    tiles: list[int],
) -> dict[str, Any]:
    """What the pointer shows of a point in all panels of these samples: the source's come first."""
    source, target = samples
    evidence = recorded.end or recorded.start
    labels = None if evidence is None else evidence.source_labels
    return {
        "classes": summary.classes,
        "sources": len(source),
        "indices": [
            *recorded.source_indices[source].tolist(),
            *recorded.target_indices[target].tolist(),
        ],
        "labels": [] if labels is None else labels[source].tolist(),
        "tiles": tiles,
    }


def _draw_cloud(key: str, title: str, spots: Array, source: Array, target: Array) -> Markup:
    """Source points are discs, target points crosses; one path for each class of each domain."""
    count = len(source)
    discs = element("g", *_paths(spots[:count], source, lambda x, y: f"M{x} {y}h0"), class_="discs")
    crosses = element(
        "g",
        *_paths(
            spots[count:],
            target,
            lambda x, y: (
                f"M{x - ARM} {y - ARM}l{2 * ARM} {2 * ARM}m0-{2 * ARM}l-{2 * ARM} {2 * ARM}"
            ),
        ),
        class_="crosses",
    )
    label = f"{title}: {count} source samples as discs, {len(target)} target samples as crosses"
    ring = element("circle", r=22, class_="ring")
    return drawing(
        (CLOUD_SIDE, CLOUD_SIDE),
        label,
        (discs, crosses, ring),
        class_="cloud",
        id=f"cloud-{key}",
        tabindex=0,
    )


def _paths(spots: Array, classes: Array, mark: Callable[[int, int], str]) -> list[Element]:
    return [
        element(
            "path",
            d="".join(mark(int(x), int(y)) for x, y in spots[classes == label]),
            data_class=int(label),
        )
        for label in np.unique(classes)
    ]


def spots_of(points: Array) -> Array:
    """Points to whole pixels of the picture, turned to fill it, proportions kept."""
    points = _turned(points)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = float((high - low).max()) or 1.0
    inner = CLOUD_SIDE - 2 * CLOUD_MARGIN
    scaled = (points - (low + high) / 2) / extent * inner + CLOUD_SIDE / 2
    found: Array = np.rint(scaled).astype(np.int64)
    return found


def _turned(points: Array) -> Array:
    """By the angle that needs the smallest square: t-SNE knows no up and no left."""
    angles = np.deg2rad(np.arange(0, 90, 3))
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    turned = [points @ turns[:, :, i] for i in range(len(angles))]
    return min(turned, key=lambda one: float(np.ptp(one, axis=0).max()))


def _both(source: Predictions, target: Predictions, field: str) -> list[Any]:
    joined = np.concatenate([getattr(source, field), getattr(target, field)])
    return joined.tolist()  # type: ignore[no-any-return]


def _identity(run: RunSummary, recorded: RecordedEvidence, evidence: Evidence) -> str:
    """The same for runs that recorded the same samples, with the same labels and class names."""
    digest = hashlib.sha256(repr((run.classes, recorded.source_indices.shape)).encode())
    parts = (recorded.source_indices, recorded.target_indices, evidence.source_labels)
    for part in (*parts, recorded.source_inputs, recorded.target_inputs):
        digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
    if recorded.target_inputs is None:  # then indices alone don't tell which data they are of
        digest.update(repr(sorted(run.config.domains.items())).encode())
    return digest.hexdigest()


def _why_not(run: RunSummary) -> str:
    """Why a run has no cloud, in a sentence; empty where it has one."""
    if run.recorded is None:
        return "It recorded no evidence that can be used; the reason stands below."
    if run.recorded.end is None:
        state = "failed before its end" if run.failure is not None else "has not come to its end"
        return f"It {state}, where features are recorded."
    if run.recorded.end.source_features is None or run.recorded.end.source_logits is None:
        return "It recorded no held-out source samples to lay beside the target's."
    return ""
