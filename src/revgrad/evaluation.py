"""Outputs, accuracy and features of a network over a whole domain, in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from revgrad.adapter import DomainAdapter, evaluating
from revgrad.batch import Inputs, map_inputs
from revgrad.cutting import cut
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.preprocessing import Preprocessing
from revgrad.tasks import Evaluation, LabelLoss, Task, loss_sum

#: Samples at once; it changes no result beyond rounding.
SAMPLES_AT_ONCE = 500
_T = TypeVar("_T")


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


@torch.no_grad()
def results_by_chunk(
    function: Callable[[Any], _T], model: nn.Module, domain: Domain, samples: int = SAMPLES_AT_ONCE
) -> list[_T]:
    """`function` of the model's outputs (on the CPU) for each chunk of `domain`, in order."""
    with evaluating(model):
        return [
            function(on_cpu(model(inputs))) for inputs in chunks(domain, device_of(model), samples)
        ]


@torch.no_grad()
def evaluate(
    function: Callable[[Inputs], Any],
    module: nn.Module,
    domain: Domain,
    task: Task,
    label_loss: LabelLoss | None = None,
) -> Evaluation:
    """Compare `function`'s outputs with the labels of `domain`, `module` in evaluation mode.

    Parameters
    ----------
    label_loss
        what the loss is computed by; the task's own unless given
    """
    labelled = domain.labelled_count
    if not labelled:
        raise InputError(f"{domain.name} has no labels to evaluate against")
    known = domain if labelled == len(domain) else domain.subset(np.flatnonzero(domain.labelled))
    loss = task.label_loss if label_loss is None else label_loss
    meter, total, count, checked = task.meter(), 0.0, 0, False
    device = device_of(module)
    with evaluating(module):
        for start in range(0, len(known), SAMPLES_AT_ONCE):
            where = np.arange(start, min(start + SAMPLES_AT_ONCE, len(known)))
            samples = known.batch(where, augment=False)
            assert samples.labels is not None
            found = on_cpu(function(map_inputs(lambda x: x.to(device), samples.inputs)))
            if not checked:
                check_labels(task, known, found)
                checked = True
            value, among = loss_sum(loss, found, samples.labels)
            total, count = total + value, count + among
            meter.add(found, samples.labels)
    metrics = meter.result()
    values = {item.name: getattr(metrics, item.name) for item in fields(metrics)}
    return Evaluation(count=len(known), loss=total / max(count, 1), **values)


def check_labels(task: Task, domain: Domain, outputs_: Any) -> None:
    """The labels that the domain has must be such as the task and outputs (n, …) take."""
    if not domain.labelled_count or not isinstance(outputs_, Tensor):
        return
    task.check(domain.known_labels(), tuple(outputs_.shape[1:]), domain.name)


def on_cpu(values: Any) -> Any:
    """Tensors, also those of a tuple or dict, on the CPU."""
    if isinstance(values, Tensor):
        return values.cpu()
    return pytree.tree_map(lambda one: one.cpu() if isinstance(one, Tensor) else one, values)


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

    Evaluation mode and no gradient; afterwards the model is in the mode it was in. Labels are never
    read.

    Parameters
    ----------
    model
        a network, or an adapter with its own preprocessing
    layer
        any layer that runs once and gives one output a sample; the network runs so far
    preprocessing
        what comes in front of a network; by default inputs are taken as they are
    batch
        inputs at once; it changes no result beyond rounding
    positions
        keep the places of a feature map: (n, height × width, channels), row by row; a
        layer that gives (n, places, channels) is left so, a vector is one place
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
