"""A choice among networks that were adapted from one start, or of the start; no target labels.

    choice = choose("images", candidates)
    print(choice.sentence)

Each candidate is judged beside the source-only network that it started from, where the two differ,
in three views that share nothing:

- the other candidates: where a change is right, networks that were adapted in other ways come to it
  too; where it is an accident of one loss, they don't;
- simple classifiers of the inputs, which learned from the source and know nothing of any network,
  in the source's scale and in each domain's own, spread among the target's neighbours;
- the target's own shape: samples that lie close together are of one class where predictions are
  right, again in both scales.

Two of them must speak for it, outweigh the third, and by more than the draw of the target's
samples explains; a view that disagrees with itself in the other scale speaks against. The two that
share nothing with a network must not speak against it together. One view alone will do where a
candidate cuts the target where hardly a sample lies and most samples keep their class. Where the
classifiers of the inputs don't speak for it by more than chance, it may change few predictions
only, and no other that is sound may contradict it: the same shapes can then be named in two ways,
and nothing tells which.

A candidate is ruled out, whatever speaks for it, by what a ruined network shows: a fall on held-out
source, few classes predicted, features that explode. Where no candidate is left, the source-only
network it is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from revgrad._seals import unsealed, write_sealed
from revgrad._system import read_file
from revgrad.diagnostics.certainty import (
    effective_classes,
    mutual_information,
    prediction_nuclear_norm,
)
from revgrad.diagnostics.consensus import agreements
from revgrad.diagnostics.early_signs import Look
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import Array, given, probabilities, shares_of
from revgrad.diagnostics.second_opinion import descriptors
from revgrad.errors import RunError

#: In the folder of a run that chose: what was tried, what was handed back, and why.
CHOICE = "choice.json"
SOURCE_ONLY = "source-only"
#: The judged gain that a candidate needs to be preferred to the source-only network.
NEEDED_GAIN = 0.01
#: Samples that a simple classifier learns from, at most.
OPINION_SAMPLES = 2000
#: Neighbours on the target, how much of theirs an opinion takes over, and how many times.
NEIGHBOURS, SPREAD, SPREADINGS = 10, 0.8, 20
#: The judged gain is this share of what the two views that like it best say, together.
TRUE_SHARE = 0.8
#: What a view must say to speak for a candidate.
SPEAKS = 0.005
#: Where the classifiers of the inputs don't speak for a candidate: the share of the target's
#: samples that it may predict otherwise than the start, and its least agreement with another.
MOST_DIFFERING, CONTRADICTS = 0.3, 0.2
#: A clear cut: the share of the start's unlike neighbours that it makes alike, and the share of all
#: neighbours that may be left unlike.
CLEAR_CUT, HARDLY_ANY = 0.55, 0.03
#: Standard deviations of the draw of the target's samples that a judged gain must exceed.
CERTAIN = 2.0
#: Inputs of more numbers are reduced to their first principal components.
WIDEST, COMPONENTS = 256, 128
#: Squares along a side of an image whose mean colours describe it.
GRID = 4


@dataclass(frozen=True)
class Signals:
    """What is known of a candidate without target labels.

    Attributes
    ----------
    gain
        judged, in shares of the target's samples: of what the two views that like it best
        say
    agreed
        by how much more the simple classifiers hold of what it predicts than of what the
        start predicts; in the scale where that is less
    smoother
        by how much fewer of the target's neighbours it predicts differently; in the scale
        where that is less
    surer
        by how much more certain and varied its target predictions are: the difference of
        their nuclear norms, each as a share of the largest that there can be
    source_fall
        fall of the held-out source accuracy below the start's
    variety
        classes predicted on the target beside the first, as a share of the source's
    information
        mutual information of target samples and predictions, as a share of the most
    differing
        share of the target's samples that it predicts otherwise than the start
    supported
        by how much more the other adapted networks hold of what it predicts than of what
        the start predicts
    chance
        what the draw of the target's samples makes of the judged gain, in one standard
        deviation: the more, the fewer they are and the more of them differ
    cleaner
        share of the target's neighbours whom the start predicts differently that it
        predicts alike; 0 where that is within chance, or more than hardly any are left
    alike
        its least agreement with another adapted network, beyond chance: 0 where it is as
        that of their shares of classes, below where they contradict each other
    """

    gain: float
    agreed: float
    smoother: float
    surer: float
    source_fall: float
    variety: float
    information: float
    differing: float
    supported: float = 0.0
    chance: float = 0.0
    cleaner: float = 0.0
    alike: float = 1.0

    @property
    def views(self) -> tuple[float, float, float]:
        """What the three views say, the least first."""
        least, middle, most = sorted((self.supported, self.agreed, self.smoother))
        return least, middle, most

    @property
    def is_clear_cut(self) -> bool:
        """Whether its borders run where the target has hardly a sample, and most of the samples
        keep their class."""
        return self.cleaner >= CLEAR_CUT and self.differing <= MOST_DIFFERING


@dataclass(frozen=True)
class Candidate:
    """One training from the start, and what became of it; `refused`: why it can't be chosen."""

    name: str
    method: str
    settings: dict[str, Any]
    signals: Signals | None
    refused: str = ""


