"""Settings of a training: every number of §4 and appendix C, and the switches around them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import torch

from revgrad._distributed import is_sharded
from revgrad.adapter import POLICIES, BatchNormPolicy
from revgrad.errors import InputError, unknown
from revgrad.schedules import Annealed, Constant, RampUp, Schedule, describe_schedule

#: From parameter groups to an optimiser; the trainer sets each group's rate at every step.
OptimiserFactory = Callable[[list[dict[str, Any]], "Settings"], torch.optim.Optimizer]


def _sgd(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        groups,
        lr=settings.at(0.0).learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        # one kernel for all parameters where the device has it
        fused=all(
            p.device.type in ("cpu", "cuda") and not is_sharded(p)
            for g in groups
            for p in g["params"]
        ),
    )


def _adam(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
    rate = settings.at(0.0).learning_rate
    return torch.optim.Adam(groups, lr=rate, weight_decay=settings.weight_decay)


def _adamw(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
    rate = settings.at(0.0).learning_rate
    return torch.optim.AdamW(groups, lr=rate, weight_decay=settings.weight_decay)


#: How several domains share their part of a batch.
SHARE_OUT = ("evenly", "by-size")
#: Optimisers by the name that `--optimiser` takes.
OPTIMISERS: dict[str, OptimiserFactory] = {"sgd": _sgd, "adam": _adam, "adamw": _adamw}


class Scheduled(NamedTuple):
    """Values of the schedules at one moment: λ and μ."""

    adaptation_factor: float
    learning_rate: float


@dataclass(frozen=True)
class Settings:
    """Every number of a training. The defaults are the paper's (§4, appendix C) where it gives one.

    Attributes
    ----------
    steps
        length of training; progress is step / steps
    batch_size
        samples of a step over all processes, `source_share` of them from the source
    source_share
        share of a batch's samples that are the source's
    share_out
        how several sources share their part of a batch, and several targets theirs: "evenly",
        or "by-size", the larger domain the more
    learning_rate
        schedule of μ; a number is a constant one
    adaptation_factor
        schedule of λ; a number is a constant one
    optimiser
        a name (sgd, adam, adamw), or a callable (groups, settings) → Optimizer
    momentum, weight_decay
        of the optimiser
    domain_lr_factor
        the domain classifier's learning rate is μ times this
    pretrained_lr_factor
        that of a pretrained network's own layers; None: as its blueprint says (.1), so that new
        layers learn ten times as fast
    layer_rates
        by layer, the multiple of μ that it learns with: {"layer4": 0.3}. A name
        means all that lies in the layer; the longest that fits a weight decides
    freeze
        layers that stay as they are, weights and BatchNorm statistics, by name or
        pattern: ("conv1", "blocks.[0-3]")
    max_weight_norm
        limit of the l2 norm of the weights into each unit, after every step; None:
        the network's own limit where its blueprint has one; 0: none
    max_gradient_norm
        limit of the norm of all gradients together
    batch_norm
        what BatchNorm sees: joint, separate or target (see DomainAdapter)
    ema_decay
        decay of an exponential moving average (EMA) of the weights, which is then
        what is evaluated and handed back; None: the weights themselves
    seed
        decides batches, dropout, augmentation (and initial weights that we make)
    channels_last
        memory order of image tensors: same numbers to rounding, faster on CPU, CUDA
    device
        "auto" (cuda, mps, cpu in that order), or a torch device
    evaluate_every, log_every, checkpoint_every
        in steps; 0: at the end only. They never change the weights
    prefetch
        read the next batch while this one trains; None: where it can help. The weights are the
        same bit for bit
    workers
        processes that read batches of Datasets, augmentations and files that are decoded as they
        come; any number gives the same weights
    precision
        "full", or "bf16": layers compute in bfloat16 (autocast), weights, losses and evaluation
        stay in full; for accelerators: most CPUs are slower with it
    micro_batch
        samples that pass at once on a process; the gradients of the batch's parts are added up,
        which is exact for losses that are sums over samples (others are refused). BatchNorm
        normalises each part by itself, and dropout draws other masks
    checkpoint_activations
        keep only what lies between the blocks of the feature extractor, and run each block again
        in the backward pass: less memory, about a third more time, the same gradients
    compile
        by torch.compile, one graph for every λ; True, or the name of a backend
    shard
        of several processes each keeps a part of the weights, gradients and the optimiser's state,
        and of a checkpoint (FSDP2): for networks that fit no device. The same result to rounding

    Examples
    --------
    >>> revgrad.Settings(steps=5000, learning_rate=1e-3, seed=1).batch_size
    128
    """

    steps: int = 10_000
    batch_size: int = 128
    source_share: float = 0.5
    share_out: Literal["evenly", "by-size"] = "evenly"
    learning_rate: Schedule | float = field(default_factory=Annealed)
    adaptation_factor: Schedule | float = field(default_factory=RampUp)
    optimiser: str | OptimiserFactory = "sgd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    domain_lr_factor: float = 1.0
    pretrained_lr_factor: float | None = None
    layer_rates: Mapping[str, float] = field(default_factory=dict, hash=False)
    freeze: Sequence[str] = ()
    max_weight_norm: float | None = None
    max_gradient_norm: float | None = None
    batch_norm: BatchNormPolicy = "joint"
    ema_decay: float | None = None
    seed: int = 0
    channels_last: bool = True
    device: str = "auto"
    evaluate_every: int = 1000
    log_every: int = 50
    checkpoint_every: int = 1000
    prefetch: bool | None = None
    workers: int = 0
    precision: str = "full"
    micro_batch: int | None = None
    checkpoint_activations: bool = False
    compile: bool | str = False
    shard: bool = False

    def __post_init__(self) -> None:
        def need(condition: bool, text: str) -> None:
            if not condition:
                raise InputError(text)

        for name in WHOLE_NUMBERS:
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        for name in SCHEDULED:
            object.__setattr__(self, name, _schedule(name, getattr(self, name)))
        need(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        need(self.batch_size >= 2, f"batch_size must be at least 2, not {self.batch_size}")
        need(
            0 < self.source_share < 1,
            f"source_share must lie between 0 and 1, not {self.source_share}",
        )
        if self.share_out not in SHARE_OUT:
            raise unknown("way to share out", self.share_out, SHARE_OUT)
        need(0 <= self.momentum < 1, f"momentum must lie in [0, 1), not {self.momentum}")
        need(
            0 <= self.weight_decay < math.inf,
            f"weight_decay must be ≥ 0 and finite, not {self.weight_decay}",
        )
        need(
            0 < self.domain_lr_factor < math.inf,
            f"domain_lr_factor must be above 0 and finite, not {self.domain_lr_factor}",
        )
        slowed = self.pretrained_lr_factor
        need(
            slowed is None or 0 < slowed < math.inf,
            f"pretrained_lr_factor must be above 0 and finite, not {slowed}; to keep layers, name "
            "them in freeze",
        )
        object.__setattr__(self, "layer_rates", _rates(self.layer_rates))
        object.__setattr__(self, "freeze", _names(self.freeze))
        norm = self.max_weight_norm
        need(norm is None or norm >= 0, f"max_weight_norm must be 0 (none) or more, not {norm}")
        limit = self.max_gradient_norm
        need(
            limit is None or limit > 0, f"max_gradient_norm must be above 0 (or none), not {limit}"
        )
        need(
            self.ema_decay is None or 0 < self.ema_decay < 1,
            f"ema_decay must lie between 0 and 1 (or none), not {self.ema_decay}",
        )
        need(self.seed >= 0, f"seed must be ≥ 0, not {self.seed}")
        need(
            self.batch_norm in POLICIES,
            f"batch_norm is one of {', '.join(POLICIES)}, not {self.batch_norm!r}",
        )
        for name in ("evaluate_every", "log_every", "checkpoint_every", "workers"):
            need(getattr(self, name) >= 0, f"{name} must be ≥ 0, not {getattr(self, name)}")
        need(
            self.precision in PRECISIONS,
            f"precision is one of {', '.join(PRECISIONS)}, not {self.precision!r}",
        )
        if self.micro_batch is not None:
            object.__setattr__(self, "micro_batch", _whole("micro_batch", self.micro_batch))
            need(self.micro_batch >= 2, f"micro_batch must be at least 2, not {self.micro_batch}")
        need(
            not (self.shard and self.compile),
            "shard and compile don't go together: a compiled step would keep all weights whole",
        )
        for moment in (0.0, 0.5, 1.0):
            for name, value in zip(Scheduled._fields, self.at(moment), strict=True):
                need(
                    math.isfinite(value) and value >= 0,
                    f"{name} must be a finite number of 0 or more, not {value} (at progress "
                    f"{moment})",
                )
        if isinstance(self.optimiser, str) and self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)

    def at(self, progress: float) -> Scheduled:
        """λ and μ at a progress from 0 to 1."""
        factor, rate = self.adaptation_factor, self.learning_rate
        assert callable(factor)
        assert callable(rate)  # numbers became schedules when the settings were made
        return Scheduled(factor(progress), rate(progress))

    def make_optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimiser of these groups of parameters."""
        factory = OPTIMISERS[self.optimiser] if isinstance(self.optimiser, str) else self.optimiser
        return factory(groups, self)

    def sizes(self, sources: Sequence[int], targets: Sequence[int] = ()) -> list[int]:
        """Samples of each domain in a batch, sources first; `sources` and `targets` are how many
        samples each domain has.

        All sources have `source_share` of the batch, which they share as `share_out` says; so do
        targets with the rest. Without a target, as in source-only training, the batch is the
        sources' share of it: the very samples the label predictor sees when there is a target.
        """
        source = min(max(round(self.batch_size * self.source_share), 1), self.batch_size - 1)
        parts = [(source, sources), (self.batch_size - source, targets)]
        found = []
        for samples, lengths in parts:
            if samples < len(lengths):
                raise InputError(
                    f"a batch of {self.batch_size} is too small for {len(sources) + len(targets)} "
                    "domains"
                )
            evenly = self.share_out == "evenly"
            found += _shared_out(samples, [1] * len(lengths) if evenly else lengths)
        return found

    def describe(self) -> dict[str, Any]:
        """The settings as json: what a run's configuration records."""
        values: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name in SCHEDULED:
                value = describe_schedule(value)
            elif callable(value):
                value = getattr(value, "__qualname__", repr(value))
            elif isinstance(value, tuple | dict):  # none of them is as good as not there
                value = (list(value) if isinstance(value, tuple) else dict(value)) or None
            if isinstance(value, str):
                value = without_addresses(value)
            values[item.name] = value
        return values


