"""Intervals of shares of samples, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from revgrad.errors import InputError

#: Confidence of every interval where nothing else is asked for.
LEVEL = 0.95


class Interval(NamedTuple):
    low: float
    high: float


def share_interval(hits: float, count: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval of a share, `hits` of `count` (Wilson 1927).

    The shares p with |hits/count − p| ≤ z √(p(1−p)/count); never empty, also at 0 and at `count`.
    """
    if count < 1 or not 0 <= hits <= count:
        raise InputError(
            f"a share needs one sample or more and 0 to all of them; {hits} of {count} came"
        )
    z = quantile(level)
    share, weight = hits / count, z * z / count
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    # rounding must not put a share of 0 or 1 outside
    return Interval(min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share))


def mean_share_interval(
    hits: Sequence[float], counts: Sequence[int], level: float = LEVEL
) -> Interval:
    """Interval of the mean of two or more independent shares, from Wilson's of each.

    The distances of each from their limits add in squares (Zou and Donner 2008), as variances
    do; it keeps its level where a share is near 0 or 1, where the usual normal one is empty.
    """
    pairs = list(zip(hits, counts, strict=True))
    shares = [hit / count for hit, count in pairs]
    each = [share_interval(hit, count, level) for hit, count in pairs]
    low = [share - one.low for share, one in zip(shares, each, strict=True)]
    high = [one.high - share for share, one in zip(shares, each, strict=True)]
    below, above = math.hypot(*low) / len(pairs), math.hypot(*high) / len(pairs)
    mean = sum(shares) / len(pairs)
    return Interval(max(mean - below, 0.0), min(mean + above, 1.0))


def quantile(level: float) -> float:
    """How many standard deviations hold `level` of a normal distribution."""
    if not 0 < level < 1:
        raise InputError(f"the level of an interval lies between 0 and 1, not {level}")
    return NormalDist().inv_cdf((1 + level) / 2)
