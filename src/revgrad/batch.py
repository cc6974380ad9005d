"""The batch of a training step, and the few operations on nested inputs.

`Inputs` is a tensor, or a tuple or dict of tensors that share their first dimension (the samples).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from revgrad.errors import InputError

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """The same structure with `function` applied to every tensor in it."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    if isinstance(inputs, dict):
        return {key: function(value) for key, value in inputs.items()}
    return tuple(function(value) for value in inputs)


def call_on(function: Callable[..., Any], inputs: Inputs) -> Any:
    """`function` of a nested input: a tuple's tensors are its arguments, a dict's named ones."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    return function(**inputs) if isinstance(inputs, dict) else function(*inputs)


def part_of(output: Any, part: str | int | None) -> Any:
    """The part of a network's output that is meant: of a dict by its key, of an object (such as a
    ModelOutput) by its attribute, of a tuple by its place; None: the output as it is."""
    if part is None:
        return output
    try:
        if isinstance(output, Tensor):
            raise TypeError
        if isinstance(part, str) and not isinstance(output, Mapping):
            return getattr(output, part)
        return output[part]
    except (AttributeError, LookupError, TypeError):
        raise InputError(
            f"the network's output has no part {part!r}; {_described_output(output)}"
        ) from None


def _described_output(output: Any) -> str:
    if isinstance(output, Tensor):
        return "it is one tensor, which needs no output="
    if isinstance(output, Mapping):
        return f"there are: {', '.join(map(str, output))}"
    if isinstance(output, Sequence):
        return f"it is a {type(output).__name__} of {len(output)}: 0 … {len(output) - 1} would do"
    return f"it is a {type(output).__name__}"


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """The tensors of a nested input, in order."""
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


def sample_count(inputs: Inputs) -> int:
    """Number of samples of a nested input."""
    return int(tensors_of(inputs)[0].shape[0])


def select_samples(inputs: Inputs, samples: slice | Tensor) -> Inputs:
    """The given samples of every tensor."""
    return map_inputs(lambda tensor: tensor[samples], inputs)


def concatenate(parts: Sequence[Inputs]) -> Inputs:
    """Stack nested inputs of one structure along their samples."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))  # type: ignore[arg-type]
    if isinstance(first, dict):
        return {key: torch.cat([part[key] for part in parts]) for key in first}  # type: ignore[index,call-overload]
    return tuple(torch.cat([part[i] for part in parts]) for i in range(len(first)))  # type: ignore[index]


def describe_inputs(inputs: Inputs) -> str:
    """Shapes of one sample and types, for a message: "(3, 28, 28) uint8"."""
    return " and ".join(
        f"{tuple(tensor.shape[1:])} {str(tensor.dtype).removeprefix('torch.')}"
        for tensor in tensors_of(inputs)
    )


def _holds_tensors(value: Any) -> bool:
    """Whether a field of a batch is a tensor or nested inputs, rather than counts."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return bool(value) and isinstance(value[0], Tensor)
    return isinstance(value, Tensor)


class Samples(NamedTuple):
    """Samples of one domain: what `Domain.batch` returns.

    `labels` is None where no sample has a label; else `labelled` says which do (None: all), and
    the label of an unlabelled sample is a meaningless zero.
    """

    inputs: Inputs
    labels: Tensor | None
    labelled: Tensor | None = None


class Batch(NamedTuple):
    """One step's samples, grouped by domain: the sources' first, then the targets'.

    Attributes
    ----------
    inputs
        n samples, a tensor or a tuple or dict of tensors
    labels
        n samples; what stands in an unlabelled sample is never read
    labelled
        (n,) bool: which samples have a label. A label's value never means "unknown"
    domains
        (n,) int64: 0 source, 1 target; of several sources or targets the sources first
    sizes
        samples per domain, so that one domain's samples are a slice
    prefix
        where exactly the first `prefix` samples are labelled, their number; else None
    weights
        (n,) float32: how much each label counts; None: all alike. 0 where there is no label
    sources
        how many of the domains are sources
    attributes
        by name, (n,): int64 numbers of categories, −1 where a value is missing; or floats,
        standardised, NaN where missing
    attribute_totals
        by name, the samples of all processes whose value is known
    total_samples, total_labelled, total_sizes
        the same counts over all processes: losses are local sums divided by them
    total_weight
        the sum of the weights over all processes
    total_positions
        of a part of a batch (gradient accumulation), for a loss that has positions: those of
        the whole batch over all processes
    """

    inputs: Inputs
    labels: Tensor
    labelled: Tensor
    domains: Tensor
    sizes: tuple[int, ...]
    prefix: int | None
    total_samples: int
    total_labelled: int
    total_sizes: tuple[int, ...]
    weights: Tensor | None = None
    total_weight: float | None = None
    sources: int = 1
    attributes: dict[str, Tensor] | None = None
    attribute_totals: dict[str, int] | None = None
    total_positions: Tensor | None = None

    @property
    def labelled_samples(self) -> slice | Tensor:
        """The selection of the labelled samples: a slice where they come first, else the mask."""
        return self.labelled if self.prefix is None else slice(0, self.prefix)

    @property
    def labelled_count(self) -> int:
        """Labelled samples of this process."""
        return int(self.labelled.sum()) if self.prefix is None else self.prefix

    def domain_slices(self) -> list[slice]:
        """One slice of samples per domain."""
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with `function` applied to every tensor in it."""
        fields: dict[str, Any] = self._asdict()
        held = {name: value for name, value in fields.items() if _holds_tensors(value)}
        changed: Any = {name: map_inputs(function, one) for name, one in held.items()}
        return self._replace(**changed)

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on `device`."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def source_and_target(self) -> tuple[slice, slice]:
        """The samples of all sources, and those of all targets."""
        border = sum(self.sizes[: self.sources])
        return slice(0, border), slice(border, sum(self.sizes))

    @property
    def total_sources_and_targets(self) -> tuple[int, int]:
        """The samples of all sources and of all targets, over all processes."""
        sources = sum(self.total_sizes[: self.sources])
        return sources, sum(self.total_sizes) - sources

    @staticmethod
    def of(
        *parts: Samples,
        total_labelled: int | None = None,
        total_sizes: Sequence[int] | None = None,
        sources: int = 1,
    ) -> Batch:
        """One batch from the samples of each domain, in the order of the domains.

        The totals are this process's own counts unless given.
        """
        sizes = tuple(sample_count(part.inputs) for part in parts)
        masks = []
        for part, size in zip(parts, sizes, strict=True):
            if part.labels is None:
                masks.append(torch.zeros(size, dtype=torch.bool))
            elif part.labelled is None:
                masks.append(torch.ones(size, dtype=torch.bool))
            else:
                masks.append(part.labelled)
        labelled = torch.cat(masks)
        count = int(labelled.sum())
        known = next((part.labels for part in parts if part.labels is not None), None)
        if known is None:
            labels = torch.zeros(sum(sizes), dtype=torch.int64)
        else:
            labels = torch.cat(
                [
                    known.new_zeros((size, *known.shape[1:]))
                    if part.labels is None
                    else part.labels
                    for part, size in zip(parts, sizes, strict=True)
                ]
            )
        totals = sizes if total_sizes is None else tuple(total_sizes)
        return Batch(
            inputs=concatenate([part.inputs for part in parts]),
            labels=labels,
            labelled=labelled,
            domains=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
            sizes=sizes,
            prefix=count if bool(labelled[:count].all()) else None,
            total_samples=sum(totals),
            total_labelled=count if total_labelled is None else total_labelled,
            total_sizes=totals,
            sources=sources,
        )
