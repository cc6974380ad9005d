"""Unanimity: an outcome that evidences of different kinds agree in, or none.

Four votes on the gain of one network over another: the committee of all opinions, those of domains
standardised each by itself, those in the source's scale, and the transported confidence (COT). The
first three share nothing with the network, the last rests on it alone; each fails where others
hold (a subgroup, a sensor, an unknown task). Only where they agree is an outcome told. Its numbers
were chosen on the open pairs of studies/trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from revgrad.diagnostics.confidence import transported_confidence
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import given
from revgrad.diagnostics.opinions import opinions_on
from revgrad.diagnostics.signs import opinion_signs
from revgrad.diagnostics.vetoes import POOR_VARIETY, variety

#: Every vote must be beyond this for a gain or harm; none beyond the other for neither.
AGREED_GAIN, AGREED_NO_GAIN = 0.03, 0.015
#: Mean competence of the opinions on the source below which they know too little of the task.
KNOWING = 0.4
NEEDED_TO_VOTE = ("source_inputs", "target_inputs", *LABELLED_SOURCE)


@dataclass(frozen=True)
class Unanimity:
    """outcome   that all votes agree in; None where they don't, or where opinions can't be asked

    Attributes
    ----------
    votes
        estimated gains by name
    gain
        the middle of the votes
    why
        why there is no outcome
    """

    outcome: Literal["adapted", "no gain", "harmed"] | None
    votes: dict[str, float]
    gain: float
    why: str = ""

    def opposes(self, outcome: str) -> bool:
        """Whether every vote says the opposite of an outcome."""
        votes = self.votes.values()
        if outcome == "adapted":
            return max(votes) <= -AGREED_GAIN
        return outcome == "harmed" and min(votes) >= AGREED_GAIN


def unanimity(after: Evidence, before: Evidence) -> Unanimity:
    """The votes on `after` beside `before`; both need inputs and labelled source samples."""
    one, other = (part.target_logits.argmax(axis=1) for part in (after, before))
    signs = opinion_signs(one, other, opinions_on(after, before))
    cot = [
        transported_confidence(
            given(part.source_logits), given(part.source_labels), part.target_logits
        )
        for part in (after, before)
    ]
    votes = {
        "all opinions": signs["committee-hard"],
        "opinions by domain": signs["own-scale"],
        "opinions in the source's scale": signs["source-scale"],
        "transported confidence": cot[0] - cot[1],
    }
    gain = float(np.median(list(votes.values())))
    said = ", ".join(f"{name} {100 * value:+.1f}" for name, value in votes.items())
    if signs["competence"] < KNOWING:
        why = f"classifiers of the inputs know too little of the task ({signs['competence']:.0%})"
        return Unanimity(None, votes, gain, why)
    if variety(before) < POOR_VARIETY:
        return Unanimity(None, votes, gain, "the baseline predicts few classes of the target")
    if min(votes.values()) >= AGREED_GAIN:
        return Unanimity("adapted", votes, gain)
    if max(votes.values()) <= -AGREED_GAIN:
        return Unanimity("harmed", votes, gain)
    if max(abs(value) for value in votes.values()) < AGREED_NO_GAIN:
        return Unanimity("no gain", votes, gain)
    return Unanimity(None, votes, gain, f"evidences of different kinds don't agree ({said} points)")
