"""Evidence: what is known of a model without target labels, as one type, and how to gather it.

evidence = gather_evidence(adapter, held_out, target)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from revgrad._distributed import share_out
from revgrad.adapter import DomainAdapter, evaluating
from revgrad.batch import Inputs
from revgrad.diagnostics.inputs import Array, checked_logits, flat_pair, logits_of_both
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.evaluation import (
    SAMPLES_AT_ONCE,
    chunks,
    device_of,
    results_by_block,
    samples_at_once,
)
from revgrad.networks.batch_norm import batch_norms
from revgrad.objectives.conditional import ConditionalDomainClassifier
from revgrad.objectives.jitter import Jitter

#: Fields of `Evidence` that hold the labelled source.
LABELLED_SOURCE = ("source_logits", "source_labels")
#: A network's outputs → (n, classes) logits.
ClassLogits = Callable[[Tensor], Tensor]
#: How an image is changed to see whether its class stays: as training by consistency does.
CHANGE = Jitter()


@dataclass(frozen=True, eq=False)
class Evidence:
    """Outputs of a model on target samples and on held-out source samples; checked, float64.

    Everything but the target's logits may be missing; a score says what it needs.

    Attributes
    ----------
    target_logits
        (n, classes)
    source_logits, source_labels
        (m, classes), (m,): source samples that were not trained on
    target_features, source_features
        (n, d), (m, d): of the same samples, where the domain classifier is attached
    target_domain_logits, source_domain_logits
        (n,), (m,) or (·, 2): of the run's own domain classifier
    target_inputs, source_inputs
        the samples themselves: (·, height, width, 3) uint8 images, small ones do, (·, d) numbers,
        or (·, channels, length) series
    training_inputs, training_labels
        further labelled source samples, which the network was trained on: of use to classifiers
        of the inputs, not to judge the network by
    target_changed_logits
        (n, classes): of the target samples, each changed a little, in a way
        that leaves its class alone (`Jitter`)
    source_only_logits
        (n, classes): of the source-only network, on the target samples
    checkpoint_logits
        of the checkpoints before this model, oldest first, on the target
        samples
    seed_logits
        of the same training with other seeds, on the target samples
    """

    target_logits: Array
    source_logits: Array | None = None
    source_labels: Array | None = None
    target_features: Array | None = None
    source_features: Array | None = None
    target_domain_logits: Array | None = None
    source_domain_logits: Array | None = None
    target_changed_logits: Array | None = None
    source_inputs: Array | None = None
    target_inputs: Array | None = None
    training_inputs: Array | None = None
    training_labels: Array | None = None
    source_only_logits: Array | None = None
    checkpoint_logits: tuple[Array, ...] = ()
    seed_logits: tuple[Array, ...] = ()

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        target = checked_logits(self.target_logits, "target logits")
        keep("target_logits", target)
        for one, other in (
            LABELLED_SOURCE,
            ("target_features", "source_features"),
            ("target_domain_logits", "source_domain_logits"),
            ("target_inputs", "source_inputs"),
            ("training_inputs", "training_labels"),
        ):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise InputError(f"{one} and {other} come together or not at all")
        if self.source_logits is not None and self.source_labels is not None:
            logits, labels, _ = logits_of_both(self.source_logits, self.source_labels, target)
            keep("source_logits", logits)
            keep("source_labels", labels)
        if self.source_features is not None and self.target_features is not None:
            source, features = flat_pair(self.source_features, self.target_features)
            keep("source_features", source)
            keep("target_features", features)
        for kind in ("features", "inputs"):
            for domain, like in (("target", target), ("source", self.source_logits)):
                values = getattr(self, f"{domain}_{kind}")
                if values is not None and like is not None and len(values) != len(like):
                    raise InputError(
                        f"{domain}_{kind} must be of the same {len(like)} samples as the logits; "
                        f"{len(values)} came"
                    )
        for name in ("source_only_logits", "target_changed_logits"):
            if getattr(self, name) is not None:
                keep(name, checked_logits(getattr(self, name), name.replace("_", " "), target))
        for name in ("checkpoint_logits", "seed_logits"):
            shown = name.replace("_", " ")
            keep(name, tuple(checked_logits(more, shown, target) for more in getattr(self, name)))

    def has(self, *fields: str) -> bool:
        """Whether all of these fields are there."""
        return not self.missing(*fields)

    def missing(self, *fields: str) -> tuple[str, ...]:
        """Which of these fields are not there."""
        found = {name: getattr(self, name) for name in fields}
        return tuple(name for name, value in found.items() if value is None or len(value) == 0)


def of_target_samples(evidence: Evidence, where: Array) -> Evidence:
    """The same evidence of some of the target's samples."""
    changes: dict[str, Any] = {}
    for item in fields(Evidence):
        value = getattr(evidence, item.name)
        if item.name in ("checkpoint_logits", "seed_logits"):
            changes[item.name] = tuple(one[where] for one in value)
        elif value is not None and item.name.startswith(("target_", "source_only_")):
            changes[item.name] = value[where]
    return replace(evidence, **changes)


