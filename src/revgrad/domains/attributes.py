"""Named attributes of samples: the site, the scanner, the age; categories or numbers.

Attributes are no labels. A target's are read like a source's: they say where a sample comes from,
not what is to be predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from revgrad.errors import InputError

#: The attribute that every two domains have: which of them a sample is of. It is never given.
DOMAIN = "domain"
#: Whole numbers of up to so many values name categories; of more, they are numbers.
MOST_NUMBERED = 50


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute of n samples.

    Attributes
    ----------
    values
        (n,): int64, the places of categories in `names`; or float64. Where `known` is False, a
        meaningless zero
    known
        (n,) bool: which samples have a value
    names
        of the categories, in order; None: the attribute is a number
    """

    values: np.ndarray
    known: np.ndarray
    names: tuple[str, ...] | None

    @property
    def is_categorical(self) -> bool:
        return self.names is not None

    def subset(self, where: np.ndarray) -> Attribute:
        """Of the samples at these places."""
        return Attribute(self.values[where], self.known[where], self.names)


@dataclass(frozen=True, eq=False)
class SharedAttribute:
    """One attribute of several domains, in one code: what adversaries learn to tell.

    Attributes
    ----------
    values
        of each domain, (n,): int64 numbers of `names`, −1 where missing; or float64, less the mean
        and divided by the standard deviation of all that are drawn, NaN where missing
    names
        of the categories that occur; None: numbers
    shares
        of each category among the samples that are drawn; empty of numbers
    mean, scale
        of numbers, before they were standardised
    """

    name: str
    values: tuple[np.ndarray, ...]
    names: tuple[str, ...] | None
    shares: tuple[float, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def outputs(self) -> int:
        """Numbers that a head needs: one of two categories or of a number, else one a category."""
        return 1 if self.names is None or len(self.names) == 2 else len(self.names)


def read_attributes(given: Mapping[str, Any], samples: int, domain: str) -> dict[str, Attribute]:
    """Attributes by name, each (n,): text, truth values and whole numbers of few values are
    categories, other numbers numbers. None and NaN: missing.

    Parameters
    ----------
    domain
        its name, for messages
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"{domain}: attributes are a dict from a name to a value for each sample, not "
            f"{type(given).__name__}"
        )
    found = {}
    for name, values in given.items():
        if name == DOMAIN:
            raise InputError(
                f"{domain}: '{DOMAIN}' is the attribute that all domains have; another name would "
                "do"
            )
        found[str(name)] = (
            values
            if isinstance(values, Attribute)
            else _read_attribute(values, f"{domain}, attribute '{name}'")
        )
        count = len(found[str(name)].values)
        if count != samples:
            raise InputError(f"{domain}: {samples} inputs but {count} values of '{name}'")
    return found


def share_attribute(
    name: str, domains: Sequence[tuple[str, Attribute | None, int]], shares: Sequence[float]
) -> SharedAttribute:
    """One code for the attribute `name` of all `domains`: (name, attribute, number of samples);
    None: that domain has it not, and all its samples are left out.

    Parameters
    ----------
    shares
        of each domain's samples in a batch
    """
    present = [(domain, one) for domain, one, _ in domains if one is not None]
    if not present:
        listed = ", ".join(domain for domain, *_ in domains)
        raise InputError(
            f"no domain has an attribute '{name}' ({listed}): from_arrays(…, attributes="
            f"{{'{name}': …}}) would do"
        )
    kinds = {one.is_categorical for _, one in present}
    if len(kinds) > 1:
        words = ", ".join(
            f"{'categories' if one.is_categorical else 'numbers'} in {domain}"
            for domain, one in present
        )
        raise InputError(
            f"attribute '{name}' is {words}: floats everywhere, or text everywhere, would do"
        )
    if kinds == {True}:
        return _share_categories(name, domains, shares)
    return _share_numbers(name, domains, shares)


def _share_categories(
    name: str, domains: Sequence[tuple[str, Attribute | None, int]], shares: Sequence[float]
) -> SharedAttribute:
    occurring: set[str] = set()
    for _, one, _ in domains:
        if one is not None and one.names is not None:
            occurring |= {one.names[number] for number in np.unique(one.values[one.known])}
    names = tuple(sorted(occurring, key=_in_order))
    if len(names) < 2:
        raise InputError(
            f"attribute '{name}' has one value only ({names[0]}): there is nothing to tell apart"
            if names
            else f"attribute '{name}' has no value: all are missing"
        )
    number = {one: place for place, one in enumerate(names)}
    coded, weights = [], np.zeros(len(names))
    for (_, one, samples), share in zip(domains, shares, strict=True):
        values = np.full(samples, -1, dtype=np.int64)
        if one is not None and one.names is not None and one.known.any():
            codes = np.array([number.get(text, -1) for text in one.names], dtype=np.int64)
            values[one.known] = codes[one.values[one.known]]
            weights += share / samples * np.bincount(values[one.known], minlength=len(names))
        coded.append(values)
    return SharedAttribute(name, tuple(coded), names, tuple((weights / weights.sum()).tolist()))


def _share_numbers(
    name: str, domains: Sequence[tuple[str, Attribute | None, int]], shares: Sequence[float]
) -> SharedAttribute:
    known, weights = [], []
    for (_, one, samples), share in zip(domains, shares, strict=True):
        if one is not None:
            known.append(one.values[one.known])
            weights.append(np.full(int(one.known.sum()), share / samples))
    values, weight = np.concatenate(known), np.concatenate(weights)
    if not len(values):
        raise InputError(f"attribute '{name}' has no value: all are missing")
    mean = float(np.average(values, weights=weight))
    scale = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
    if not scale > 1e-12 * abs(mean):
        raise InputError(
            f"attribute '{name}' has one value only ({values[0]:g}): there is nothing to tell apart"
        )
    coded = []
    for _, one, samples in domains:
        own = np.full(samples, np.nan)
        if one is not None:
            own[one.known] = (one.values[one.known] - mean) / scale
        coded.append(own)
    return SharedAttribute(name, tuple(coded), None, (), mean, scale)


def _read_attribute(given: Any, where: str) -> Attribute:
    values = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)
    if values.ndim != 1:
        raise InputError(f"{where}: one value a sample, (n,), not of shape {values.shape}")
    if values.dtype.kind == "M":
        days = values.astype("datetime64[s]").astype(np.float64) / 86400
        values = np.where(np.isnat(values), np.nan, days)
    if values.dtype.kind in "OT":
        values = _of_objects(values, where)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind == "O":  # text, some of it missing
        known = np.array([one is not None for one in values.tolist()], dtype=bool)
        return _categories(values, known)
    if values.dtype.kind in "Ub":
        return _categories(values, np.ones(len(values), dtype=bool))
    if values.dtype.kind in "iu":
        if len(np.unique(values)) <= MOST_NUMBERED:
            return _categories(values, np.ones(len(values), dtype=bool))
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise InputError(f"{where}: text or numbers would do, not {values.dtype}")
    known = ~np.isnan(values)
    if not np.isfinite(values[known]).all():
        raise InputError(f"{where}: numbers must be finite (NaN: missing)")
    return Attribute(np.where(known, values, 0.0).astype(np.float64), known, None)


def _of_objects(values: np.ndarray, where: str) -> np.ndarray:
    """Python objects as numbers (missing: NaN), or text (missing: None)."""
    flat = values.tolist()
    missing = [one is None or one != one for one in flat]
    present = [one for one, gone in zip(flat, missing, strict=True) if not gone]
    if all(isinstance(one, bool | np.bool_) for one in present) and present:
        text = [None if gone else str(bool(v)) for v, gone in zip(flat, missing, strict=True)]
        return np.array(text, dtype=object)
    if all(isinstance(one, int | float | np.number) for one in present):
        if not any(missing):
            return np.array(flat)
        return np.array([np.nan if g else float(v) for v, g in zip(flat, missing, strict=True)])
    if not all(isinstance(one, str) for one in present):
        kinds = sorted({type(one).__name__ for one in present})
        raise InputError(f"{where}: all text or all numbers would do, not {', '.join(kinds)}")
    found = np.empty(len(flat), dtype=object)
    found[:] = [None if gone else one for one, gone in zip(flat, missing, strict=True)]
    return found


def _categories(values: np.ndarray, known: np.ndarray) -> Attribute:
    names, numbers = np.unique(values[known].astype(np.str_), return_inverse=True)
    order = sorted(range(len(names)), key=lambda place: _in_order(str(names[place])))
    places = np.empty(len(names), dtype=np.int64)
    places[order] = np.arange(len(names))
    coded = np.zeros(len(values), dtype=np.int64)
    coded[known] = places[numbers.reshape(-1)]
    return Attribute(coded, known, tuple(str(names[place]) for place in order))


def _in_order(name: str) -> tuple[int, float, str]:
    """Whole numbers by their size, then text by its letters."""
    digits = name.removeprefix("-")
    return (0, int(name), name) if digits.isdecimal() else (1, 0.0, name)
