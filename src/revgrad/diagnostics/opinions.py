"""Opinions on the target samples, of several classifiers that share nothing with the network.

    for opinion in opinions_of(source_inputs, source_labels, target_inputs, classes):
        print(opinion.name, opinion.competence)

Each is a plain classifier of one view (`views.py`) of the labelled source samples: logistic, trees,
nearest neighbours; with the domains standardised each by itself, which undoes what a sensor
changes, or both by the source, which keeps the classes' shares. None learns from target samples:
an opinion that did can grow a mistake that it shares with the network. `consensus.py` makes one of
them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from revgrad.diagnostics.inputs import Array, shares_of
from revgrad.diagnostics.views import views

#: No class has less than this probability before they are made to sum to one.
FLOOR = 1e-3
#: Inverse regularisation of logistic classifiers, trees of a forest, neighbours that are asked.
REGULARISATION, TREES, NEIGHBOURS = 0.02, 60, 15
#: Of inputs that are counts (words), and of ranks.
OF_COUNTS, OF_RANKS = 3.0, 0.1
#: Samples that forests are grown on at most: more cost more than they tell.
MOST_FOR_TREES = 1000
#: Numbers a sample of which ranks are taken at most.
WIDEST_RANKS = 300
#: The view of classifiers that see all the others at once.
ALL = "all"

#: (known, labels, asked, classes) → probabilities (asked, classes)
Classifier = Callable[[Array, Array, Array, int], Array]


@dataclass(frozen=True, eq=False)
class Opinion:
    """One classifier's on the target samples.

    Attributes
    ----------
    view
        what it sees of a sample
    probabilities
        (n, classes)
    competence
        accuracy on source samples that it was not fitted on, above guessing the
        largest class: 0 knows nothing, 1 is always right
    """

    name: str
    view: str
    probabilities: Array
    competence: float


@dataclass(frozen=True, eq=False)
class Described:
    """Opinions, and what all their views together say of the samples, each domain standardised by
    itself: (m, d) of the source, (n, d) of the target."""

    opinions: tuple[Opinion, ...]
    source: Array
    target: Array


def opinions_of(source: Array, labels: Array, target: Array, classes: int) -> Described:
    """Of inputs as `Evidence` has them: images, series or numbers; labels are class numbers."""
    seen = views(source, target)
    whole = [_moderate(name, *both) for name, both in seen.items()]
    own, other = (np.concatenate(parts, axis=1) for parts in zip(*whole, strict=True))
    found = [
        _opinion(f"{name}, {how}", name, classifier, *both, labels, classes)
        for name, parts in seen.items()
        for how, classifier, both in _plans(name, *parts)
    ]
    if len(seen) > 1:
        weak = partial(_logistic, strength=1.0)
        found.append(_opinion("all views, logistic", ALL, weak, own, other, labels, classes))
    return Described(tuple(found), own, other)


_Plan = tuple[str, Classifier, tuple[Array, Array]]


def _plans(view: str, own: Array, other: Array) -> Iterator[_Plan]:
    """How, by which classifier, of which descriptors."""
    if view == "counts":  # of words: standardised, the rarest would count most
        scale = float(np.sqrt((own**2).sum(axis=1).mean())) or 1.0
        both, weak = (own / scale, other / scale), partial(_logistic, strength=OF_COUNTS)
        yield "logistic", weak, both
        yield "Bayes", _bayes, both
        yield "trees", _trees, both
        yield "logistic, rare words more", weak, _weighted_counts(own, other)
        return
    alone = standardised(own), standardised(other)
    by_source = alone[0], standardised(other, own)
    yield "logistic", _logistic, alone
    yield "logistic, source's scale", _logistic, by_source
    yield "trees", _trees, alone
    if view in ("values", "colours", "convolutions"):
        yield "trees, source's scale", _trees, by_source
    if view in ("values", "edges", "spectra"):
        yield "neighbours", _neighbours, alone
    if view == "values" and own.shape[1] <= WIDEST_RANKS:
        ranked = standardised(ranks(own)), standardised(ranks(other))
        yield "logistic, ranks", partial(_logistic, strength=OF_RANKS), ranked


def _moderate(view: str, own: Array, other: Array) -> tuple[Array, Array]:
    """A view's descriptors, each domain by itself, of the same size whatever their number."""
    if view == "counts":
        one, two = _weighted_counts(own, other)
        return 10 * one, 10 * two
    scale = 3 / np.sqrt(own.shape[1])
    return scale * standardised(own), scale * standardised(other)


