"""Making a synthetic domain from what a command line can say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from revgrad.domains.domain import Domain
from revgrad.errors import InputError, unknown
from revgrad.paper.synthetic.mnist_m import mnist_m
from revgrad.paper.synthetic.syn_numbers import SynNumbers, syn_numbers
from revgrad.paper.synthetic.syn_signs import SynSigns, syn_signs

#: Which options each generator takes.
OPTIONS = {
    "mnist-m": {"seed", "size"},
    "syn-numbers": {"count", "seed", "clutter", "varied", "workers"},
    "syn-signs": {"count", "seed", "pictograms", "workers"},
}


def make_domain(
    text: str,
    *,
    count: int | None = None,
    seed: int = 0,
    size: int | None = None,
    clutter: float = 0.0,
    varied: bool = False,
    pictograms: Path | None = None,
    workers: int | None = None,
) -> Domain:
    """The synthetic domain `name` or `name:split`, made now unless it is in the cache."""
    name, _, split = text.partition(":")
    if name not in OPTIONS:
        raise unknown("generator", name, OPTIONS)
    given: dict[str, Any] = {
        "count": count,
        "size": size,
        "clutter": clutter or None,
        "varied": varied or None,
        "pictograms": pictograms,
        "workers": workers,
    }
    for option, value in given.items():
        if value is not None and option not in OPTIONS[name]:
            takers = " and ".join(other for other, takes in OPTIONS.items() if option in takes)
            raise InputError(f"{name} takes no {option}: that is for {takers}")
    part = split or "train"
    if name == "mnist-m":
        return mnist_m(part, seed=seed, size=size or 28)
    if name == "syn-numbers":
        kind = SynNumbers.varied if varied else SynNumbers
        numbers = kind(seed=seed, clutter=clutter)
        return syn_numbers(part, count=count, parameters=numbers, workers=workers)
    signs = replace(SynSigns(), seed=seed)
    return syn_signs(part, count=count, parameters=signs, pictograms=pictograms, workers=workers)
