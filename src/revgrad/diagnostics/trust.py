"""How far the consensus can be trusted, and what it says of two networks: fitted on many pairs.

    found = compare(after, before)
    found.outcome, found.gain, found.after, found.why

`trust_model.json` holds a dozen numbers, fitted by `studies/trust/trust_fit.py` on its open pairs:

- the consensus's quality (its accuracy on the target, above guessing), of its sureness, how little
  a classifier that learns from it departs from it, and how reliable its best opinion is;
- a network's accuracy, of how often the consensus agrees with it: the more, the better that is;
- the gain, the difference of two agreements, Student-distributed with a width that grows with the
  samples predicted otherwise, where the consensus is poor or the samples are few.

An outcome is told where it is likely enough, and no evidence contradicts it: opinions in each
domain's own scale and in the source's, and the networks' own confidence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from revgrad.diagnostics.accuracy_estimate import (
    AccuracyEstimate,
    accuracy_by_signs,
    has_informative_opinion,
)
from revgrad.diagnostics.consensus import Consensus, consensus_on, seen
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import given
from revgrad.diagnostics.intervals import LEVEL
from revgrad.diagnostics.signs import comparison_signs
from revgrad.diagnostics.vetoes import source_accuracy, variety
from revgrad.diagnostics.views import are_counts, kind_of

Told = Literal["adapted", "no gain", "harmed"]
MODEL_FILE = Path(__file__).with_name("trust_model.json")
#: The gain or loss over the baseline that counts: two points.
MEANINGFUL_GAIN = 0.02
#: Probability that an outcome needs to be told, and quality of the consensus that is needed.
NEEDED_PROBABILITY, NEEDED_QUALITY = 0.9, 0.5
#: Degrees of freedom of the gain's distribution: pairs that are unlike all others do occur.
FREEDOM = 4.0
#: Loss of transported confidence that contradicts a gain, and gain of it that contradicts harm.
LESS_SURE, SURER = 0.02, 0.05
#: Held-out source samples, and target samples, below which nothing is told.
FEWEST_HELD_OUT, FEWEST_TARGET = 20, 40
#: Pairs of a kind of data that its own interval needs; with fewer, that of all kinds.
ENOUGH_PAIRS = 20


@dataclass(frozen=True)
class TrustModel:
    """The fitted numbers.

    Attributes
    ----------
    quality
        weights of `quality_signs`, the constant last
    accuracy
        weights of [1, agreement, agreement · quality, quality]
    accuracy_spread
        log of the expected error: constant, weight of the quality
    gain
        the share of the consensus's difference that is true, on average
    spread
        least width; of √(differing / n); of differing · (1 − quality); of the spread of votes
    intervals
        by kind of inputs, and "all": the multiple of the expected error that holds 95 of 100
        left-out pairs' truths
    pairs
        that each of them rests on
    """

    quality: dict[str, float]
    accuracy: tuple[float, ...]
    accuracy_spread: tuple[float, float]
    gain: float
    spread: tuple[float, float, float, float]
    intervals: dict[str, float]
    pairs: dict[str, int]


@dataclass(frozen=True)
class Trusted:
    """What the consensus says of a network beside another.

    Attributes
    ----------
    outcome
        None where it can't be told
    gain, spread
        estimated, and the width of its distribution
    probability
        of the likeliest outcome
    quality
        of the consensus: 0 guesses, 1 always knows
    why
        why it can't be told
    """

    outcome: Told | None
    gain: float
    spread: float
    probability: float
    quality: float
    after: AccuracyEstimate
    before: AccuracyEstimate
    why: str = ""


@cache
def trust_model() -> TrustModel:
    """The model that is shipped."""
    return model_from(json.loads(MODEL_FILE.read_text(encoding="utf-8")))


def model_from(values: dict[str, Any]) -> TrustModel:
    """Of json."""
    tuples = {name: tuple(values[name]) for name in ("accuracy", "accuracy_spread", "spread")}
    return TrustModel(**{**values, **tuples})


def quality_signs(signs: dict[str, float]) -> dict[str, float]:
    """What the quality of a consensus is told by."""
    names = ("sureness", "steadiness", "most-reliable", "competence")
    return {name: signs[name] for name in names} | {"chance": 1 / signs["classes"], "one": 1.0}


def quality_of(signs: dict[str, float], model: TrustModel) -> float:
    """Accuracy of the consensus, above guessing: 0 guesses, 1 always knows."""
    found = sum(model.quality[name] * value for name, value in quality_signs(signs).items())
    chance = 1 / signs["classes"]
    return float(np.clip((found - chance) / (1 - chance), 0, 1))


def accuracy_of(agreement: float, quality: float, model: TrustModel) -> tuple[float, float]:
    """Estimated accuracy of a network that the consensus agrees with so often, and the error that
    is to be expected."""
    terms = (1.0, agreement, agreement * quality, quality)
    value = sum(weight * term for weight, term in zip(model.accuracy, terms, strict=True))
    error = float(np.exp(model.accuracy_spread[0] + model.accuracy_spread[1] * quality))
    return float(np.clip(value, 0, 1)), error


def gain_of(signs: dict[str, float], quality: float, model: TrustModel) -> tuple[float, float]:
    """Estimated gain, and the width of its distribution."""
    least, of_draw, of_doubt, of_votes = model.spread
    differing = signs["differing"]
    squares = (
        least**2,
        of_draw**2 * differing / signs["target-samples"],
        (of_doubt * differing * (1 - quality)) ** 2,
        (of_votes * signs["votes-spread"]) ** 2,
    )
    gain = model.gain * (signs["pooled-after"] - signs["pooled-before"])
    return gain, float(np.sqrt(sum(squares)))


def outcome_probabilities(gain: float, spread: float) -> dict[Told, float]:
    """Of harm, no gain and a gain, by Student's distribution around an estimated gain."""
    from scipy.special import stdtr

    low, high = (
        float(stdtr(FREEDOM, (edge - gain) / spread))
        for edge in (-MEANINGFUL_GAIN, MEANINGFUL_GAIN)
    )
    return {"harmed": low, "no gain": high - low, "adapted": 1 - high}