class SettingsChanges(TypedDict, total=False):
    """The fields of `Settings` as keywords: `adapt(…, steps=5000, learning_rate=1e-3)`."""

    steps: int
    batch_size: int
    source_share: float
    share_out: Literal["evenly", "by-size"]
    learning_rate: Schedule | float
    adaptation_factor: Schedule | float
    optimiser: str | OptimiserFactory
    momentum: float
    weight_decay: float
    domain_lr_factor: float
    pretrained_lr_factor: float | None
    layer_rates: Mapping[str, float]
    freeze: Sequence[str]
    max_weight_norm: float | None
    max_gradient_norm: float | None
    batch_norm: BatchNormPolicy
    ema_decay: float | None
    seed: int
    channels_last: bool
    device: str
    evaluate_every: int
    log_every: int
    checkpoint_every: int
    prefetch: bool | None
    workers: int
    precision: str
    micro_batch: int | None
    checkpoint_activations: bool
    compile: bool | str
    shard: bool


#: What layers compute in.
PRECISIONS = ("full", "bf16")
#: Settings that are schedules: a number there is a constant one.
SCHEDULED = ("learning_rate", "adaptation_factor")
#: Settings that count something.
WHOLE_NUMBERS = (
    *("steps", "batch_size", "seed", "workers"),
    *("evaluate_every", "log_every", "checkpoint_every"),
)
#: No counter and no generator of PyTorch takes more.
LARGEST_NUMBER = 2**63
#: Settings that may differ when a run is resumed: they do not change what it computes.
RESUME_MAY_CHANGE = frozenset(
    {"device", "evaluate_every", "log_every", "checkpoint_every", "prefetch", "workers", "shard"}
)


