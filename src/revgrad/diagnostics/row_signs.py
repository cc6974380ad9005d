"""What tells of each target row whether its prediction is right, as numbers; no label of it."""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.calibrating import source_temperature
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import probabilities, shares_of
from revgrad.diagnostics.invariance import effective_invariance
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array

#: Neighbours that a row is compared with.
NEIGHBOURS = 10
#: The signs, in the order of the columns.
SIGNS = (
    "confidence",
    "invariance",
    "alike when changed",
    "stable",
    "target neighbours",
    "source neighbours",
    "class share",
    "source accuracy",
    "source invariance",
    "mean invariance",
)
NEEDS = (
    *("source_logits", "source_labels", "source_features", "target_features"),
    *("target_changed_logits", "source_changed_logits"),
)


def row_signs(evidence: Evidence) -> Array:
    """(n, len(SIGNS)) of the target rows.

    confidence           logit of the largest softmax, its temperature fitted on the source
    invariance           `effective_invariance` of the row
    alike when changed   1 where the changed row is predicted as the row itself
    stable               share of the earlier checkpoints that predicted it so too (1 without any)
    target neighbours    of its nearest target rows, the share that is predicted as it is
    source neighbours    of its nearest source rows, the share whose label it is predicted as
    class share          log of how often its class is predicted over how often the source has it
    source accuracy      of the held-out source; the same for all rows, as are
    source invariance    the mean of the source's rows
    mean invariance      the mean of the target's rows
    """
    if missing := evidence.missing(*NEEDS):
        raise InputError(f"signs of right and wrong rows need {', '.join(missing)}")
    source, labels = _given(evidence.source_logits), _given(evidence.source_labels)
    target = evidence.target_logits
    n, classes = target.shape
    predicted = target.argmax(axis=1)
    heat = source_temperature(source, labels)
    largest = np.clip(probabilities(target / heat).max(axis=1), 1e-4, 1 - 1e-4)
    changed = _given(evidence.target_changed_logits)
    invariance = effective_invariance(target / heat, changed / heat)
    of_source = effective_invariance(source / heat, _given(evidence.source_changed_logits) / heat)
    before = [logits.argmax(axis=1) == predicted for logits in evidence.checkpoint_logits]
    own, other = _unit(_given(evidence.target_features)), _unit(_given(evidence.source_features))
    shares = shares_of(predicted, classes), shares_of(labels, classes)
    ratio = np.log((shares[0] + 0.5 / n) / (shares[1] + 0.5 / n))
    columns = [
        np.log(largest / (1 - largest)),
        invariance,
        changed.argmax(axis=1) == predicted,
        np.mean(before, axis=0) if before else np.ones(n),
        (predicted[_nearest(own, own, skip=True)] == predicted[:, None]).mean(axis=1),
        (labels[_nearest(own, other)] == predicted[:, None]).mean(axis=1),
        ratio[predicted],
        np.full(n, (source.argmax(axis=1) == labels).mean()),
        np.full(n, of_source.mean()),
        np.full(n, invariance.mean()),
    ]
    found: Array = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return found


def _nearest(rows: Array, among: Array, *, skip: bool = False) -> Array:
    """(n, NEIGHBOURS) indices of the most similar of `among`; `skip`: a row is not its own."""
    similar = rows @ among.T
    if skip:
        np.fill_diagonal(similar, -np.inf)
    count = min(NEIGHBOURS, similar.shape[1] - int(skip))
    found: Array = np.argpartition(-similar, count - 1, axis=1)[:, :count]
    return found


def _unit(features: Array) -> Array:
    """Rows of length 1, about the mean of them all."""
    centred = features - features.mean(axis=0)
    found: Array = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return found


def _given(value: Array | None) -> Array:
    assert value is not None  # NEEDS was asked before
    return value
