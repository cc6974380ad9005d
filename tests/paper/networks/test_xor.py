"""The domain classifier of §3.3 contains the XOR of any two label predictors, and learns it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks import initialise
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.paper.networks.xor import XorDomainClassifier


def test_it_represents_the_xor_of_two_label_predictors() -> None:
    """With |a+b| − |a−b|, whose sign is that of a·b, set by hand in the perceptron."""
    predictor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    example = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    xor = XorDomainClassifier(predictor, example, hidden=4, seed=5)
    with torch.no_grad():
        xor.fc1_d.weight.copy_(torch.tensor([[1.0, 1], [-1, -1], [1, -1], [-1, 1]]))
        xor.fc2_d.weight.copy_(torch.tensor([[-1.0, -1, 1, 1]]))
        h = xor.first(example)[:, 0] > 0
        g = xor.second(example)[:, 0] > 0
        found = xor(example) > 0
    assert 50 < int((h ^ g).sum()) < 450
    assert torch.equal(found, h ^ g)


def toy(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of the plane; the domain is the XOR of two linear hypotheses."""
    points = torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed))
    return points, ((points @ torch.tensor([1.0, 0.3]) > 0) ^ (points[:, 1] > 0)).float()


def accuracy_after_training(classifier: nn.Module) -> float:
    points, domains = toy(512, seed=1)
    optimiser = torch.optim.SGD(classifier.parameters(), lr=0.1, momentum=0.9)
    for _ in range(300):
        optimiser.zero_grad()
        F.binary_cross_entropy_with_logits(classifier(points), domains).backward()
        optimiser.step()
    points, domains = toy(2000, seed=2)
    return float(((classifier(points) > 0) == (domains > 0.5)).float().mean())


def test_it_learns_what_a_linear_classifier_can_not() -> None:
    linear = initialise(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), 0)
    assert accuracy_after_training(linear) < 0.75
    predictor = initialise(nn.Linear(2, 2), 0)
    xor = XorDomainClassifier(predictor, torch.zeros(1, 2), seed=0)
    assert accuracy_after_training(xor) >= 0.95


class Head(nn.Module):
    """The label predictor of the MNIST network, by hand."""

    def __init__(self, network: MNISTNetwork) -> None:
        super().__init__()
        self.fc3, self.fc4, self.fc5 = network.fc3, network.fc4, network.fc5

    def forward(self, features: Tensor) -> Tensor:
        output: Tensor = self.fc5(self.fc4(self.fc3(features.flatten(1))))
        return output


@pytest.mark.parametrize("traced", [False, True])
def test_replicas_are_copies_initialised_differently(traced: bool) -> None:
    head: nn.Module = Head(MNISTNetwork()).requires_grad_(False)
    head = torch.fx.symbolic_trace(head) if traced else head
    before = {name: p.clone() for name, p in head.named_parameters()}
    features = torch.randn(6, 48, 4, 4, generator=torch.Generator().manual_seed(0))
    xor = XorDomainClassifier(head, features, seed=1)
    logits = xor(features)
    assert logits.shape == (6,)
    F.binary_cross_entropy_with_logits(logits, torch.tensor([0.0, 1] * 3)).backward()
    for parameter in xor.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0
    for name, parameter in head.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
        if name.endswith("weight"):
            one, other = xor.first.get_parameter(name), xor.second.get_parameter(name)
            assert one.shape == other.shape == parameter.shape
            assert not torch.equal(one, other)
            assert not torch.equal(one, parameter)
    again = XorDomainClassifier(head, features, seed=1)
    assert torch.equal(again(features), logits)
    assert not torch.equal(XorDomainClassifier(head, features, seed=2)(features), logits)


def test_an_in_place_first_layer_does_not_overwrite_the_features() -> None:
    predictor = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
    features = -torch.ones(3, 4)
    xor = XorDomainClassifier(predictor, features)
    xor(features)
    assert torch.equal(features, -torch.ones(3, 4))


def test_the_mode_of_the_label_predictor_is_kept() -> None:
    predictor = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    xor = XorDomainClassifier(predictor, torch.ones(2, 4))
    assert predictor.training
    assert xor.first[1].training
    xor.eval()
    x = torch.ones(2, 4)
    assert torch.equal(xor(x), xor(x))


def test_refusals() -> None:
    linear = nn.Linear(4, 2)
    with pytest.raises(InputError, match="hidden must be at least 1, got 0"):
        XorDomainClassifier(linear, torch.zeros(1, 4), hidden=0)
    with pytest.raises(InputError, match=r"features of shape \(n, 4\); \(2, 5\) came"):
        XorDomainClassifier(linear, torch.zeros(1, 4))(torch.zeros(2, 5))
    flat = nn.Sequential(linear, nn.Flatten(0))
    with pytest.raises(InputError, match=r"one tensor \(n, …\), got shape \(2,\)"):
        XorDomainClassifier(flat, torch.zeros(1, 4))
