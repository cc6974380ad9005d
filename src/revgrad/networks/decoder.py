"""From features back to inputs: the other half of an autoencoder."""

from __future__ import annotations

from math import prod

from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import ConvolutionReLU, LinearReLU
from revgrad.networks.sizes import require_positive

#: A vector of features becomes a map of the image's size divided by this.
REDUCTION = 8


class Decoder(nn.Module):
    """(n, *features) → (n, *inputs), both shapes of one sample.

    To an image (channels, height, width): a feature map is enlarged twofold and convolved, with
    half the maps and a ReLU, until it has about the image's size; features without places become a
    small map first. To anything else: one hidden layer of `hidden` units. The last layer is linear.
    """

    def __init__(
        self,
        features: tuple[int, ...],
        inputs: tuple[int, ...],
        *,
        hidden: int = 1024,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(hidden=hidden)
        if not features or not inputs:
            raise InputError(f"a decoder needs shapes of a sample, not {features} and {inputs}")
        layers = _to_image(features, inputs) if len(inputs) == 3 else _to_vector(features, hidden)
        if len(inputs) != 3:
            layers += [nn.Linear(hidden, prod(inputs)), nn.Unflatten(1, inputs)]
        self.layers = nn.Sequential(*layers)
        if seed is not None:
            initialise(self, seed)

    def forward(self, features: Tensor) -> Tensor:
        restored: Tensor = self.layers(features)
        return restored


def _to_vector(features: tuple[int, ...], hidden: int) -> list[nn.Module]:
    return [nn.Flatten(), LinearReLU(prod(features), hidden)]


def _to_image(features: tuple[int, ...], inputs: tuple[int, ...]) -> list[nn.Module]:
    channels, height, width = inputs
    layers: list[nn.Module] = []
    if len(features) == 3:
        maps, h, w = features
    else:
        maps, h, w = 64, max(height // REDUCTION, 1), max(width // REDUCTION, 1)
        layers += [nn.Flatten(), LinearReLU(prod(features), maps * h * w)]
        layers.append(nn.Unflatten(1, (maps, h, w)))
    while 2 * h <= height and 2 * w <= width:
        fewer = max(maps // 2, 16)
        layers += [nn.Upsample(scale_factor=2), ConvolutionReLU(maps, fewer, 3, padding=1)]
        maps, h, w = fewer, 2 * h, 2 * w
    if (h, w) != (height, width):
        layers.append(nn.Upsample(size=(height, width), mode="bilinear"))
    return [*layers, nn.Conv2d(maps, channels, 3, padding=1)]
