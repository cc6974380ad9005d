"""Scores of a model by name, label-free: the higher, the better. None reads a target label.

score("mutual-information", evidence)
available_scores(evidence)     # every score that the evidence suffices for
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from revgrad.diagnostics.accuracy_estimate import OPINION_NEEDS, estimate_accuracy, opinion_on
from revgrad.diagnostics.certainty import (
    agreement,
    class_balance,
    effective_invariance,
    mutual_information,
    negative_entropy,
    prediction_nuclear_norm,
    seed_agreement,
    soft_neighbourhood_density,
    source_error,
    source_losses,
    stability,
)
from revgrad.diagnostics.divergence import (
    DomainSeparation,
    adaptation_bound,
    domain_separation,
    own_domain_error,
)
from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.importance import (
    deep_embedded_risk,
    density_ratios,
    importance_weighted_risk,
)
from revgrad.diagnostics.inputs import Array, given
from revgrad.diagnostics.trust import trust
from revgrad.errors import InputError, unknown

#: The score that choices are made by where none is named: the least regret of those that
#: `studies/trust` compares on nine kinds of data.
RECOMMENDED_SCORE = "trust"

_TARGET = ("target_logits",)
_BOTH_FEATURES = ("source_features", "target_features")


@dataclass(frozen=True)
class Score:
    """A function of evidence, the fields of `Evidence` that it needs, what a high one says, and
    where it comes from."""

    function: Callable[[Evidence], float]
    needs: tuple[str, ...]
    says: str
    reference: str


def score(name: str, evidence: Evidence) -> float:
    """One of `SCORES`; higher is better."""
    if name not in SCORES:
        raise unknown("score", name, SCORES)
    if missing := evidence.missing(*SCORES[name].needs):
        raise InputError(f"the score '{name}' needs {', '.join(missing)}")
    return SCORES[name].function(evidence)


def available_scores(evidence: Evidence) -> dict[str, float]:
    """Every score that the evidence suffices for, by name."""
    return {
        name: entry.function(evidence)
        for name, entry in SCORES.items()
        if evidence.has(*entry.needs)
    }


def _source(evidence: Evidence) -> tuple[Array, Array]:
    return given(evidence.source_logits), given(evidence.source_labels)


def _bounded(evidence: Evidence, separation: DomainSeparation) -> float:
    return -adaptation_bound(source_error(*_source(evidence)), separation).value


def _agreement(evidence: Evidence) -> float:
    return agreement(evidence.target_logits, opinion_on(evidence).probabilities)


def _estimate(evidence: Evidence) -> float:
    return given(estimate_accuracy(evidence)).value


def _ratios(evidence: Evidence) -> Array:
    return density_ratios(given(evidence.source_features), given(evidence.target_features))


#: Every score by name.
SCORES: dict[str, Score] = {
    "trust": Score(
        trust,
        (*_TARGET, *LABELLED_SOURCE),
        "classifiers of the inputs agree, where they know the target; the source is still known, "
        "and its classes are predicted",
        "studies/trust",
    ),
    "estimated-accuracy": Score(
        _estimate,
        (*_TARGET, *LABELLED_SOURCE),
        "many target samples are probably right: most of all, a second opinion agrees",
        "ours, see docs/selection.md",
    ),
    "second-opinion": Score(
        _agreement,
        (*_TARGET, *OPINION_NEEDS),
        "target samples are predicted as by a classifier that shares nothing with the network",
        "ours; the idea of independent views is Blum and Mitchell's, 1998",
    ),
    "source-error": Score(
        lambda e: -source_error(*_source(e)),
        LABELLED_SOURCE,
        "few errors on held-out source samples; it does not look at the target",
        "the plain baseline",
    ),
    "paper-rule": Score(
        lambda e: _bounded(
            e, own_domain_error(given(e.source_domain_logits), given(e.target_domain_logits))
        ),
        (*LABELLED_SOURCE, "source_domain_logits", "target_domain_logits"),
        "low source error and high error of the run's own domain classifier, added as in §3.3",
        "Ganin and Lempitsky 2015, §4 and §3.3",
    ),
    "bound": Score(
        lambda e: _bounded(
            e, domain_separation(given(e.source_features), given(e.target_features))
        ),
        (*LABELLED_SOURCE, *_BOTH_FEATURES),
        "low source error and features that a fresh domain classifier can't tell apart",
        "Ben-David et al. 2007; Ganin and Lempitsky 2015, §3.3",
    ),
    "negative-entropy": Score(
        lambda e: negative_entropy(e.target_logits),
        _TARGET,
        "target samples are predicted with certainty",
        "Morerio et al. 2018",
    ),
    "mutual-information": Score(
        lambda e: mutual_information(e.target_logits),
        _TARGET,
        "target samples are predicted with certainty, and as many classes",
        "Bridle et al. 1991; Shi and Sha 2012",
    ),
    "neighbourhood-density": Score(
        lambda e: soft_neighbourhood_density(e.target_logits),
        _TARGET,
        "target samples have many others that are predicted the same way",
        "Saito et al. 2021",
    ),
    "nuclear-norm": Score(
        lambda e: prediction_nuclear_norm(e.target_logits),
        _TARGET,
        "target predictions are certain and varied",
        "Cui et al. 2020",
    ),
    "effective-invariance": Score(
        lambda e: float(
            effective_invariance(e.target_logits, given(e.target_changed_logits)).mean()
        ),
        (*_TARGET, "target_changed_logits"),
        "predictions stay, and stay certain, when an image is changed a little",
        "Deng et al. 2022",
    ),
    "importance-weighted": Score(
        lambda e: -importance_weighted_risk(source_losses(*_source(e)), _ratios(e)),
        (*LABELLED_SOURCE, *_BOTH_FEATURES),
        "few errors on the held-out source samples that look like the target's",
        "Sugiyama et al. 2007, weights normalised",
    ),
    "dev": Score(
        lambda e: -deep_embedded_risk(source_losses(*_source(e), "cross-entropy"), _ratios(e)),
        (*LABELLED_SOURCE, *_BOTH_FEATURES),
        "low loss on the held-out source samples that look like the target's, variance reduced",
        "You et al. 2019",
    ),
    "class-balance": Score(
        lambda e: class_balance(e.target_logits, given(e.source_labels)),
        (*_TARGET, "source_labels"),
        "classes are predicted on the target as often as they occur in the source",
        "total variation of the two distributions",
    ),
    "source-only-agreement": Score(
        lambda e: agreement(e.target_logits, given(e.source_only_logits)),
        (*_TARGET, "source_only_logits"),
        "target samples are predicted as by the source-only network",
        "share of equal predictions",
    ),
    "stability": Score(
        lambda e: stability((*e.checkpoint_logits, e.target_logits)),
        (*_TARGET, "checkpoint_logits"),
        "predictions on the target no longer change from checkpoint to checkpoint",
        "share of equal predictions",
    ),
    "seed-agreement": Score(
        lambda e: seed_agreement((e.target_logits, *e.seed_logits)),
        (*_TARGET, "seed_logits"),
        "trainings that differ in their seed only predict the target alike",
        "Jiang et al. 2022",
    ),
}
