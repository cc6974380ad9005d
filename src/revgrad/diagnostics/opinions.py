"""Opinions on the target samples, of several classifiers that share nothing with the network.

    for opinion in opinions_on(after, before):
        print(opinion.name, opinion.competence)

Each is a plain classifier of one view (`views.py`) of the labelled source samples: logistic, trees,
nearest neighbours; with the domains standardised each by itself, which undoes what a sensor
changes, or both by the source, which keeps the classes' shares. None learns from target samples:
an opinion that did can grow a mistake that it shares with the network. What they agree in is
likelier than what any of them says; what they disagree in says how far they can be trusted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import Array, given, shares_of
from revgrad.diagnostics.views import views

#: No class has less than this probability before they are made to sum to one.
FLOOR = 1e-3
#: Inverse regularisation of logistic classifiers, trees of a forest, neighbours that are asked.
REGULARISATION, TREES, NEIGHBOURS = 0.02, 150, 15
#: Samples that classifiers are fitted on at most.
MOST_SAMPLES = 2000
#: The last few sets of opinions, by the digest of what they are made of.
_REMEMBERED = 6
_known: OrderedDict[bytes, tuple[Opinion, ...]] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Opinion:
    """One classifier's on the target samples.

    Attributes
    ----------
    probabilities
        (n, classes)
    competence
        accuracy on source samples that it was not fitted on, above guessing the
        largest class: 0 knows nothing, 1 is always right
    """

    name: str
    probabilities: Array
    competence: float


def opinions_on(evidence: Evidence, before: Evidence | None = None) -> tuple[Opinion, ...]:
    """Of the samples themselves, where they are recorded; and of the features of `before`, the
    network that is compared with, which knows nothing of the target."""
    found: tuple[Opinion, ...] = ()
    if evidence.has("source_inputs", "source_labels", "target_inputs"):
        found = _of_inputs(evidence)
    if before is not None and before.has("source_features", "target_features", *LABELLED_SOURCE):
        found += (_of_features(before),)
    return found


def _of_inputs(evidence: Evidence) -> tuple[Opinion, ...]:
    parts = [given(evidence.source_inputs)]
    labels = [given(evidence.source_labels)]
    if evidence.training_inputs is not None and evidence.training_labels is not None:
        parts.append(evidence.training_inputs)
        labels.append(evidence.training_labels)
    source = np.concatenate(parts)[:MOST_SAMPLES]
    known = np.concatenate(labels)[:MOST_SAMPLES].astype(np.int64)
    target, classes = given(evidence.target_inputs), evidence.target_logits.shape[1]
    key = _digest(source, known, target, np.array(classes))
    if key not in _known:
        _known[key] = tuple(_asked(source, known, target, classes))
        while len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    return _known[key]


def _asked(source: Array, labels: Array, target: Array, classes: int) -> list[Opinion]:
    found = []
    for name, (own, other) in views(source, target).items():
        if name == "counts":  # of words: standardised, the rarest would count most
            scale = float(np.sqrt((own**2).sum(axis=1).mean())) or 1.0
            both = own / scale, other / scale
            found.append(_opinion("counts, logistic", _weak_logistic, *both, labels, classes))
            found.append(_opinion("counts, Bayes", _bayes, *both, labels, classes))
            found.append(_opinion("counts, trees", _trees, *both, labels, classes))
            continue
        alone = standardised(own), standardised(other)
        by_source = standardised(own), standardised(other, own)
        found.append(_opinion(f"{name}, logistic", _logistic, *alone, labels, classes))
        found.append(
            _opinion(f"{name}, logistic, source's scale", _logistic, *by_source, labels, classes)
        )
        if name in ("values", "colours", "convolutions"):
            found.append(_opinion(f"{name}, trees", _trees, *alone, labels, classes))
            found.append(
                _opinion(f"{name}, trees, source's scale", _trees, *by_source, labels, classes)
            )
        if name in ("values", "edges", "spectra"):
            found.append(_opinion(f"{name}, neighbours", _neighbours, *alone, labels, classes))
    return found


def _of_features(before: Evidence) -> Opinion:
    """Nearest neighbours among the held-out source samples, each domain's features standardised by
    itself: what the source-only network knows, less the shift of its features."""
    own, other = given(before.source_features), given(before.target_features)
    return _opinion(
        "source-only features, neighbours",
        _neighbours,
        *(standardised(own), standardised(other)),
        given(before.source_labels),
        before.target_logits.shape[1],
    )


def standardised(values: Array, like: Array | None = None) -> Array:
    """Each column less its mean, over its standard deviation; those of `like` where given. No value
    lies further out than ten deviations."""
    fitted = values if like is None else like
    spread = fitted.std(axis=0)
    spread = np.where(spread > 1e-9 * (1 + np.abs(fitted).max()), spread, 1.0)
    found: Array = np.clip((values - fitted.mean(axis=0)) / spread, -10, 10)
    return found


Classifier = Callable[[Array, Array, Array, int], Array]


def _opinion(
    name: str, classifier: Classifier, own: Array, other: Array, labels: Array, classes: int
) -> Opinion:
    """The classifier of all source samples on the target; its competence by halves."""
    half = np.random.default_rng(0).permutation(len(own)) % 2 == 0
    right = [
        classifier(own[fitted], labels[fitted], own[~fitted], classes).argmax(1) == labels[~fitted]
        for fitted in (half, ~half)
    ]
    accuracy, guessing = np.concatenate(right).mean(), shares_of(labels, classes).max()
    competence = (accuracy - guessing) / (1 - guessing) if guessing < 1 else 0.0
    said = classifier(own, labels, other, classes)
    return Opinion(name, said, float(max(competence, 0.0)))


def _logistic(known: Array, labels: Array, asked: Array, classes: int) -> Array:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=REGULARISATION, max_iter=200, tol=1e-2)
    return _spread_out(model, known, labels, asked, classes)


def _weak_logistic(known: Array, labels: Array, asked: Array, classes: int) -> Array:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=3.0, max_iter=200, tol=1e-2)
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


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()
