"""The space of a search: each parameter a range of numbers, or one of a few values.

- `height`: λ's height
- `gamma`: how fast λ grows (RampUp)
- `learning-rate`: μ's first value
- `layer`: where the domain classifier is attached
- `domain-classifier`: its hidden widths, 100 or 1024x1024
- `domain-lr-factor`: its learning rate, as a multiple of μ
- `batch-norm`: what BatchNorm sees, where the network has any
- `seed`: only where asked for
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from torch import nn

from revgrad.adapter import POLICIES
from revgrad.cutting.listing import Layer
from revgrad.diagnostics.layer_choice import layers_around
from revgrad.errors import InputError, unknown
from revgrad.networks.batch_norm import batch_norms
from revgrad.recipes import Recipe, RecipeChanges
from revgrad.schedules import Annealed, Constant, RampUp, Schedule

#: A parameter's value: a number, or one of a few names.
Value = float | str
#: Methods without a domain classifier: its widths and its rate mean nothing.
NO_DOMAIN_CLASSIFIER = ("mean-matching", "kernel-matching", "coral", "mcc")
#: Seeds that are tried unless said.
SEEDS = ("0", "1", "2", "3", "4")


@dataclass(frozen=True)
class Configuration:
    """One training: its recipe, and the layer that the domain classifier is attached to."""

    recipe: Recipe
    layer: str

    @property
    def widths(self) -> tuple[int, ...]:
        """The domain classifier's hidden widths; none where the recipe does not say them."""
        widths = self.recipe.domain_classifier
        return widths if isinstance(widths, tuple) else ()

    def value(self, name: str) -> Value | None:
        """What a parameter is here; None where it has no meaning, as γ of a constant λ."""
        return PARAMETERS[name].read(self)

    def changed(self, values: Mapping[str, Value]) -> Configuration:
        """The same with other values; numbers to three digits, so that a command can say them."""
        changed = self
        for name, value in values.items():
            rounded = float(f"{value:.3g}") if isinstance(value, float) else value
            changed = PARAMETERS[name].write(changed, rounded)
        return changed