def contradiction(signs: dict[str, float]) -> str:
    """Evidences of different kinds that say the opposite of one another; "" where none does."""
    scales = signs["votes-own-scale"], signs["votes-source-scale"]
    if min(scales) < -MEANINGFUL_GAIN and max(scales) > MEANINGFUL_GAIN:
        return (
            f"classifiers that standardise each domain by itself say {100 * scales[0]:+.1f} "
            f"points, those in the source's scale {100 * scales[1]:+.1f}"
        )
    said = signs["pooled-after"] - signs["pooled-before"]
    sure = signs["cot-after"] - signs["cot-before"]
    if (said > MEANINGFUL_GAIN and sure < -LESS_SURE) or (said < -MEANINGFUL_GAIN and sure > SURER):
        return (
            f"classifiers of the inputs say {100 * said:+.1f} points, the networks' own confidence "
            f"{100 * sure:+.1f}"
        )
    return ""


def judge_signs(signs: dict[str, float], model: TrustModel) -> tuple[Told | None, float, str]:
    """The outcome by `comparison_signs`, its probability, and why it can't be told."""
    quality = quality_of(signs, model)
    chances = outcome_probabilities(*gain_of(signs, quality, model))
    likeliest = max(chances, key=lambda outcome: chances[outcome])
    few = min(signs["source-samples"] - FEWEST_HELD_OUT, signs["target-samples"] - FEWEST_TARGET)
    if few < 0:
        return None, chances[likeliest], "there are too few held-out or target samples"
    if quality < NEEDED_QUALITY:
        why = f"classifiers of the inputs know too little of the target (quality {quality:.0%})"
        return None, chances[likeliest], why
    if why := contradiction(signs):
        return None, chances[likeliest], f"evidences contradict one another: {why}"
    if chances[likeliest] < NEEDED_PROBABILITY:
        said = " or ".join(
            f"{outcome} ({chance:.0%})"
            for outcome, chance in sorted(chances.items(), key=lambda one: -one[1])[:2]
        )
        return None, chances[likeliest], f"it is {said}"
    return likeliest, chances[likeliest], ""


