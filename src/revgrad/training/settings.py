"""How to train: every number of §4 and appendix C, and the switches around them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from revgrad.adapter import POLICIES, BatchNormPolicy
from revgrad.errors import InputError, unknown
from revgrad.schedules import Annealed, RampUp, Schedule, describe_schedule

#: From parameter groups to an optimiser; the trainer sets each group's rate at every step.
OptimiserFactory = Callable[[list[dict[str, Any]], "Settings"], torch.optim.Optimizer]


def _sgd(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        groups,
        lr=settings.rate(0.0),
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        # one kernel for all parameters where the device has it
        fused=all(p.device.type in ("cpu", "cuda") for g in groups for p in g["params"]),
    )


#: Optimisers by the name that `--optimiser` takes.
OPTIMISERS: dict[str, OptimiserFactory] = {
    "sgd": _sgd,
    "adam": lambda groups, s: torch.optim.Adam(groups, lr=s.rate(0.0), weight_decay=s.weight_decay),
    "adamw": lambda groups, s: torch.optim.AdamW(
        groups, lr=s.rate(0.0), weight_decay=s.weight_decay
    ),
}


@dataclass(frozen=True)
class Settings:
    """The defaults are the paper's (§4, appendix C) where it gives a number.

    steps            length of training; progress is step / steps
    batch            rows of a step over all processes, `source_share` of them from the source
    rate, factor     schedules of μ and λ
    optimiser        a name (sgd, adam, adamw), or a callable (groups, settings) → Optimizer
    momentum, weight_decay
    domain_rate      the domain classifier's rate is μ times this
    max_norm         limit of the l2 norm of the weights into each unit, after every step
    clip             limit of the norm of all gradients together
    batch_norm       what BatchNorm sees: joint, separate or target (see DomainAdapter)
    average          decay of a moving average of the weights, which is then what is evaluated and
                     handed back; None: the weights themselves
    seed             decides batches, dropout, augmentation (and initial weights where we make them)
    channels_last    memory order of image tensors: same numbers to rounding, faster on CPU and CUDA
    device           "auto" (cuda, mps, cpu in that order), or a torch device
    evaluate_every, log_every, checkpoint_every
                     in steps; 0: at the end only. They never change the weights
    """

    steps: int = 10_000
    batch: int = 128
    source_share: float = 0.5
    rate: Schedule = field(default_factory=Annealed)
    factor: Schedule = field(default_factory=RampUp)
    optimiser: str | OptimiserFactory = "sgd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    domain_rate: float = 1.0
    max_norm: float | None = None
    clip: float | None = None
    batch_norm: BatchNormPolicy = "joint"
    average: float | None = None
    seed: int = 0
    channels_last: bool = True
    device: str = "auto"
    evaluate_every: int = 1000
    log_every: int = 50
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        def need(condition: bool, text: str) -> None:
            if not condition:
                raise InputError(text)

        need(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        need(self.batch >= 2, f"batch must be at least 2, not {self.batch}")
        need(
            0 < self.source_share < 1,
            f"source_share must lie between 0 and 1, not {self.source_share}",
        )
        need(0 <= self.momentum < 1, f"momentum must lie in [0, 1), not {self.momentum}")
        need(self.weight_decay >= 0, f"weight_decay must be ≥ 0, not {self.weight_decay}")
        need(self.domain_rate > 0, f"domain_rate must be above 0, not {self.domain_rate}")
        for name in ("max_norm", "clip"):
            value = getattr(self, name)
            need(value is None or value > 0, f"{name} must be above 0 (or none), not {value}")
        need(
            self.average is None or 0 < self.average < 1,
            f"average must lie between 0 and 1 (or none), not {self.average}",
        )
        need(self.seed >= 0, f"seed must be ≥ 0, not {self.seed}")
        need(
            self.batch_norm in POLICIES,
            f"batch_norm is one of {', '.join(POLICIES)}, not {self.batch_norm!r}",
        )
        for name in ("evaluate_every", "log_every", "checkpoint_every"):
            need(getattr(self, name) >= 0, f"{name} must be ≥ 0, not {getattr(self, name)}")
        if isinstance(self.optimiser, str) and self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)

    def make_optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        factory = OPTIMISERS[self.optimiser] if isinstance(self.optimiser, str) else self.optimiser
        return factory(groups, self)

    def sizes(self, domains: int) -> list[int]:
        """Rows of each domain in a batch; the source's share first, the rest shared equally.

        With one domain, as in source-only training, the batch is the source's share of it:
        the very rows the label predictor sees when there is a target.
        """
        source = min(max(round(self.batch * self.source_share), 1), self.batch - 1)
        if domains == 1:
            return [source]
        others, rest = domains - 1, self.batch - source
        if rest < others:
            raise InputError(f"a batch of {self.batch} is too small for {domains} domains")
        return [source, *(rest * (i + 1) // others - rest * i // others for i in range(others))]

    def describe(self) -> dict[str, Any]:
        """The settings as json: what a run's configuration records."""
        values: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name in ("rate", "factor"):
                value = describe_schedule(value)
            elif callable(value):
                value = getattr(value, "__qualname__", repr(value))
            if isinstance(value, str):
                value = without_addresses(value)
            values[item.name] = value
        return values


def without_addresses(text: str) -> str:
    """A `repr` in one line, without memory addresses, which differ from process to process."""
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())


#: Settings that may differ when a run is resumed: they do not change what it computes.
DISPLAY = frozenset({"device", "evaluate_every", "log_every", "checkpoint_every"})
