"""Which weights of a training without a target hold the least of the attributes that they are to
lose, by fresh classifiers on samples that were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from revgrad.diagnostics.attribute_evidence import AttributeEvidence, gather_attribute_evidence
from revgrad.diagnostics.evidence import ClassLogits
from revgrad.diagnostics.recovery import recover
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.domains.joined import joined

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer


class AttributeScore:
    """The share of labels that the network tells, less what the better of two fresh classifiers
    tells of an attribute above chance, of the attribute that they tell best: a point of accuracy
    for a point of the attribute.

    An adversary and the network chase each other: what is left of an attribute comes and goes from
    one evaluation to the next, and the last weights are as good as any. Labels and attributes are
    those of the training; no held-out sample is looked at, so that the verdict's samples are new.

    Parameters
    ----------
    sources
        that the network is trained on
    samples
        of all of them at most
    class_logits
        the network's outputs → (n, classes) logits; None: accuracy does not count
    """

    def __init__(
        self, sources: Sequence[Domain], *, samples: int, class_logits: ClassLogits | None
    ) -> None:
        each = max(samples // len(sources), 1)
        parts = [one.subset(drawn_indices(len(one), each)) for one in sources]
        self._domain = joined(parts)
        self._of = np.repeat(np.arange(len(parts)), [len(one) for one in parts])
        self._class_logits = class_logits

    def __repr__(self) -> str:
        return f"what fresh classifiers tell of {len(self._domain)} training samples"

    def __call__(self, trainer: Trainer, step: int) -> float:
        """Of what would be handed back now."""
        with trainer.as_returned():
            evidence = gather_attribute_evidence(
                trainer.adapter, trainer.adversaries, self._domain, self._of, self._class_logits
            )
        told = [
            above_chance(evidence, number, one.values is not None)
            for number, one in enumerate(trainer.adversaries)
        ]
        return share_of_labels(evidence) - max(told, default=0.0)


def above_chance(evidence: AttributeEvidence, number: int, categories: bool) -> float:
    """What fresh classifiers tell of an adversary's attribute; 0 where samples are too few."""
    values = evidence.values[number]
    known = ~np.isnan(values)
    told = values[known].astype(np.int64) if categories else values[known]
    found = recover(evidence.features[number][known], told, categories=categories)
    return 0.0 if found is None else max(found.above_chance, 0.0)


def share_of_labels(evidence: AttributeEvidence) -> float:
    """That are told right; 0 where there are none."""
    if evidence.predicted is None or evidence.labels is None:
        return 0.0
    labelled = evidence.labels >= 0
    return float((evidence.predicted[labelled] == evidence.labels[labelled]).mean())
