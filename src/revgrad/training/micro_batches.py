"""Gradient accumulation: a batch in parts, whose gradients add up to the batch's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from revgrad._distributed import sum_over_processes
from revgrad.batch import Batch, select_samples
from revgrad.errors import InputError
from revgrad.objectives import Losses, Objective
from revgrad.objectives.terms import Terms


def check_sums(objective: Objective) -> None:
    """Only a loss that is a sum over samples is the sum of its parts' losses."""
    parts: Sequence[Any] = objective.terms if isinstance(objective, Terms) else [objective]
    for part in parts:
        if not getattr(part, "sums_over_samples", False):
            raise InputError(
                f"micro_batch: {type(part).__name__} compares the samples of a whole batch, so its "
                "gradient is not a sum over parts of it; exact are adversarial, "
                "adversarial-entropy, two-losses, source-only and terms Reversal(); "
                "checkpoint_activations=True saves memory with any method"
            )


def micro_batches(batch: Batch, samples: int | None, label_loss: Any = None) -> Iterator[Batch]:
    """Parts of at most `samples` samples, each with its share of every domain.

    What losses are divided by is the whole batch's, over all processes, so that the parts' losses
    and gradients add up to the batch's.
    """
    size = len(batch.domains)
    if samples is None or size <= samples:
        yield batch
        return
    positions = getattr(label_loss, "positions", None)
    if positions is not None:
        known = positions(batch.labels[batch.labelled_samples])
        if batch.weights is not None:
            known = known * batch.weights[batch.labelled_samples]
        batch = batch._replace(total_positions=sum_over_processes(known.sum().float()))
    count = -(-size // samples)
    while any(len(part) > samples for part in _parts(batch, count)):
        count += 1  # shares are rounded, domain by domain
    for where in _parts(batch, count):
        yield _part(batch, where)


def _parts(batch: Batch, count: int) -> list[torch.Tensor]:
    """Places of each part's samples: the i-th of `count` slices of every domain."""
    slices = batch.domain_slices()
    return [
        torch.cat(
            [
                torch.arange(
                    s.start + (s.stop - s.start) * i // count,
                    s.start + (s.stop - s.start) * (i + 1) // count,
                )
                for s in slices
            ]
        )
        for i in range(count)
    ]


def _part(batch: Batch, where: torch.Tensor) -> Batch:
    where = where.to(batch.domains.device)
    labelled, domains = batch.labelled[where], batch.domains[where]
    known = int(labelled.sum())
    return batch._replace(
        inputs=select_samples(batch.inputs, where),
        labels=batch.labels[where],
        labelled=labelled,
        domains=domains,
        sizes=tuple(int((domains == number).sum()) for number in range(len(batch.sizes))),
        prefix=known if bool(labelled[:known].all()) else None,
        weights=None if batch.weights is None else batch.weights[where],
        attributes=(
            None
            if batch.attributes is None
            else {name: values[where] for name, values in batch.attributes.items()}
        ),
    )


def summed(parts: Sequence[Losses]) -> Losses:
    """The batch's losses out of its parts', detached."""
    if len(parts) == 1:
        return parts[0]

    def of(name: str, join: Any) -> Any:
        given = [value for part in parts if (value := getattr(part, name)) is not None]
        return join(given) if given else None

    return Losses(
        total=sum(part.total.detach() for part in parts),  # type: ignore[arg-type]
        label=of("label", sum),
        domain=of("domain", sum),
        domain_logits=of("domain_logits", torch.cat),
    )
