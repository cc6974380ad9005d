"""CDAN, MCC, MDD and CORAL against slow loops, and sums of terms against their parts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from test_objectives import adapter, assert_close, data, gradients, number
from torch import Tensor, nn

from revgrad import (
    Adversarial,
    Batch,
    ClassConfusion,
    ConditionalReversal,
    CovarianceMatching,
    DomainAdapter,
    MarginDisparity,
    PredictionEntropy,
    Reversal,
    Terms,
    adapt,
    from_arrays,
)
from revgrad.errors import InputError
from revgrad.objectives import NeedsHead
from revgrad.objectives.class_confusion import class_confusion
from revgrad.objectives.conditional import ConditionalDomainClassifier
from revgrad.objectives.discrepancy import coral
from tiny import Perceptron, seeded, vectors

FACTOR = 0.7


def fitted(objective: Any, width: int = 6) -> DomainAdapter:
    """A perceptron in float64 with the head that the objective asks for."""
    network = seeded(Perceptron, 1, torch.float64)
    return DomainAdapter.attach(
        network,
        "lower",
        torch.zeros(2, 4, dtype=torch.float64),
        hidden=(width,),
        make_head=objective.make_head if isinstance(objective, NeedsHead) else None,
        seed=2,
    )


def parts(ours: DomainAdapter, batch: Batch) -> tuple[Tensor, Tensor]:
    """Features and outputs, by the network itself."""
    features = ours.network.lower(batch.inputs)  # type: ignore[operator]
    return features, ours.network(batch.inputs)


def probabilities(row: Tensor) -> list[float]:
    exponents = [math.exp(number(x)) for x in row]
    return [x / sum(exponents) for x in exponents]


def entropy(chances: list[float]) -> float:
    return -sum(p * math.log(p) for p in chances)


# -- sums ----------------------------------------------------------------------------------------


def test_reversal_alone_is_dann() -> None:
    batch = data()
    ours, other = adapter(), adapter()
    assert_close(
        gradients(Terms((Reversal(),)), ours, batch, FACTOR),
        gradients(Adversarial(), other, batch, FACTOR),
    )
    one, two = Terms((Reversal(),))(ours, batch, FACTOR), Adversarial()(other, batch, FACTOR)
    assert number(one.total) == pytest.approx(number(two.total), abs=1e-14)


def test_a_sum_is_the_sum_of_its_terms() -> None:
    """Gradients of L_y + a + b are those of (L_y + a) + (L_y + b) − L_y."""
    batch = data()
    first, second = Reversal(0.5), ClassConfusion(2.0)
    found = {
        name: gradients(Terms(terms), adapter(), batch, FACTOR)
        for name, terms in {
            "both": (first, second),
            "first": (first,),
            "second": (second,),
            "none": (ClassConfusion(0.0),),
        }.items()
    }
    for name, value in found["both"].items():
        zero = torch.zeros_like(value)
        expected = found["first"].get(name, zero) + found["second"].get(name, zero)
        expected = expected - found["none"].get(name, zero)
        assert float((value - expected).abs().max()) < 1e-12, name


def test_two_heads_are_refused() -> None:
    with pytest.raises(InputError, match="Reversal and MarginDisparity each train"):
        Terms((Reversal(), MarginDisparity()))
    with pytest.raises(InputError, match="one term or more"):
        Terms(())


@pytest.mark.parametrize("term", [Reversal, ClassConfusion, ConditionalReversal, MarginDisparity])
def test_a_negative_weight_is_refused(term: Any) -> None:
    with pytest.raises(InputError, match="0 or more, not -1"):
        term(-1.0)


# -- CDAN ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sure_first", [False, True])
def test_cdan_is_its_loops(sure_first: bool) -> None:
    batch, objective = data(), Terms((ConditionalReversal(sure_first=sure_first),))
    ours = fitted(objective)
    head = ours.domain_classifier
    assert isinstance(head, ConditionalDomainClassifier)
    features, outputs = parts(ours, batch)
    rows, weights = [], []
    for i in range(len(features)):
        chances = probabilities(outputs[i])
        rows.append(torch.stack([features[i, a] * p for a in range(5) for p in chances]))
        weights.append(1 + math.exp(-entropy(chances)))
    scales = [6 / sum(weights[:6])] * 6 + [5 / sum(weights[6:])] * 5
    total = torch.zeros((), dtype=torch.float64)
    for i, row in enumerate(rows):
        chance = torch.sigmoid(head.classifier(row[None]))[0]
        loss = -(chance if i >= 6 else 1 - chance).log()
        total = total + loss * (weights[i] * scales[i] if sure_first else 1.0)
    total = total / 11
    found = objective(ours, batch, FACTOR)
    assert number(found.domain) == pytest.approx(number(total), abs=1e-12)
    # the gradient that reaches the features is −λ that of L_d, with p held constant
    wanted = torch.autograd.grad(total, ours.network.lower.weight, retain_graph=True)[0]  # type: ignore[arg-type, union-attr]
    value = objective.terms[0](_pass(ours, batch)).value
    ours.zero_grad()
    (got,) = torch.autograd.grad(value, ours.network.lower.weight)  # type: ignore[arg-type, union-attr]
    assert float((got + FACTOR * wanted).abs().max()) < 1e-12


def _pass(ours: DomainAdapter, batch: Batch) -> Any:
    from revgrad.objectives import Pass

    features, outputs = ours(batch, every_sample=True)
    return Pass(ours, batch, features, outputs, FACTOR)


def test_wide_products_are_projected_and_keep_inner_products() -> None:
    head = ConditionalDomainClassifier(600, 10, (8,), seed=3)
    torch.manual_seed(0)
    features, chances = torch.randn(20, 600), torch.randn(20, 10).softmax(1)
    joined = head.joined(features, chances)
    assert joined.shape == (20, 1024)
    true = (features @ features.T) * (chances @ chances.T)
    near = joined @ joined.T
    # the estimate's own standard deviation is about |f||f'||p||p'| / √1024, times √3 or so
    scale = features.norm(dim=1)[:, None] * features.norm(dim=1) / 32
    scale = scale * chances.norm(dim=1)[:, None] * chances.norm(dim=1)
    assert float(((near - true) / scale).abs().max()) < 8
    assert float(((near - true) / scale).square().mean().sqrt()) < 2.5
    again = ConditionalDomainClassifier(600, 10, (8,), seed=3)
    assert torch.equal(again.joined(features, chances), joined)


def test_prediction_entropy_is_of_unlabelled_samples() -> None:
    batch, ours = data(), adapter()
    _, outputs = parts(ours, batch)
    mean = sum(entropy(probabilities(outputs[i])) for i in range(6, 11)) / 5
    found = PredictionEntropy(0.3)(_pass(ours, batch)).value
    assert number(found) == pytest.approx(0.3 * FACTOR * mean, abs=1e-12)


# -- MCC -----------------------------------------------------------------------------------------


def test_class_confusion_is_its_loops() -> None:
    torch.manual_seed(1)
    logits, temperature = torch.randn(7, 4, dtype=torch.float64), 2.5
    chances = [probabilities(row / temperature) for row in logits]
    weights = [1 + math.exp(-entropy(p)) for p in chances]
    weights = [7 * w / sum(weights) for w in weights]
    matrix = [
        [sum(w * p[a] * p[b] for w, p in zip(weights, chances, strict=True)) for b in range(4)]
        for a in range(4)
    ]
    shares = [[x / sum(row) for x in row] for row in matrix]
    expected = sum(shares[a][b] for a in range(4) for b in range(4) if a != b) / 4
    assert number(class_confusion(logits, temperature)) == pytest.approx(expected, abs=1e-12)


def test_class_confusion_is_zero_for_sure_predictions_and_finite_for_lost_classes() -> None:
    sure = 1e4 * torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0]]
    assert number(class_confusion(sure, 1.0)) == pytest.approx(0.0, abs=1e-12)
    lost = (1e4 * torch.eye(3, dtype=torch.float64)[[0, 0, 1]]).requires_grad_()
    value = class_confusion(lost, 1.0)
    value.backward()
    assert math.isfinite(number(value))
    assert bool(lost.grad.isfinite().all())  # type: ignore[union-attr]


def test_class_confusion_sees_the_unlabelled_samples_alone() -> None:
    batch, ours = data(), adapter()
    _, outputs = parts(ours, batch)
    found = ClassConfusion(2.0)(_pass(ours, batch)).value
    expected = 2.0 * FACTOR * number(class_confusion(outputs[6:], 2.5))
    assert number(found) == pytest.approx(expected, abs=1e-12)


# -- MDD -----------------------------------------------------------------------------------------


def test_margin_disparity_is_its_loops() -> None:
    batch, objective = data(), Terms((MarginDisparity(margin=3.0),))
    ours = fitted(objective)
    features, outputs = parts(ours, batch)
    scores = ours.domain_classifier(features)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(11):
        chance = scores[i].softmax(0)[int(outputs[i].argmax())]
        total = total + (-3.0 * chance.log() / 6 if i < 6 else -(1 - chance).log() / 5)
    term = objective.terms[0](_pass(ours, batch))
    assert number(term.value) == pytest.approx(number(total), abs=1e-12)
    wanted = torch.autograd.grad(total, ours.network.lower.weight, retain_graph=True)[0]  # type: ignore[arg-type, union-attr]
    (got,) = torch.autograd.grad(term.value, ours.network.lower.weight)  # type: ignore[arg-type, union-attr]
    assert float((got + FACTOR * wanted).abs().max()) < 1e-12


def test_margin_disparity_is_finite_where_the_adversary_is_sure() -> None:
    from revgrad.objectives.margin_disparity import _log_otherwise

    scores = torch.tensor([[800.0, 0.0, -5.0]], dtype=torch.float64)
    found = number(_log_otherwise(scores, torch.tensor([0])))
    assert found == pytest.approx(math.log(1 + math.exp(-5.0)) - 800.0, abs=1e-9)


# -- CORAL ---------------------------------------------------------------------------------------


def test_coral_is_its_loops() -> None:
    torch.manual_seed(2)
    one, other = torch.randn(6, 3, dtype=torch.float64), 2 * torch.randn(5, 3, dtype=torch.float64)

    def covariance(rows: Tensor, a: int, b: int) -> float:
        n = len(rows)
        means = [sum(float(r[k]) for r in rows) / n for k in (a, b)]
        products = [(float(r[a]) - means[0]) * (float(r[b]) - means[1]) for r in rows]
        return sum(products) / (n - 1)

    squares = [
        (covariance(one, a, b) - covariance(other, a, b)) ** 2 for a in range(3) for b in range(3)
    ]
    assert number(coral(one, other)) == pytest.approx(sum(squares) / 36, abs=1e-12)
    with pytest.raises(InputError, match="two samples or more"):
        coral(one[:1], other)


def test_covariance_matching_adds_coral() -> None:
    batch, ours = data(), adapter()
    features, _ = parts(ours, batch)
    losses = CovarianceMatching(weight=10.0)(ours, batch, FACTOR)
    distance = number(coral(features[:6], features[6:]))
    expected = number(losses.label) + 10.0 * FACTOR * distance
    assert number(losses.total) == pytest.approx(expected, abs=1e-12)


# -- the front door ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cdan", "cdan-e", "mcc", "dann-mcc", "mdd", "coral"])
def test_adapt_by_name_trains_and_repeats(method: str) -> None:
    source, target = vectors(40, 1), vectors(40, 2, 1.0)

    def weights(given: Any) -> list[Tensor]:
        network = seeded(Perceptron, 1)
        adapt(
            network,
            source,
            given,
            layer="lower",
            recipe="paper",
            method=method,
            domain_classifier=(8,),
            steps=12,
            progress=False,
        )
        return [value.detach().clone() for value in network.parameters()]

    first = weights(target)
    poisoned = from_arrays(target.batch(range(40)).inputs, (torch.arange(40) * 7 % 3).numpy())
    for one, other in zip(first, weights(poisoned), strict=True):
        assert torch.equal(one, other)
    moved = from_arrays(target.batch(range(40)).inputs + 1.0)
    assert any(not torch.equal(a, b) for a, b in zip(first, weights(moved), strict=True))


def test_a_regression_is_refused_in_one_line() -> None:
    source = from_arrays(torch.randn(20, 4), torch.randn(20).numpy())
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    for method in ("cdan", "mcc", "mdd"):
        with pytest.raises(InputError, match="class") as caught:
            adapt(
                network,
                source,
                from_arrays(torch.randn(20, 4)),
                layer="0",
                recipe="paper",
                method=method,
                steps=2,
                progress=False,
            )
        assert "\n" not in str(caught.value)
