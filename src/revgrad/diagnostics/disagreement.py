"""Disagreement discrepancy: a bound on the target error that nearly always holds.

Rosenfeld and Garg 2023 ("(Almost) provable error bounds under distribution shift via disagreement
discrepancy"): a critic on the network's own features is trained to agree with it on the source and
to disagree on the target as much as it can. If no critic of its kind disagrees with the truth more
than the one found, the target error is at most

    error on held-out source + (disagreement on target − on source)
    + √((n_S + 4 n_T) ln(1/δ) / (2 n_S n_T)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad.diagnostics.evidence import LABELLED_SOURCE, Evidence
from revgrad.diagnostics.inputs import Array, given

#: One in so many bounds may fail by chance alone.
FAILURES = 0.01
#: Fits of the critic: so many steps of L-BFGS.
CRITIC_STEPS = 60
NEEDS = ("source_features", "target_features", *LABELLED_SOURCE)


@dataclass(frozen=True)
class AccuracyBound:
    """The target accuracy is `value` at least.

    Attributes
    ----------
    discrepancy
        disagreement of critic and network on the target, less that on the source
    slack
        room for the draw of the samples
    """

    value: float
    source_accuracy: float
    discrepancy: float
    slack: float


def accuracy_bound(evidence: Evidence, failures: float = FAILURES) -> AccuracyBound:
    """The bound for a network's evidence: it needs features, and labelled source samples."""
    source, target = given(evidence.source_features), given(evidence.target_features)
    said_source = given(evidence.source_logits).argmax(axis=1)
    said_target = evidence.target_logits.argmax(axis=1)
    right = float((said_source == given(evidence.source_labels)).mean())
    found = disagreement_discrepancy(
        source, said_source, target, said_target, evidence.target_logits.shape[1]
    )
    slack = slack_of(len(source), len(target), failures)
    return AccuracyBound(float(np.clip(right - found - slack, 0, 1)), right, found, slack)


def slack_of(source: int, target: int, failures: float) -> float:
    """√((n_S + 4 n_T) ln(1/δ) / (2 n_S n_T))."""
    return float(np.sqrt((source + 4 * target) * np.log(1 / failures) / (2 * source * target)))


def disagreement_discrepancy(
    source_features: Array,
    source_said: Array,
    target_features: Array,
    target_said: Array,
    classes: int,
) -> float:
    """Largest found of (share of target samples that a linear critic predicts otherwise than the
    network) − (the same on source samples), at least 0: the network itself is a critic."""
    both = np.concatenate([source_features, target_features])
    spread = both.std(axis=0)
    keep = spread > 1e-9
    scaled = (both[:, keep] - both[:, keep].mean(axis=0)) / spread[keep]
    values = torch.from_numpy(np.clip(scaled, -10, 10)).float()
    own, other = values[: len(source_features)], values[len(source_features) :]
    said, said_other = (torch.from_numpy(part).long() for part in (source_said, target_said))
    best = 0.0
    for start in (0, 1):
        weights, offset = _critic(own, said, other, said_other, classes, start)
        one = float(((own @ weights + offset).argmax(1) != said).float().mean())
        two = float(((other @ weights + offset).argmax(1) != said_other).float().mean())
        best = max(best, two - one)
    return best


def _critic(
    own: Tensor, said: Tensor, other: Tensor, said_other: Tensor, classes: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Linear weights (d, classes) and offset: agreement by cross-entropy, disagreement by the mean
    log of what other classes have on average over the network's (the paper's eq. 6)."""
    random = torch.Generator().manual_seed(seed)
    weights = (0.01 * torch.randn(own.shape[1], classes, generator=random)).requires_grad_()
    offset = torch.zeros(classes, requires_grad=True)
    fit = torch.optim.LBFGS([weights, offset], max_iter=CRITIC_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        fit.zero_grad()
        agree = F.cross_entropy(own @ weights + offset, said)
        found = other @ weights + offset
        here = found.gather(1, said_other[:, None])[:, 0]
        # log(1 + exp(network's logit − mean of the others')): small where the critic disagrees
        rest = (found.sum(1) - here) / (classes - 1)
        total = agree + F.softplus(here - rest).mean() + 1e-4 * weights.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    fit.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach(), offset.detach()