def standardised(values: Array, like: Array | None = None) -> Array:
    """Each column less its mean, over its standard deviation; those of `like` where given. No value
    lies further out than ten deviations."""
    fitted = values if like is None else like
    spread = fitted.std(axis=0)
    spread = np.where(spread > 1e-9 * (1 + np.abs(fitted).max()), spread, 1.0)
    found: Array = np.clip((values - fitted.mean(axis=0)) / spread, -10, 10)
    return found


def ranks(values: Array) -> Array:
    """Each column's ranks among the samples, from 0 to 1: what any rising change of a sensor
    leaves alone."""
    from scipy.stats import rankdata

    found: Array = np.asarray(rankdata(values, axis=0)) / len(values)
    return found


def _weighted_counts(own: Array, other: Array) -> tuple[Array, Array]:
    """log(1 + count) · log inverse share of the samples that it occurs in, each of length 1."""
    occurs = (own > 0).sum(axis=0) + (other > 0).sum(axis=0)
    rarity = np.log((1 + len(own) + len(other)) / (1 + occurs)) + 1
    parts = [np.log1p(part) * rarity for part in (own, other)]
    one, two = (
        part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-9) for part in parts
    )
    return one, two


def _opinion(
    name: str,
    view: str,
    classifier: Classifier,
    own: Array,
    other: Array,
    labels: Array,
    classes: int,
) -> Opinion:
    """The classifier of all source samples on the target; its competence by halves."""
    if "trees" in name and len(own) > MOST_FOR_TREES:
        chosen = np.sort(np.random.default_rng(1).permutation(len(own))[:MOST_FOR_TREES])
        own, labels = own[chosen], labels[chosen]
    half = np.random.default_rng(0).permutation(len(own)) % 2 == 0
    right = [
        classifier(own[fitted], labels[fitted], own[~fitted], classes).argmax(1) == labels[~fitted]
        for fitted in (half, ~half)
    ]
    accuracy, guessing = np.concatenate(right).mean(), shares_of(labels, classes).max()
    competence = (accuracy - guessing) / (1 - guessing) if guessing < 1 else 0.0
    said = classifier(own, labels, other, classes)
    return Opinion(name, view, said, float(max(competence, 0.0)))


def _logistic(
    known: Array, labels: Array, asked: Array, classes: int, strength: float = REGULARISATION
) -> Array:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=200, tol=1e-2)
    return _spread_out(model, known, labels, asked, classes)


def _bayes(known: Array, labels: Array, asked: Array, classes: int) -> Array:
    from sklearn.naive_bayes import MultinomialNB

    return _spread_out(MultinomialNB(alpha=0.5), known, labels, asked, classes)


def _trees(known: Array, labels: Array, asked: Array, classes: int) -> Array:
    from sklearn.ensemble import ExtraTreesClassifier

    model = ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=0)
    return _spread_out(model, known, labels, asked, classes)


def _neighbours(known: Array, labels: Array, asked: Array, classes: int) -> Array:
    from sklearn.neighbors import KNeighborsClassifier

    count = max(min(NEIGHBOURS, len(known) // max(2 * classes, 4)), 1)
    model = KNeighborsClassifier(count, weights="distance")
    return _spread_out(model, known, labels, asked, classes)


def _spread_out(model, known: Array, labels: Array, asked: Array, classes: int) -> Array:  # type: ignore[no-untyped-def]
    """(n, classes) of the fitted model; classes that it never saw have hardly a probability."""
    found: Array = np.full((len(asked), classes), FLOOR)
    present = np.unique(labels)
    if len(present) == 1:
        found[:, present[0]] += 1
    else:
        model.fit(known.astype(np.float32), labels)
        found[:, model.classes_] += model.predict_proba(asked.astype(np.float32))
    found /= found.sum(axis=1, keepdims=True)
    return found
