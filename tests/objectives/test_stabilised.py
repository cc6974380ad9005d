"""Reversal that waits for the classes: against the formula written out in float64."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad import Batch, DomainAdapter, DomainClassifier, Run, adapt, from_arrays
from revgrad.batch import Samples
from revgrad.errors import InputError
from revgrad.networks.domain_classifier import EPSILON, normalised
from revgrad.objectives.stabilised import Stabilised, learned_share, relative_loss
from tiny import Perceptron, digest, seeded, vectors


def data(scale: float = 1.0) -> Batch:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(11, 4, generator=generator, dtype=torch.float64) * scale
    labels = torch.randint(0, 3, (6,), generator=generator)
    return Batch.of(Samples(rows[:6], labels), Samples(rows[6:] + 1, None))


def by_hand(values: Tensor, how: str) -> Tensor:
    """Sample by sample, as the definition says."""
    found = []
    for row in values:
        centred = row - row.mean() if how == "layer" else row
        found.append(centred / math.sqrt(float((centred**2).mean()) + EPSILON))
    return torch.stack(found)


@pytest.mark.parametrize("how", ["rms", "layer"])
def test_features_are_normalised_sample_by_sample(how: Any) -> None:
    values = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(normalised(values, how), by_hand(values, how), atol=1e-12)
    assert normalised(values, "none") is values
    classifier = DomainClassifier(7, (6,), seed=2, normalise=how).double()
    plain = DomainClassifier(7, (6,), seed=2).double()
    assert torch.allclose(classifier(values), plain(by_hand(values, how)), atol=1e-12)
    with pytest.raises(InputError, match="no normalisation 'rsm'"):
        DomainClassifier(7, normalise="rsm")  # type: ignore[arg-type]


def test_what_is_reversed_never_makes_features_longer() -> None:
    """At right angles to the features, up to the small number in the denominator."""
    values = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values = (50 * values).requires_grad_()
    classifier = DomainClassifier(7, (6,), seed=2, normalise="rms").double()
    loss = F.binary_cross_entropy_with_logits(classifier(values), torch.ones(5).double())
    (gradient,) = torch.autograd.grad(loss, values)
    lengths = (gradient.norm(dim=1) * values.norm(dim=1)).clamp(min=1e-12)
    along = (gradient * values).sum(1) / lengths
    assert float(gradient.norm()) > 1e-4
    assert float(along.detach().abs().max()) < 1e-6


@pytest.mark.parametrize("learned", [0.0, 0.25, 0.9])
def test_the_reversal_is_scaled_by_what_is_learned(learned: float) -> None:
    batch = data()
    network = seeded(Perceptron, 1, torch.float64)
    classifier = DomainClassifier(5, (6,), seed=2, normalise="rms").double()
    given = DomainAdapter(network, "lower", classifier)
    losses = Stabilised(learned=learned)(given, batch, 0.7)
    weights = [*network.parameters(), *classifier.parameters()]
    found = torch.autograd.grad(losses.total, weights, allow_unused=True)

    features, predictions = given(batch)
    label = F.cross_entropy(predictions, batch.labels[:6])
    share = min(max((1 - float(label.detach()) / math.log(3)) / (1 - learned), 0.0), 1.0)
    domain = F.binary_cross_entropy_with_logits(
        classifier(features), batch.domains.to(torch.float64)
    )
    of_label = torch.autograd.grad(label, weights, retain_graph=True, allow_unused=True)
    of_domain = torch.autograd.grad(domain, weights, allow_unused=True)
    lower = len(list(network.parameters()))
    for place, (value, one, other) in enumerate(zip(found, of_label, of_domain, strict=True)):
        factor = -0.7 * share if place < lower else 1.0
        parts = [p * f for p, f in ((one, 1.0), (other, factor)) if p is not None]
        assert value is not None
        assert torch.allclose(value, torch.stack(parts).sum(0), atol=1e-12)


def test_the_share_that_is_learned() -> None:
    batch, like = data(), torch.zeros(1, dtype=torch.float64)
    predictions = torch.zeros(6, 3, dtype=torch.float64)

    def share(loss: float) -> float:
        label = torch.tensor(loss, dtype=torch.float64)
        return float(learned_share(relative_loss(label, predictions, batch, like), 0.25))

    assert share(math.log(3)) == 0.0
    assert share(9.0) == 0.0
    assert share(0.25 * math.log(3)) == pytest.approx(1.0)
    assert share(0.0) == 1.0
    assert share(0.625 * math.log(3)) == pytest.approx(0.5)
    regression = batch._replace(labels=batch.labels.double())
    assert float(relative_loss(torch.tensor(9.0), predictions, regression, like)) == 0.0
    assert float(relative_loss(None, None, batch, like)) == 0.0


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="share of chance"):
        Stabilised(learned=1.0)


def test_the_recipe_trains_resumes_and_sees_no_target_label(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def trained(folder: Path, poison: bool) -> str:
        network = seeded(Perceptron)
        target = vectors(50, 2, shift=1.0)
        inputs = target.batch(np.arange(50), augment=False).inputs.numpy()
        labels = random.integers(0, 3, 50) if poison else np.asarray(target.labels)
        adapt(
            network,
            vectors(60, 1),
            from_arrays(inputs, labels, name="target"),
            layer="lower",
            recipe="stabilised",
            steps=20,
            batch_size=24,
            domain_classifier=(7,),
            run=folder,
            progress=False,
        )
        config = Run(folder).config
        assert (config.method, config.normalise) == ("stabilised", "rms")
        return digest(network.state_dict())

    assert trained(tmp_path / "clean", False) == trained(tmp_path / "poisoned", True)


def test_a_regression_is_trained_without_balance() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 4)).astype(np.float32)
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))
    adapted = adapt(
        network, (x, x[:, 0]), x + 1, layer="1", recipe="stabilised", steps=5, progress=False
    )
    assert adapted.predict(x).shape == (60,)
