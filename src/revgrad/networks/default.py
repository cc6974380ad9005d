"""The default network for inputs of a shape."""

from __future__ import annotations

from typing import Any

from revgrad.errors import InputError

#: Of `NETWORKS`, those that are built for a shape, not for images of a size.
BY_SHAPE = frozenset({"perceptron", "series"})
#: The shortest side of images that `compact` still has something to pool of.
SMALLEST_IMAGE = 12


def default_network(shape: Any) -> str:
    """The name, of `NETWORKS`, of the network for inputs of `shape`, without the samples' axis.

    - `(features,)`: perceptron
    - `(channels, time)`: series
    - `(channels, height, width)`: compact; of images under 12×12, perceptron
    """
    whole = isinstance(shape, tuple | list) and all(isinstance(n, int) for n in shape)
    if whole and len(shape) == 1:
        return "perceptron"
    if whole and len(shape) == 2:
        return "series"
    if whole and len(shape) == 3:
        return "compact" if min(shape[1:]) >= SMALLEST_IMAGE else "perceptron"
    raise InputError(
        f"there is no default network for inputs of shape {shape}: vectors, series (channels, "
        "time) and images (channels, height, width) have one; name a network of your own"
    )
