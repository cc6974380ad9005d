"""Several adversaries at once: each tells one attribute of the samples from one layer's features,
behind a gradient reversal of its own.

    adapt(network, source, target, adversaries=[Adversary(), Adversary("site", layer="pool2")])

The domain is an attribute like any other: the one that every two domains have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from revgrad._distributed import gather_samples, world_size
from revgrad._random import derive
from revgrad.adapter import Attachment, DomainAdapter, LayerOutputs
from revgrad.batch import Batch
from revgrad.domains.attributes import DOMAIN
from revgrad.errors import InputError
from revgrad.networks.domain_classifier import DomainClassifier, Normalisation
from revgrad.objectives.conditional import ConditionalDomainClassifier
from revgrad.objectives.losses import (
    AdversaryLoss,
    Losses,
    domain_decisions,
    domain_loss,
    mean_label_loss,
)
from revgrad.objectives.stabilised import learned_share, relative_loss
from revgrad.reversal import reverse_gradient
from revgrad.tasks.losses import LabelLoss, cross_entropy

#: From here on the loss of a number grows straight: the gradient of a sample never exceeds 1, as
#: that of a cross-entropy never does. What is reversed must not grow with how wrong a head is.
LARGEST_ERROR = 1.0
#: Added to what correlations are divided by: a feature that never changes has none.
NO_CHANGE = 1e-8


@dataclass(frozen=True)
class Adversary:
    """A head that tells an attribute from a layer's features, behind a reversal of its own.

    Attributes
    ----------
    attribute
        "domain", or the name of an attribute of the samples: of categories, a classifier of them;
        of numbers, a regression. Samples whose value is missing take no part
    layer
        where it is attached; None: the layer of `adapt`, or the network's own
    classifier
        hidden widths of the head, or a module of your own; None: as the domain classifier's
    factor
        its λ, as a multiple of the training's λ
    conditional
        "class": the head sees features together with classes, f ⊗ p as in CDAN, so that it can
        only tell what differs within a class. p is the label where all samples of a batch have one
        (the aim is then equalised odds), else the predicted probabilities of all samples

    Examples
    --------
    >>> heads = [revgrad.Adversary(), revgrad.Adversary("site", layer="pool1", factor=0.3)]
    >>> revgrad.adapt(network, source, target, adversaries=heads)  # doctest: +SKIP
    """

    attribute: str = DOMAIN
    layer: str | None = None
    classifier: Sequence[int] | nn.Module | None = None
    factor: float = 1.0
    conditional: Literal["class"] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or not self.attribute:
            raise InputError(f"an adversary names an attribute by text, not {self.attribute!r}")
        if not 0 <= self.factor < float("inf"):
            raise InputError(
                f"the factor of the adversary of '{self.attribute}' must be 0 or more, not "
                f"{self.factor}"
            )
        if self.conditional not in (None, "class"):
            raise InputError(f"conditional is 'class' or None, not {self.conditional!r}")
        if self.classifier is None or isinstance(self.classifier, nn.Module):
            return
        widths = tuple(self.classifier)
        if not all(isinstance(one, int) and one > 0 for one in widths):
            raise InputError(f"classifier takes hidden widths such as (100,), not {widths}")
        object.__setattr__(self, "classifier", widths)


def adversary_names(adversaries: Sequence[Adversary]) -> tuple[str, ...]:
    """What each is called in records: its attribute; with the layer, where it has several."""
    known = [one.attribute for one in adversaries]
    return tuple(
        one.attribute if known.count(one.attribute) == 1 else f"{one.attribute}@{one.layer}"
        for one in adversaries
    )


@dataclass(frozen=True)
class Adversaries:
    """L_y + Σ L_a(G_a(R_{w_a λ}(f_a))), f_a the features of the layer of adversary a.

    One pass of the network serves all of them. With the domain alone it is `Adversarial`, bit for
    bit.

    Attributes
    ----------
    learned
        where set, λ waits for the classes as in `Stabilised`
    correlation
        weight, beside λ and each adversary's factor, of `squared_correlation` of its features and
        its attribute: where that is 0, no linear classifier tells the attribute better than by
        guessing (Belrose et al. 2023). The conditional ones have none
    """

    adversaries: tuple[Adversary, ...]
    label_loss: LabelLoss = cross_entropy
    learned: float | None = None
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if not self.adversaries:
            raise InputError("adversaries is empty: one or more would do, such as Adversary()")
        strange = next((one for one in self.adversaries if not isinstance(one, Adversary)), None)
        if strange is not None:
            raise InputError(
                f"adversaries are Adversary(…), not {type(strange).__name__}: Adversary('site', "
                "layer=…) would do"
            )
        object.__setattr__(self, "adversaries", tuple(self.adversaries))
        places = [(one.attribute, one.layer) for one in self.adversaries]
        twice = next((one for one in places if places.count(one) > 1), None)
        if twice is not None:
            raise InputError(
                f"two adversaries of '{twice[0]}' at layer '{twice[1] or 'the same'}': one at each "
                "layer would do (a larger factor makes it count more)"
            )

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that batches must hold."""
        return tuple(dict.fromkeys(a.attribute for a in self.adversaries if a.attribute != DOMAIN))

    @property
    def names(self) -> tuple[str, ...]:
        """What each is called in records."""
        return adversary_names(self.adversaries)

    @property
    def is_plain(self) -> bool:
        """Whether it is one domain classifier, of which records hold L_d and its accuracy."""
        return [one.attribute for one in self.adversaries] == [DOMAIN]

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        conditional = any(one.conditional for one in self.adversaries)
        passed = adapter.at_every_layer(batch, every_sample=conditional)
        predictions = passed.predictions
        if conditional:
            predictions = predictions[batch.labelled_samples] if batch.labelled_count else None
        label = mean_label_loss(self.label_loss, predictions, batch)
        if self.learned is not None:
            relative = relative_loss(label, predictions, batch, passed.features)
            factor = factor * learned_share(relative, self.learned)
        found = [
            _told(one, head, passed.by_layer[layer], passed, batch, factor)
            for one, head, layer in zip(
                self.adversaries, adapter.heads, adapter.head_layers, strict=True
            )
        ]
        total = sum((one.loss for one in found[1:]), start=found[0].loss)
        if self.correlation:
            for one, layer in zip(self.adversaries, adapter.head_layers, strict=True):
                if not one.conditional:
                    distance = _correlation(one, passed.by_layer[layer], batch)
                    total = total + self.correlation * one.factor * factor * distance
        domain = next(
            (f for a, f in zip(self.adversaries, found, strict=True) if a.attribute == DOMAIN),
            None,
        )
        return Losses(
            total=total if label is None else label + total,
            label=None if label is None else label.detach(),
            domain=None if domain is None else domain.loss.detach(),
            domain_logits=None if domain is None else domain.logits.detach(),
            adversaries=() if self.is_plain else tuple(one.shown() for one in found),
        )