@dataclass(frozen=True)
class LogRange:
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
class OneOf:
    """One of a few values, in no order."""

    values: tuple[Value, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ",".join(f"{v:g}" if isinstance(v, float) else v for v in self.values)


#: What is varied, by name; the order is that of `PARAMETERS`.
Space = dict[str, LogRange | OneOf]


@dataclass(frozen=True)
class Parameter:
    """How a configuration is read and changed.

    Attributes
    ----------
    spread
        of a number: how far it is varied around what it is, as factors
    """

    read: Callable[[Configuration], Value | None]
    write: Callable[[Configuration, Any], Configuration]
    spread: tuple[float, float] | None = None


PARAMETERS: dict[str, Parameter] = {
    "height": Parameter(
        lambda c: _height(c.recipe.settings.adaptation_factor),
        lambda c, value: _with_height(c, value),
        spread=(0.1, 3.0),
    ),
    "gamma": Parameter(
        lambda c: _gamma(c.recipe.settings.adaptation_factor),
        lambda c, value: _with_gamma(c, value),
        spread=(0.25, 2.0),
    ),
    "learning-rate": Parameter(
        lambda c: _first_rate(c.recipe.settings.learning_rate),
        lambda c, value: _with_first_rate(c, value),
        spread=(0.1, 3.0),
    ),
    "layer": Parameter(lambda c: c.layer, lambda c, value: replace(c, layer=value)),
    "domain-classifier": Parameter(
        lambda c: _show_widths(c.widths) or None,
        lambda c, value: _with(c, domain_classifier=_parse_widths(value)),
    ),
    "domain-lr-factor": Parameter(
        lambda c: float(c.recipe.settings.domain_lr_factor),
        lambda c, value: _with(c, domain_lr_factor=value),
        spread=(0.1, 3.0),
    ),
    "batch-norm": Parameter(
        lambda c: c.recipe.settings.batch_norm, lambda c, value: _with(c, batch_norm=value)
    ),
    "seed": Parameter(
        lambda c: str(c.recipe.settings.seed), lambda c, value: _with(c, seed=int(value))
    ),
}


def make_space(
    start: Configuration,
    network: nn.Module,
    layers: Sequence[Layer],
    asked: Sequence[str] = (),
) -> Space:
    """What to vary around `start`.

    Parameters
    ----------
    asked
        texts `NAME`, `NAME=low:high` or `NAME=a,b,c`: only these are varied. None: everything
        that means something for the method and the network, but the seed
    layers
        of the network, as `revgrad.layers` lists them
    """
    wanted = dict(_name_and_values(text) for text in asked)
    if len(wanted) < len(asked):
        raise InputError("a parameter was asked for twice; once would do")
    usual = {
        name: found
        for name in PARAMETERS
        if (found := _usual(name, start, network, layers)) is not None
    }
    if not wanted:
        return {name: found for name, found in usual.items() if name != "seed"}
    space: Space = {}
    for name in PARAMETERS:
        if name not in wanted:
            continue
        if why := _meaningless(name, start, network):
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


def describe_space(space: Space) -> dict[str, str]:
    """As json, and as `--vary` reads it."""
    return {name: str(what) for name, what in space.items()}


def show_value(value: Value | None) -> str:
    """Numbers to three digits; a dash where there is no value."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else value


def _height(schedule: Schedule | float) -> float | None:
    if isinstance(schedule, RampUp):
        return float(schedule.height)
    return float(schedule.value) if isinstance(schedule, Constant) else None


def _gamma(schedule: Schedule | float) -> float | None:
    return float(schedule.gamma) if isinstance(schedule, RampUp) else None


def _first_rate(schedule: Schedule | float) -> float | None:
    if isinstance(schedule, Annealed):
        return float(schedule.initial)
    return float(schedule.value) if isinstance(schedule, Constant) else None


def _with_height(configuration: Configuration, value: float) -> Configuration:
    schedule = configuration.recipe.settings.adaptation_factor
    if isinstance(schedule, RampUp):
        return _with(configuration, adaptation_factor=replace(schedule, height=value))
    return _with(configuration, adaptation_factor=Constant(value))


def _with_gamma(configuration: Configuration, value: float) -> Configuration:
    schedule = configuration.recipe.settings.adaptation_factor
    if not isinstance(schedule, RampUp):
        raise InputError("gamma is of a λ that ramps up; this one does not")
    return _with(configuration, adaptation_factor=replace(schedule, gamma=value))


def _with_first_rate(configuration: Configuration, value: float) -> Configuration:
    schedule = configuration.recipe.settings.learning_rate
    if isinstance(schedule, Annealed):
        return _with(configuration, learning_rate=replace(schedule, initial=value))
    return _with(configuration, learning_rate=Constant(value))


def _with(configuration: Configuration, **changes: Unpack[RecipeChanges]) -> Configuration:
    return replace(configuration, recipe=configuration.recipe.changed(changes))


def _parse_widths(text: str) -> tuple[int, ...]:
    """`100`, or `1024x1024` for two layers."""
    try:
        widths = tuple(int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1:
        raise InputError(f"hidden widths to try are numbers such as 100 or 1024x1024, not '{text}'")
    return widths


def _show_widths(widths: tuple[int, ...]) -> str:
    return "x".join(map(str, widths))


def _name_and_values(text: str) -> tuple[str, str | None]:
    name, equals, values = (part.strip() for part in text.partition("="))
    if name not in PARAMETERS:
        raise unknown("parameter to vary", name, PARAMETERS)
    if equals and not values:
        raise InputError(f"'{text}' names no values: {name}=low:high or {name}=a,b,c would do")
    return name, values or None


def _meaningless(name: str, start: Configuration, network: nn.Module) -> str | None:
    """Why a parameter would change nothing; None where it would."""
    method = start.recipe.method
    if name in ("domain-classifier", "domain-lr-factor") and method in NO_DOMAIN_CLASSIFIER:
        return f"{method} has no domain classifier"
    if name == "gamma" and start.value("gamma") is None:
        return "λ does not ramp up (adaptation_factor=RampUp(), --adaptation-factor ramp-up)"
    if name in ("height", "learning-rate") and start.value(name) is None:
        return "its schedule is a function of your own"
    if name == "batch-norm" and not batch_norms(network):
        return "the network has no BatchNorm"
    return None


def _usual(
    name: str, start: Configuration, network: nn.Module, layers: Sequence[Layer]
) -> LogRange | OneOf | None:
    """What is varied unless said; None where there is nothing to."""
    if _meaningless(name, start, network):
        return None
    spread = PARAMETERS[name].spread
    if spread is not None:
        value = start.value(name)
        if not isinstance(value, float) or value <= 0:
            return None
        low, high = (float(f"{value * factor:.3g}") for factor in spread)
        return LogRange(low, high)
    if name == "layer":
        places = layers_around(layers, start.layer)
        return OneOf(tuple(places)) if len(places) > 1 else None
    if name == "domain-classifier":
        if not start.widths:
            return None
        sizes = [tuple(max(round(width * by), 1) for width in start.widths) for by in (0.5, 1, 2)]
        return OneOf(tuple(dict.fromkeys(map(_show_widths, sizes))))
    return OneOf(POLICIES) if name == "batch-norm" else OneOf(SEEDS)


def _parsed(name: str, text: str, layers: Sequence[Layer]) -> LogRange | OneOf:
    if PARAMETERS[name].spread is not None:
        low, colon, high = text.partition(":")
        if colon:
            return LogRange(_positive(name, low), _positive(name, high))
        return OneOf(tuple(_positive(name, part) for part in text.split(",")))
    if ":" in text:
        raise InputError(f"{name} takes values with commas between, not the range '{text}'")
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for part in parts:
        _check_value(name, part, layers)
    return OneOf(parts)


def _check_value(name: str, value: str, layers: Sequence[Layer]) -> None:
    if name == "domain-classifier":
        _parse_widths(value)
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


def _positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{name} takes numbers above 0, not '{text.strip()}'")
    return value
