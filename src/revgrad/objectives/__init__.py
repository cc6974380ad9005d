"""Objectives: a step minimises a function of (adapter, batch, λ) that returns `Losses`.

Every loss is this process's sum divided by the count over all processes, so that processes may
hold unequal numbers of samples or labels, and their losses add up. L_y averages the labelled
samples, L_d all samples (the paper's equations sum over both; any implementation averages).
"""

from __future__ import annotations

from collections.abc import Callable

from revgrad.objectives.adversarial import Adversarial, AdversarialEntropy
from revgrad.objectives.consistency import AdversarialConsistency
from revgrad.objectives.losses import (
    LabelLoss,
    Losses,
    Objective,
    cross_entropy,
    domain_decisions,
    domain_loss,
    prediction_entropy,
    squared_error,
)
from revgrad.objectives.moment_matching import KernelMatching, MeanMatching
from revgrad.objectives.stabilised import Stabilised
from revgrad.objectives.supervised import Supervised
from revgrad.objectives.two_losses import TwoLosses

__all__ = [
    "OBJECTIVES",
    "ONE_DOMAIN",
    "Adversarial",
    "AdversarialConsistency",
    "AdversarialEntropy",
    "KernelMatching",
    "LabelLoss",
    "Losses",
    "MeanMatching",
    "Objective",
    "Stabilised",
    "Supervised",
    "TwoLosses",
    "cross_entropy",
    "domain_decisions",
    "domain_loss",
    "prediction_entropy",
    "squared_error",
]

#: Objectives by the method's name: what `revgrad train --method` takes.
OBJECTIVES: dict[str, Callable[[LabelLoss], Objective]] = {
    "source-only": lambda loss: Supervised(loss),
    "train-on-target": lambda loss: Supervised(loss),
    "adversarial": lambda loss: Adversarial(loss),
    "adversarial-entropy": lambda loss: AdversarialEntropy(label_loss=loss),
    "adversarial-consistency": lambda loss: AdversarialConsistency(label_loss=loss),
    "stabilised": lambda loss: Stabilised(loss),
    "two-losses": lambda loss: TwoLosses("swapped", loss),
    "mean-matching": lambda loss: MeanMatching(loss),
    "kernel-matching": lambda loss: KernelMatching(loss),
}

#: Methods that train on one domain: the lower and the upper bound of Table 1.
ONE_DOMAIN = frozenset({"source-only", "train-on-target"})
