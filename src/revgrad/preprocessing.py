"""From raw inputs to what the network takes: a module in front of it, shipped with it.

Images travel as uint8 and become floating point here, on the device, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from revgrad.batch import Inputs, map_inputs
from revgrad.domains.domain import Domain, spaced_indices
from revgrad.errors import InputError
from revgrad.networks.registry import blueprint_of

#: Samples of each domain from which `fit` computes the mean and the scale.
FITTED_SAMPLES = 10_000
IMAGES_AT_ONCE = 256


class Preprocessing(nn.Module):
    """(x − mean) / scale, in the network's floating-point type; or per image by its own mean, sd.

    Inputs that are integers but not uint8 (token ids) pass through, and so do nested inputs other
    than uint8 images: their owner prepares them.

    Parameters
    ----------
    mean, scale
        numbers, or tensors that broadcast over one input, e.g. (channels, 1, 1)
    per_image
        standardise each input by its own mean and standard deviation instead
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
        self._alike = self.mean.shape == self.scale.shape
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
        values = values - self.mean
        # in place, where that can't change the shape
        return values.div_(self.scale) if self._alike else values / self.scale

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
        """The preprocessing that pretrained weights of `network` want, by its blueprint: a mean
        and a scale per channel of uint8 images."""
        blueprint = blueprint_of(network)
        if blueprint is None or blueprint.pixel_mean is None or blueprint.pixel_scale is None:
            raise InputError(
                f"{type(network).__name__} does not say what its weights were trained with "
                "(pixel_mean and pixel_scale of its blueprint); Preprocessing(mean, scale) takes "
                "any numbers"
            )
        values = (blueprint.pixel_mean, blueprint.pixel_scale)
        return Preprocessing(*(torch.as_tensor(value)[:, None, None] for value in values))

    @staticmethod
    def suited(network: nn.Module, *domains: Domain, per_image: bool = False) -> Preprocessing:
        """The usual preprocessing for `network`: for images, what its pretrained weights want where
        its blueprint says so; else `fit` of the domains."""
        blueprint = blueprint_of(network)
        wanted = blueprint is not None and blueprint.pixel_mean is not None
        if wanted and not per_image and all(domain.is_images for domain in domains):
            return Preprocessing.pretrained(network)
        return Preprocessing.fit(*domains, per_image=per_image)

    @staticmethod
    def fit(*domains: Domain, per_image: bool = False) -> Preprocessing:
        """Images and volumes: one mean per channel over all `domains` together, one scale, their
        standard deviation. Vectors of floats: a mean and a standard deviation per feature;
        series of floats (channels, time): per channel.

        The paper subtracts the mean and does not say whose. One mean for all domains keeps the
        shift between them (a mean each would hide part of it from the domain classifier), and the
        scale brings the inputs to about unit variance, which He initialisation expects. Domains
        weigh alike, whatever their sizes. Inputs of other kinds are taken as they are, and so are
        those that an encoder has made (frames, texts, series) and sparse ones.
        """
        if any(getattr(domain.store, "prepared", False) for domain in domains):
            return Preprocessing.identity()
        if all(_are_vectors_or_series(domain) for domain in domains):
            return _standardised(domains)
        if not all(_are_pixels(domain) for domain in domains):
            return Preprocessing.identity()
        first, second = zip(*(_moments(domain) for domain in domains), strict=True)
        mean, square = torch.stack(first).mean(0), torch.stack(second).mean(0)
        scale = float((square - mean.square()).mean().clamp(min=0).sqrt()) or 1.0
        places = (1,) * (len(domains[0].shape) - 1)
        return Preprocessing(mean.float().reshape(-1, *places), scale, per_image=per_image)


def _are_pixels(domain: Domain) -> bool:
    """Whether every input is a uint8 image (C, H, W) or volume (C, D, H, W)."""
    if domain.is_images or not len(domain):
        return domain.is_images
    example = domain.batch([0], augment=False).inputs
    return isinstance(example, Tensor) and example.dtype == torch.uint8 and example.ndim == 5


def _are_vectors_or_series(domain: Domain) -> bool:
    """Whether every input is one vector of floats, or one series (channels, time) of them."""
    if not len(domain):
        return False
    example = domain.batch([0], augment=False).inputs
    return isinstance(example, Tensor) and example.ndim in (2, 3) and example.is_floating_point()


def _standardised(domains: Sequence[Domain]) -> Preprocessing:
    """Each feature, or channel, by its mean and standard deviation over the domains, which weigh
    alike. A feature that never changes is not scaled."""
    given = [_spaced_inputs(domain) for domain in domains]
    series = given[0].ndim == 3  # every moment is a sample of its channel
    samples = [v.transpose(1, 2).flatten(0, 1) if series else v for v in given]
    origin = samples[0][0]  # about it, squares of large numbers do not cancel
    first = torch.stack([(values - origin).mean(0) for values in samples]).mean(0)
    second = torch.stack([(values - origin).square().mean(0) for values in samples]).mean(0)
    scale = (second - first.square()).clamp(min=0).sqrt()
    tiny = 1e-7 * torch.stack([values.abs().amax(0) for values in samples]).amax(0)
    scale = torch.where(scale > tiny, scale, torch.ones_like(scale))
    dtype = torch.get_default_dtype()
    mean, scale = (origin + first).to(dtype), scale.to(dtype)
    return Preprocessing(mean[:, None], scale[:, None]) if series else Preprocessing(mean, scale)


def _spaced_inputs(domain: Domain) -> Tensor:
    inputs = domain.batch(spaced_indices(len(domain), FITTED_SAMPLES), augment=False).inputs
    assert isinstance(inputs, Tensor)
    return inputs.double()


def _moments(domain: Domain) -> tuple[Tensor, Tensor]:
    """Means of x and of x² per channel; a block at a time, for large images."""
    rows = spaced_indices(len(domain), FITTED_SAMPLES)
    sums = []
    for start in range(0, len(rows), IMAGES_AT_ONCE):
        images = domain.batch(rows[start : start + IMAGES_AT_ONCE], augment=False).inputs
        assert isinstance(images, Tensor)
        area, axes = images[0, 0].numel(), (0, *range(2, images.ndim))
        values = images.double()
        sums.append(torch.stack([values.sum(axes), values.square().sum(axes)]))
    first, second = torch.stack(sums).sum(0) / (len(rows) * area)
    return first, second


def _all(values: Tensor, number: float) -> bool:
    return bool((values == number).all())


def _short(values: Tensor) -> str:
    numbers = [f"{v:.4g}" for v in values.flatten().tolist()]
    return numbers[0] if len(numbers) == 1 else "[" + ", ".join(numbers[:4]) + "]"
