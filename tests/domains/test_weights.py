"""Weights of samples and classes in the label loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from revgrad import Adversarial, PairedBatches, Supervised, adapt, from_arrays
from revgrad.domains import Domain
from revgrad.errors import InputError
from tiny import Perceptron, seeded, weights_digest

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(30, 4))
Y = RANDOM.integers(0, 3, 30)
WEIGHTS = RANDOM.random(30) * (RANDOM.random(30) > 0.2)
NAMES = np.array(["ant", "bee", "cat"])
SHORT: dict[str, Any] = {
    "recipe": "paper",
    "layer": "lower",
    "steps": 6,
    "batch_size": 12,
    "progress": False,
}


def losses(source: Domain, target: Domain, objective: Any) -> tuple[Any, Any, Any]:
    from revgrad import DomainAdapter, DomainClassifier

    network = seeded(Perceptron, 1, torch.float64)
    head = DomainClassifier(5, hidden=(6,), seed=2).double()
    adapter = DomainAdapter(network, "lower", head)
    batch = PairedBatches([source, target], (9, 5), seed=3).batch(1)
    return objective(adapter, batch, 0.5), batch, network


@pytest.mark.parametrize("objective", [Adversarial(), Supervised()])
def test_the_label_loss_is_the_weighted_mean(objective: Any) -> None:
    source = from_arrays(X, Y, weights=WEIGHTS)
    target = from_arrays(X[:10] + 1, Y[:10]).keeping_labels(4)  # those labels weigh 1
    found, batch, network = losses(source, target, objective)
    rows = np.array(
        [np.flatnonzero((x == np.vstack([X, X[:10] + 1])).all(1))[0] for x in batch.inputs]
    )
    above = below = 0.0
    with torch.no_grad():
        for i, row in enumerate(rows):
            if not batch.labelled[i]:
                continue
            logits = network(batch.inputs[i : i + 1]).numpy()[0]
            loss = np.log(np.exp(logits).sum()) - logits[int(batch.labels[i])]
            weight = float(np.float32(WEIGHTS[row])) if row < 30 else 1.0
            above, below = above + weight * loss, below + weight
    assert float(found.label) == pytest.approx(above / below, rel=1e-7)
    plain, *_ = losses(from_arrays(X, Y), target, objective)
    assert float(plain.label) != pytest.approx(float(found.label), rel=1e-5)


def test_equal_weights_change_nothing_that_is_learnt() -> None:
    once = adapt(seeded(Perceptron, 0, torch.float64), (X, Y), X + 1, **SHORT).network
    alike = from_arrays(X, Y, weights=np.full(30, 0.25))
    again = adapt(seeded(Perceptron, 0, torch.float64), alike, X + 1, **SHORT).network
    for one, other in zip(once.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert weights_digest(once)


def test_class_weights_are_those_of_torch_and_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_sample_weight

    balanced = from_arrays(X, Y, class_weights="balanced").weights
    np.testing.assert_allclose(balanced, compute_sample_weight("balanced", Y), rtol=1e-6)
    domain = from_arrays(X, NAMES[Y], class_weights={"ant": 1.0, "cat": 3.0, "bee": 0.5})
    target = from_arrays(X[:10] + 1).without_labels()
    found, batch, network = losses(domain, target, Supervised())
    own = batch.labelled
    with torch.no_grad():
        wanted = F.cross_entropy(
            network(batch.inputs[own]),
            batch.labels[own],
            weight=torch.tensor([1.0, 0.5, 3.0], dtype=torch.float64),
        )
    assert float(found.label) == pytest.approx(float(wanted))
    both = from_arrays(X, Y, weights=WEIGHTS, class_weights=[1, 2, 4]).weights
    np.testing.assert_allclose(both, WEIGHTS * np.array([1, 2, 4])[Y], rtol=1e-6)


def test_weights_stay_with_their_samples() -> None:
    domain = from_arrays(X, Y, weights=np.arange(30))
    rest, held = domain.split(0.3)
    assert (rest.weights == rest.rows).all()
    assert (held.weights == held.rows).all()
    assert domain.fingerprint() != from_arrays(X, Y).fingerprint()
    assert domain.weighted().fingerprint() == from_arrays(X, Y).fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 2]}, r"30 inputs but weights of shape \(2,\)"),
        ({"weights": -np.ones(30)}, "weights must be finite numbers, 0 or more"),
        ({"weights": np.zeros(30)}, "all weights are 0"),
        ({"class_weights": "even"}, 'class_weights is "balanced" or numbers'),
        ({"class_weights": [1, 2]}, "2 class weights for 3 classes"),
        ({"class_weights": {0: 1.0, 1: 2.0}}, "class_weights has none for class 2"),
    ],
)
def test_refused(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(X, Y, **options)


def test_a_loss_that_gives_only_a_mean_can_not_be_weighted() -> None:
    source = from_arrays(X.astype(np.float32), Y, weights=WEIGHTS)
    with pytest.raises(InputError, match="weights need one value per sample"):
        adapt(
            seeded(Perceptron),
            source,
            X.astype(np.float32),
            label_loss=lambda outputs, labels: F.cross_entropy(outputs, labels),
            **SHORT,
        )


def test_positions_weigh_as_much_as_their_sample() -> None:
    from revgrad.batch import Batch, Samples
    from revgrad.objectives.losses import mean_label_loss
    from revgrad.tasks.losses import PositionCrossEntropy

    loss = PositionCrossEntropy(ignored=-1, axis=1)
    outputs = torch.from_numpy(RANDOM.normal(size=(3, 4, 5)))
    labels = torch.from_numpy(RANDOM.integers(-1, 4, (3, 5)))
    weights = torch.tensor([0.5, 0.0, 2.0])
    batch = Batch.of(Samples(outputs, labels))._replace(weights=weights, total_weight=2.5)
    above = below = 0.0
    for i in range(3):
        for t in range(5):
            if int(labels[i, t]) >= 0:
                logits = outputs[i, :, t].numpy()
                one = np.log(np.exp(logits).sum()) - logits[int(labels[i, t])]
                above, below = above + float(weights[i]) * one, below + float(weights[i])
    assert float(mean_label_loss(loss, outputs, batch)) == pytest.approx(above / below)  # type: ignore[arg-type]
