"""Networks for vectors and series, and the default for a shape."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from revgrad.cutting import cut
from revgrad.errors import InputError
from revgrad.networks import Perceptron, SeriesNetwork, build_network, default_network


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((5,), "perceptron"),
        ((3, 128), "series"),
        ((3, 28, 28), "compact"),
        ((1, 8, 8), "perceptron"),
        ([4], "perceptron"),
    ],
)
def test_the_default_for_a_shape_can_be_built_and_run(shape: tuple[int, ...], name: str) -> None:
    assert default_network(shape) == name
    size = tuple(shape[1:]) if len(shape) == 3 else 1
    network = build_network(name, classes=4, channels=shape[0], size=size, shape=shape, seed=0)
    assert network(torch.zeros(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), {"a": (3,)}, ((2,), (3,)), ()])
def test_other_shapes_have_no_default(shape: object) -> None:
    with pytest.raises(InputError, match="there is no default network"):
        default_network(shape)


def test_the_perceptron_is_two_rectified_layers_and_a_linear_one() -> None:
    network = Perceptron(3, (2, 4), widths=(5, 6), seed=1).double()
    x = torch.randn(7, 2, 4, dtype=torch.float64)
    one, two = network.features[1], network.features[3]
    features = F.relu(x.flatten(1) @ one.weight.T + one.bias)
    features = F.relu(features @ two.weight.T + two.bias)
    torch.testing.assert_close(network(x), features @ network.out.weight.T + network.out.bias)
    torch.testing.assert_close(cut(network, network.blueprint.layer).features(x), features)


def test_the_series_network_by_hand() -> None:
    network = SeriesNetwork(3, (2, 12), widths=(4, 5), hidden=6, seed=1).double().eval()
    x = torch.randn(7, 2, 12, dtype=torch.float64)
    first, second = network.stages[0], network.stages[3]
    h = F.relu(F.conv1d(x, first.weight, stride=2, padding=3) / (1 + 1e-5) ** 0.5)
    h = F.relu(F.conv1d(h, second.weight, stride=2, padding=2) / (1 + 1e-5) ** 0.5).mean(2)
    torch.testing.assert_close(cut(network, network.blueprint.layer).features(x), h)
    hidden = F.relu(h @ network.hidden[0].weight.T + network.hidden[0].bias)
    torch.testing.assert_close(network(x), hidden @ network.out.weight.T + network.out.bias)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_series(length: int) -> None:
    assert SeriesNetwork(2, (1, length))(torch.zeros(3, 1, length)).shape == (3, 2)


def test_refusals() -> None:
    with pytest.raises(InputError, match="not of shape"):
        SeriesNetwork(2, (1, 2, 3))
    with pytest.raises(InputError, match="one each"):
        SeriesNetwork(2, (1, 9), widths=(4, 4, 4))
    with pytest.raises(InputError, match="one hidden layer"):
        Perceptron(2, (3,), widths=())
