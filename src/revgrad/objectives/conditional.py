"""Conditional domain-adversarial networks (CDAN, Long et al. 2018): the domain classifier sees
features together with the predicted classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad._distributed import sum_over_processes
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.objectives.losses import prediction_entropy
from revgrad.objectives.terms import Pass, TermLoss, check_weight
from revgrad.reversal import reverse_gradient

#: Features times classes above this are projected at random, as in the paper.
LARGEST_PRODUCT = 4096
#: Numbers of the random projection.
PROJECTED = 1024


class ConditionalDomainClassifier(nn.Module):
    """(n, …) features and (n, classes) probabilities → (n,) logits of "target", or (n, domains).

    Its input is the outer product of both, f ⊗ p; where that has more than 4,096 numbers, a random
    projection of it to 1,024, (R_f f) ⊙ (R_p p) / √1024, whose inner products are the outer
    product's in expectation (their eq. 6). R_f and R_p are standard normal, made from the seed,
    and never trained.
    """

    feature_projection: Tensor | None
    class_projection: Tensor | None

    def __init__(
        self, features: int, classes: int, hidden: Sequence[int], seed: int = 0, domains: int = 2
    ) -> None:
        super().__init__()
        self.classes = classes
        self.hidden = tuple(hidden)
        wide = features * classes
        projected = wide > LARGEST_PRODUCT
        generator = torch.Generator().manual_seed(seed)
        for name, width in (("feature_projection", features), ("class_projection", classes)):
            matrix = torch.randn(width, PROJECTED, generator=generator) if projected else None
            self.register_buffer(name, matrix)
        width = PROJECTED if projected else wide
        self.classifier = DomainClassifier(width, hidden, domains, seed)

    def forward(self, features: Tensor, probabilities: Tensor) -> Tensor:
        return self.classifier(self.joined(features.flatten(1), probabilities))  # type: ignore[no-any-return]

    def joined(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """f ⊗ p of each sample, flattened, or its random projection."""
        if self.feature_projection is None or self.class_projection is None:
            return (features[:, :, None] * probabilities[:, None, :]).flatten(1)
        one, other = features @ self.feature_projection, probabilities @ self.class_projection
        return one * other / math.sqrt(PROJECTED)


@dataclass(frozen=True)
class ConditionalReversal:
    """L_d(G_d(R_λ(G_f(x)) ⊗ p)), with p the predicted probabilities (CDAN).

    No gradient flows through p, as in the authors' code.

    Attributes
    ----------
    weight
        of the term
    sure_first
        CDAN+E as the paper prints it: each sample weighs 1 + e^{−H(p)}, so that samples
        whose class is sure align first; each domain's weights sum to its number of samples.
        Other packages call CDAN+E what minimises the entropy of target predictions as
        well: for that, add the term `PredictionEntropy()`.
    """

    weight: float = 1.0
    sure_first: bool = False

    def __post_init__(self) -> None:
        check_weight(self.weight)

    def make_head(
        self, features: int, outputs: int, hidden: tuple[int, ...], seed: int
    ) -> nn.Module:
        """The domain classifier of features ⊗ probabilities."""
        return ConditionalDomainClassifier(features, outputs, hidden, seed)

    def __call__(self, seen: Pass) -> TermLoss:
        batch = seen.batch
        probabilities = seen.outputs.detach().softmax(1)
        features = reverse_gradient(seen.features, self.weight * seen.factor)
        logits = seen.adapter.domain_classifier(features, probabilities)
        losses = F.binary_cross_entropy_with_logits(
            logits, batch.domains.to(logits.dtype), reduction="none"
        )
        if self.sure_first:
            losses = losses * self._weights(seen)
        loss = losses.sum() / batch.total_samples
        return TermLoss(loss, loss, logits)

    def _weights(self, seen: Pass) -> Tensor:
        """(n,): 1 + e^{−H}, scaled so that each domain's sum to its samples, over all processes."""
        raw = 1 + (-prediction_entropy(seen.outputs.detach())).exp()
        sums = raw.new_zeros(len(seen.batch.total_sizes)).index_add(0, seen.batch.domains, raw)
        counts = raw.new_tensor(seen.batch.total_sizes)
        return raw * (counts / sum_over_processes(sums))[seen.batch.domains]


@dataclass(frozen=True)
class PredictionEntropy:
    """w λ H(p), the mean entropy of the unlabelled samples' predictions (Grandvalet & Bengio)."""

    weight: float = 0.1

    def __post_init__(self) -> None:
        check_weight(self.weight)

    def __call__(self, seen: Pass) -> TermLoss:
        batch = seen.batch
        count = max(batch.total_samples - batch.total_labelled, 1)
        entropy = prediction_entropy(seen.outputs[~batch.labelled]).sum() / count
        return TermLoss(self.weight * seen.factor * entropy, entropy.new_zeros(()))