def can_compare(after: Evidence | None, before: Evidence | None) -> bool:
    """Whether both have labelled source samples, and the inputs are recorded."""
    return (
        after is not None
        and before is not None
        and after.has("source_inputs", "target_inputs", *LABELLED_SOURCE)
        and before.has(*LABELLED_SOURCE)
    )


def compare(after: Evidence, before: Evidence) -> Trusted:
    """What the consensus says of `after` beside `before`; see `can_compare`."""
    model, signs = trust_model(), comparison_signs(after, before)
    quality = quality_of(signs, model)
    gain, spread = gain_of(signs, quality, model)
    outcome, probability, why = judge_signs(signs, model)
    inputs = input_kind(after)
    after_, before_ = (
        _estimate(signs[f"pooled-{name}"], quality, inputs, model) for name in ("after", "before")
    )
    return Trusted(outcome, gain, spread, probability, quality, after_, before_, why)


def trusted_accuracy(evidence: Evidence) -> AccuracyEstimate | None:
    """Of one network; None where the inputs are not recorded."""
    known = known_agreement(evidence)
    return None if known is None else _estimate(*known, input_kind(evidence), trust_model())


def trust(evidence: Evidence) -> float:
    """For a choice among networks of one target.

    Of images the estimate by signs, where the edges' opinion knows the task: the best choice on
    digits and signs (docs/selection.md). Else the consensus's agreement where it knows the target;
    where it doesn't, whether the source is still known and its classes are predicted, as ruined
    networks don't: by the quality q, q · agreement + (1 − q) · (source accuracy + variety) / 2.
    """
    inputs = evidence.target_inputs
    images = inputs is not None and kind_of(seen(inputs)) == "images"
    if images and has_informative_opinion(evidence):
        return accuracy_by_signs(evidence).value
    healthy = (source_accuracy(evidence) + min(variety(evidence), 1.0)) / 2
    known = known_agreement(evidence)
    return healthy if known is None else known[1] * known[0] + (1 - known[1]) * healthy


def known_agreement(evidence: Evidence) -> tuple[float, float] | None:
    """How often the consensus agrees with a network on the target, and its quality; None where the
    inputs are not recorded."""
    found = consensus_on(evidence)
    if found is None:
        return None
    predicted = evidence.target_logits.argmax(axis=1)
    agreement = float((found.pooled.argmax(axis=1) == predicted).mean())
    signs = numbers_of(found) | {"classes": float(evidence.target_logits.shape[1])}
    return agreement, quality_of(signs, trust_model())


def numbers_of(found: Consensus) -> dict[str, float]:
    """Of a consensus, as signs have them."""
    return {
        "sureness": found.sureness,
        "steadiness": found.steadiness,
        "most-reliable": float(found.reliability.max()),
        "competence": found.competence,
    }


def input_kind(evidence: Evidence) -> str:
    """Of the recorded inputs: images, series, values, or counts of things (words)."""
    both = seen(given(evidence.target_inputs)), seen(given(evidence.source_inputs))
    kind = kind_of(both[0])
    if kind != "numbers":
        return kind
    return "counts" if are_counts(*both) else "values"


def _estimate(agreement: float, quality: float, kind: str, model: TrustModel) -> AccuracyEstimate:
    value, error = accuracy_of(agreement, quality, model)
    used = kind if model.pairs.get(kind, 0) >= ENOUGH_PAIRS else "all"
    room = model.intervals[used] * error
    of = f"{kind}" if used == kind else "all kinds of data"
    return AccuracyEstimate(
        "agreement with a consensus of classifiers of the inputs",
        value,
        max(value - room, 0.0),
        min(value + room, 1.0),
        LEVEL,
        f"a new pair of domains like those of the study ({model.pairs[used]} pairs, {of})",
        "a shift that all classifiers of the inputs mistake in the same way",
    )