def _shared_out(samples: int, weights: Sequence[int]) -> list[int]:
    """`samples` in whole parts, at least one each, as near to the weights as can be."""
    if not weights:
        return []
    free, total = samples - len(weights), sum(weights)
    ends = [free * sum(weights[: i + 1]) // total for i in range(len(weights))]
    return [1 + end - start for start, end in zip([0, *ends], ends, strict=False)]


def without_addresses(text: str) -> str:
    """A `repr` in one line, without memory addresses, which differ from process to process."""
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())


def _whole(name: str, value: Any) -> int:
    """A whole number, also one written as 1e4."""
    if _is_number(value) and float(value).is_integer():
        if int(value) >= LARGEST_NUMBER:
            raise InputError(f"{name} must be below 2^63, not {value}")
        return int(value)
    raise InputError(f"{name} must be a whole number, not {value!r}")


def _schedule(name: str, value: Any) -> Schedule:
    if _is_number(value):
        return Constant(float(value))
    if not callable(value):
        raise InputError(
            f"{name} is a number or a schedule (a function of progress, as RampUp()), not {value!r}"
        )
    return value  # type: ignore[no-any-return]


def _rates(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise InputError(f"layer_rates maps layers to factors, {{'layer4': 0.3}}, not {given!r}")
    for layer, factor in given.items():
        if not isinstance(layer, str) or not layer:
            raise InputError(f"layer_rates names layers by text, not {layer!r}")
        if not _is_number(factor) or not 0 < float(factor) < float("inf"):
            raise InputError(
                f"the learning rate factor of layer '{layer}' must be a number above 0, not "
                f"{factor!r}; to keep the layer as it is, name it in freeze"
            )
    return {layer: float(factor) for layer, factor in given.items()}


def _names(given: Any) -> tuple[str, ...]:
    named = (given,) if isinstance(given, str) else given
    if not isinstance(named, Sequence) or not all(isinstance(one, str) and one for one in named):
        raise InputError(f"freeze takes names of layers, ('layer1', 'layer2'), not {given!r}")
    return tuple(named)


def _is_number(value: Any) -> bool:
    """Python's and NumPy's numbers, and tensors of one; not booleans."""
    return (
        not isinstance(value, bool | str)
        and hasattr(value, "__float__")
        and getattr(value, "ndim", 0) == 0
    )
