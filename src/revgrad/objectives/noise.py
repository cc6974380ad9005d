"""Small random changes of vectors and series that leave their meaning as it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from revgrad.errors import InputError


@dataclass(frozen=True)
class Noise:
    """(n, features) or (n, channels, …) floats → the same with Gaussian noise on every number.

    Attributes
    ----------
    share
        deviation of the noise, as a share of the feature's (the channel's) own in this batch:
        what is measured in metres and what is measured in tons are changed alike
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not isfinite(self.share) or self.share < 0:
            raise InputError(f"Noise: share must be a number, 0 or more, not {self.share}")

    def __call__(self, inputs: Tensor) -> Tensor:
        if not inputs.is_floating_point() or inputs.ndim < 2:
            raise InputError(
                f"Noise changes floats (n, features) or (n, channels, …), not {inputs.dtype} of "
                f"shape {tuple(inputs.shape)}"
            )
        others = [axis for axis in range(inputs.ndim) if axis != 1]
        deviation = inputs.std(others, correction=0, keepdim=True)
        return inputs + self.share * deviation * torch.randn_like(inputs)
