"""Signs of a gain: numbers that say how a network compares with another on the same target samples,
each without a target label. `gain_estimate.py` weighs them; `studies/trust` judges them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from revgrad.diagnostics.accuracy_estimate import atc_threshold, negative_entropies
from revgrad.diagnostics.certainty import (
    mutual_information,
    negative_entropy,
    prediction_nuclear_norm,
    source_temperature,
)
from revgrad.diagnostics.confidence import (
    classwise_confidence,
    matrix_norm,
    mean_energy,
    transported_confidence,
)
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import Array, given, probabilities
from revgrad.diagnostics.opinions import Opinion, opinions_on
from revgrad.diagnostics.reverse_validation import reverse_validation
from revgrad.diagnostics.vetoes import source_accuracy, variety
from revgrad.diagnostics.views import views

#: Opinions that are less competent than this on the source are not heard.
COMPETENT = 0.1


def confidence_signs(evidence: Evidence) -> dict[str, float]:
    """Of one network, from its logits alone."""
    source, labels = given(evidence.source_logits), given(evidence.source_labels)
    target = evidence.target_logits
    temperature = source_temperature(source, labels)
    right = (source.argmax(axis=1) == labels).astype(np.float64)
    sure, surest = (negative_entropies(part / temperature) for part in (source, target))
    largest = [probabilities(part / temperature).max(axis=1).mean() for part in (source, target)]
    return {
        "atc": float((surest >= atc_threshold(sure, right)).mean()),
        "doc": float(np.clip(right.mean() - largest[0] + largest[1], 0, 1)),
        "cot": transported_confidence(source, labels, target),
        "classwise": classwise_confidence(source, labels, target),
        "mano": matrix_norm(target),
        "energy": mean_energy(target),
        "nuclear": prediction_nuclear_norm(target),
        "information": mutual_information(target),
        "certainty": negative_entropy(target),
        "source": source_accuracy(evidence),
        "variety": variety(evidence),
    }


def heard(opinions: Sequence[Opinion]) -> list[Opinion]:
    """The opinions that know something of the source; of none, the most competent one."""
    found = [one for one in opinions if one.competence >= COMPETENT]
    return found or sorted(opinions, key=lambda one: -one.competence)[:1]


def committee(opinions: Sequence[Opinion]) -> Array:
    """(n, classes): the geometric mean of the opinions by their competence, made to sum to 1."""
    weights = np.array([max(one.competence, 1e-3) for one in opinions])
    logs = sum(
        weight * np.log(one.probabilities)
        for weight, one in zip(weights / weights.sum(), opinions, strict=True)
    )
    found = np.exp(logs - np.max(logs, axis=1, keepdims=True))
    whole: Array = found / found.sum(axis=1, keepdims=True)
    return whole


def opinion_signs(after: Array, before: Array, opinions: Sequence[Opinion]) -> dict[str, float]:
    """How much more of the target the opinions hold to be predicted right by `after` than by
    `before`, (n,) classes each."""
    n = np.arange(len(after))
    asked = heard(opinions)
    whole = committee(asked)

    def gain(said: Array) -> float:
        return float((said[n, after] - said[n, before]).mean())

    def hard(said: Array) -> float:
        best = said.argmax(axis=1)
        return float((best == after).mean() - (best == before).mean())

    def mean(which: Callable[[Opinion], bool]) -> float:
        chosen = [one for one in asked if which(one)] or asked
        weights = [one.competence + 1e-3 for one in chosen]
        return float(np.average([hard(one.probabilities) for one in chosen], weights=weights))

    each = [hard(one.probabilities) for one in asked]
    return {
        "committee": gain(whole),
        "committee-hard": hard(whole),
        "mean": mean(lambda one: True),
        "own-scale": mean(lambda one: "source's scale" not in one.name),
        "source-scale": mean(lambda one: "source's scale" in one.name),
        "trees": mean(lambda one: "trees" in one.name),
        "features": mean(lambda one: "features" in one.name),
        "least": min(each),
        "most": max(each),
        "spread": float(np.std(each)),
        "agreement-before": float((whole.argmax(axis=1) == before).mean()),
        "agreement-after": float((whole.argmax(axis=1) == after).mean()),
        "likelihood-before": float(whole[n, before].mean()),
        "likelihood-after": float(whole[n, after].mean()),
        "sureness": float(whole.max(axis=1).mean()),
        "competence": float(np.mean([one.competence for one in asked])),
        "heard": float(len(asked)),
    }


def reverse_signs(evidence: Evidence, predicted: Sequence[Array]) -> list[float]:
    """`reverse_validation` of each set of predicted classes, the mean over the views."""
    source, target = given(evidence.source_inputs), given(evidence.target_inputs)
    labels, classes = given(evidence.source_labels), evidence.target_logits.shape[1]
    found = views(source, target)
    return [
        float(
            np.mean(
                [
                    reverse_validation(*(one, labels, other, said), classes)
                    for one, other in found.values()
                ]
            )
        )
        for said in predicted
    ]


def comparison_signs(after: Evidence, before: Evidence) -> dict[str, float]:
    """Every sign of a gain of `after` over `before`; both need labelled source samples."""
    one, other = after.target_logits.argmax(axis=1), before.target_logits.argmax(axis=1)
    signs = {
        "differing": float((one != other).mean()),
        "classes": float(after.target_logits.shape[1]),
        "target-samples": float(len(one)),
        "source-samples": float(len(given(after.source_labels))),
    }
    for name, evidence in (("after", after), ("before", before)):
        signs |= {f"{key}-{name}": value for key, value in confidence_signs(evidence).items()}
    opinions = opinions_on(after, before)
    if opinions:
        signs |= {f"opinion-{key}": v for key, v in opinion_signs(one, other, opinions).items()}
    if after.has("source_inputs", "target_inputs"):
        values = reverse_signs(after, [one, other])
        signs |= {"reverse-after": values[0], "reverse-before": values[1]}
    return signs


NEEDS = (*LABELLED_SOURCE, "target_logits")
