"""Outputs, accuracy and features of a network over a whole domain, in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.adapter import DomainAdapter, evaluating
from revgrad.batch import Inputs, map_inputs
from revgrad.cutting import cut
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.objectives import LabelLoss, cross_entropy
from revgrad.preprocessing import Preprocessing

#: Samples at once; it changes no result beyond rounding.
SAMPLES_AT_ONCE = 500


def device_of(module: nn.Module) -> torch.device:
    """The device of a module's parameters."""
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def chunks(
    domain: Domain, device: torch.device, samples: int = SAMPLES_AT_ONCE
) -> Iterator[Inputs]:
    """The domain's inputs in order, without augmentation, on `device`."""
    for start in range(0, len(domain), samples):
        where = np.arange(start, min(start + samples, len(domain)))
        inputs = domain.batch(where, augment=False).inputs
        yield map_inputs(lambda tensor: tensor.to(device), inputs)


@torch.no_grad()
def outputs(
    function: Callable[[Inputs], Any],
    module: nn.Module,
    domain: Domain,
    samples: int = SAMPLES_AT_ONCE,
) -> Tensor:
    """`function` of every input of `domain`, stacked on the CPU, `module` in evaluation mode."""
    with evaluating(module):
        parts = [function(inputs).cpu() for inputs in chunks(domain, device_of(module), samples)]
    return torch.cat(parts)


@dataclass(frozen=True)
class Evaluation:
    """Results on one domain's labelled samples. Regression has a loss, but no accuracy."""

    count: int
    loss: float
    accuracy: float | None
    confusion: np.ndarray | None  # [true class, predicted class]: number of samples

    @property
    def per_class(self) -> np.ndarray | None:
        """Accuracy of each class; NaN where it has no samples."""
        if self.confusion is None:
            return None
        with np.errstate(invalid="ignore"):
            shares: np.ndarray = np.diag(self.confusion) / self.confusion.sum(1)
        return shares


def evaluate(
    function: Callable[[Inputs], Any],
    module: nn.Module,
    domain: Domain,
    label_loss: LabelLoss = cross_entropy,
) -> Evaluation:
    """Compare `function`'s outputs with the labels of `domain`, `module` in evaluation mode."""
    labelled = np.flatnonzero(domain.labelled)
    if domain.labels is None or not len(labelled):
        raise InputError(f"{domain.name} has no labels to evaluate against")
    known = domain if len(labelled) == len(domain) else domain.subset(labelled)
    predictions = outputs(function, module, known)
    assert known.labels is not None
    labels = torch.from_numpy(known.labels)
    if known.is_classification:
        check_classes(known, predictions.shape[1])
    loss = float(label_loss(predictions, labels).mean())
    if not known.is_classification:
        return Evaluation(len(known), loss, None, None)
    decided = predictions.argmax(1)
    classes = predictions.shape[1]
    pairs = torch.bincount(labels * classes + decided, minlength=classes * classes)
    accuracy = float((decided == labels).double().mean())
    return Evaluation(len(known), loss, accuracy, pairs.reshape(classes, classes).numpy())


def check_classes(domain: Domain, outputs_: int) -> None:
    """Every label must be one of the network's outputs."""
    count = domain.class_count or 0
    if count > outputs_:
        raise InputError(
            f"{domain.name}: labels are out of range: {count} classes (0 … {count - 1}), but the "
            f"network has {outputs_} outputs"
        )


def features_at(
    model: nn.Module,
    layer: str,
    domain: Domain,
    *,
    preprocessing: nn.Module | None = None,
    batch: int = SAMPLES_AT_ONCE,
    positions: bool = False,
) -> np.ndarray:
    """The output of `layer` for every input of `domain`, flattened to (n, features).

    model          a network, or an adapter with its own preprocessing
    layer          any layer that runs once and gives one output a sample; the network runs so far
    preprocessing  what comes in front of a network; by default inputs are taken as they are
    batch          inputs at once; it changes no result beyond rounding
    positions      keep the places of a feature map: (n, height × width, channels), row by row; a
                   layer that gives (n, places, channels) is left so, a vector is one place

    Evaluation mode and no gradient; afterwards the model is in the mode it was in. Labels are never
    read.
    """
    if batch < 1:
        raise InputError(f"features are read at least one input at a time, not {batch}")
    if isinstance(model, DomainAdapter):
        if preprocessing is not None:
            raise InputError("an adapter has its own preprocessing; give its network instead")
        network, prepare = model.network, model.preprocessing
    else:
        network, prepare = model, preprocessing or _as_they_are(model)
    if not len(domain):
        raise InputError(f"{domain.name} is empty: it has no features")
    tapped = cut(network, layer, tap=True)  # only the front is wanted: what crosses is no matter
    shape = _positions if positions else _flat

    def extract(raw: Inputs) -> Tensor:
        return shape(tapped.features(prepare(raw)))

    both = nn.ModuleList([prepare, network])  # both in evaluation mode, parameters of either
    array: np.ndarray = outputs(extract, both, domain, batch).numpy()
    return array


def _as_they_are(network: nn.Module) -> nn.Module:
    parameter = next(network.parameters(), None)
    identity = Preprocessing.identity()
    return identity if parameter is None else identity.to(parameter.device, parameter.dtype)


def _flat(features: Tensor) -> Tensor:
    return features.flatten(1)


def _positions(features: Tensor) -> Tensor:
    if features.ndim <= 2:
        return features.reshape(len(features), 1, -1)
    if features.ndim == 3:
        return features
    return features.flatten(2).transpose(1, 2).contiguous()
