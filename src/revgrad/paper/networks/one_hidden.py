"""DaNN's network (Ghifary et al. 2014): one hidden layer, on vectors or on flattened images."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from torch import Tensor, nn

from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import Blueprint
from revgrad.networks.sizes import Size, height_and_width, require_positive


class OneHidden(nn.Module):
    """(n, …), flattened to (n, inputs) → (n, classes) logits.

    `hidden` is the linear layer, `relu` the same units rectified. By default the domains are
    compared at `hidden`, before a unit that is off for both domains hides how they differ.
    `dropout` is the share of rectified units that training leaves out.
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "hidden",
        size=28,
        domain_classifier=(100,),
    )

    def __init__(
        self,
        inputs: int,
        hidden: int = 256,
        classes: int = 10,
        dropout: float = 0.0,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(inputs=inputs, hidden=hidden, classes=classes)
        self.hidden = nn.Linear(inputs, hidden)
        self.relu = nn.ReLU()
        self.drop = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, classes)
        if seed is not None:
            initialise(self, seed)

    @classmethod
    def for_images(
        cls,
        classes: int = 10,
        channels: int = 3,
        size: Size = 28,
        hidden: int = 256,
        seed: int | None = 0,
    ) -> OneHidden:
        """The network for images of `channels` and `size`."""
        require_positive(channels=channels)
        return cls(prod((channels, *height_and_width(size))), hidden, classes, seed=seed)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.output(self.drop(self.relu(self.hidden(inputs.flatten(1)))))
        return logits