class NotFiniteError(InputError):
    """Outputs that are no numbers are no evidence."""


def gather_evidence(
    adapter: DomainAdapter,
    held_out: Domain | None,
    target: Domain,
    *,
    domain_logits: bool = True,
    class_logits: ClassLogits = lambda outputs: outputs,
) -> Evidence:
    """Logits, features at the attached layer and domain logits of every sample, and logits of each
    target image changed a little; labels of the target are never read. Without held-out source
    samples, the target's logits alone.

    The adapter is in evaluation mode, and afterwards in the mode it was in. Where BatchNorm
    normalised each domain by itself in training, held-out source samples are normalised by
    themselves here too: the statistics that are kept for inference are not theirs.

    Parameters
    ----------
    domain_logits
        whether the domain classifier was trained, so that what it says means something
    class_logits
        the network's outputs → (n, classes) logits (`Task.class_logits`)
    """
    with evaluating(adapter):
        of_target = _pass(adapter, target.without_labels(), domain_logits, class_logits)
        changed = None
        if target.is_images:
            changed = _changed(adapter, target.without_labels(), class_logits)
        if held_out is None or held_out.labels is None:
            return Evidence(target_logits=of_target.logits, target_changed_logits=changed)
        of_source = _pass(
            adapter,
            held_out.without_labels(),
            domain_logits,
            class_logits,
            own_statistics=adapter.batch_norm != "joint",
        )
    return Evidence(
        target_logits=of_target.logits,
        source_logits=of_source.logits,
        source_labels=np.asarray(held_out.labels),
        target_features=of_target.features,
        source_features=of_source.features,
        target_domain_logits=of_target.domain,
        source_domain_logits=of_source.domain,
        target_changed_logits=changed,
    )


class _Outputs(NamedTuple):
    """Of a domain's samples: (n, classes), (n, features), (n,) or (n, domains)."""

    logits: np.ndarray
    features: np.ndarray
    domain: np.ndarray | None


def _pass(
    adapter: DomainAdapter,
    domain: Domain,
    domain_logits: bool,
    class_logits: ClassLogits,
    *,
    own_statistics: bool = False,
) -> _Outputs:
    """One pass: features once, and both classifiers on them."""

    def run(inputs: Inputs) -> tuple[Tensor, ...]:
        with _own_statistics(adapter) if own_statistics else nullcontext():
            passed = adapter.cut.run(adapter.preprocessing(inputs), slice(0, None))
            extracted, found, _ = adapter.outputs_of(passed)
            logits = class_logits(found) if isinstance(found, Tensor) else found
            if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
                raise InputError(
                    "evidence is for networks that give a logit for each of their classes"
                )
            if not domain_logits:
                return logits, extracted.flatten(1)
            head = adapter.domain_classifier
            conditional = isinstance(head, ConditionalDomainClassifier)
            seen = (extracted, logits.softmax(1)) if conditional else (extracted,)
            return logits, extracted.flatten(1), head(*seen)

    blocks = results_by_block(
        run,
        lambda found, _: [_numpy(one) for one in found],
        adapter,
        domain,
        SAMPLES_AT_ONCE if own_statistics else None,  # statistics of few samples are poor
    )
    labels, features, *domains = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    if not (np.isfinite(labels).all() and np.isfinite(features).all()):
        raise NotFiniteError(f"the network's outputs on {domain.name} hold NaN or infinity")
    return _Outputs(labels, features, domains[0] if domains else None)


@torch.no_grad()
def _changed(adapter: DomainAdapter, domain: Domain, class_logits: ClassLogits) -> np.ndarray:
    """Logits of the images, each changed a little: the same changes every time."""
    device, parts = device_of(adapter), []
    size = samples_at_once(domain, device)

    def run(images: Tensor) -> Tensor:
        return class_logits(adapter.predict(images.to(device)))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for inputs in chunks(domain, torch.device("cpu")):
            assert isinstance(inputs, Tensor)  # `is_images` says so
            parts += share_out(run, _numpy, torch.split(CHANGE(inputs), size))
    return np.concatenate(parts)


@contextmanager
def _own_statistics(adapter: DomainAdapter) -> Iterator[None]:
    """Where BatchNorm saw each domain by itself, it normalises by the samples at hand inside,
    and keeps nothing of them."""
    norms = batch_norms(adapter.network)
    if adapter.batch_norm == "joint" or not norms:
        yield
        return
    with adapter.statistics.frozen():
        for norm in norms:
            norm.train()
        yield
        for norm in norms:
            norm.eval()


def _numpy(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.float().cpu().numpy()
    return found
