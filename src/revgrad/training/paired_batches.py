"""Paired batches: half sources, half targets, a pure function of the seed and the step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from revgrad._permutation import MOST_INDEXED, BlockShuffle, Permutation
from revgrad._random import derive, seed_python
from revgrad.batch import Batch, Samples, concatenate
from revgrad.domains.attributes import share_attribute
from revgrad.domains.domain import Domain, says
from revgrad.domains.shards import shard_starts
from revgrad.errors import InputError

log = logging.getLogger("revgrad")


class PairedBatches:
    """Batches with `sizes[d]` samples of domain d (§4: 64 of the source, 64 of the target).

    Each domain is an endless stream of its permutations, one an epoch, so within an epoch no sample
    comes twice; step t takes the stream's next `size` places. Nothing is remembered from step to
    step, and of more than `MOST_INDEXED` samples the permutations are computed, not stored.
    Process r of W takes the r-th of W slices of each domain's samples.

    Parameters
    ----------
    sources
        how many of the domains, the first ones, are sources
    attributes
        names of the attributes that batches hold, in one code for all domains
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        sizes: Sequence[int],
        seed: int = 0,
        *,
        rank: int = 0,
        world: int = 1,
        sources: int = 1,
        attributes: Sequence[str] = (),
    ) -> None:
        for domain, size in zip(domains, sizes, strict=True):
            if not len(domain):
                raise InputError(f"{domain.name} is empty: there is nothing to draw batches from")
            if size < 1:
                raise InputError(f"{domain.name}: {size} samples a batch; at least 1 is needed")
            if len(domain) < size and rank == 0:
                log.warning(
                    "%s has %d samples, fewer than its %d samples of a batch: samples are drawn "
                    "again within a batch",
                    *(domain.name, len(domain), size),
                )
        self.domains = list(domains)
        self.sizes = tuple(sizes)
        self.seed = seed
        self.rank = rank
        self.world = world
        self.sources = sources
        self.attributes = {
            name: share_attribute(
                name, [(d.name, d.attributes.get(name), len(d)) for d in self.domains], self.sizes
            )
            for name in attributes
        }
        self._permutations: dict[tuple[int, int], np.ndarray | _Order] = {}
        self._shards = [shard_starts(domain) for domain in self.domains]
        self._local = [
            slice(size * rank // world, size * (rank + 1) // world) for size in self.sizes
        ]
        self._local_sizes = tuple(part.stop - part.start for part in self._local)
        self._fixed = self._fixed_fields()
        self._has_weights = any(d.weights is not None and d.labelled_count for d in self.domains)
        # domains whose reading draws random numbers, in an augmentation or in the user's dataset
        self.random = {
            number
            for number, domain in enumerate(self.domains)
            if domain.augmentation is not None or says(domain.store, "runs_user_code")
        }

    @property
    def roles(self) -> list[str]:
        """What each domain is: "source", "source 2", …, "target", "target 2", …"""
        targets = len(self.domains) - self.sources
        return [
            role if number == 0 else f"{role} {number + 1}"
            for role, count in (("source", self.sources), ("target", targets))
            for number in range(count)
        ]

    def indices(self, step: int) -> list[np.ndarray]:
        """Samples of each domain at `step`, over all processes."""
        return [self._stream(d, step * size, size) for d, size in enumerate(self.sizes)]

    def batch(self, step: int) -> Batch:
        """This process's part of the batch at `step`."""
        drawn = self.indices(step)
        own = drawn if self.world == 1 else [d[s] for d, s in zip(drawn, self._local, strict=True)]
        parts = []
        for number, domain in enumerate(self.domains):
            generator = self._generator(step, number) if number in self.random else None
            parts.append(domain.batch(own[number], generator))
        batch = self._joined(parts, drawn)
        if self._has_weights:
            batch = self._weighted(batch, drawn, own)
        return self._attributed(batch, drawn, own) if self.attributes else batch

    def several(self, step: int, count: int) -> list[Batch]:
        """`batch` of `count` steps from this one on: small ones cost less when read together."""
        if self._fixed is None or self.random or self._has_weights or self.attributes:
            return [self.batch(at) for at in range(step, step + count)]
        parts = self._read_together(step, count)
        if not all(isinstance(one, Tensor) and one.is_contiguous() for one, *_ in parts):
            # inputs of several parts, and images, whose order in memory must stay as it is
            return [self.batch(at) for at in range(step, step + count)]

        def by_step(blocks: list[Tensor]) -> Tensor:
            pairs = zip(blocks, self._local_sizes, strict=True)
            return torch.cat([one.view(count, size, *one.shape[1:]) for one, size in pairs], 1)

        inputs = by_step([cast(Tensor, part.inputs) for part in parts])
        labels = by_step(self._fixed_labels(parts, count))
        return [
            Batch(of_step, known, *self._fixed, total_sizes=self.sizes, sources=self.sources)
            for of_step, known in zip(inputs, labels, strict=True)
        ]

    def _read_together(self, step: int, count: int) -> list[Samples]:
        """This process's samples of each domain in `count` steps, step after step."""
        parts = []
        for number, (size, own) in enumerate(zip(self.sizes, self._local, strict=True)):
            drawn = self._stream(number, step * size, count * size).reshape(count, size)
            parts.append(self.domains[number].batch(drawn[:, own].reshape(-1)))
        return parts

    def _attributed(
        self, batch: Batch, drawn: Sequence[np.ndarray], own: Sequence[np.ndarray]
    ) -> Batch:
        """With the attributes, and how many of their values are known over all processes."""
        local, totals = {}, {}
        for name, shared in self.attributes.items():
            parts = [values[where] for values, where in zip(shared.values, own, strict=True)]
            values = torch.from_numpy(np.concatenate(parts))
            local[name] = values.float() if values.is_floating_point() else values
            totals[name] = sum(
                int(_known(values[where]).sum())
                for values, where in zip(shared.values, drawn, strict=True)
            )
        return batch._replace(attributes=local, attribute_totals=totals)

    def _weighted(
        self, batch: Batch, drawn: Sequence[np.ndarray], own: Sequence[np.ndarray]
    ) -> Batch:
        """With the labels' weights, and their sum over all processes: each knows every domain."""
        local = np.concatenate([_weights(d, i) for d, i in zip(self.domains, own, strict=True)])
        total = sum(float(_weights(d, i).sum()) for d, i in zip(self.domains, drawn, strict=True))
        return batch._replace(weights=torch.from_numpy(local), total_weight=total)

    def _joined(self, parts: list[Samples], drawn: Sequence[np.ndarray]) -> Batch:
        if self._fixed is None:
            # all processes know every domain, so the global count needs no communication
            labelled = [d.labelled_at(i).sum() for d, i in zip(self.domains, drawn, strict=True)]
            return Batch.of(
                *parts,
                total_labelled=int(sum(labelled)),
                total_sizes=self.sizes,
                sources=self.sources,
            )
        return Batch(
            concatenate([part.inputs for part in parts]),
            cast(Tensor, concatenate(self._fixed_labels(parts))),
            *self._fixed,
            total_sizes=self.sizes,
            sources=self.sources,
        )

    def _generator(self, step: int, number: int) -> torch.Generator:
        """Seeds what reading a domain may draw from; a generator for its augmentation."""
        seed = derive(self.seed, step, self.rank, number)
        torch.default_generator.manual_seed(seed)
        seed_python(seed)
        return torch.Generator().manual_seed(seed)

    def _stream(self, number: int, start: int, size: int) -> np.ndarray:
        length = len(self.domains[number])
        epoch, offset = divmod(start, length)
        if offset + size <= length:
            return self._permutation(number, epoch)[offset : offset + size]
        pieces = []
        while size > 0:
            piece = self._permutation(number, epoch)[offset : offset + size]
            pieces.append(piece)
            size -= len(piece)
            epoch, offset = epoch + 1, 0
        return np.concatenate(pieces)

    def _permutation(self, number: int, epoch: int) -> np.ndarray | _Order:
        key, length = (number, epoch), len(self.domains[number])
        known: np.ndarray | _Order | None = self._permutations.get(key)
        if known is None:
            for old in [k for k in self._permutations if k[0] == number and k[1] < epoch - 1]:
                del self._permutations[old]
            if (starts := self._shards[number]) is not None:
                known = BlockShuffle(starts, length, derive(self.seed, number, epoch))
            elif length > MOST_INDEXED:
                known = _Blocks(Permutation(length, derive(self.seed, number, epoch)))
            else:
                known = np.random.default_rng([self.seed, number, epoch]).permutation(length)
            self._permutations[key] = known
        return known

    def _fixed_labels(self, parts: list[Samples], steps: int = 1) -> list[Tensor]:
        """Of each domain; zeros where it has none."""
        labels = [part.labels for part in parts]
        known = next((one for one in labels if one is not None), None)
        like = torch.zeros(0, dtype=torch.int64) if known is None else known
        return [
            like.new_zeros((steps * size, *like.shape[1:])) if one is None else one
            for one, size in zip(labels, self._local_sizes, strict=True)
        ]

    def _fixed_fields(self) -> _Fixed | None:
        """What all batches share where every domain has all its labels or none: the usual case."""
        whole = [domain.labelled_count == len(domain) for domain in self.domains]
        if any(d.labelled_count and not w for d, w in zip(self.domains, whole, strict=True)):
            return None
        sizes = self._local_sizes
        domains = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        labelled = torch.tensor(whole)[domains]
        count = int(labelled.sum())
        return _Fixed(
            labelled=labelled,
            domains=domains,
            sizes=sizes,
            prefix=count if bool(labelled[:count].all()) else None,
            total_samples=sum(self.sizes),
            total_labelled=sum(n for n, w in zip(self.sizes, whole, strict=True) if w),
        )


class _Order(Protocol):
    def __getitem__(self, places: slice, /) -> np.ndarray: ...


class _Blocks:
    """A computed permutation of which the block that was read last is kept: a batch then costs
    no more than with an array."""

    SIZE = 4096

    def __init__(self, order: Permutation) -> None:
        self.order = order
        self._kept = 0, order[0 : self.SIZE]

    def __getitem__(self, places: slice) -> np.ndarray:
        start, stop = places.start, min(places.stop, len(self.order))
        first, block = self._kept
        if start < first or stop > first + len(block):
            block = self.order[start : max(stop, start + self.SIZE)]
            first = start
            self._kept = first, block
        return block[start - first : stop - first]


def _weights(domain: Domain, indices: np.ndarray) -> np.ndarray:
    """(n,) float32: the weights of the samples' labels; 0 where a sample has none."""
    labelled: np.ndarray = domain.labelled_at(indices).astype(np.float32)
    if domain.weights is None:
        return labelled
    weights: np.ndarray = labelled * domain.weights[indices]
    return weights


def _known(values: np.ndarray) -> np.ndarray:
    """(n,) bool: which values of a `SharedAttribute` are not missing."""
    known: np.ndarray = values >= 0 if values.dtype.kind == "i" else ~np.isnan(values)
    return known


class _Fixed(NamedTuple):
    labelled: Tensor
    domains: Tensor
    sizes: tuple[int, ...]
    prefix: int | None
    total_samples: int
    total_labelled: int
