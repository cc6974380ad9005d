"""Signs of a gain: numbers that say how a network compares with another on the same target samples,
each without a target label. `trust.py` weighs them; `studies/trust` judges them.
"""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.accuracy_estimate import atc_threshold, negative_entropies
from revgrad.diagnostics.certainty import prediction_nuclear_norm, source_temperature
from revgrad.diagnostics.confidence import (
    classwise_confidence,
    matrix_norm,
    mean_energy,
    transported_confidence,
)
from revgrad.diagnostics.consensus import Consensus, agreements, consensus_on, pooled
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import Array, given, probabilities, shares_of
from revgrad.diagnostics.vetoes import source_accuracy, variety

#: Difference of probabilities from which the pool is sure which of two networks is right.
SURE = 0.6
#: Samples whose confidence is transported at most: its cost grows with their third power.
MOST_TRANSPORTED = 1000
NEEDS = (*LABELLED_SOURCE, "target_logits")


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
        "cot": transported_confidence(source, labels, target[:MOST_TRANSPORTED]),
        "classwise": classwise_confidence(source, labels, target),
        "mano": matrix_norm(target),
        "energy": mean_energy(target),
        "nuclear": prediction_nuclear_norm(target),
        "source": source_accuracy(evidence),
        "variety": variety(evidence),
    }


def consensus_signs(predicted: Array, found: Consensus) -> dict[str, float]:
    """How far the classifiers of the inputs agree with a network's classes on the target, (n,)."""
    n = np.arange(len(predicted))
    signs = {}
    for name in ("pooled", "smooth", "learned"):
        said = getattr(found, name)
        signs[name] = float((said.argmax(axis=1) == predicted).mean())
        signs[f"{name}-soft"] = float(said[n, predicted].mean())
    signs |= {"latent": latent_accuracy(predicted, found)}
    own = shares_of(predicted, found.pooled.shape[1])
    return signs | {
        "unlike-neighbours": unlike_neighbours(predicted, found.neighbours),
        # total variation distance of its classes' shares to the pool's
        "shares-off": float(np.abs(own - found.pooled.mean(axis=0)).sum() / 2),
    }


def unlike_neighbours(predicted: Array, neighbours: Array) -> float:
    """Share of all neighbours (n, k) that are predicted to be of another class than their
    sample."""
    if not neighbours.size:
        return 0.0
    return float((predicted[neighbours] != predicted[:, None]).mean())


def latent_accuracy(predicted: Array, found: Consensus) -> float:
    """Share that is predicted right if the network were one more rater of the consensus, its
    mistakes independent of theirs: its r of best fit to how often it agrees with each, above
    chance."""
    classes = found.pooled.shape[1]
    votes = [one.probabilities.argmax(axis=1) for one in found.opinions]
    own = np.array([agreements([predicted, vote], classes)[0, 1] for vote in votes])
    r = found.reliability
    known = float(np.clip((own * r).sum() / max((r**2).sum(), 1e-9), 0, 1))
    chance = float(shares_of(predicted, classes) @ shares_of(found.pooled.argmax(axis=1), classes))
    return known + (1 - known) * chance


def vote_signs(after: Array, before: Array, found: Consensus) -> dict[str, float]:
    """What the opinions, one by one, hold of the gain of `after` over `before`, (n,) classes."""
    votes = np.array(
        [
            (said == after).mean() - (said == before).mean()
            for said in (one.probabilities.argmax(axis=1) for one in found.opinions)
        ]
    )
    weights = found.reliability**2 + 1e-6
    mean = float(np.average(votes, weights=weights))
    by_source = np.array(["source's scale" in one.name for one in found.opinions])

    def of(which: Array) -> float:
        return float(np.average(votes[which], weights=weights[which])) if which.any() else mean

    return {
        "votes": mean,
        "votes-spread": float(np.sqrt(np.average((votes - mean) ** 2, weights=weights))),
        "votes-own-scale": of(~by_source),
        "votes-source-scale": of(by_source),
        "votes-best": float(votes[found.reliability.argmax()]),
        # how one-sided they are: 1 where all hold of a gain, −1 where all hold of a loss
        "votes-side": float(np.average(np.sign(votes), weights=weights)),
        "votes-least": float(votes.min()),
        "votes-most": float(votes.max()),
    }


def disputed_signs(after: Array, before: Array, found: Consensus) -> dict[str, float]:
    """Of the samples that the two predict otherwise, (n,) classes: how the pool takes sides. Only
    these can make a gain or a loss."""
    where = np.flatnonzero(after != before)
    if not len(where):
        return {"for-after": 0.0, "for-before": 0.0, "margin": 0.0, "margin-sure": 0.0}
    said = found.pooled[where].argmax(axis=1)
    held = found.pooled[where, after[where]] - found.pooled[where, before[where]]
    return {
        "for-after": float((said == after[where]).mean()),
        "for-before": float((said == before[where]).mean()),
        "margin": float(held.mean()),
        "margin-sure": float(np.where(np.abs(held) > SURE, np.sign(held), 0.0).mean()),
    }


def pair_of(evidence: Evidence, found: Consensus) -> dict[str, float]:
    """Of the consensus alone: what it is worth on this pair of domains."""
    classes = found.pooled.shape[1]
    said = found.pooled.argmax(axis=1)
    by_source = np.array(["source's scale" in one.name for one in found.opinions])
    scales = [_pooled_of(found, which) for which in (~by_source, by_source) if which.any()]
    source = shares_of(given(evidence.source_labels), classes)
    return {
        "competence": found.competence,
        "agreement": found.agreement,
        "sureness": found.sureness,
        "steadiness": found.steadiness,
        "most-reliable": float(found.reliability.max()),
        # share that opinions in each domain's own scale and in the source's say the same of
        "scales-agree": float((scales[0] == scales[-1]).mean()),
        # total variation distance of its classes' shares to the source's
        "pool-shares": float(np.abs(shares_of(said, classes) - source).sum() / 2),
    }


def _pooled_of(found: Consensus, which: Array) -> Array:
    said = [one.probabilities for one, asked in zip(found.opinions, which, strict=True) if asked]
    classes: Array = pooled(said, found.reliability[which] ** 2 + 1e-6).argmax(axis=1)
    return classes


def network_signs(evidence: Evidence) -> dict[str, float]:
    """Every sign of one network, their names ending in `-after`, and those of the pair; it needs
    labelled source samples."""
    predicted = evidence.target_logits.argmax(axis=1)
    signs, found = confidence_signs(evidence), consensus_on(evidence)
    if found is not None:
        signs |= consensus_signs(predicted, found)
    named = {f"{key}-after": value for key, value in signs.items()}
    named["classes"] = float(evidence.target_logits.shape[1])
    return named if found is None else named | pair_of(evidence, found)


def comparison_signs(after: Evidence, before: Evidence) -> dict[str, float]:
    """Every sign of a gain of `after` over `before`; both need labelled source samples."""
    one, other = after.target_logits.argmax(axis=1), before.target_logits.argmax(axis=1)
    signs = {
        "differing": float((one != other).mean()),
        "target-samples": float(len(one)),
        "source-samples": float(len(given(after.source_labels))),
        **network_signs(after),
    }
    found, of_other = consensus_on(after), confidence_signs(before)
    if found is not None:
        of_other |= consensus_signs(other, found)
        signs |= vote_signs(one, other, found) | disputed_signs(one, other, found)
    return signs | {f"{key}-before": value for key, value in of_other.items()}
