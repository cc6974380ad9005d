"""The domain classifier learns, says what it was built for, and ends in logits."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks import DomainClassifier


def separable(rows: int = 64) -> tuple[Tensor, Tensor]:
    """Features (2·rows, 3, 2, 2) whose mean differs between two domains, and the domains."""
    noise = torch.randn(2 * rows, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    domains = torch.arange(2 * rows) // rows
    return noise + domains.view(-1, 1, 1, 1), domains


def loss_after(
    classifier: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], steps: int = 100
) -> float:
    features, domains = separable()
    optimiser = torch.optim.SGD(classifier.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(classifier(features), domains).backward()
        optimiser.step()
    return float(loss(classifier(features), domains).detach())


def binary(logits: Tensor, domains: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, domains.to(logits.dtype))


@pytest.mark.parametrize("hidden", [(100,), (64, 64), ()])
def test_separable_domains_are_told_apart(hidden: tuple[int, ...]) -> None:
    assert loss_after(DomainClassifier(12, hidden), binary) < 0.4 * math.log(2)


def test_a_softmax_over_one_unit_would_be_noticed() -> None:
    broken = nn.Sequential(nn.Flatten(), nn.Linear(12, 1), nn.Softmax(dim=1), nn.Flatten(0))
    assert loss_after(broken, binary) > 0.9 * math.log(2)


def test_three_domains_get_three_logits() -> None:
    classifier = DomainClassifier(12, (64,), domains=3)
    assert classifier(torch.zeros(5, 12)).shape == (5, 3)
    assert loss_after(classifier, F.cross_entropy) < 0.4 * math.log(2)


def test_every_parameter_and_the_features_get_a_gradient() -> None:
    classifier = DomainClassifier(12, (16, 16))
    features, domains = separable()
    features.requires_grad_()
    binary(classifier(features), domains).backward()
    for tensor in (features, *classifier.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.abs().max() > 0


def test_it_is_the_figures_perceptron() -> None:
    net = DomainClassifier(768, (100,), seed=4).double()
    assert list(net.state_dict()) == ["fc1_d.weight", "fc1_d.bias", "fc2_d.weight", "fc2_d.bias"]
    features = torch.randn(6, 48, 4, 4, dtype=torch.float64)
    hidden = (features.reshape(6, 768) @ net.fc1_d.weight.T + net.fc1_d.bias).clamp(min=0)
    wanted = (hidden @ net.fc2_d.weight.T + net.fc2_d.bias)[:, 0]
    found = net(features)
    assert found.shape == (6,)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    names = [name for name, _ in DomainClassifier(256).named_children()]
    assert names == ["fc1_d", "fc2_d", "fc3_d"]
    assert sum(p.numel() for p in DomainClassifier(256).parameters()) == (
        256 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 + 1
    )


def test_the_seed_alone_decides() -> None:
    one = DomainClassifier(12, seed=1)
    torch.rand(7)
    assert torch.equal(one.fc1_d.weight, DomainClassifier(12, seed=1).fc1_d.weight)
    assert not torch.equal(one.fc1_d.weight, DomainClassifier(12, seed=2).fc1_d.weight)


def test_one_row_keeps_its_dimension() -> None:
    assert DomainClassifier(12, (4,))(torch.zeros(1, 12)).shape == (1,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DomainClassifier(0), "features must be at least 1, got 0"),
        (lambda: DomainClassifier(3, (4, 0)), "units of a hidden layer must be at least 1, got 0"),
        (lambda: DomainClassifier(3, domains=1), "at least 2 domains apart, got 1"),
        (
            lambda: DomainClassifier(768)(torch.zeros(2, 48, 5, 5)),
            r"built for 768 features a sample; 1200 came \(shape \(2, 48, 5, 5\)\)",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
