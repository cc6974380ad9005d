"""Vetoes: what rules out that a network has adapted, whatever an estimate of its accuracy says.

    for veto in find_vetoes(after, before):
        print(veto.name, veto.seen)

Three things that ruined networks show without any target label: they predict few of the classes,
their features hardly differ from sample to sample, or they have unlearned the source. Each is
measured beside the network that it is compared with: what that one shows too is no harm done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from revgrad.diagnostics.certainty import effective_classes, predicted_shares
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import Array, given, shares_of

VetoName = Literal["predictions collapsed", "features collapsed", "source forgotten"]
#: Variety of the predictions below which they have collapsed.
COLLAPSED_VARIETY = 0.25
#: Variety of a baseline that does poorly on the target.
POOR_VARIETY = 0.4
#: Share of its size that a feature vector varies by, below which features have collapsed.
COLLAPSED_SPREAD = 0.02
#: What has shrunk to less than this share of the baseline's has collapsed further than it.
SHRUNK = 0.67
#: Fall of the held-out source accuracy below the baseline's that counts, and how many standard
#: deviations it must be from none.
FORGOTTEN, STANDARD_DEVIATIONS = 0.1, 2.0


@dataclass(frozen=True)
class Veto:
    """`seen`: the numbers. `shared`: the baseline has collapsed as far; then it decides nothing."""

    name: VetoName
    seen: str
    shared: bool = False


def find_vetoes(after: Evidence, before: Evidence | None) -> tuple[Veto, ...]:
    """Every veto of a network beside what it is compared with; without that, of itself alone."""
    found = (check(after, before) for check in (_predictions, _features, _source))
    return tuple(veto for veto in found if veto is not None)


def variety(evidence: Evidence) -> float:
    """How many classes are predicted on the target beside the first, of those that the source has:
    (exp H(predicted) − 1) / (exp H(labels) − 1); 0 where there is but one, also of two classes."""
    shares = predicted_shares(evidence.target_logits)
    labels = evidence.source_labels
    expected = (
        float(len(shares)) if labels is None else effective_classes(shares_of(labels, len(shares)))
    )
    return (effective_classes(shares) - 1) / max(expected - 1, 1e-12)


def relative_spread(features: Array) -> float:
    """Root mean squared distance to the mean over root mean squared size: 0 for a constant."""
    size = float((features**2).sum(axis=1).mean())
    spread = float(features.var(axis=0).sum())
    return math.sqrt(spread / size) if size > 0 else 0.0


def spread(evidence: Evidence) -> float | None:
    """The smaller `relative_spread` of both domains' features; None where there are none."""
    if evidence.source_features is None or evidence.target_features is None:
        return None
    return min(
        relative_spread(part) for part in (evidence.source_features, evidence.target_features)
    )


def source_accuracy(evidence: Evidence) -> float:
    """Share of held-out source samples that are predicted right."""
    return float(_right(evidence).mean())


def source_fall(after: Evidence, before: Evidence) -> tuple[float, float]:
    """Fall of the held-out source accuracy, and its standard deviation: of a mean of paired
    differences where both are of the same samples (as in McNemar's test)."""
    one, other = _right(before), _right(after)
    if len(one) == len(other):
        differences = one - other
        return float(differences.mean()), float(differences.std() / math.sqrt(len(differences)))
    variances = [float(part.var()) / len(part) for part in (one, other)]
    return float(one.mean() - other.mean()), math.sqrt(sum(variances))


def _predictions(after: Evidence, before: Evidence | None) -> Veto | None:
    own = variety(after)
    if own >= COLLAPSED_VARIETY:
        return None
    shares = predicted_shares(after.target_logits)
    first = int(shares.argmax())
    below = None if before is None else variety(before)
    beside = "" if below is None else f"; the baseline's variety is {below:.2f}"
    return Veto(
        "predictions collapsed",
        f"{effective_classes(shares):.1f} of {len(shares)} classes are effectively predicted on "
        f"the target, class {first} for {shares[first]:.1%} of the samples (variety {own:.2f}"
        f"{beside})",
        # a baseline that itself predicts few classes is no better by predicting one more
        shared=below is not None and (own >= SHRUNK * below or below < POOR_VARIETY),
    )


def _features(after: Evidence, before: Evidence | None) -> Veto | None:
    own = spread(after)
    if own is None or own >= COLLAPSED_SPREAD:
        return None
    below = None if before is None else spread(before)
    beside = "" if below is None else f", the baseline's by {below:.2%}"
    return Veto(
        "features collapsed",
        f"features vary by {own:.2%} of their size from sample to sample{beside}",
        shared=below is not None and own >= SHRUNK * below,
    )


def _source(after: Evidence, before: Evidence | None) -> Veto | None:
    if before is None or not (after.has(*LABELLED_SOURCE) and before.has(*LABELLED_SOURCE)):
        return None
    fall, deviation = source_fall(after, before)
    if fall < max(FORGOTTEN, STANDARD_DEVIATIONS * deviation):
        return None
    return Veto(
        "source forgotten",
        f"held-out source accuracy {source_accuracy(after):.1%}, the baseline's "
        f"{source_accuracy(before):.1%}",
        # a baseline that knows the source alone and predicts few classes of the target is easily
        # beaten by a network that knows both a little
        shared=variety(before) < POOR_VARIETY,
    )


def _right(evidence: Evidence) -> Array:
    found: Array = (
        given(evidence.source_logits).argmax(axis=1) == given(evidence.source_labels)
    ).astype(float)
    return found
