"""Numbers that change with the progress p of training, p = step / steps ∈ [0, 1].

A schedule is a pure function of p and has no state, so that a resumed run needs none.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Protocol

from revgrad.errors import InputError, unknown


class Schedule(Protocol):
    """A number as a function of progress."""

    def __call__(self, progress: float) -> float: ...


@dataclass(frozen=True)
class RampUp:
    """λ_p = height · (2 / (1 + exp(−γ p)) − 1): from 0 towards `height` (§4; γ = 10, height 1).

    Attributes
    ----------
    gamma
        γ: how soon it rises
    height
        what it rises to

    Examples
    --------
    >>> ramp = revgrad.RampUp(gamma=10, height=0.3)
    >>> [round(ramp(progress), 3) for progress in (0.0, 0.1, 0.5, 1.0)]
    [0.0, 0.139, 0.296, 0.3]
    """

    gamma: float = 10.0
    height: float = 1.0

    def __post_init__(self) -> None:
        _finite(self, gamma=self.gamma, height=self.height)
        if self.gamma < 0:
            raise InputError(f"RampUp takes gamma ≥ 0, not {self.gamma}")

    def __call__(self, progress: float) -> float:
        return self.height * (2.0 / (1.0 + math.exp(-self.gamma * _checked(progress))) - 1.0)


@dataclass(frozen=True)
class Annealed:
    """μ_p = μ₀ / (1 + α p)^β (appendix C; μ₀ = .01, α = 10, β = .75).

    Attributes
    ----------
    initial
        μ₀
    alpha
        α: how soon it falls
    beta
        β: how far it falls

    Examples
    --------
    >>> rate = revgrad.Annealed(0.01)
    >>> [round(rate(progress), 5) for progress in (0.0, 0.5, 1.0)]
    [0.01, 0.00261, 0.00166]
    """

    initial: float = 0.01
    alpha: float = 10.0
    beta: float = 0.75

    def __post_init__(self) -> None:
        _finite(self, initial=self.initial, alpha=self.alpha, beta=self.beta)
        if self.alpha < 0:
            raise InputError(f"Annealed takes alpha ≥ 0, not {self.alpha}")

    def __call__(self, progress: float) -> float:
        return self.initial / math.pow(1.0 + self.alpha * _checked(progress), self.beta)


@dataclass(frozen=True)
class Constant:
    """The same number throughout (the rate of the MNIST↔SVHN experiments, a fixed λ).

    Attributes
    ----------
    value
        the number

    Examples
    --------
    >>> revgrad.Constant(0.1)(0.5)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        _finite(self, value=self.value)

    def __call__(self, progress: float) -> float:
        _checked(progress)
        return self.value


#: Schedules by the name under which a run's configuration records them.
SCHEDULES: dict[str, type[RampUp] | type[Annealed] | type[Constant]] = {
    "ramp-up": RampUp,
    "annealed": Annealed,
    "constant": Constant,
}


def parse_schedule(text: str) -> Schedule:
    """A schedule from text: `ramp-up`, `ramp-up:5`, `annealed:0.01,10,0.75`, `constant:1`, `1`."""
    name, colon, rest = (part.strip() for part in text.partition(":"))
    number = _number(name)
    if number is not None and not colon:
        return Constant(number)
    if name not in SCHEDULES:
        raise unknown("schedule", text, [*SCHEDULES, "a number"])
    numbers = [_number(part) for part in rest.split(",")] if rest else []
    fields = dataclasses.fields(SCHEDULES[name])
    fewest = sum(field.default is dataclasses.MISSING for field in fields)
    if None in numbers or not fewest <= len(numbers) <= len(fields):
        form = ",".join(field.name for field in fields)
        raise InputError(f"schedule '{text}' is not of the form {name}:{form}, each a number")
    return SCHEDULES[name](*(value for value in numbers if value is not None))


def describe_schedule(schedule: Schedule | float) -> str:
    """The text that `parse_schedule` reads back; for a callable of the user's, its name."""
    for name, kind in SCHEDULES.items():
        if isinstance(schedule, kind):
            return f"{name}:" + ",".join(repr(float(v)) for v in vars(schedule).values())
    return getattr(schedule, "__qualname__", repr(schedule))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _checked(progress: float) -> float:
    if not 0.0 <= progress <= 1.0:
        raise InputError(f"progress runs from 0 to 1; {progress} came")
    return progress


def _finite(schedule: object, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise InputError(f"{type(schedule).__name__}: {name} must be finite, not {value}")
