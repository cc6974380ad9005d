"""PADA against slow loops: class weights, both losses, and the gradient behind the reversal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from test_objectives import adapter, assert_close, data, gradients, number
from torch import Tensor

from revgrad import Adversarial, DomainAdapter, PartialAdversarial, adapt, from_arrays
from revgrad.errors import InputError
from revgrad.objectives.partial import PartialDomainClassifier
from tiny import Perceptron, seeded, vectors

FACTOR = 0.7


def fitted(objective: PartialAdversarial) -> DomainAdapter:
    network = seeded(Perceptron, 1, torch.float64)
    head = objective.make_head(5, 3, (6,), 2).double()
    return DomainAdapter(network, "lower", head)


def head_of(ours: DomainAdapter) -> PartialDomainClassifier:
    assert isinstance(ours.domain_classifier, PartialDomainClassifier)
    return ours.domain_classifier


def test_losses_and_class_shares_are_their_loops() -> None:
    objective, batch = PartialAdversarial(decay=0.9), data()
    ours = fitted(objective).train()
    outputs = ours.network(batch.inputs)
    shares = head_of(ours).shares.tolist()
    assert shares == pytest.approx([1 / 3] * 3)
    for k in range(3):
        mean = sum(number(outputs[i].softmax(0)[k]) for i in range(6, 11)) / 5
        shares[k] = 0.9 * shares[k] + 0.1 * mean
    found = objective(ours, batch, FACTOR)
    assert head_of(ours).shares.tolist() == pytest.approx(shares, abs=1e-12)
    weights = [share / max(shares) for share in shares]
    own = [weights[int(label)] for label in batch.labels[:6]]

    label = torch.zeros((), dtype=torch.float64)
    domain = torch.zeros((), dtype=torch.float64)
    features = ours.network.lower(batch.inputs)  # type: ignore[operator]
    for i in range(11):
        chance = torch.sigmoid(head_of(ours).classifier(features[i][None]))[0]
        if i < 6:
            right = outputs[i].softmax(0)[int(batch.labels[i])]
            label = label - own[i] * right.log() / sum(own)
            domain = domain - own[i] * 6 / sum(own) * (1 - chance).log() / 11
        else:
            domain = domain - chance.log() / 11
    assert number(found.label) == pytest.approx(number(label), abs=1e-12)
    assert number(found.domain) == pytest.approx(number(domain), abs=1e-12)
    weight = ours.network.lower.weight
    of_label, of_domain, got = (
        torch.autograd.grad(value, weight, retain_graph=True)[0]  # type: ignore[arg-type]
        for value in (label, domain, found.total)
    )
    assert float((got - of_label + FACTOR * of_domain).abs().max()) < 1e-12


def test_equal_weights_are_plain_dann() -> None:
    batch = data()
    ours = fitted(PartialAdversarial()).eval()  # in evaluation the shares stay: all alike
    other = adapter()
    other.domain_classifier.load_state_dict(head_of(ours).classifier.state_dict())
    mine = gradients(PartialAdversarial(), ours, batch, FACTOR)
    plain = gradients(Adversarial(), other, batch, FACTOR)
    renamed = {name.replace("classifier.classifier", "classifier"): g for name, g in mine.items()}
    assert_close(renamed, plain)
    assert head_of(ours).shares.tolist() == pytest.approx([1 / 3] * 3)


def test_shares_find_the_classes_that_the_target_lacks() -> None:
    source = vectors(600, 1)
    there = vectors(600, 2)
    assert there.labels is not None
    target = there.subset(np.flatnonzero(there.labels != 2)).without_labels()
    adapted = adapt(
        seeded(Perceptron, 3),
        source,
        target,
        layer="lower",
        recipe="paper",
        method="partial",
        domain_classifier=(8,),
        optimiser="adam",
        learning_rate=0.01,
        steps=200,
        progress=False,
    )
    assert adapted.adapter is not None
    weights = head_of(adapted.adapter).class_weights().tolist()
    assert min(weights[:2]) > 0.6
    assert weights[2] < 0.4


def test_a_domain_classifier_of_ones_own_and_a_regression_are_refused() -> None:
    with pytest.raises(InputError, match="class shares in its own head"):
        PartialAdversarial()(adapter(), data(), FACTOR)
    with pytest.raises(InputError, match="decay"):
        PartialAdversarial(decay=1.0)
    with pytest.raises(InputError, match="for one class a sample"):
        adapt(
            seeded(Perceptron, 1),
            from_arrays(torch.randn(20, 4), np.random.default_rng(0).normal(size=(20, 3))),
            torch.randn(20, 4),
            layer="lower",
            recipe="paper",
            method="partial",
            steps=2,
            progress=False,
        )


def test_target_labels_are_not_read_and_target_inputs_are() -> None:
    source, target = vectors(40, 1), vectors(40, 2, 1.0)

    def weights(given: object) -> list[Tensor]:
        network = seeded(Perceptron, 1)
        adapt(
            network,
            source,
            given,
            layer="lower",
            recipe="paper",
            method="partial",
            domain_classifier=(8,),
            steps=12,
            progress=False,
        )
        return [value.detach().clone() for value in network.parameters()]

    first = weights(target)
    inputs = target.batch(range(40)).inputs
    assert isinstance(inputs, Tensor)
    for one, other in zip(first, weights((inputs, np.arange(40) * 7 % 3)), strict=True):
        assert torch.equal(one, other)
    assert any(not torch.equal(a, b) for a, b in zip(first, weights(inputs + 1.0), strict=True))
    assert math.isfinite(sum(float(one.sum()) for one in first))
