"""Objectives as sums: L_y plus terms that share one pass of the network.

A `Term` is a function of a `Pass`, the features and outputs of all samples of a batch. `Terms`
adds any number of them to the label loss:

    adapt(…, method=Terms((Reversal(), ClassConfusion(weight=0.5))))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from revgrad.adapter import DomainAdapter
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.objectives.losses import Losses, domain_loss, mean_label_loss
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, cross_entropy


class Pass(NamedTuple):
    """One pass of a batch of n samples through the network, which all terms of a step share."""

    adapter: DomainAdapter
    batch: Batch
    features: Tensor  # (n, …), of the attached layer
    outputs: Tensor  # (n, classes), of the network
    factor: float | Tensor  # λ


class TermLoss(NamedTuple):
    """A term of one step: `value` is minimised with λ and its weight inside, the rest is shown."""

    value: Tensor
    shown: Tensor
    domain_logits: Tensor | None = None


class Term(Protocol):
    """What is minimised beside the label loss."""

    def __call__(self, seen: Pass) -> TermLoss: ...


@runtime_checkable
class NeedsHead(Protocol):
    """A term or objective whose head in the domain classifier's place is one of its own."""

    def make_head(
        self, features: int, outputs: int, hidden: tuple[int, ...], seed: int
    ) -> nn.Module | None:
        """The head for `features` numbers a sample of a network with `outputs` outputs."""
        ...


@dataclass(frozen=True)
class Terms:
    """L_y + the sum of the terms' values. For networks that give one vector of class scores.

    At most one term can have a head of its own in the domain classifier's place.

    Attributes
    ----------
    terms
        each with a weight of its own
    label_loss
        (predictions, labels) → loss; the task's by default

    Examples
    --------
    >>> method = revgrad.Terms((revgrad.Reversal(), revgrad.ClassConfusion(weight=0.5)))
    """

    terms: tuple[Term, ...]
    label_loss: LabelLoss = cross_entropy

    def __post_init__(self) -> None:
        if not self.terms:
            raise InputError("a sum of terms needs one term or more, such as Reversal()")
        object.__setattr__(self, "terms", tuple(self.terms))
        heads = [type(term).__name__ for term in self.terms if _uses_head(term)]
        if len(heads) > 1:
            raise InputError(
                f"{' and '.join(heads)} each train the domain classifier: one of them at a time"
            )

    def make_head(
        self, features: int, outputs: int, hidden: tuple[int, ...], seed: int
    ) -> nn.Module | None:
        """The head of the term that has one of its own; None: a plain domain classifier."""
        for term in self.terms:
            if isinstance(term, NeedsHead):
                return term.make_head(features, outputs, hidden, seed)
        return None

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, outputs = adapter(batch, every_sample=True)
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] < 2:
            raise InputError(
                f"{', '.join(type(term).__name__ for term in self.terms)}: for classes; the "
                "network must give a vector of two or more class scores a sample"
            )
        seen = Pass(adapter, batch, features, outputs, factor)
        found = [term(seen) for term in self.terms]
        predictions = outputs[batch.labelled_samples] if batch.labelled_count else None
        label = mean_label_loss(self.label_loss, predictions, batch)
        total = sum((one.value for one in found[1:]), start=found[0].value)
        shown = sum((one.shown for one in found[1:]), start=found[0].shown)
        logits = next((one.domain_logits for one in found if one.domain_logits is not None), None)
        return Losses(
            total=total if label is None else label + total,
            label=None if label is None else label.detach(),
            domain=shown.detach(),
            domain_logits=None if logits is None else logits.detach(),
        )


@dataclass(frozen=True)
class Reversal:
    """L_d(G_d(R_wλ(G_f(x)))), gradient reversal (DANN) as a term; `weight` is w."""

    sums_over_samples: ClassVar[bool] = True

    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self.weight)

    def __call__(self, seen: Pass) -> TermLoss:
        reversed_features = reverse_gradient(seen.features, self.weight * seen.factor)
        logits = seen.adapter.domain_classifier(reversed_features)
        loss = domain_loss(logits, seen.batch.domains, seen.batch.total_samples)
        return TermLoss(loss, loss, logits)


def check_weight(weight: float) -> None:
    """A term's weight is 0 or more, and finite."""
    if not 0 <= weight < float("inf"):
        raise InputError(f"the weight of a term must be 0 or more, not {weight}")


def _uses_head(term: Term) -> bool:
    return isinstance(term, Reversal | NeedsHead)
