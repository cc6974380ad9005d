"""What a search varies: each parameter a range of numbers, or a choice among a few values.

height        λ's height           gamma         how fast λ grows (RampUp)
rate          μ's first value      domain-rate   the domain classifier's, as a multiple of μ
layer         where the domain classifier is attached
hidden        its hidden widths, 100 or 1024x1024
batch-norm    what BatchNorm sees, where the network has any
seed          only where asked for
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from revgrad.adapter import POLICIES
from revgrad.choosing.attaching import around
from revgrad.choosing.configuration import Configuration, Value, parse_hidden, show_hidden
from revgrad.cutting.listing import Layer
from revgrad.errors import InputError, unknown

NAMES = ("height", "gamma", "rate", "layer", "hidden", "domain-rate", "batch-norm", "seed")
#: Methods without a domain classifier: its width and its rate mean nothing.
MATCHING = ("mean-matching", "kernel-matching")
#: How far a number is varied around what it is: from a tenth to three times, and so on.
SPREAD = {"height": (0.1, 3.0), "gamma": (0.25, 2.0), "rate": (0.1, 3.0), "domain-rate": (0.1, 3.0)}
SEEDS = ("0", "1", "2", "3", "4")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, alike often for each factor of ten: all are scales."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise InputError(
                f"a range runs from a number above 0 to a larger one, not {self.low}:{self.high}"
            )

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float | int) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}"


@dataclass(frozen=True)
class Choice:
    """One of a few values, in no order."""

    values: tuple[Value, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ",".join(f"{v:g}" if isinstance(v, float) else v for v in self.values)


#: What is varied, by name; the order is that of `NAMES`.
Space = dict[str, Range | Choice]


def make_space(
    start: Configuration,
    network: nn.Module,
    layers: Sequence[Layer],
    method: str,
    asked: Sequence[str] = (),
) -> Space:
    """What to vary around `start`.

    asked    texts `NAME`, `NAME=low:high` or `NAME=a,b,c`: only these are varied. None: everything
             that means something for the method and the network, but the seed
    layers   of the network, as `revgrad.layers` lists them
    """
    wanted = dict(_split(text) for text in asked)
    if len(wanted) < len(asked):
        raise InputError("a parameter was asked for twice; once would do")
    usual = {
        name: found
        for name in NAMES
        if (found := _usual(name, start, network, layers, method)) is not None
    }
    if not wanted:
        return {name: found for name, found in usual.items() if name != "seed"}
    space: Space = {}
    for name in NAMES:
        if name not in wanted:
            continue
        if why := _meaningless(name, start, network, method):
            raise InputError(f"{name} can't be varied: {why}")
        text = wanted[name]
        if text is None and name not in usual:
            raise InputError(f"{name} has nothing to vary by itself: say {name}=a,b,…")
        space[name] = usual[name] if text is None else _parsed(name, text, layers)
    return space


def starting_values(space: Space, start: Configuration) -> dict[str, Value]:
    """What `start` has for the parameters that are varied, where that is within the space."""
    found = {name: start.value(name) for name in space}
    return {name: v for name, v in found.items() if v is not None and v in space[name]}


def describe_space(space: Mapping[str, Range | Choice]) -> dict[str, str]:
    """As json, and as `--vary` reads it."""
    return {name: str(what) for name, what in space.items()}


def _split(text: str) -> tuple[str, str | None]:
    name, equals, values = (part.strip() for part in text.partition("="))
    if name not in NAMES:
        raise unknown("parameter to vary", name, NAMES)
    if equals and not values:
        raise InputError(f"'{text}' names no values: {name}=low:high or {name}=a,b,c would do")
    return name, values or None


def _meaningless(name: str, start: Configuration, network: nn.Module, method: str) -> str | None:
    """Why a parameter would change nothing; None where it would."""
    if name in ("hidden", "domain-rate") and method in MATCHING:
        return f"{method} has no domain classifier"
    if name == "gamma" and start.value("gamma") is None:
        return "λ does not ramp up (--factor ramp-up)"
    if name in ("height", "rate") and start.value(name) is None:
        return "its schedule is a function of your own"
    if name == "batch-norm" and not has_batch_norm(network):
        return "the network has no BatchNorm"
    return None


def _usual(
    name: str, start: Configuration, network: nn.Module, layers: Sequence[Layer], method: str
) -> Range | Choice | None:
    """What is varied unless said; None where there is nothing to."""
    if _meaningless(name, start, network, method):
        return None
    value = start.value(name)
    if name in SPREAD:
        if not isinstance(value, float) or value <= 0:
            return None
        less, more = SPREAD[name]
        return Range(float(f"{value * less:.3g}"), float(f"{value * more:.3g}"))
    if name == "layer":
        places = around(layers, start.layer)
        return Choice(tuple(places)) if len(places) > 1 else None
    if name == "hidden":
        if not start.hidden:
            return None
        sizes = [tuple(max(round(w * by), 1) for w in start.hidden) for by in (0.5, 1, 2)]
        return Choice(tuple(dict.fromkeys(map(show_hidden, sizes))))
    return Choice(POLICIES) if name == "batch-norm" else Choice(SEEDS)


def _parsed(name: str, text: str, layers: Sequence[Layer]) -> Range | Choice:
    if name in SPREAD:
        low, colon, high = text.partition(":")
        if colon:
            return Range(_number(name, low), _number(name, high))
        return Choice(tuple(_number(name, part) for part in text.split(",")))
    if ":" in text:
        raise InputError(f"{name} takes values with commas between, not the range '{text}'")
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for part in parts:
        _check(name, part, layers)
    return Choice(parts)


def _check(name: str, value: str, layers: Sequence[Layer]) -> None:
    if name == "hidden":
        parse_hidden(value)
    elif name == "seed" and not value.isdecimal():
        raise InputError(f"seeds are whole numbers, not '{value}'")
    elif name == "batch-norm" and value not in POLICIES:
        raise unknown("batch-norm policy", value, POLICIES)
    elif name == "layer":
        known = {layer.name: layer for layer in layers}
        if value not in known:
            raise unknown("layer", value, known)
        if not known[value].cuttable:
            raise InputError(f"the network can't be cut at '{value}': {known[value].reason}")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{name} takes numbers above 0, not '{text.strip()}'")
    return value


def has_batch_norm(network: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in network.modules())
