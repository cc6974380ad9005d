"""What tells of each target row whether its prediction is right, as numbers; no label of it."""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import shares_of
from revgrad.diagnostics.second_opinion import SecondOpinion, second_opinion
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array

#: The signs, in the order of the columns.
SIGNS = (
    "agrees",
    "likelihood",
    "look-alikes",
    "class share",
    "agreement",
    "certainty",
)
NEEDS = ("source_inputs", "source_labels", "target_inputs")


def row_signs(evidence: Evidence) -> Array:
    """(n, len(SIGNS)) of the target rows, by a second opinion on them.

    agrees        1 where the second opinion is the prediction
    likelihood    log of the probability that it gives to the predicted class
    look-alikes   of the target rows that look most like it, the share that is predicted as it
    class share   log of how often its class is predicted, over one of all classes being equal
    agreement     the share of all rows for which it agrees; the same for all rows, as is
    certainty     its mean largest probability
    """
    opinion = opinion_on(evidence)
    predicted = evidence.target_logits.argmax(axis=1)
    n, classes = evidence.target_logits.shape
    said = opinion.probabilities
    agrees = said.argmax(axis=1) == predicted
    shares = np.log((shares_of(predicted, classes) + 0.5 / n) * classes)
    alike = predicted[opinion.neighbours] == predicted[:, None]
    columns = [
        agrees,
        np.log(said[np.arange(n), predicted]),
        alike.mean(axis=1) if alike.shape[1] else np.ones(n),
        shares[predicted],
        np.full(n, agrees.mean()),
        np.full(n, said.max(axis=1).mean()),
    ]
    found: Array = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return found


def opinion_on(evidence: Evidence) -> SecondOpinion:
    """The second opinion on the evidence's target rows."""
    source, labels, target = (getattr(evidence, name) for name in NEEDS)
    if missing := evidence.missing(*NEEDS):
        raise InputError(f"signs of right and wrong rows need {', '.join(missing)}")
    return second_opinion(source, labels, target, evidence.target_logits.shape[1])
