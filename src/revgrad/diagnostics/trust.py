"""How far the consensus can be trusted, and what it says of two networks: fitted on many pairs.

    found = compare(after, before)
    found.outcome, found.gain, found.after, found.why

`trust_model.json` holds what `studies/trust/trust_fit.py` fitted on its open pairs:

- a forest that says, by signs of two networks, how likely harm, no gain and a gain are;
- a forest that says, by signs of one network, how accurate it is, and how much the study's
  networks of such signs differ in it;
- the quality of a consensus (its accuracy on the target, above guessing), for `trust`;
- where the study's pairs lie: what is further from all of them than they are from one another is
  not told.

An outcome is told where it is likely enough. The signs are those of `signs.py`: none reads a
target label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from revgrad.diagnostics.forest import Forest, forest_from
from revgrad.diagnostics.inputs import given
from revgrad.diagnostics.intervals import LEVEL
from revgrad.diagnostics.signs import comparison_signs, network_signs
from revgrad.diagnostics.vetoes import source_accuracy, variety
from revgrad.diagnostics.views import are_counts, kind_of

Told = Literal["adapted", "no gain", "harmed"]
#: In the order of the forest's outputs.
OUTCOMES: tuple[Told, ...] = ("harmed", "no gain", "adapted")
MODEL_FILE = Path(__file__).with_name("trust_model.json")
#: The gain or loss over the baseline that counts: two points.
MEANINGFUL_GAIN = 0.02
#: Probability by the forest that an outcome needs to be told. Forests say less than they know: of
#: what they call .75 or more, some 95 of 100 were right on pairs left out.
NEEDED_PROBABILITY = 0.75
#: Held-out source samples, and target samples, below which nothing is told.
FEWEST_HELD_OUT, FEWEST_TARGET = 20, 40
#: Pairs of a kind of data that its own interval needs; with fewer, that of all kinds.
ENOUGH_PAIRS = 20
#: Least spread of the accuracies of networks of the same signs.
LEAST_SPREAD = 0.01
#: Signs of a consensus that say where a pair of domains lies.
OF_PAIR = (
    *("steadiness", "sureness", "most-reliable", "agreement", "scales-agree", "pool-shares"),
    "chance",
)


@dataclass(frozen=True)
class Support:
    """Where the study's pairs lie.

    Attributes
    ----------
    scale
        of each sign of OF_PAIR, its standard deviation over the pairs
    pairs
        (k, signs): each pair's signs
    limit
        the largest distance of a pair to the nearest other one
    """

    scale: tuple[float, ...]
    pairs: tuple[tuple[float, ...], ...]
    limit: float

    def distance(self, signs: Mapping[str, float]) -> float:
        """To the nearest pair: root mean square of the signs' differences by their scale."""
        place = np.array([signs[name] for name in OF_PAIR])
        apart = (np.array(self.pairs) - place) / np.array(self.scale)
        return float(np.sqrt((apart**2).mean(axis=1)).min())


@dataclass(frozen=True, eq=False)
class TrustModel:
    """The fitted parts.

    Attributes
    ----------
    quality
        weights of `quality_signs`, the constant last
    outcomes
        `outcome_signs` → probabilities of OUTCOMES
    accuracy
        `accuracy_signs` → accuracy, and its square, whose means give a spread
    intervals
        by kind of inputs, and "all": the multiple of the spread that holds 95 of 100 left-out
        pairs' truths
    pairs
        that each of them rests on
    """

    quality: dict[str, float]
    outcomes: Forest
    accuracy: Forest
    intervals: dict[str, float]
    pairs: dict[str, int]
    support: Support


@dataclass(frozen=True)
class Trusted:
    """What the consensus says of a network beside another.

    Attributes
    ----------
    outcome
        None where it can't be told
    gain
        the difference of both estimates
    probabilities
        of harm, no gain and a gain
    quality
        of the consensus: 0 guesses, 1 always knows
    distance
        of the pair to the nearest pair of the study, in parts of the largest that is supported
    why
        why it can't be told
    """

    outcome: Told | None
    gain: float
    probabilities: dict[Told, float]
    quality: float
    distance: float
    after: AccuracyEstimate
    before: AccuracyEstimate
    why: str = ""


@cache
def trust_model() -> TrustModel:
    """The model that is shipped."""
    return model_from(json.loads(MODEL_FILE.read_text(encoding="utf-8")))


def model_from(values: dict[str, Any]) -> TrustModel:
    """Of json."""
    support = values["support"]
    return TrustModel(
        values["quality"],
        forest_from(values["outcomes"]),
        forest_from(values["accuracy"]),
        values["intervals"],
        values["pairs"],
        Support(tuple(support["scale"]), tuple(map(tuple, support["pairs"])), support["limit"]),
    )


def quality_signs(signs: Mapping[str, float]) -> dict[str, float]:
    """What the quality of a consensus is told by."""
    names = ("sureness", "steadiness", "most-reliable", "competence")
    return {name: signs[name] for name in names} | {"chance": 1 / signs["classes"], "one": 1.0}


