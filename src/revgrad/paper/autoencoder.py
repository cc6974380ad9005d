"""The paper's outlook (§5): initialise the feature extractor by a deep autoencoder.

Trained on both domains or on the target alone, "in the same vein as" Glorot et al. (2011), whose
single autoencoder saw all domains, and Chopra et al. (2013). Inputs alone take part: no label is
read. As Glorot's it is a denoising one (Vincent et al. 2008): from a corrupted input, the clean.

The loop is the trainer's. What is minimised is an objective, `Reconstruction`; the decoder takes
the domain classifier's place in the adapter, so it is trained, checkpointed and moved as that is,
and nothing else needs to know that it is no classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad import (
    Batch,
    Callback,
    Domain,
    DomainAdapter,
    Losses,
    Preprocessing,
    Settings,
    Trainer,
    cut,
)
from revgrad._distributed import process_group
from revgrad.adapter import evaluating
from revgrad.batch import map_inputs
from revgrad.domains import match_colours
from revgrad.errors import InputError
from revgrad.evaluation import chunks, device_of
from revgrad.networks import initialise
from revgrad.networks.rectified import ConvolutionReLU, LinearReLU
from revgrad.networks.sizes import require_positive
from revgrad.tasks import CustomTask
from revgrad.training.callbacks import ProgressBar

#: A vector of features becomes a map of the image's size divided by this.
REDUCTION = 8
#: Samples of each domain that the error at the end is measured on.
ERROR_SAMPLES = 1000


@dataclass(frozen=True)
class Pretrained:
    """What pretraining leaves besides the network: its weights are changed in place.

    Attributes
    ----------
    error
        mean squared error of uncorrupted inputs, per value of the preprocessed input
    of_mean
        the error of answering every input with the mean input: what `error` must be below
    preprocessing
        to train the network with afterwards: adapt(…, preprocessing=…)
    """

    decoder: nn.Module
    preprocessing: nn.Module
    error: float
    of_mean: float


def pretrain(
    network: nn.Module,
    layer: str,
    *domains: Domain,
    masked: float = 0.3,
    noise: float = 0.0,
    decoder: nn.Module | None = None,
    preprocessing: nn.Module | None = None,
    settings: Settings | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    **changes: Any,
) -> Pretrained:
    """Train the part of `network` up to `layer` as a denoising autoencoder, in place.

    What lies behind the layer stays as it is. The result depends on the seed and the inputs alone.

    Parameters
    ----------
    domains
        both, or the target alone; with or without labels, which are dropped unread
    decoder
        from the layer's output back to the input; by default a `Decoder`
    preprocessing
        by default `Preprocessing.fit` of the domains
    settings
        by default 2,000 steps of Adam with μ = .001; any field by name (steps=…)
    """
    default = Settings(
        steps=2000,
        optimiser="adam",
        learning_rate=0.001,
        adaptation_factor=0.0,
        evaluate_every=0,
        checkpoint_every=0,
    )
    chosen = replace(default if settings is None else settings, **changes)
    for name in ("max_weight_norm", "ema_decay"):
        if getattr(chosen, name) is not None:
            raise InputError(f"{name} would change the label predictor too: leave it out here")
    if not 1 <= len(domains) <= 2:
        raise InputError(f"pretraining takes one domain or two, not {len(domains)}")
    bare = match_colours([domain.without_labels() for domain in domains])
    for domain in bare:
        if not len(domain):
            raise InputError(f"{domain.name} is empty")
    prepare = Preprocessing.fit(*bare) if preprocessing is None else preprocessing
    with process_group(chosen.device):
        adapter = _with_decoder(network, layer, bare[0], decoder, prepare, chosen.seed)
        Trainer(
            adapter,
            _seemingly_labelled(bare[0]),
            *bare[1:],
            objective=Reconstruction(masked, noise),
            settings=chosen,
            task=CustomTask(),  # the labels are zeros that nothing reads
            callbacks=[*callbacks, *([ProgressBar("autoencoder")] if progress else [])],
        ).fit()
    return Pretrained(adapter.domain_classifier, adapter.preprocessing, *_errors(adapter, bare))


@dataclass(frozen=True)
class Reconstruction:
    """Mean squared error of decoder(feature extractor(corrupted x)) against x, per value of x.

    x is the preprocessed input. masked: the chance that a value is replaced by 0, the mean where
    preprocessing subtracts it; noise: standard deviation of normal noise added before. λ plays no
    part. The label predictor does not run, so it gets no gradient.
    """

    masked: float = 0.3
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.masked < 1:
            raise InputError(f"masked is a share of the values in [0, 1), not {self.masked}")
        if not self.noise >= 0:
            raise InputError(f"noise is a standard deviation, 0 or more, not {self.noise}")

    def __call__(self, adapter: DomainAdapter, batch: Batch, factor: float | Tensor) -> Losses:
        clean = _one_tensor(adapter.preprocessing(batch.inputs))
        restored = adapter.domain_classifier(adapter.cut.features(self.corrupt(clean)))
        total = _sample_errors(restored, clean).sum() / batch.total_samples
        return Losses(total, None, total.detach(), None)

    def corrupt(self, clean: Tensor) -> Tensor:
        """A corrupted copy; random numbers are PyTorch's, which the trainer seeds at every step."""
        corrupted = clean
        if self.noise:
            corrupted = corrupted + self.noise * torch.randn_like(clean)
        if self.masked:
            corrupted = corrupted * (torch.rand_like(clean) >= self.masked)
        return corrupted.clone() if corrupted is clean else corrupted


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