@dataclass(frozen=True)
class Choice:
    """What was tried, which was handed back, and why.

    Attributes
    ----------
    kind
        of the data, by which the candidates were chosen
    chosen
        the name of a candidate, or "source-only"
    sentence
        the reason in plain words
    """

    kind: str
    chosen: str
    sentence: str
    candidates: tuple[Candidate, ...]

    @property
    def is_adapted(self) -> bool:
        return self.chosen != SOURCE_ONLY

    def write(self, folder: Path) -> None:
        write_sealed(folder / CHOICE, asdict(self))


def read_choice(folder: Path) -> Choice | None:
    """The choice that a run's folder has on record; None where it made none."""
    path = folder / CHOICE
    try:
        values = unsealed(read_file(path).decode())
        candidates = [
            Candidate(**{**one, "signals": one["signals"] and Signals(**one["signals"])})
            for one in values.pop("candidates")
        ]
        return Choice(**values, candidates=tuple(candidates))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{path} can't be read as a choice: {error}") from error


@dataclass(frozen=True, eq=False)
class Opinions:
    """Of simple classifiers of the source on n target samples.

    Attributes
    ----------
    probabilities
        (n, classes): their mean, spread among neighbours
    neighbours
        (n, k): indices of each sample's nearest others
    """

    probabilities: Array
    neighbours: Array

    def held_of(self, predicted: Array) -> float:
        """Mean over the samples of the probability of the predicted class."""
        return float(self.probabilities[np.arange(len(predicted)), predicted].mean())

    def unlike_neighbours(self, predicted: Array) -> float:
        """Share of all neighbours that are predicted to be of another class than their sample."""
        if not self.neighbours.size:
            return 0.0
        return float((predicted[self.neighbours] != predicted[:, None]).mean())


def opinions_of(
    own: Array, labels: Array, other: Array, classes: int, *, apart: bool = False
) -> Opinions:
    """Logistic regression and nearest neighbours of source descriptors (m, d), asked about
    those of the target (n, d); what they say is then spread among the target's neighbours
    (p ← (1 − α) p₀ + α mean of the neighbours' p; Zhou et al. 2004). Both are standardised
    by the source's mean and deviation; `apart`: each domain by its own."""
    known, asked = _standardised(own, other, apart)
    present = np.unique(labels)
    said = np.zeros((len(asked), classes))
    if len(present) == 1:
        said[:, present[0]] = 1.0
    else:
        models = _models(len(known))
        for model in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit that has not quite converged will do
                model.fit(known, labels)
            said[:, model.classes_] += model.predict_proba(asked) / len(models)
    near = nearest(asked, NEIGHBOURS)
    found = said
    if near.shape[1]:
        for _ in range(SPREADINGS):
            found = (1 - SPREAD) * said + SPREAD * found[near].mean(axis=1)
    return Opinions(found, near)


