"""Products of training by oneDNN: against double precision, and where they step aside."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.cutting import cut
from revgrad.networks import products
from revgrad.networks.products import FEWEST_ROWS, FEWEST_WEIGHTS, linear
from revgrad.networks.rectified import LinearReLU

WIDE = 512


def example(dtype: torch.dtype = torch.float32, inputs: int = WIDE) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((FEWEST_ROWS, inputs), (FEWEST_WEIGHTS // WIDE, inputs), (FEWEST_WEIGHTS // WIDE,))
    made = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes)
    return tuple(tensor.requires_grad_() for tensor in made)


@pytest.fixture(params=[True, False], ids=["oneDNN", "without it"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(products, "_ONEDNN", None)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients_are_those_of_double_precision(with_bias: bool) -> None:
    given = example()
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    count = 3 if with_bias else 2
    mine = linear(*given[:2], given[2] if with_bias else None)
    theirs = F.linear(*exact[:2], exact[2] if with_bias else None)
    down = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(mine, theirs.float(), rtol=1e-5, atol=1e-4)
    for one, other in zip(
        torch.autograd.grad(mine, given[:count], down),
        torch.autograd.grad(theirs, exact[:count], down.double()),
        strict=True,
    ):
        torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("either_way")
def test_many_products_are_those_of_bmm() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(3, 160, 170, generator=generator)
    other = torch.randn(3, 180, 170, generator=generator).transpose(1, 2)  # not contiguous
    exact = torch.bmm(one.double(), other.double()).float()
    torch.testing.assert_close(products.products(one, other), exact, rtol=1e-5, atol=1e-4)


def test_twice_differentiable() -> None:
    given = example()

    def second(product: object) -> Tensor:
        value = product(*given).square().sum()  # type: ignore[operator]
        (first,) = torch.autograd.grad(value, given[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), given[1])[0]

    torch.testing.assert_close(second(linear), second(F.linear), rtol=1e-4, atol=1.0)


def test_steps_aside_where_it_would_not_pay_or_must_not_differ() -> None:
    inputs, weight, bias = example()

    def own(*given: Tensor) -> bool:
        return "_LinearBackward" in type(linear(*given).grad_fn).__name__

    assert own(inputs, weight, bias)
    assert not own(inputs[:-1], weight, bias)  # few samples
    assert not own(inputs, weight[:-1], bias[:-1])  # few weights
    assert not own(*example(torch.float64))
    assert not own(inputs[None], weight, bias)  # not (n, features)
    with torch.autocast("cpu"):
        assert not own(inputs, weight, bias)
    with torch.no_grad():
        assert torch.equal(linear(inputs, weight, bias), F.linear(inputs, weight, bias))
    slopes = torch.func.grad(lambda x: linear(x, weight, bias).square().sum())(inputs)
    direct = torch.func.grad(lambda x: F.linear(x, weight, bias).square().sum())(inputs)
    assert torch.equal(slopes, direct)


def test_wrong_inputs_get_the_librarys_own_error() -> None:
    inputs, weight, bias = example()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(inputs[:, 1:], weight, bias)


def test_a_cut_network_decides_at_every_call() -> None:
    network = nn.Sequential(LinearReLU(WIDE, FEWEST_WEIGHTS // WIDE), nn.Linear(256, 2))
    pieces = cut(network, "0")
    assert pieces.traced
    inputs = example()[0].detach()
    with torch.no_grad():
        plain = pieces.features(inputs)
        assert torch.equal(plain, F.relu(F.linear(inputs, network[0].weight, network[0].bias)))
    trained = pieces.features(inputs)
    torch.testing.assert_close(trained, plain, rtol=1e-5, atol=1e-5)
    few = pieces.features(inputs[:2])
    assert torch.equal(few, F.relu(F.linear(inputs[:2], network[0].weight, network[0].bias)))
