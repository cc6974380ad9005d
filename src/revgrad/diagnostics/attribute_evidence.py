"""Evidence of attributes: features of each adversary's layer with the values of its attribute.

RUN/evidence/attributes.safetensors holds them at the end of a training, for held-out source samples
and for samples of the targets, whose labels are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from revgrad._seals import SEAL_METADATA, check_tensors, sealed_tensors
from revgrad._system import disk_errors, read_file, write_atomically
from revgrad.adapter import DomainAdapter
from revgrad.diagnostics.evidence import ClassLogits
from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.recorder import (
    EVIDENCE_FOLDER,
    WIDEST_FEATURES,
    projected,
)
from revgrad.domains.attributes import DOMAIN
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.domains.joined import joined
from revgrad.errors import RunError
from revgrad.evaluation import features_at, outputs
from revgrad.training.attributes import DescribedAdversary
from revgrad.training.callbacks import Callback, TrainingResult

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

#: The file's name in the folder of evidence, without its suffix.
ATTRIBUTES = "attributes"


@dataclass(frozen=True, eq=False)
class AttributeEvidence:
    """Of n samples at the end of a training.

    Attributes
    ----------
    features
        (n, d) at the layer of each adversary
    values
        (n,) of each adversary's attribute: numbers of categories, or numbers; NaN where missing
    predicted
        (n,) classes; None where the task is not of classes
    labels
        (n,) of held-out source samples; −1 of others
    """

    features: tuple[Array, ...]
    values: tuple[Array, ...]
    predicted: Array | None
    labels: Array | None


class AttributeRecorder(Callback):
    """Writes the evidence of attributes when a training ends.

    Parameters
    ----------
    adversaries
        whose attributes and layers are recorded
    held_outs, targets
        the domains that samples are drawn from, as evenly as can be
    samples
        of all of them at most
    class_logits
        the network's outputs → (n, classes) logits; None where the task is not of classes
    """

    every_process = True

    def __init__(
        self,
        adversaries: Sequence[DescribedAdversary],
        held_outs: Sequence[Domain],
        targets: Sequence[Domain],
        *,
        samples: int,
        class_logits: ClassLogits | None,
    ) -> None:
        self.adversaries = list(adversaries)
        self.class_logits = class_logits
        domains = [*held_outs, *(one.without_labels() for one in targets)]
        each = max(samples // max(len(domains), 1), 1)
        parts = [one.subset(drawn_indices(len(one), each)) for one in domains]
        numbers = [*range(len(held_outs)), *range(len(held_outs), len(domains))]
        self._domain = joined(parts) if parts else None
        self._of = np.repeat(numbers, [len(one) for one in parts]) if parts else np.zeros(0)

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        if trainer.run is None or self._domain is None:
            return
        from safetensors.torch import save

        evidence = gather_attribute_evidence(
            trainer.adapter, self.adversaries, self._domain, self._of, self.class_logits
        )
        found: dict[str, np.ndarray] = {}
        for number, values in enumerate(evidence.values):
            found[f"features.{number}"] = evidence.features[number].copy()  # a tensor of its own
            found[f"values.{number}"] = values
        if evidence.predicted is not None:
            found["predicted"] = evidence.predicted
            if evidence.labels is not None:
                found["labels"] = evidence.labels
        tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in found.items()}
        folder = trainer.run.folder / EVIDENCE_FOLDER
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
        data = sealed_tensors(save(tensors, SEAL_METADATA))
        write_atomically(folder / f"{ATTRIBUTES}.safetensors", data)


def gather_attribute_evidence(
    adapter: DomainAdapter,
    adversaries: Sequence[DescribedAdversary],
    domain: Domain,
    of: np.ndarray,
    class_logits: ClassLogits | None,
) -> AttributeEvidence:
    """What these adversaries' layers hold of the samples of `domain` now.

    Parameters
    ----------
    of
        (n,) the number of the domain that each sample comes from
    """
    layers = {one.layer for one in adversaries}
    features = {one: _narrowed(features_at(adapter, one, domain)) for one in layers}
    predicted = labels = None
    if class_logits is not None:
        logits = class_logits(outputs(adapter.predict, adapter, domain.without_labels()))
        predicted = logits.argmax(1).numpy()
        if domain.labels is not None:
            labels = np.where(domain.labelled, domain.labels, -1)
    return AttributeEvidence(
        tuple(features[one.layer] for one in adversaries),
        tuple(_values(one, domain, of) for one in adversaries),
        predicted,
        labels,
    )


def _values(adversary: DescribedAdversary, domain: Domain, of: np.ndarray) -> np.ndarray:
    """(n,) float64, NaN where missing; categories by their numbers in the training."""
    if adversary.attribute == DOMAIN:
        return of.astype(np.float64)
    own = domain.attributes.get(adversary.attribute)
    if own is None:
        return np.full(len(domain), np.nan)
    values = own.values.astype(np.float64)
    if own.names is not None:
        place = {name: float(i) for i, name in enumerate(adversary.values or ())}
        codes = np.array([place.get(name, np.nan) for name in own.names])
        values = codes[own.values] if len(codes) else values
    return np.where(own.known, values, np.nan)


def read_attribute_evidence(run: Path | str) -> AttributeEvidence | None:
    """What a run recorded of its adversaries' attributes; None where there is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = Path(run) / EVIDENCE_FOLDER / f"{ATTRIBUTES}.safetensors"
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path} can't be read: {error.strerror}") from error
    try:
        check_tensors(data)
        found: dict[str, np.ndarray] = dict(load(data))
        count = sum(name.startswith("features.") for name in found)
        features = tuple(found[f"features.{number}"] for number in range(count))
        values = tuple(found[f"values.{number}"] for number in range(count))
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{path} can't be used as evidence: {error}") from error
    return AttributeEvidence(features, values, found.get("predicted"), found.get("labels"))


def _narrowed(features: np.ndarray) -> np.ndarray:
    """At most `WIDEST_FEATURES` numbers a sample, as in other evidence."""
    if features.shape[1] <= WIDEST_FEATURES:
        return features
    found: np.ndarray = projected(torch.from_numpy(features)).numpy()
    return found
