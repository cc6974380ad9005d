"""From raw inputs to what the network takes: a module in front of it, shipped with it.

Images travel as uint8 and become floating point here, on the device, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.batches import Inputs, map_inputs
from revgrad.domains.domain import Domain
from revgrad.errors import InputError

#: Samples of each domain from which `fit` computes the mean and the scale.
SAMPLE = 10_000
BLOCK = 256


class Preprocessing(nn.Module):
    """(x − mean) / scale, in the network's floating-point type; or per image by its own mean, sd.

    mean, scale   numbers, or tensors that broadcast over one input, e.g. (channels, 1, 1)
    per_image     standardise each input by its own mean and standard deviation instead

    Inputs that are integers but not uint8 (token ids) pass through, and so do nested inputs other
    than uint8 images: their owner prepares them.
    """

    mean: Tensor
    scale: Tensor
    per_image: Tensor

    def __init__(
        self,
        mean: Tensor | Sequence[float] | float = 0.0,
        scale: Tensor | Sequence[float] | float = 255.0,
        *,
        per_image: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.get_default_dtype()))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.get_default_dtype()))
        # in the state, so that weights and preprocessing can't get separated
        self.register_buffer("per_image", torch.tensor(per_image))
        self._per_image = per_image
        self._identity = not per_image and _all(self.mean, 0.0) and _all(self.scale, 1.0)
        if not bool(torch.all(self.scale > 0)):
            raise InputError("preprocessing needs a scale above 0")

    def forward(self, inputs: Inputs) -> Inputs:
        if isinstance(inputs, Tensor):
            return self._convert(inputs)
        return map_inputs(lambda x: self._convert(x) if x.dtype == torch.uint8 else x, inputs)

    def _convert(self, x: Tensor) -> Tensor:
        if x.dtype != torch.uint8 and not x.is_floating_point():
            return x
        values = x.to(self.mean.dtype)
        if self._identity:
            return values
        if self._per_image:
            axes = tuple(range(1, values.ndim))
            sd, mean = torch.std_mean(values, dim=axes, keepdim=True, correction=0)
            return (values - mean) / (sd + 1e-6 * self.scale)
        return (values - self.mean) / self.scale

    def extra_repr(self) -> str:
        if self._per_image:
            return "per image"
        return f"mean={_short(self.mean)}, scale={_short(self.scale)}"

    @staticmethod
    def identity() -> Preprocessing:
        """Inputs as they are, in the network's floating-point type."""
        return Preprocessing(0.0, 1.0)

    @staticmethod
    def pretrained(network: nn.Module) -> Preprocessing:
        """What the weights that can be loaded into `network` were trained with: its `pixel_mean`
        and `pixel_scale`, a number per channel of uint8 images."""
        mean, scale = (getattr(network, name, None) for name in ("pixel_mean", "pixel_scale"))
        if mean is None or scale is None:
            raise InputError(
                f"{type(network).__name__} does not say what its weights were trained with "
                "(pixel_mean, pixel_scale); Preprocessing(mean, scale) takes any numbers"
            )
        return Preprocessing(*(torch.as_tensor(value)[:, None, None] for value in (mean, scale)))

    @staticmethod
    def fit(*domains: Domain, per_image: bool = False) -> Preprocessing:
        """One mean per channel over all `domains` together, one scale: their standard deviation.

        The paper subtracts the mean and does not say whose. One mean for all domains keeps the
        shift between them (a mean each would hide part of it from the domain classifier), and one
        scale brings the inputs to about unit variance, which He initialisation expects. Domains
        weigh alike, whatever their sizes. Float inputs of rank 1 are taken as they are.
        """
        if not all(domain.is_images for domain in domains):
            return Preprocessing.identity()
        first, second = zip(*(_moments(domain) for domain in domains), strict=True)
        mean, square = torch.stack(first).mean(0), torch.stack(second).mean(0)
        scale = float((square - mean.square()).mean().clamp(min=0).sqrt()) or 1.0
        return Preprocessing(mean.float()[:, None, None], scale, per_image=per_image)


def _moments(domain: Domain) -> tuple[Tensor, Tensor]:
    """Means of x and of x² per channel; a block at a time, for large images."""
    rows = np.linspace(0, len(domain) - 1, min(len(domain), SAMPLE)).astype(np.int64)
    sums = []
    for start in range(0, len(rows), BLOCK):
        images = domain.batch(rows[start : start + BLOCK], augment=False).inputs
        assert isinstance(images, Tensor)
        area = images.shape[2] * images.shape[3]
        values = images.double()
        sums.append(torch.stack([values.sum((0, 2, 3)), values.square().sum((0, 2, 3))]))
    first, second = torch.stack(sums).sum(0) / (len(rows) * area)
    return first, second


def _all(values: Tensor, number: float) -> bool:
    return bool((values == number).all())


def _short(values: Tensor) -> str:
    numbers = [f"{v:.4g}" for v in values.flatten().tolist()]
    return numbers[0] if len(numbers) == 1 else "[" + ", ".join(numbers[:4]) + "]"