@dataclass(frozen=True)
class _Told:
    """What a head says of the samples whose value is known."""

    loss: Tensor
    logits: Tensor
    values: Tensor

    def shown(self) -> AdversaryLoss:
        logits = self.logits.detach()
        if self.values.is_floating_point():
            right = (1 - (logits - self.values).square()).sum()
        else:
            right = (domain_decisions(logits) == self.values).sum()
        return AdversaryLoss(self.loss.detach(), right, len(self.values))


def _told(
    adversary: Adversary,
    head: nn.Module,
    features: Tensor,
    passed: LayerOutputs,
    batch: Batch,
    factor: float | Tensor,
) -> _Told:
    """The loss of one adversary: a sum over this process's known samples over all processes'
    number of them."""
    values, total, known = _values(adversary, batch)
    if known is not None:
        features, values = features[known], values[known]
    reversed_features = reverse_gradient(features, adversary.factor * factor)
    if adversary.conditional:
        classes = _classes(passed.predictions, batch)
        logits = head(reversed_features, classes if known is None else classes[known])
    else:
        logits = head(reversed_features)
    if not values.is_floating_point():
        return _Told(domain_loss(logits, values, max(total, 1)), logits, values)
    logits = logits[:, 0] if logits.ndim == 2 else logits
    values = values.to(logits.dtype)
    loss = F.huber_loss(logits, values, reduction="sum", delta=LARGEST_ERROR) / max(total, 1)
    return _Told(loss, logits, values)


