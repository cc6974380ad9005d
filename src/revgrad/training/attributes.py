"""Attributes in a training: what adversaries are up against, and what they must not be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from revgrad.adapter import DomainAdapter
from revgrad.domains.attributes import DOMAIN, SharedAttribute
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.objectives import Adversaries, Adversary, Objective
from revgrad.objectives.adversaries import LARGEST_ERROR
from revgrad.training.paired_batches import PairedBatches


@dataclass(frozen=True)
class DescribedAdversary:
    """An adversary as a run's configuration records it.

    Attributes
    ----------
    name
        of the adversary in records
    values
        the categories; None: the attribute is a number
    guessing_loss, guessing_score
        its loss and its share of right answers where it learned nothing but how often each
        category is drawn; of a number, the share of variance explained, 0
    """

    name: str
    attribute: str
    layer: str
    factor: float
    conditional: str | None
    values: list[str] | None
    guessing_loss: float
    guessing_score: float


def described_adversaries(
    objective: Objective, adapter: DomainAdapter, batches: PairedBatches
) -> list[DescribedAdversary]:
    """Every adversary of a training; none where it is the one domain classifier of a source and a
    target.

    Attributes that are the label are refused, and "domain" where there is one domain only.
    """
    count = len(batches.domains)
    if isinstance(objective, Adversaries):
        adversaries, names = objective.adversaries, objective.names
        if any(one.attribute == DOMAIN for one in adversaries) and count < 2:
            raise InputError(
                f"the adversary of '{DOMAIN}' needs two domains or more: give a target, or name "
                "another attribute"
            )
        if objective.is_plain and count == 2 and batches.sources == 1:
            return []
    elif count > 2 and getattr(adapter.domain_classifier, "domains", 0) == count:
        adversaries, names = (Adversary(layer=adapter.layer),), (DOMAIN,)
    else:
        return []
    for one in adversaries:
        if one.attribute != DOMAIN:
            _refuse_label(batches.attributes[one.attribute], batches.domains)
    return [
        _described(one, name, layer, batches)
        for one, name, layer in zip(adversaries, names, adapter.head_layers, strict=True)
    ]


def _described(
    adversary: Adversary, name: str, layer: str, batches: PairedBatches
) -> DescribedAdversary:
    if adversary.attribute == DOMAIN:
        values = [domain.name for domain in batches.domains]
        shares = np.array(batches.sizes) / sum(batches.sizes)
    else:
        shared = batches.attributes[adversary.attribute]
        values, shares = list(shared.names or ()), np.array(shared.shares)
    if values:
        loss, score = float(-(shares * np.log(shares)).sum()), float(shares.max())
    else:
        loss, score = _mean_loss_of_the_mean(shared, batches), 0.0
    about = (adversary.attribute, layer, adversary.factor, adversary.conditional)
    return DescribedAdversary(name, *about, values or None, loss, score)


def _mean_loss_of_the_mean(shared: SharedAttribute, batches: PairedBatches) -> float:
    """The loss of a head that always says the mean."""
    losses, weights = [], []
    for values, size in zip(shared.values, batches.sizes, strict=True):
        errors = np.abs(values[~np.isnan(values)])
        straight = LARGEST_ERROR * (errors - LARGEST_ERROR / 2)
        losses.append(np.where(errors < LARGEST_ERROR, errors**2 / 2, straight))
        weights.append(np.full(len(errors), size / len(values)))
    return float(np.average(np.concatenate(losses), weights=np.concatenate(weights)))


def _refuse_label(shared: SharedAttribute, domains: list[Domain]) -> None:
    """An InputError where the attribute is the label under another name: what takes it out of the
    features takes out what is to be learned."""
    labels, values = [], []
    for domain, own in zip(domains, shared.values, strict=True):
        if domain.labels is None or domain.labels.ndim != 1:
            continue
        known = (own >= 0 if own.dtype.kind == "i" else ~np.isnan(own)) & domain.labelled
        labels.append(domain.labels[known])
        values.append(own[known])
    if not labels or len(np.unique(told := np.concatenate(values))) < 2:
        return
    known_labels = np.concatenate(labels)
    if shared.names is None or known_labels.dtype.kind == "f":
        same = shared.names is None and abs(np.corrcoef(told, known_labels)[0, 1]) > 1 - 1e-9
    else:
        pairs = len(np.unique(np.stack([told, known_labels]), axis=1).T)
        same = pairs == len(np.unique(told)) == len(np.unique(known_labels))
    if same:
        raise InputError(
            f"attribute '{shared.name}' equals the label: an adversary of it would take out of the "
            "features what is to be learned; leave it out, or name another attribute"
        )
