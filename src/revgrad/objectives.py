"""What a step minimises: an objective is a function of (adapter, batch, λ) that returns `Losses`.

Every loss is this process's sum divided by the count over all processes, so that processes may
hold unequal numbers of rows or labels, and their losses add up. L_y averages the labelled rows,
L_d all rows (the paper's equations sum over both; any implementation averages).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from revgrad.adapter import DomainAdapter
from revgrad.batches import Batch, select_rows
from revgrad.errors import InputError
from revgrad.processes import sum_over_processes, world_size
from revgrad.reversal import reverse_gradient

#: (predictions of the labelled rows, their labels) → a loss per row, or its mean over the rows.
LabelLoss = Callable[[Any, Tensor], Tensor]


class Losses(NamedTuple):
    """One step's losses; `total` is minimised, the rest is shown."""

    total: Tensor
    label: Tensor | None  # L_y, detached
    domain: Tensor | None  # L_d or another discrepancy of the domains, detached
    domain_logits: Tensor | None  # the domain classifier's output, detached


class Objective(Protocol):
    """Anything that turns a batch into losses."""

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses: ...


def cross_entropy(predictions: Tensor, labels: Tensor) -> Tensor:
    """Mean over the rows of the multinomial logistic loss, the paper's L_y (§4)."""
    return F.cross_entropy(predictions, labels)


def squared_error(predictions: Tensor, labels: Tensor) -> Tensor:
    """Squared error per row, for regression."""
    if predictions.numel() != labels.numel():
        raise InputError(
            f"the network's output has shape {tuple(predictions.shape)}, the labels "
            f"{tuple(labels.shape)}: the squared error needs one output per number of a label"
        )
    return (predictions.reshape(labels.shape) - labels).square()


@dataclass(frozen=True)
class Supervised:
    """L_y alone, on whichever rows have labels: source only, or train on target."""

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        if not batch.labelled_count:
            trained = (p for p in adapter.network.parameters() if p.requires_grad)
            nothing = next(trained).sum() * 0.0
            return Losses(nothing, None, None, None)
        inputs = batch.inputs
        if batch.prefix != len(batch.domains):
            inputs = select_rows(inputs, batch.labelled_rows)
        label = _label_loss(self.label_loss, adapter.predict(inputs), batch)
        assert label is not None
        return Losses(label, label.detach(), None, None)


@dataclass(frozen=True)
class Adversarial:
    """L_y + L_d(G_d(R_λ(G_f(x)))), the paper's pseudo-objective (§3.2).

    Its gradient gives the updates upd1–upd3: λ scales what reaches the feature extractor,
    and never the domain classifier's own gradient.
    """

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        logits = adapter.domain_classifier(reverse_gradient(features, factor))
        domain = domain_loss(logits, batch.domains, batch.total_rows)
        label = _label_loss(self.label_loss, predictions, batch)
        return _losses(label, domain, domain, logits)


