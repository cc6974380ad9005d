"""Which of a network's layers are worth trying for the domain classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence

from revgrad.cutting.listing import Layer

#: Kinds whose output holds the same numbers as their input, in evaluation mode.
_SAME = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Flatten", "Identity"})


def attachable(layers: Sequence[Layer], default: str | None = None) -> list[Layer]:
    """The cuttable layers, in order, without those that say what another says; `default` stays.

    Left out: dropout and the like, and what lies inside a block that can be cut at and gives as
    many features (a convolution, its BatchNorm and its ReLU, for the block they make).
    """
    blocks = {layer.name: layer for layer in layers if layer.cuttable}

    def inside(layer: Layer) -> bool:
        block = blocks.get(layer.name.rpartition(".")[0])
        return block is not None and feature_count(block) == feature_count(layer)

    return [
        layer
        for layer in layers
        if layer.cuttable
        and (layer.name == default or (layer.kind not in _SAME and not inside(layer)))
    ]


def around(layers: Sequence[Layer], default: str | None) -> list[str]:
    """The layer a network is made to be cut at, the one before it and the two behind it.

    Without such a layer, the last four.
    """
    names = [layer.name for layer in attachable(layers, default)]
    if default is None:
        return names[-4:]
    if default not in names:
        return [default]
    here = names.index(default)
    return names[max(here - 1, 0) : here + 3]


def feature_count(layer: Layer) -> int:
    """Numbers that the layer gives for one sample; 0 where that is not known."""
    return 0 if layer.shape is None else math.prod(layer.shape)
