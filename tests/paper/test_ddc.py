"""DDC's network: a bottleneck and a classifier on a layer of any network."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from revgrad import Constant, adapt, cut
from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.ddc import WithAdaptationLayer
from tiny import Images, Perceptron, images, seeded, vectors


def inputs() -> torch.Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(seed: int = 0) -> WithAdaptationLayer:
    return WithAdaptationLayer(
        seeded(Perceptron, 1, torch.float64), "relu", 2, 7, inputs(), seed=seed
    )


def test_it_is_the_front_then_two_linear_layers() -> None:
    net, x = built(), inputs()
    plain = seeded(Perceptron, 1, torch.float64)
    features = (x @ plain.lower.weight.T + plain.lower.bias).clamp(min=0)
    adapted = features @ net.adaptation.weight.T + net.adaptation.bias
    wanted = adapted @ net.output.weight.T + net.output.bias
    torch.testing.assert_close(net(x), wanted, rtol=1e-12, atol=1e-12)
    pieces = cut(net, net.blueprint.layer)
    found, logits = pieces.forward(x, slice(0, 2))
    torch.testing.assert_close(found, adapted, rtol=1e-12, atol=1e-12)
    assert logits is not None
    torch.testing.assert_close(logits, wanted[:2], rtol=1e-12, atol=1e-12)


def test_gradients_reach_the_front_and_not_what_is_behind_the_place() -> None:
    net = built()
    F.cross_entropy(net(inputs()), torch.arange(5)).backward()
    assert bool(net.network.lower.weight.grad.abs().sum() > 0)
    assert net.network.upper.weight.grad is None


def test_the_seed_alone_decides_and_nothing_else_is_touched() -> None:
    state = torch.get_rng_state()
    network = seeded(Images, 1).train()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    net = WithAdaptationLayer(network, "pool", 6, 3, torch.zeros(2, 3, 8, 8))
    assert torch.equal(torch.get_rng_state(), state)
    assert net.adaptation.weight.shape == (6, 36)
    assert network.training
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    torch.rand(1)
    assert torch.equal(built(3).output.weight, built(3).output.weight)
    assert not torch.equal(built(3).output.weight, built(4).output.weight)


def test_a_copy_is_a_whole_of_its_own() -> None:
    net, x = built(), inputs()
    copied = copy.deepcopy(net)
    wanted = net(x)
    with torch.no_grad():
        net.network.lower.weight.fill_(9.0)
    assert torch.equal(copied(x), wanted)
    assert not torch.equal(net(x), wanted)


def test_it_trains_through_the_front_door() -> None:
    """DDC on shifted vectors: the means at the adaptation layer come nearer than without λ."""
    source, target = vectors(200, 1), vectors(200, 2, shift=1.0)
    left = []
    for factor in (0.0, 1.0):
        example = torch.zeros(2, 4)
        net = WithAdaptationLayer(seeded(Perceptron, 1), "relu", 3, 3, example)
        result = adapt(
            *(net, source, target),
            method="mean-matching",
            steps=150,
            learning_rate=Constant(0.05),
            adaptation_factor=Constant(factor),
            batch_size=64,
            device="cpu",
            progress=False,
        )
        one, other = (result.features(domain).mean(0) for domain in (source, target))
        left.append(float(np.square(one - other).sum()))
        accuracy = result.evaluate(source).accuracy
        assert accuracy is not None
        assert accuracy > 0.5
    assert left[1] < 0.2 * left[0]


def test_images_are_flattened_at_the_place() -> None:
    pixels = images(4, 1).batch(range(4)).inputs.float()  # type: ignore[union-attr]
    net = WithAdaptationLayer(seeded(Images, 1), "conv2", 5, 2, pixels).eval()
    assert net(pixels).shape == (4, 2)


def test_mistakes_are_one_line() -> None:
    with pytest.raises(InputError, match="width must be at least 1, got 0"):
        WithAdaptationLayer(seeded(Perceptron), "relu", 0, 3, torch.zeros(2, 4))
    with pytest.raises(UnknownNameError, match="did you mean 'relu'"):
        WithAdaptationLayer(seeded(Perceptron), "rlu", 2, 3, torch.zeros(2, 4))