@dataclass(frozen=True)
class TwoLosses:
    """Appendix A: the domain classifier minimises L_d+, the feature extractor L_d−.

    pair = "reversal": (L_d, −λ L_d), which gives the same updates as gradient reversal;
    pair = "swapped":  (L_d, λ L_d with the domains swapped), Goodfellow et al.'s, whose gradient
                       is stronger while the domains are easily told apart.
    """

    pair: Literal["reversal", "swapped"] = "swapped"
    label_loss: LabelLoss = cross_entropy

    def __post_init__(self) -> None:
        if self.pair not in ("reversal", "swapped"):
            raise InputError(f"TwoLosses takes the pair 'reversal' or 'swapped', not {self.pair!r}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        classifier = adapter.domain_classifier
        logits = classifier(features.detach())
        plus = domain_loss(logits, batch.domains, batch.total_rows)
        frozen = {name: value.detach() for name, value in classifier.named_parameters()}
        seen = functional_call(classifier, frozen, (features.clone(),))
        if self.pair == "reversal":
            minus = -domain_loss(seen, batch.domains, batch.total_rows)
        else:
            if seen.ndim != 1:
                raise InputError("the swapped-label pair is for two domains; use pair='reversal'")
            minus = domain_loss(seen, 1 - batch.domains, batch.total_rows)
        label = _label_loss(self.label_loss, predictions, batch)
        return _losses(label, plus + factor * minus, plus, logits)


@dataclass(frozen=True)
class MeanMatching:
    """L_y + λ ‖mean of source features − mean of target features‖² (DDC, Tzeng et al. 2014).

    No domain classifier takes part. The means are over all processes' rows.
    """

    label_loss: LabelLoss = cross_entropy

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        features, predictions = adapter(batch)
        flat = features.flatten(1)
        source, target, *_ = batch.domain_slices()
        sums = torch.stack([flat[source].sum(0), flat[target].sum(0)])
        counts = sums.new_tensor(batch.total_sizes[:2])[:, None]
        means = sum_over_processes(sums) / counts
        # every process computes the whole distance: its share of the sum over processes
        distance = (means[0] - means[1]).square().sum() / world_size()
        label = _label_loss(self.label_loss, predictions, batch)
        return _losses(label, factor * distance, distance, None)


#: Objectives by the method's name: what `revgrad train --method` takes.
OBJECTIVES: dict[str, Callable[[LabelLoss], Objective]] = {
    "source-only": lambda loss: Supervised(loss),
    "train-on-target": lambda loss: Supervised(loss),
    "adversarial": lambda loss: Adversarial(loss),
    "two-losses": lambda loss: TwoLosses("swapped", loss),
    "mean-matching": lambda loss: MeanMatching(loss),
}


#: Methods that train on one domain: the lower and the upper bound of Table 1.
ONE_DOMAIN = frozenset({"source-only", "train-on-target"})


def domain_loss(logits: Tensor, domains: Tensor, total: int) -> Tensor:
    """Sum over rows of the binomial cross-entropy of one logit (n,), or of k logits (n, k), divided
    by `total`, the number of rows of all processes."""
    alone = len(domains) == total  # a mean then; it costs one operation less than a sum divided
    reduction = "mean" if alone else "sum"
    if logits.ndim == 1:
        targets = domains.to(logits.dtype)
        value = F.binary_cross_entropy_with_logits(logits, targets, reduction=reduction)
    else:
        value = F.cross_entropy(logits, domains, reduction=reduction)
    return value if alone else value / total


def domain_decisions(logits: Tensor) -> Tensor:
    """The domain that each row's logits say."""
    return (logits > 0).long() if logits.ndim == 1 else logits.argmax(1)


def _label_loss(label_loss: LabelLoss, predictions: Any, batch: Batch) -> Tensor | None:
    """L_y of this process's labelled rows over all processes' count; None where it has none."""
    if predictions is None:
        return None
    labels = batch.labels[batch.labelled_rows]
    values = label_loss(predictions, labels)
    if values.ndim == 0:  # a mean over this process's rows
        share = len(labels) / batch.total_labelled
        return values if share == 1.0 else values * share
    if values.shape[0] != len(labels):
        raise InputError(
            f"the label loss gave shape {tuple(values.shape)} for {len(labels)} rows: it must "
            "return one value per row, or their mean"
        )
    per_row = values if values.ndim == 1 else values.flatten(1).mean(1)
    return per_row.sum() / batch.total_labelled


def _losses(label: Tensor | None, term: Tensor, shown: Tensor, logits: Tensor | None) -> Losses:
    """L_y plus the domains' `term`; `shown` is the domains' loss as people want to read it."""
    return Losses(
        total=term if label is None else label + term,
        label=None if label is None else label.detach(),
        domain=shown.detach(),
        domain_logits=None if logits is None else logits.detach(),
    )
