"""A few labelled samples of every class: the labelled source of small benchmarks."""

from __future__ import annotations

import logging

import numpy as np

from revgrad.domains.domain import Domain
from revgrad.errors import InputError

log = logging.getLogger("revgrad")


def few_per_class(domain: Domain, per_class: int, seed: int) -> tuple[Domain, Domain | None]:
    """(`per_class` random samples of each class, all others), the same for the same seed.

    A class with fewer samples gives all it has, with a note. The others are None where there are
    none.
    """
    if per_class < 1:
        raise InputError(f"at least one image per class, not {per_class}")
    if domain.labels is None or not domain.is_classification:
        raise InputError(f"{domain.name} has no class labels to choose source images by")
    chosen, few = [], []
    for label in range(domain.class_count or 0):
        members = np.flatnonzero(domain.labelled & (domain.labels == label))
        if len(members) < per_class:
            few.append(domain.classes[label] if domain.classes else str(label))
        chosen.append(np.random.default_rng([seed, label]).permutation(members)[:per_class])
    if few:
        log.info("%s: fewer than %d images of %s", domain.name, per_class, ", ".join(few))
    drawn = np.sort(np.concatenate(chosen))
    others = np.setdiff1d(np.arange(len(domain)), drawn)
    held_out = domain.subset(others, f"{domain.name} (held out)") if len(others) else None
    return domain.subset(drawn), held_out
