"""The verdict on attributes: can fresh classifiers still tell them, and what did it cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from revgrad.diagnostics.attribute_evidence import AttributeEvidence, read_attribute_evidence
from revgrad.diagnostics.fairness import GroupDifferences, group_differences
from revgrad.diagnostics.recovery import Recovery, recover
from revgrad.training.run import BASELINE, RunConfig

#: How much above chance is as good as chance; and of an interval, half the width of which says so
#: little that nothing can be told.
NEAR_CHANCE, TOO_WIDE = 0.03, 0.08
#: A fall to half of what the plain network shows above chance is worth saying.
MUCH_LESS = 0.5
#: The loss of held-out accuracy that counts as a cost.
COST = 0.02

AttributeOutcome = Literal["removed", "reduced", "not removed", "nothing to remove", "can't tell"]


@dataclass(frozen=True)
class AttributeVerdict:
    """Whether fresh classifiers can tell an attribute from the features of a layer.

    Attributes
    ----------
    name, layer
        of the adversary
    values
        the categories; None: a number
    recovered, before
        from the features of this run, and of the network that was trained without adversaries;
        None where samples are too few, or there is no such network
    differences, differences_before
        of the predictions between the groups that the attribute makes
    """

    name: str
    layer: str
    values: tuple[str, ...] | None
    outcome: AttributeOutcome
    sentence: str
    recovered: Recovery | None
    before: Recovery | None
    differences: GroupDifferences | None = None
    differences_before: GroupDifferences | None = None


@dataclass(frozen=True)
class Cost:
    """Held-out source accuracy, with adversaries and without."""

    accuracy: float
    before: float | None

    @property
    def lost(self) -> float | None:
        return None if self.before is None else self.before - self.accuracy


def attribute_verdicts(
    folder: Path, config: RunConfig, baseline: Path | str | None = None
) -> tuple[tuple[AttributeVerdict, ...], Cost | None]:
    """Of every adversary that the run recorded evidence of; and what all of them cost together."""
    evidence = read_attribute_evidence(folder) if config.adversaries else None
    if evidence is None:
        return (), None
    below = read_attribute_evidence(folder / BASELINE if baseline is None else baseline)
    if below is not None and not _alike(evidence, below):
        below = None
    found = tuple(
        _judged(about, number, evidence, below)
        for number, about in enumerate(config.adversaries[: len(evidence.features)])
    )
    accuracy = _accuracy(evidence)
    before = None if below is None else _accuracy(below)
    return found, None if accuracy is None else Cost(accuracy, before)


def removal_sentence(found: Sequence[AttributeVerdict], cost: Cost | None) -> str:
    """All attributes and the cost, in plain words."""
    parts = [one.sentence for one in found]
    if cost is not None and cost.before is not None and cost.lost is not None:
        change = f"{100 * abs(cost.lost):.1f} points"
        words = f"costs {change}" if cost.lost > 0 else f"gains {change}"
        parts.append(
            f"Held-out accuracy is {cost.accuracy:.1%}, without adversaries {cost.before:.1%}: "
            f"that {words}."
        )
    elif cost is not None:
        parts.append(f"Held-out accuracy is {cost.accuracy:.1%}.")
    return " ".join(parts)


def all_removed(found: Sequence[AttributeVerdict]) -> bool:
    return all(one.outcome in ("removed", "nothing to remove") for one in found)


def _judged(
    about: dict[str, Any],
    number: int,
    evidence: AttributeEvidence,
    below: AttributeEvidence | None,
) -> AttributeVerdict:
    names = about["values"]
    recovered = _recovered(evidence, number, names is not None)
    before = None if below is None else _recovered(below, number, names is not None)
    outcome = _outcome(recovered, before)
    differences = [
        None if one is None or names is None else _differences(one, number)
        for one in (evidence, below)
    ]
    return AttributeVerdict(
        about["name"],
        about["layer"],
        None if names is None else tuple(names),
        outcome,
        _sentence(about, outcome, recovered, before),
        recovered,
        before,
        *differences,
    )


def _recovered(evidence: AttributeEvidence, number: int, categories: bool) -> Recovery | None:
    values = evidence.values[number]
    known = ~np.isnan(values)
    told = values[known].astype(np.int64) if categories else values[known]
    return recover(evidence.features[number][known], told, categories=categories)


def _outcome(recovered: Recovery | None, before: Recovery | None) -> AttributeOutcome:
    if recovered is None:
        return "can't tell"
    surely_there = recovered.low - recovered.chance > NEAR_CHANCE
    if not surely_there and (recovered.high - recovered.low) / 2 > TOO_WIDE:
        return "can't tell"
    if recovered.above_chance <= NEAR_CHANCE:
        if before is not None and before.above_chance <= NEAR_CHANCE:
            return "nothing to remove"
        return "removed"
    if before is not None and recovered.above_chance <= MUCH_LESS * before.above_chance:
        return "reduced"
    return "not removed"


def _sentence(
    about: dict[str, Any],
    outcome: AttributeOutcome,
    recovered: Recovery | None,
    before: Recovery | None,
) -> str:
    name, layer = about["attribute"], about["layer"]
    if recovered is None:
        few = "there are too few held-out samples of each value to tell"
        return f"'{name}' at layer '{layer}': {few}."
    what = "right" if about["values"] is not None else "of its variance"
    words = {
        "removed": "is gone from",
        "reduced": "is weaker in",
        "not removed": "is still in",
        "nothing to remove": "never was in",
        "can't tell": "may or may not be in",
    }
    chance = f"chance {recovered.chance:.1%}" if about["values"] is not None else "chance 0%"
    below = "" if before is None else f"; from the network without adversaries {before.value:.1%}"
    return (
        f"'{name}' {words[outcome]} the features of layer '{layer}': a fresh classifier tells "
        f"{recovered.value:.1%} {what} ({recovered.low:.1%} to {recovered.high:.1%}; {chance}"
        f"{below})."
    )


def _differences(evidence: AttributeEvidence, number: int) -> GroupDifferences | None:
    if evidence.predicted is None:
        return None
    known = ~np.isnan(evidence.values[number])
    groups = evidence.values[number][known]
    every = group_differences(evidence.predicted[known], groups)
    if evidence.labels is None:
        return every
    labelled = known & (evidence.labels >= 0)
    among = group_differences(
        evidence.predicted[labelled],
        evidence.values[number][labelled],
        evidence.labels[labelled],
    )
    return GroupDifferences(every.parity, among.odds)


def _accuracy(evidence: AttributeEvidence) -> float | None:
    if evidence.predicted is None or evidence.labels is None:
        return None
    labelled = evidence.labels >= 0
    if not labelled.any():
        return None
    return float((evidence.predicted[labelled] == evidence.labels[labelled]).mean())


def _alike(one: AttributeEvidence, other: AttributeEvidence) -> bool:
    """Whether both are of the same samples and attributes."""
    return len(one.values) == len(other.values) and all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(one.values, other.values, strict=True)
    )