def quality_of(signs: Mapping[str, float], model: TrustModel) -> float:
    """Accuracy of the consensus, above guessing: 0 guesses, 1 always knows."""
    found = sum(model.quality[name] * value for name, value in quality_signs(signs).items())
    chance = 1 / signs["classes"]
    return float(np.clip((found - chance) / (1 - chance), 0, 1))


def pair_signs(signs: Mapping[str, float]) -> dict[str, float]:
    """Where a pair of domains lies; see OF_PAIR."""
    return {name: 1 / signs["classes"] if name == "chance" else signs[name] for name in OF_PAIR}


def outcome_signs(signs: Mapping[str, float]) -> dict[str, float]:
    """Of `comparison_signs`, what an outcome is told by: what changed from `before` to `after` by
    each way to look, what the opinions hold of it, and what the consensus is worth."""
    changed = ("pooled", "learned", "smooth", "learned-soft", "source", "variety", "cot")
    votes = ("votes-own-scale", "votes-source-scale", "votes-least", "votes-most", "votes-side")
    levels = ("differing", "variety-before", "variety-after", "pooled-before")
    return {
        **{f"gain-{name}": signs[f"{name}-after"] - signs[f"{name}-before"] for name in changed},
        **{name: signs[name] for name in (*votes, *levels)},
        "log-samples": float(np.log(signs["target-samples"])),
        **pair_signs(signs),
    }


def accuracy_signs(signs: Mapping[str, float], which: str) -> dict[str, float]:
    """Of signs whose names end in `-{which}`, what a network's accuracy is told by."""
    of_one = (
        *("pooled", "learned", "smooth", "pooled-soft", "latent", "unlike-neighbours"),
        *("shares-off", "cot", "atc", "doc", "classwise", "source", "variety"),
    )
    return {name: signs[f"{name}-{which}"] for name in of_one} | pair_signs(signs)


def outcome_of(signs: Mapping[str, float], model: TrustModel) -> dict[Told, float]:
    """Probabilities of each outcome."""
    said = model.outcomes.said(outcome_signs(signs))
    return dict(zip(OUTCOMES, map(float, said), strict=True))


def accuracy_of(signs: Mapping[str, float], which: str, model: TrustModel) -> tuple[float, float]:
    """Estimated accuracy of one network, and the spread of accuracies among such networks."""
    mean, square = model.accuracy.said(accuracy_signs(signs, which))
    spread = np.sqrt(max(square - mean**2, 0.0)) + LEAST_SPREAD
    return float(np.clip(mean, 0, 1)), float(spread)


def judge_signs(signs: Mapping[str, float], model: TrustModel) -> tuple[Told | None, float, str]:
    """The outcome by `comparison_signs`, its probability, and why it can't be told."""
    chances = outcome_of(signs, model)
    likeliest = max(chances, key=lambda outcome: chances[outcome])
    few = min(signs["source-samples"] - FEWEST_HELD_OUT, signs["target-samples"] - FEWEST_TARGET)
    if few < 0:
        return None, chances[likeliest], "there are too few held-out or target samples"
    far = model.support.distance(pair_signs(signs)) / model.support.limit
    if far > 1:
        why = (
            "these domains are unlike all that the verdict was made on, "
            f"{far:.1f} times as far as any of them is from the next"
        )
        return None, chances[likeliest], why
    if chances[likeliest] < NEEDED_PROBABILITY:
        said = " or ".join(
            f"{outcome} ({chance:.0%})"
            for outcome, chance in sorted(chances.items(), key=lambda one: -one[1])[:2]
        )
        return None, chances[likeliest], f"it is {said}{disagreement(signs)}"
    return likeliest, chances[likeliest], ""


def disagreement(signs: Mapping[str, float]) -> str:
    """In words, opinions in different scales that say the opposite; "" where they don't."""
    scales = signs["votes-own-scale"], signs["votes-source-scale"]
    if min(scales) > -MEANINGFUL_GAIN or max(scales) < MEANINGFUL_GAIN:
        return ""
    return (
        f"; classifiers that standardise each domain by itself say {100 * scales[0]:+.1f} "
        f"points, those in the source's scale {100 * scales[1]:+.1f}"
    )


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
    outcome, _, why = judge_signs(signs, model)
    inputs = input_kind(after)
    after_, before_ = (
        _estimate(*accuracy_of(signs, which, model), inputs, model) for which in ("after", "before")
    )
    return Trusted(
        outcome,
        after_.value - before_.value,
        outcome_of(signs, model),
        quality_of(signs, model),
        model.support.distance(pair_signs(signs)) / model.support.limit,
        after_,
        before_,
        why,
    )


def trusted_accuracy(evidence: Evidence) -> AccuracyEstimate | None:
    """Of one network; None where the inputs or labelled source samples are not recorded."""
    if not evidence.has("source_inputs", "target_inputs", *LABELLED_SOURCE):
        return None
    signs, model = network_signs(evidence), trust_model()
    value, spread = accuracy_of(signs, "after", model)
    return _estimate(value, spread, input_kind(evidence), model)


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


def _estimate(value: float, spread: float, kind: str, model: TrustModel) -> AccuracyEstimate:
    used = kind if kind in model.intervals else "all"
    room = model.intervals[used] * spread
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