def _values(adversary: Adversary, batch: Batch) -> tuple[Tensor, int, Tensor | None]:
    """(n,) values, the known ones of all processes, and the mask of the known; None: all are."""
    if adversary.attribute == DOMAIN:
        return batch.domains, batch.total_samples, None
    if batch.attributes is None or batch.attribute_totals is None:
        raise InputError(f"the batch holds no attribute '{adversary.attribute}'")
    values = batch.attributes[adversary.attribute]
    total = batch.attribute_totals[adversary.attribute]
    if total == batch.total_samples:
        return values, total, None
    return values, total, ~values.isnan() if values.is_floating_point() else values >= 0


def _correlation(adversary: Adversary, features: Tensor, batch: Batch) -> Tensor:
    """`squared_correlation` over all processes' known samples: this process's share of it."""
    values, _, known = _values(adversary, batch)
    flat = features.flatten(1)
    if known is not None:
        flat, values = flat[known], values[known]
    flat, values = gather_samples(flat), gather_samples(values)
    if len(flat) < 2:
        return flat.sum() * 0
    if not values.is_floating_point():
        values = F.one_hot(values)
    elif values.ndim == 1:
        values = values[:, None]
    # every process computes the whole of it: its share of the sum over processes
    return squared_correlation(flat, values.to(flat.dtype)) / world_size()


def squared_correlation(features: Tensor, values: Tensor) -> Tensor:
    """Mean over the columns of `values` (n, k) of Σ r², r the correlation with each of the (n, d)
    features. It does not depend on their scale; a column that never changes has r = 0."""
    x, z = (one - one.mean(0) for one in (features, values))
    products = (x.T @ z).square()
    sizes = x.square().sum(0)[:, None] * z.square().sum(0)[None, :]
    return (products / (sizes + NO_CHANGE)).sum() / z.shape[1]


def _classes(outputs: Tensor, batch: Batch) -> Tensor:
    """(n, classes): the label of each sample where all have one; else what is predicted, of all
    alike, as certainty would tell apart who has a label."""
    if batch.total_labelled == batch.total_samples:
        return F.one_hot(batch.labels, outputs.shape[1]).to(outputs.dtype)
    return outputs.detach().softmax(1)


def head_for(
    adversary: Adversary,
    layer: str,
    outputs: int,
    hidden: Sequence[int],
    seed: int,
    normalise: Normalisation = "none",
) -> Attachment:
    """The head of an adversary, to be made for the features of `layer`.

    Parameters
    ----------
    outputs
        1 for two categories or a number, else one for each category
    hidden
        widths, where the adversary says none
    """
    own = adversary.classifier

    def make(width: int, classes: int) -> nn.Module:
        if isinstance(own, nn.Module):
            return own
        widths = tuple(hidden if own is None else own)
        told = 2 if outputs == 1 else outputs
        if adversary.conditional:
            return ConditionalDomainClassifier(width, classes, widths, seed, told)
        return DomainClassifier(width, widths, told, seed, normalise)

    return Attachment(layer, make)


def heads_for(
    adversaries: Sequence[Adversary],
    layer: str,
    outputs: Mapping[str, int],
    hidden: Sequence[int],
    seed: int,
    normalise: Normalisation = "none",
) -> list[Attachment]:
    """The heads of all of them; the first has the weights that a domain classifier would have.

    Parameters
    ----------
    layer
        of those that name none
    outputs
        by attribute
    """
    return [
        head_for(
            one,
            one.layer or layer,
            outputs[one.attribute],
            hidden,
            seed if number == 0 else derive(seed, number),
            normalise,
        )
        for number, one in enumerate(adversaries)
    ]
