"""Evidence from a model and two domains: what it says of target rows and of held-out source rows.

evidence = gather(adapter, held_out, target)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.adapter import DomainAdapter, evaluating, frozen_statistics
from revgrad.augmenting import Jitter
from revgrad.diagnostics.evidence import Evidence
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.evaluation.predicting import chunks, device_of

#: How an image is changed to see whether its class stays: as training by consistency does.
CHANGE = Jitter()


def gather(
    adapter: DomainAdapter,
    held_out: Domain | None,
    target: Domain,
    *,
    domain_logits: bool = True,
) -> Evidence:
    """Logits, features at the attached layer and domain logits of every row, and logits of each
    target image changed a little; labels of the target are never read. Without held-out source
    rows, the target's logits alone.

    domain_logits   whether the domain classifier was trained, so that what it says means something

    The adapter is in evaluation mode, and afterwards in the mode it was in. Where BatchNorm
    normalised each domain by itself in training, held-out source rows are normalised by themselves
    here too: the statistics that are kept for inference are not theirs.
    """
    with evaluating(adapter):
        of_target = _pass(adapter, target.without_labels(), domain_logits)
        changed = _changed(adapter, target.without_labels()) if target.is_images else None
        if held_out is None or held_out.labels is None:
            return Evidence(target_logits=of_target.logits, target_changed_logits=changed)
        with _own_statistics(adapter):
            of_source = _pass(adapter, held_out.without_labels(), domain_logits)
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


class NotFiniteError(InputError):
    """Outputs that are no numbers are no evidence."""


class _Said(NamedTuple):
    """Of a domain's rows: (n, classes), (n, features), (n,) or (n, domains)."""

    logits: np.ndarray
    features: np.ndarray
    domain: np.ndarray | None


@torch.no_grad()
def _pass(adapter: DomainAdapter, domain: Domain, domain_logits: bool) -> _Said:
    """One pass: features once, and both classifiers on them."""
    labels, features, domains = [], [], []
    for inputs in chunks(domain, device_of(adapter)):
        extracted, logits = adapter.cut.forward(adapter.preprocessing(inputs), slice(0, None))
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
            raise InputError("evidence is for networks that give a logit for each of their classes")
        labels.append(_array(logits))
        features.append(_array(extracted.flatten(1)))
        if domain_logits:
            domains.append(_array(adapter.domain_classifier(extracted)))
    if not all(np.isfinite(part).all() for part in (*labels, *features)):
        raise NotFiniteError(f"the network's outputs on {domain.name} hold NaN or infinity")
    return _Said(
        np.concatenate(labels),
        np.concatenate(features),
        np.concatenate(domains) if domains else None,
    )


@torch.no_grad()
def _changed(adapter: DomainAdapter, domain: Domain) -> np.ndarray:
    """Logits of the images, each changed a little: the same changes every time."""
    home, parts = torch.device("cpu"), []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for inputs in chunks(domain, home):
            assert isinstance(inputs, Tensor)  # `is_images` says so
            parts.append(_array(adapter.predict(CHANGE(inputs).to(device_of(adapter)))))
    return np.concatenate(parts)


@contextmanager
def _own_statistics(adapter: DomainAdapter) -> Iterator[None]:
    """Where BatchNorm saw each domain by itself, it normalises by the rows at hand inside, and
    keeps nothing of them."""
    norms = [m for m in adapter.network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if adapter.batch_norm == "joint" or not norms:
        yield
        return
    with frozen_statistics(norms):
        for norm in norms:
            norm.train()
        yield


def _array(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.float().cpu().numpy()
    return found
