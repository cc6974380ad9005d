"""Margin disparity discrepancy (MDD, Zhang et al. 2019): a second classifier as the adversary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import LinearReLU
from revgrad.objectives.terms import Pass, TermLoss, check_weight
from revgrad.reversal import reverse_gradient


class AdversarialClassifier(nn.Module):
    """(n, …) features → (n, classes) scores; trained to disagree with the network on the target."""

    def __init__(self, features: int, classes: int, hidden: Sequence[int], seed: int = 0) -> None:
        super().__init__()
        self.hidden = tuple(hidden)
        widths = [features, *hidden]
        layers = [LinearReLU(a, b) for a, b in pairwise(widths)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], classes))
        initialise(self, seed)

    def forward(self, features: Tensor) -> Tensor:
        return self.layers(features.flatten(1))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class MarginDisparity:
    """γ L(f', ŷ) on the source − log(1 − p_{f'}(ŷ)) on the target, behind gradient reversal.

    ŷ is the network's own predicted class. The adversarial classifier f' learns to agree with the
    network on the source and to disagree on the target, as far as the margin factor `margin`, γ,
    allows (the margin is log γ); the reversal makes the features such that it can't. Means are
    over each domain's samples.

    Attributes
    ----------
    weight
        of the whole term
    margin
        γ
    """

    weight: float = 1.0
    margin: float = 4.0

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if not 0 < self.margin < float("inf"):
            raise InputError(f"the margin factor must be above 0, not {self.margin}")

    def make_head(
        self, features: int, outputs: int, hidden: tuple[int, ...], seed: int
    ) -> nn.Module:
        """The adversarial classifier f'."""
        return AdversarialClassifier(features, outputs, hidden, seed)

    def __call__(self, seen: Pass) -> TermLoss:
        features = reverse_gradient(seen.features, self.weight * seen.factor)
        scores = seen.adapter.domain_classifier(features)
        if scores.shape != seen.outputs.shape:
            raise InputError(
                f"margin disparity needs an adversarial classifier of {seen.outputs.shape[1]} "
                f"outputs; this one gives {tuple(scores.shape[1:])}"
            )
        classes = seen.outputs.detach().argmax(1)
        source, target = seen.batch.source_and_target()
        agreed = F.cross_entropy(scores[source], classes[source], reduction="sum")
        differed = _log_otherwise(scores[target], classes[target]).sum()
        sizes = seen.batch.total_sources_and_targets
        loss = self.margin * agreed / sizes[0] - differed / sizes[1]
        return TermLoss(loss, loss)


def _log_otherwise(scores: Tensor, classes: Tensor) -> Tensor:
    """log(1 − softmax(scores)[class]) of each sample, without cancellation."""
    chosen = F.one_hot(classes, scores.shape[1]).bool()
    others = torch.logsumexp(scores.masked_fill(chosen, float("-inf")), dim=1)
    return others - torch.logsumexp(scores, dim=1)
