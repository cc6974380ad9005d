"""Outputs, accuracy and features of a network over a whole domain, in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from revgrad._distributed import from_every_process, is_sharded, share_out
from revgrad.adapter import DomainAdapter, evaluating
from revgrad.batch import Inputs, Samples, map_inputs, tensors_of
from revgrad.cutting import cut
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.preprocessing import Preprocessing
from revgrad.tasks import Evaluation, LabelLoss, Task, loss_sum

#: Samples at once at most, and at least; between them, as many as make so many bytes of inputs in
#: float32. Layers' outputs are several times as large: above some 32 MB the C library gets their
#: memory anew in each pass, which costs a CPU up to half of the time.
SAMPLES_AT_ONCE, FEWEST_AT_ONCE = 500, 16
#: Times as many vectors: in a pass of a small network calls cost more than products.
VECTORS_TIMES = 4
BYTES_AT_ONCE = {"cpu": 1 << 20}
ACCELERATOR_BYTES_AT_ONCE = 1 << 26
_T = TypeVar("_T")


def device_of(module: nn.Module) -> torch.device:
    """The device of a module's parameters."""
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def samples_at_once(domain: Domain, device: torch.device) -> int:
    """Samples of the domain that pass a network together; it changes no result beyond rounding."""
    if not len(domain):
        return SAMPLES_AT_ONCE
    example = tensors_of(domain.batch([0], augment=False).inputs)
    each = max(sum(4 * one.numel() for one in example), 1)
    budget = BYTES_AT_ONCE.get(device.type, ACCELERATOR_BYTES_AT_ONCE)
    vectors = all(one.ndim == 2 and one.is_floating_point() for one in example)
    most = SAMPLES_AT_ONCE * (VECTORS_TIMES if vectors else 1)
    return min(max(budget // each, FEWEST_AT_ONCE), most)


def chunks(
    domain: Domain, device: torch.device, samples: int = SAMPLES_AT_ONCE
) -> Iterator[Inputs]:
    """The domain's inputs in order, without augmentation, on `device`."""
    for where in _blocks(domain, samples):
        yield _placed(domain.batch(where, augment=False).inputs, device)


def _blocks(domain: Domain, samples: int) -> list[range]:
    starts = range(0, len(domain), samples)
    return [range(start, min(start + samples, len(domain))) for start in starts]


def _placed(inputs: Inputs, device: torch.device) -> Inputs:
    return map_inputs(lambda tensor: tensor.to(device), inputs)


@torch.no_grad()
def results_by_block(
    function: Callable[[Inputs], Any],
    finish: Callable[[Any, Samples], _T],
    module: nn.Module,
    domain: Domain,
    samples: int | None = None,
) -> list[_T]:
    """`finish(function(inputs), the samples)` of each block of the domain, in order, `module` in
    evaluation mode; processes that are `sharing_out` divide the blocks among them.

    Parameters
    ----------
    samples
        of a block; unless given, as few as pass fast and in little memory
    """
    device = device_of(module)
    size = samples_at_once(domain, device) if samples is None else samples

    def run(where: range) -> tuple[Any, Samples]:
        block = domain.batch(np.arange(where.start, where.stop), augment=False)
        return function(_placed(block.inputs, device)), block

    with evaluating(module):
        return share_out(run, lambda found: finish(*found), _blocks(domain, size))


def outputs(
    function: Callable[[Inputs], Any],
    module: nn.Module,
    domain: Domain,
    samples: int | None = None,
) -> Tensor:
    """`function` of every input of `domain`, stacked on the CPU, `module` in evaluation mode."""
    return torch.cat(
        results_by_block(function, lambda found, _: found.cpu(), module, domain, samples)
    )


def results_by_chunk(
    function: Callable[[Any], _T], model: nn.Module, domain: Domain, samples: int | None = None
) -> list[_T]:
    """`function` of the model's outputs (on the CPU) for each block of `domain`, in order."""
    return results_by_block(model, lambda found, _: function(on_cpu(found)), model, domain, samples)


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
    meter, checked = task.meter(), False

    def finish(found: Any, samples: Samples) -> tuple[float, int]:
        nonlocal checked
        found = on_cpu(found)
        if not checked:
            check_labels(task, known, found)
            checked = True
        assert samples.labels is not None
        meter.add(found, samples.labels)
        return loss_sum(loss, found, samples.labels)

    sums = results_by_block(function, finish, module, known)
    first, *others = from_every_process(meter)
    for other in others:
        first.merge(other)
    metrics = first.result()
    values = {item.name: getattr(metrics, item.name) for item in fields(metrics)}
    total, count = (sum(column) for column in zip(*sums, strict=True))
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
    batch: int | None = None,
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
        inputs at once; it changes no result beyond rounding. Unless given, as few as pass fast
    positions
        keep the places of a feature map: (n, height × width, channels), row by row; a
        layer that gives (n, places, channels) is left so, a vector is one place
    """
    if batch is not None and batch < 1:
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
        if is_sharded(network):  # it runs whole: its blocks must all give back their weights
            return shape(tapped.run(prepare(raw), slice(0, None)).features)
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