def nearest(points: Array, count: int) -> Array:
    """(n, count) indices of the nearest others of (n, d) points, in no order."""
    count = min(count, len(points) - 1)
    squares = (points**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * points @ points.T
    np.fill_diagonal(distances, np.inf)
    if count < 1:
        return np.zeros((len(points), 0), dtype=np.int64)
    found: Array = np.argpartition(distances, count - 1, axis=1)[:, :count]
    return found


def _models(samples: int) -> list[Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    return [
        LogisticRegression(C=0.1, max_iter=200),
        KNeighborsClassifier(min(7, samples)),
    ]


def signals_of(
    after: Evidence,
    before: Evidence,
    opinions: Sequence[Opinions],
    others: Sequence[Array] = (),
) -> Signals:
    """A candidate beside its start, on the same samples.

    Parameters
    ----------
    opinions
        in the source's scale, and in each domain's own
    others
        logits of the other adapted networks on these samples
    """
    classes = after.target_logits.shape[1]
    own, start = after.target_logits.argmax(axis=1), before.target_logits.argmax(axis=1)
    expected = effective_classes(shares_of(given(before.source_labels), classes))
    differing = float((own != start).mean())
    found = Signals(
        gain=0.0,
        agreed=min(one.held_of(own) - one.held_of(start) for one in opinions),
        smoother=min(one.unlike_neighbours(start) - one.unlike_neighbours(own) for one in opinions),
        surer=prediction_nuclear_norm(after.target_logits)
        - prediction_nuclear_norm(before.target_logits),
        source_fall=_source_accuracy(before) - _source_accuracy(after),
        variety=(effective_classes(shares_of(own, classes)) - 1) / max(expected - 1, 1e-12),
        information=mutual_information(after.target_logits) / math.log(classes),
        differing=differing,
        supported=support_of(own, others) - support_of(start, others),
        chance=math.sqrt(max(differing, 1 / len(own)) / len(own)),
        alike=min(
            (float(agreements([own, one.argmax(axis=1)], classes)[0, 1]) for one in others),
            default=1.0,
        ),
    )
    unlike = opinions[0].unlike_neighbours(start)
    clearly = found.smoother > 2 * math.sqrt(unlike / len(own))
    if clearly and unlike - found.smoother <= HARDLY_ANY:
        found = replace(found, cleaner=found.smoother / unlike)
    gain = TRUE_SHARE * sum(found.views[1:])
    # of a clear cut, what differs is right or wrong as a whole: half of it is judged gained
    return replace(found, gain=max(gain, differing / 2) if found.is_clear_cut else gain)


def support_of(predicted: Array, others: Sequence[Array]) -> float:
    """Mean over the samples and over networks of the probability of the predicted class."""
    where = np.arange(len(predicted))
    held = [float(probabilities(one)[where, predicted].mean()) for one in others]
    return float(np.mean(held)) if held else 0.0


def refusal(signals: Signals, after: Evidence, before: Evidence) -> str:
    """Why a candidate can't be chosen; "" where it can: no sign of harm, and a judged gain."""
    if sign := sign_of_harm(after, before):
        return sign
    said = (
        ("the other adapted networks", signals.supported),
        ("classifiers of the inputs", signals.agreed),
        ("neighbours in the target", signals.smoother),
    )
    shown = ", ".join(f"{name} {100 * value:+.1f}" for name, value in said)
    two = signals.views[1] > SPEAKS and sum(signals.views) > 0
    if not (two or signals.is_clear_cut):
        return f"two of three views must speak for it, and outweigh the third: {shown}"
    if signals.agreed + signals.smoother <= 0 and not signals.is_clear_cut:
        return f"classifiers of the inputs and neighbours speak against it together: {shown}"
    if signals.agreed < max(SPEAKS, signals.chance):
        if signals.differing > MOST_DIFFERING:
            changed = f"it changes {signals.differing:.0%} of the predictions"
            return f"{changed}, and classifiers of the inputs don't speak for it"
        if signals.alike < CONTRADICTS:
            return "another adapted network contradicts it, and nothing tells which is right"
    needed = NEEDED_GAIN + CERTAIN * signals.chance
    if signals.gain >= needed:
        return ""
    return f"judged gain {100 * signals.gain:+.1f} points, {100 * needed:.1f} are needed"


def sign_of_harm(after: Evidence, before: Evidence) -> str:
    """What a ruined network shows; "" for nothing."""
    return Look.at(before).sign(Look.at(after), len(given(before.source_labels)))


def choose(kind: str, candidates: Sequence[Candidate]) -> Choice:
    """The candidate of the highest judged gain that is not refused; else source only."""
    able = [one for one in candidates if not one.refused and one.signals is not None]
    best = max(able, key=lambda one: given(one.signals).gain, default=None)
    if best is None or best.signals is None:
        tried = "; ".join(f"{one.name}: {one.refused}" for one in candidates)
        why = tried or "there was nothing to choose from"
        return Choice(
            kind,
            SOURCE_ONLY,
            f"None of {len(candidates)} adapted networks is judged better: the source-only network "
            f"is handed back ({why}).",
            tuple(candidates),
        )
    return Choice(
        kind,
        best.name,
        f"Of {len(candidates)} adapted networks {best.name} is handed back: judged "
        f"{100 * best.signals.gain:.1f} points above source only, without target labels.",
        tuple(candidates),
    )


def image_descriptors(images: np.ndarray) -> Array:
    """(n, d) of (n, height, width, 3) uint8: edges (HOG), and colours on a coarse grid."""
    colours = images.astype(np.float64) / 255
    n, height, width, _ = images.shape
    rows = np.array_split(np.arange(height), min(GRID, height))
    columns = np.array_split(np.arange(width), min(GRID, width))
    coarse = [colours[:, r][:, :, c].mean(axis=(1, 2)) for r in rows for c in columns]
    parts = [*coarse, colours.std(axis=(1, 2))]
    return np.concatenate([descriptors(images), *(part.reshape(n, -1) for part in parts)], axis=1)


def _standardised(own: Array, other: Array, apart: bool) -> tuple[Array, Array]:
    """By the source's mean and deviation, or each by its own; of wide ones the source's principal
    components."""
    known = _scaled(own, own)
    asked = _scaled(other, other if apart else own)
    if known.shape[1] > WIDEST:
        from sklearn.decomposition import PCA

        reduced = PCA(min(COMPONENTS, len(known)), random_state=0).fit(known)
        known, asked = reduced.transform(known), reduced.transform(asked)
    return known, asked


def _scaled(values: Array, by: Array) -> Array:
    spread = by.std(axis=0)
    scale = spread + 0.1 * float(spread.mean()) + 1e-12  # what hardly varies stays small
    found: Array = (values - by.mean(axis=0)) / scale
    return found


def _source_accuracy(evidence: Evidence) -> float:
    right = given(evidence.source_logits).argmax(axis=1) == given(evidence.source_labels)
    return float(right.mean())
