"""A source moved to the target's means and deviations, feature by feature.

    move = Move.of(source, target)
    moved, held_out = move.applied(source), move.applied(held_out)

Right where a sensor reads otherwise; wrong where the target is another mixture of the same
population, which the domains' distance alone can't tell.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from revgrad.batch import Inputs
from revgrad.domains.domain import Domain, Store, spaced_indices

#: Samples of each domain that means and deviations are taken of.
MEASURED = 10_000


@dataclass(frozen=True, eq=False)
class Move:
    """x · scale + shift, one number a feature of vectors, one a channel of series."""

    scale: Tensor
    shift: Tensor

    @staticmethod
    def of(source: Domain, target: Domain) -> Move:
        """What gives the source the target's mean and deviation of every feature. A feature that
        never changes in the source is shifted alone."""
        (mean, spread), (goal, wanted) = (_moments(part) for part in (source, target))
        varies = spread > 1e-7 * (mean.abs() + spread)
        scale = torch.where(varies, wanted / torch.where(varies, spread, 1.0), 1.0)
        return Move(scale.float(), (goal - mean * scale).float())

    def applied(self, domain: Domain) -> Domain:
        """The domain with its inputs moved, a batch at a time."""
        return domain._with(store=MovedStore(domain.store, self))


def can_move(domain: Domain) -> bool:
    """Whether inputs are vectors of floats, or series (channels, time) of them."""
    if not len(domain):
        return False
    example = domain.batch([0], augment=False).inputs
    return isinstance(example, Tensor) and example.ndim in (2, 3) and example.is_floating_point()


class MovedStore:
    """A store whose inputs are moved as they are taken."""

    def __init__(self, store: Store, move: Move) -> None:
        self.store = store
        self.move = move

    @property
    def prepared(self) -> bool:
        return bool(getattr(self.store, "prepared", False))

    def __len__(self) -> int:
        return len(self.store)

    def take(self, indices: np.ndarray) -> Inputs:
        inputs: Any = self.store.take(indices)
        found: Tensor = inputs * self.move.scale + self.move.shift
        return found.to(inputs.dtype)

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(self.store.fingerprint().encode(), digest_size=16)
        for part in (self.move.scale, self.move.shift):
            digest.update(part.numpy().tobytes())
        return f"moved:{digest.hexdigest()}"


def _moments(domain: Domain) -> tuple[Tensor, Tensor]:
    """Mean and deviation, (features,) of vectors, (channels, 1) of series; in float64."""
    inputs = domain.batch(spaced_indices(len(domain), MEASURED), augment=False).inputs
    assert isinstance(inputs, Tensor)  # `can_move` says so
    axes = (0, 2) if inputs.ndim == 3 else (0,)
    spread, mean = torch.std_mean(inputs.double(), dim=axes, correction=0)
    return (mean[:, None], spread[:, None]) if inputs.ndim == 3 else (mean, spread)
