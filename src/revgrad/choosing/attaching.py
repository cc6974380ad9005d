"""Which of a network's layers are worth trying for the domain classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence

from revgrad.cutting.listing import Layer
from revgrad.errors import InputError

#: Kinds whose output holds the same numbers as their input, in evaluation mode.
_SAME = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Flatten", "Identity"})


def attachable(layers: Sequence[Layer]) -> list[Layer]:
    """The cuttable layers, in order, without those that say what another says.

    Left out: dropout and the like, and what lies inside a block that can be cut at and has the
    same shape (of a convolution, its BatchNorm and its ReLU, the block they make).
    """
    blocks = {layer.name: layer for layer in layers if layer.cuttable}

    def inside(layer: Layer) -> bool:
        block = blocks.get(layer.name.rpartition(".")[0])
        return block is not None and block.shape == layer.shape

    return [
        layer
        for layer in layers
        if layer.cuttable and layer.kind not in _SAME and not inside(layer)
    ]


def around(layers: Sequence[Layer], default: str | None) -> list[str]:
    """The layer a network is made to be cut at, the one before it and the two behind it.

    Without such a layer, the last four.
    """
    names = [layer.name for layer in attachable(layers)]
    if default is None:
        return names[-4:]
    if default not in names:
        return [default]
    here = names.index(default)
    return names[max(here - 1, 0) : here + 3]


def widest(layers: Sequence[Layer]) -> int:
    """Features of the widest of the layers."""
    if not layers:
        raise InputError("the network has no layer that it can be cut at")
    return max(math.prod(layer.shape or (1,)) for layer in layers)
