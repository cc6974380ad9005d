"""Checks of what a classical method is given: features of both domains, a number of components."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_features, equally_wide
from revgrad.errors import InputError


def checked_pair(source: ArrayLike, target: ArrayLike, *, axes: int = 2) -> tuple[Array, Array]:
    """The features of both domains, each by `checked_features`, of the same width."""
    return equally_wide(
        checked_features(source, "source features", axes=axes),
        checked_features(target, "target features", axes=axes),
    )


def checked_components(components: int, limit: int, reason: str) -> int:
    """A number of components from 1 to `limit`; `reason` says what sets the limit."""
    if isinstance(components, bool) or not isinstance(components, int | np.integer):
        raise InputError(f"the number of components must be an integer, not {components!r}")
    if not 1 <= components <= limit:
        raise InputError(f"{components} components can't be had: 1 to {limit} can, {reason}")
    return int(components)
