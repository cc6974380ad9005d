"""Objectives: a step minimises a function of (adapter, batch, λ) that returns `Losses`.

Every loss is this process's sum divided by the count over all processes, so that processes may
hold unequal numbers of samples or labels, and their losses add up. L_y averages the labelled
samples, L_d all samples (the paper's equations sum over both; any implementation averages).
"""

from __future__ import annotations

from collections.abc import Callable

from revgrad.objectives.adversarial import Adversarial, AdversarialEntropy
from revgrad.objectives.adversaries import Adversaries, Adversary
from revgrad.objectives.class_confusion import ClassConfusion
from revgrad.objectives.conditional import ConditionalReversal, PredictionEntropy
from revgrad.objectives.consistency import AdversarialConsistency
from revgrad.objectives.information import InformationMaximisation
from revgrad.objectives.losses import (
    AdversaryLoss,
    Losses,
    Objective,
    domain_decisions,
    domain_loss,
    prediction_entropy,
)
from revgrad.objectives.margin_disparity import MarginDisparity
from revgrad.objectives.moment_matching import CovarianceMatching, KernelMatching, MeanMatching
from revgrad.objectives.noise import Noise
from revgrad.objectives.partial import PartialAdversarial
from revgrad.objectives.stabilised import Stabilised
from revgrad.objectives.supervised import Supervised
from revgrad.objectives.terms import NeedsHead, Pass, Reversal, Term, TermLoss, Terms
from revgrad.objectives.two_losses import TwoLosses
from revgrad.tasks.losses import LabelLoss, cross_entropy, squared_error

__all__ = [
    "CORRELATION",
    "FOR_CLASSES",
    "OBJECTIVES",
    "ONE_DOMAIN",
    "TWO_DOMAINS",
    "WITH_ADVERSARIES",
    "Adversarial",
    "AdversarialConsistency",
    "AdversarialEntropy",
    "Adversaries",
    "Adversary",
    "AdversaryLoss",
    "ClassConfusion",
    "ConditionalReversal",
    "CovarianceMatching",
    "InformationMaximisation",
    "KernelMatching",
    "LabelLoss",
    "Losses",
    "MarginDisparity",
    "MeanMatching",
    "NeedsHead",
    "Noise",
    "Objective",
    "PartialAdversarial",
    "Pass",
    "PredictionEntropy",
    "Reversal",
    "Stabilised",
    "Supervised",
    "Term",
    "TermLoss",
    "Terms",
    "TwoLosses",
    "cross_entropy",
    "domain_decisions",
    "domain_loss",
    "prediction_entropy",
    "squared_error",
]

#: Weight of the correlation of features and attribute in the method "removal".
CORRELATION = 2.0

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
    "coral": lambda loss: CovarianceMatching(loss),
    "cdan": lambda loss: Terms((ConditionalReversal(),), loss),
    "cdan-e": lambda loss: Terms((ConditionalReversal(sure_first=True),), loss),
    "mcc": lambda loss: Terms((ClassConfusion(),), loss),
    "dann-mcc": lambda loss: Terms((Reversal(), ClassConfusion()), loss),
    "mdd": lambda loss: Terms((MarginDisparity(),), loss),
    "partial": lambda loss: PartialAdversarial(loss),
    "removal": lambda loss: Adversaries((Adversary(),), loss, correlation=CORRELATION),
}

#: Methods that ask for the class of unlabelled samples.
FOR_CLASSES = frozenset(
    {
        *("adversarial-entropy", "adversarial-consistency"),
        *("cdan", "cdan-e", "mcc", "dann-mcc", "mdd", "partial"),
    }
)

#: Methods for one source and one target; the others take several of each.
TWO_DOMAINS = frozenset({"cdan", "cdan-e", "two-losses"})

#: Methods that several adversaries can take the place of the domain classifier in.
WITH_ADVERSARIES = ("adversarial", "stabilised", "removal")

#: Methods that train on one domain: the lower and the upper bound of Table 1.
ONE_DOMAIN = frozenset({"source-only", "train-on-target"})
