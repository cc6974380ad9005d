"""A perceptron of two hidden layers: the default network for vectors (tables, embeddings)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import require_positive


class Perceptron(nn.Module):
    """(n, …), flattened to (n, features) → (n, classes) logits, or that many numbers.

    `features` holds the hidden layers of `widths`, each followed by a ReLU; the domain classifier
    is attached to the last of them. `shape` is that of one input.

    Parameters
    ----------
    classes
        outputs
    shape
        of a sample
    widths
        of the hidden layers
    seed
        of the initial weights; None: PyTorch's own
    """

    blueprint: ClassVar[Blueprint] = Blueprint("features", domain_classifier=(64, 64))

    def __init__(
        self,
        classes: int,
        shape: Sequence[int],
        widths: Sequence[int] = (64, 64),
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        before = prod(shape)
        require_positive(classes=classes, features=before)
        if not widths:
            raise InputError("a perceptron needs one hidden layer at least: widths=(64, 64)")
        layers: list[nn.Module] = [nn.Flatten()]
        for width in widths:
            require_positive(width=width)
            layers += [nn.Linear(before, width), nn.ReLU()]
            before = width
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(before, classes)
        if seed is not None:
            initialise(self, seed)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.out(self.features(inputs))
        return outputs