def _with_decoder(
    network: nn.Module,
    layer: str,
    domain: Domain,
    decoder: nn.Module | None,
    prepare: nn.Module,
    seed: int,
) -> DomainAdapter:
    """The network cut at the layer, with a decoder where the domain classifier would be."""
    parameter = next(network.parameters(), None)
    if parameter is None:
        raise InputError("the network has no parameter to train")
    prepare.to(parameter.device, parameter.dtype)
    pieces = cut(network, layer)
    raw = domain.batch([0], augment=False).inputs
    device = parameter.device
    example = _one_tensor(prepare(map_inputs(lambda x: x.to(device), raw)))
    with torch.no_grad(), evaluating(network):
        features = pieces.features(example)
    if decoder is None:
        with torch.random.fork_rng(devices=[]):  # layers draw weights before they get ours
            decoder = Decoder(tuple(features.shape[1:]), tuple(example.shape[1:]), seed=seed)
    decoder.to(parameter.device, parameter.dtype)
    with torch.no_grad(), evaluating(decoder):
        _sample_errors(decoder(features), example)
    return DomainAdapter(network, layer, decoder, prepare, pieces=pieces)


def _seemingly_labelled(domain: Domain) -> Domain:
    """The trainer wants labels of its source, to have something to learn from. Here that is the
    inputs themselves: every label is a zero, which `Reconstruction` does not read."""
    return domain._with(labels=np.zeros(len(domain)))


@torch.no_grad()
def _errors(adapter: DomainAdapter, domains: Sequence[Domain]) -> tuple[float, float]:
    """(error of the autoencoder, error of the mean input), over all domains' samples alike."""
    error, squares, count = 0.0, 0.0, 0
    sums: Tensor | None = None
    with evaluating(adapter):
        for domain in domains:
            for raw in chunks(domain.sample(ERROR_SAMPLES), device_of(adapter), 128):
                clean = _one_tensor(adapter.preprocessing(raw))
                restored = adapter.domain_classifier(adapter.cut.features(clean.clone()))
                error += float(_sample_errors(restored, clean).double().sum())
                exact = clean.flatten(1).cpu().double()
                squares += float(exact.square().mean(1).sum())
                sums = exact.sum(0) if sums is None else sums + exact.sum(0)
                count += len(clean)
    assert sums is not None
    return error / count, squares / count - float((sums / count).square().mean())


def _sample_errors(restored: Tensor, clean: Tensor) -> Tensor:
    """(n,) mean squared error of each sample."""
    if restored.shape != clean.shape:
        raise InputError(
            f"the decoder gives shape {tuple(restored.shape)} for inputs of {tuple(clean.shape)}: "
            "both must be the same"
        )
    return (restored - clean).square().flatten(1).mean(1)


def _one_tensor(inputs: Any) -> Tensor:
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise InputError("an autoencoder is for inputs that are one tensor of real numbers")
    return inputs
