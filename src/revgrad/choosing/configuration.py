"""What a trial of a search may change of a training, and what it is afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from revgrad.errors import InputError
from revgrad.schedules import Annealed, Constant, RampUp, Schedule
from revgrad.training.settings import Settings

#: A parameter's value: a number, or one of a few names.
Value = float | str


@dataclass(frozen=True)
class Configuration:
    """One training: its settings, the layer and the domain classifier's hidden widths."""

    settings: Settings
    layer: str
    hidden: tuple[int, ...]

    def value(self, name: str) -> Value | None:
        """What a parameter is here; None where it has no meaning, as γ of a constant λ."""
        return _READ[name](self)

    def changed(self, values: Mapping[str, Value]) -> Configuration:
        """The same with other values; numbers to three digits, so that a command can say them."""
        changed = self
        for name, value in values.items():
            rounded = float(f"{value:.3g}") if isinstance(value, float) else value
            changed = _WRITE[name](changed, rounded)
        return changed


def _height(schedule: Schedule) -> float | None:
    if isinstance(schedule, RampUp):
        return float(schedule.height)
    return float(schedule.value) if isinstance(schedule, Constant) else None


def _gamma(schedule: Schedule) -> float | None:
    return float(schedule.gamma) if isinstance(schedule, RampUp) else None


def _with_height(configuration: Configuration, value: Any) -> Configuration:
    schedule = configuration.settings.factor
    if isinstance(schedule, RampUp):
        return _with(configuration, factor=replace(schedule, height=value))
    return _with(configuration, factor=Constant(value))


def _with_gamma(configuration: Configuration, value: Any) -> Configuration:
    schedule = configuration.settings.factor
    if not isinstance(schedule, RampUp):
        raise InputError("gamma is of a λ that ramps up; this one does not (--factor ramp-up)")
    return _with(configuration, factor=replace(schedule, gamma=value))


def _rate(schedule: Schedule) -> float | None:
    if isinstance(schedule, Annealed):
        return float(schedule.initial)
    return float(schedule.value) if isinstance(schedule, Constant) else None


def _with_rate(configuration: Configuration, value: Any) -> Configuration:
    schedule = configuration.settings.rate
    if isinstance(schedule, Annealed):
        return _with(configuration, rate=replace(schedule, initial=value))
    return _with(configuration, rate=Constant(value))


def _with(configuration: Configuration, **changes: Any) -> Configuration:
    return replace(configuration, settings=replace(configuration.settings, **changes))


def parse_hidden(text: str) -> tuple[int, ...]:
    """`100`, or `1024x1024` for two layers."""
    try:
        widths = tuple(int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1:
        raise InputError(f"hidden widths to try are numbers such as 100 or 1024x1024, not '{text}'")
    return widths


def show_hidden(widths: tuple[int, ...]) -> str:
    return "x".join(map(str, widths))


_READ: dict[str, Callable[[Configuration], Value | None]] = {
    "height": lambda c: _height(c.settings.factor),
    "gamma": lambda c: _gamma(c.settings.factor),
    "rate": lambda c: _rate(c.settings.rate),
    "layer": lambda c: c.layer,
    "hidden": lambda c: show_hidden(c.hidden) or None,
    "domain-rate": lambda c: float(c.settings.domain_rate),
    "batch-norm": lambda c: c.settings.batch_norm,
    "seed": lambda c: str(c.settings.seed),
}
_WRITE: dict[str, Callable[[Configuration, Any], Configuration]] = {
    "height": _with_height,
    "gamma": _with_gamma,
    "rate": _with_rate,
    "layer": lambda c, value: replace(c, layer=value),
    "hidden": lambda c, value: replace(c, hidden=parse_hidden(value)),
    "domain-rate": lambda c, value: _with(c, domain_rate=value),
    "batch-norm": lambda c, value: _with(c, batch_norm=value),
    "seed": lambda c, value: _with(c, seed=int(value)),
}
