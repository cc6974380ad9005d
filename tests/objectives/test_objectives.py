"""Objectives against the paper's equations, written by hand with torch.autograd.grad."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad import (
    Adversarial,
    AdversarialConsistency,
    AdversarialEntropy,
    Batch,
    DomainAdapter,
    DomainClassifier,
    KernelMatching,
    MeanMatching,
    Supervised,
    TwoLosses,
)
from revgrad.batch import Samples
from revgrad.errors import InputError
from revgrad.objectives import OBJECTIVES, NeedsHead, cross_entropy, domain_loss, squared_error
from revgrad.objectives.losses import domain_decisions
from tiny import Perceptron, Residual, cut_by_tap, seeded

FACTORS = (0.0, 0.3, 2.0)


def number(value: Any) -> float:
    return float(torch.as_tensor(value).detach())


def data(
    source: int = 6, target: int = 5, seed: int = 0, regression: bool = False, **totals: Any
) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def rows(n: int, shift: float) -> Tensor:
        return torch.randn(n, 4, generator=generator, dtype=torch.float64) + shift

    if regression:
        labels = torch.randn(source, generator=generator, dtype=torch.float64)
    else:
        labels = torch.randint(0, 3, (source,), generator=generator)
    return Batch.of(Samples(rows(source, 0), labels), Samples(rows(target, 1), None), **totals)


def adapter(
    build: Callable[[], nn.Module] = Perceptron, layer: str = "lower", domains: int = 2
) -> DomainAdapter:
    network = seeded(build, 1, torch.float64)
    classifier = DomainClassifier(5, hidden=(6,), domains=domains, seed=2).double()
    return DomainAdapter(network, layer, classifier)


NETWORKS: list[Any] = [
    pytest.param(Perceptron, "lower", id="in-place"),
    pytest.param(Residual, "joined", id="residual"),
]


class ByHand:
    """The three parts of the paper written out, on copies of an adapter's weights."""

    def __init__(self, given: DomainAdapter) -> None:
        def copied(module: nn.Module) -> dict[str, Tensor]:
            return {
                name: value.detach().clone().requires_grad_()
                for name, value in module.named_parameters()
            }

        named = copied(given.network)
        self.residual = "block.weight" in named
        self.theta_y = {k: v for k, v in named.items() if k.startswith("upper")}
        self.theta_f = {k: v for k, v in named.items() if not k.startswith("upper")}
        self.theta_d = copied(given.domain_classifier)

    def features(self, x: Tensor) -> Tensor:
        f = self.theta_f
        lower = x @ f["lower.weight"].T + f["lower.bias"]
        if not self.residual:
            return lower
        lower = lower.tanh()
        return lower + (lower @ f["block.weight"].T + f["block.bias"]).clamp(min=0)

    def predictions(self, features: Tensor) -> Tensor:
        if not self.residual:
            features = features.clamp(min=0)
        return features @ self.theta_y["upper.weight"].T + self.theta_y["upper.bias"]

    def logits(self, features: Tensor) -> Tensor:
        d = self.theta_d
        hidden = (features @ d["fc1_d.weight"].T + d["fc1_d.bias"]).clamp(min=0)
        return (hidden @ d["fc2_d.weight"].T + d["fc2_d.bias"]).squeeze(1)

    def label_loss(self, batch: Batch) -> Tensor:
        rows = [i for i in range(len(batch.labelled)) if batch.labelled[i]]
        outputs = self.predictions(self.features(batch.inputs[rows]))  # type: ignore[index]
        chances = outputs.exp() / outputs.exp().sum(1, keepdim=True)
        losses = [-chances[i, int(batch.labels[row])].log() for i, row in enumerate(rows)]
        return torch.stack(losses).sum() / len(rows)

    def domain_loss(self, batch: Batch, swapped: bool = False) -> Tensor:
        chance = 1 / (1 + (-self.logits(self.features(batch.inputs))).exp())  # type: ignore[arg-type]
        d = batch.domains.double()
        d = 1 - d if swapped else d
        return -(d * chance.log() + (1 - d) * (1 - chance).log()).sum() / len(d)

    def gradients(self, batch: Batch, factor: float, swapped: bool = False) -> dict[str, Tensor]:
        """upd1–upd3 as directions: ∂L_y/∂θ_f − λ ∂L_d/∂θ_f, ∂L_y/∂θ_y, ∂L_d/∂θ_d."""

        def grad(loss: Tensor, theta: dict[str, Tensor]) -> list[Tensor]:
            return list(torch.autograd.grad(loss, list(theta.values())))

        label_f = grad(self.label_loss(batch), self.theta_f)
        label_y = grad(self.label_loss(batch), self.theta_y)
        domain_f = grad(self.domain_loss(batch, swapped), self.theta_f)
        domain_d = grad(self.domain_loss(batch), self.theta_d)
        sign = 1.0 if swapped else -1.0
        result = {
            f"network.{name}": ly + sign * factor * ld
            for name, ly, ld in zip(self.theta_f, label_f, domain_f, strict=True)
        }
        result |= {f"network.{n}": g for n, g in zip(self.theta_y, label_y, strict=True)}
        result |= {f"domain_classifier.{n}": g for n, g in zip(self.theta_d, domain_d, strict=True)}
        return result

    def step(self, directions: dict[str, Tensor], rate: float) -> None:
        parts = {"network": {**self.theta_f, **self.theta_y}, "domain_classifier": self.theta_d}
        with torch.no_grad():
            for name, direction in directions.items():
                part, own = name.split(".", 1)
                parts[part][own] -= rate * direction


def gradients(objective: Any, given: DomainAdapter, batch: Batch, factor: Any) -> dict[str, Tensor]:
    given.zero_grad()
    objective(given, batch, factor).total.backward()
    return {
        name: value.grad.clone()
        for name, value in given.named_parameters()
        if value.grad is not None
    }


def assert_close(left: dict[str, Tensor], right: dict[str, Tensor], limit: float = 1e-12) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert number((left[name] - right[name]).detach().abs().max()) <= limit, name


@pytest.mark.parametrize(("build", "layer"), NETWORKS)
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("objective", [Adversarial(), TwoLosses("reversal")], ids=["R", "pair"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_three_steps_are_the_papers_updates(
    build: Any, layer: str, factor: float, objective: Any, momentum: float
) -> None:
    """eqs. upd1–upd3; with momentum v ← m v + g, θ ← θ − μ v."""
    ours = adapter(build, layer)
    hand = ByHand(ours)
    rate, velocity = 0.1, {}
    optimiser = torch.optim.SGD(ours.parameters(), lr=rate, momentum=momentum)
    for number in range(3):
        batch = data(seed=number)
        optimiser.zero_grad()
        objective(ours, batch, factor).total.backward()
        optimiser.step()
        for name, gradient in hand.gradients(batch, factor).items():
            velocity[name] = momentum * velocity.get(name, 0.0) + gradient
        hand.step(velocity, rate)
    expected = {f"network.{k}": v for k, v in {**hand.theta_f, **hand.theta_y}.items()}
    expected |= {f"domain_classifier.{k}": v for k, v in hand.theta_d.items()}
    moved = seeded(build, 1, torch.float64).state_dict()
    assert not torch.equal(expected["network.lower.weight"], moved["lower.weight"])
    assert_close(dict(ours.named_parameters()), expected)


@pytest.mark.parametrize("factor", FACTORS)
def test_swapped_pair_is_its_own_formula(factor: float) -> None:
    ours, batch = adapter(), data()
    expected = ByHand(ours).gradients(batch, factor, swapped=True)
    assert_close(gradients(TwoLosses("swapped"), ours, batch, factor), expected)


@pytest.mark.parametrize("objective", [Adversarial(), TwoLosses("reversal"), TwoLosses("swapped")])
def test_factor_scales_the_features_gradient_only(objective: Any) -> None:
    ours, batch = adapter(), data()
    at = {factor: gradients(objective, ours, batch, factor) for factor in FACTORS}
    for name in at[0.0]:
        if name.startswith("domain_classifier") or "upper" in name:
            assert torch.equal(at[0.0][name], at[2.0][name])
            assert torch.equal(at[0.0][name], at[0.3][name])
            assert bool(at[0.0][name].abs().sum() > 0)
        else:
            small, large = at[0.3][name] - at[0.0][name], at[2.0][name] - at[0.0][name]
            assert bool(small.abs().sum() > 0)
            torch.testing.assert_close(large, small * (2.0 / 0.3), rtol=1e-10, atol=1e-13)


def test_a_tensor_does_as_factor_too() -> None:
    ours, batch = adapter(), data()
    for objective in (Adversarial(), TwoLosses("swapped"), MeanMatching(), KernelMatching()):
        number = gradients(objective, ours, batch, 0.3)
        tensor = gradients(objective, ours, batch, torch.tensor(0.3, dtype=torch.float64))
        assert_close(number, tensor)


@pytest.mark.parametrize(("build", "layer"), NETWORKS)
@pytest.mark.parametrize(
    "objective", [Adversarial(), TwoLosses("swapped"), MeanMatching(), KernelMatching()]
)
def test_cut_and_tap_agree(
    build: Any, layer: str, objective: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = data()
    traced = adapter(build, layer)
    cut_by_tap(monkeypatch)
    tapped = adapter(build, layer)
    assert traced.cut.traced
    assert not tapped.cut.traced
    assert_close(
        gradients(objective, traced, batch, 0.7), gradients(objective, tapped, batch, 0.7), 1e-14
    )


@pytest.mark.parametrize("tap", [False, True])
def test_a_deep_copy_is_a_whole_of_its_own(tap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_by_tap(monkeypatch, tap)
    original, batch = adapter(), data()
    expected = gradients(Adversarial(), original, batch, 0.5)
    original.network.relu.eval()
    copied = copy.deepcopy(original)
    assert not copied.network.relu.training
    assert copied.network.lower.training
    original.zero_grad()
    with torch.no_grad():
        for value in original.parameters():
            value.fill_(7.0)
    assert_close(gradients(Adversarial(), copied, batch, 0.5), expected)
    assert all(value.grad is None for value in original.parameters())


def test_mean_matching_is_a_slow_loop() -> None:
    ours, batch, factor = adapter(), data(), 0.4
    hand = ByHand(ours)
    features = hand.features(batch.inputs)  # type: ignore[arg-type]
    distance = torch.zeros((), dtype=torch.float64)
    for unit in range(5):
        source = sum(features[i, unit] for i in range(6)) / 6
        target = sum(features[i, unit] for i in range(6, 11)) / 5
        distance = distance + (source - target) ** 2
    total = hand.label_loss(batch) + factor * distance
    theta = {**hand.theta_f, **hand.theta_y}
    grads = torch.autograd.grad(total, list(theta.values()))
    losses = MeanMatching()(ours, batch, factor)
    assert number(losses.total) == pytest.approx(number(total), abs=1e-12)
    assert number(losses.domain) == pytest.approx(number(distance), abs=1e-12)  # type: ignore[arg-type]
    expected = {f"network.{k}": g for k, g in zip(theta, grads, strict=True)}
    assert_close(gradients(MeanMatching(), ours, batch, factor), expected)


@pytest.mark.parametrize("bandwidths", [None, (0.8, 3.0)])
@pytest.mark.parametrize("unbiased", [False, True])
def test_kernel_matching_is_a_slow_loop(bandwidths: Any, unbiased: bool) -> None:
    ours, batch, factor = adapter(), data(), 0.4
    hand = ByHand(ours)
    features = hand.features(batch.inputs)  # type: ignore[arg-type]
    apart = [[(x - y).square().sum() for y in features] for x in features]
    pairs = sorted(number(apart[i][j].sqrt()) for i in range(11) for j in range(i))
    middle = pairs[(len(pairs) - 1) // 2]
    widths = bandwidths or [middle * scale for scale in (0.25, 0.5, 1, 2, 4)]

    def kernels(rows: range, others: range) -> Tensor:
        values = [
            (-apart[i][j] / (2 * width**2)).exp()
            for i in rows
            for j in others
            for width in widths
            if not (unbiased and i == j)
        ]
        return torch.stack(values).sum() / len(values)

    source, target = range(6), range(6, 11)
    distance = kernels(source, source) + kernels(target, target) - 2 * kernels(source, target)
    total = hand.label_loss(batch) + factor * distance
    theta = {**hand.theta_f, **hand.theta_y}
    grads = torch.autograd.grad(total, list(theta.values()))
    objective = KernelMatching(bandwidths=bandwidths, unbiased=unbiased)
    losses = objective(ours, batch, factor)
    assert number(losses.total) == pytest.approx(number(total), abs=1e-12)
    assert number(losses.domain) == pytest.approx(number(distance), abs=1e-12)
    expected = {f"network.{k}": g for k, g in zip(theta, grads, strict=True)}
    assert_close(gradients(objective, ours, batch, factor), expected)


@pytest.mark.parametrize(("build", "layer"), NETWORKS)
def test_entropy_is_a_slow_sum_over_the_unlabelled_rows(build: Any, layer: str) -> None:
    ours, batch, factor, weight = adapter(build, layer), data(), 0.7, 0.4
    hand = ByHand(ours)
    outputs = hand.predictions(hand.features(batch.inputs))  # type: ignore[arg-type]
    chances = outputs.exp() / outputs.exp().sum(1, keepdim=True)
    entropies = [-sum(p * p.log() for p in chances[i]) for i in range(6, 11)]
    entropy = torch.stack([torch.as_tensor(value) for value in entropies]).sum() / 5
    extra = torch.autograd.grad(weight * entropy, [*hand.theta_f.values(), *hand.theta_y.values()])
    plain = gradients(Adversarial(), ours, batch, factor)
    for name, value in zip([*hand.theta_f, *hand.theta_y], extra, strict=True):
        plain[f"network.{name}"] = plain[f"network.{name}"] + value
    assert_close(gradients(AdversarialEntropy(weight), ours, batch, factor), plain)
    losses = AdversarialEntropy(weight)(ours, batch, factor)
    without = Adversarial()(ours, batch, factor)
    expected = number(without.total) + weight * number(entropy)
    assert number(losses.total) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("build", "layer"), NETWORKS)
def test_consistency_is_a_slow_sum_over_the_sure_rows(build: Any, layer: str) -> None:
    ours, batch, factor, weight = adapter(build, layer), data(), 0.7, 0.4
    inputs = batch.inputs
    assert isinstance(inputs, Tensor)
    hand = ByHand(ours)
    seen = hand.predictions(hand.features(inputs[6:])).detach()
    chances = seen.exp() / seen.exp().sum(1, keepdim=True)
    threshold = number(chances.max(1).values.median()) - 1e-9  # three of the five are sure
    changed = batch._replace(inputs=inputs * 1.5 - 0.2)
    outputs = hand.predictions(hand.features(changed.inputs))  # type: ignore[arg-type]
    terms = []
    for row in range(5):
        if chances[row].max() >= threshold:
            wanted = int(chances[row].argmax())
            again = outputs[6 + row].exp() / outputs[6 + row].exp().sum()
            terms.append(-again[wanted].log())
    assert len(terms) == 3
    means = [sum(o.exp()[k] / o.exp().sum() for o in outputs[6:]) / 5 for k in range(3)]
    entropy = -sum(mean * mean.log() for mean in means)
    consistency = weight * torch.stack(terms).sum() / 5 - 0.3 * entropy
    extra = torch.autograd.grad(
        factor * consistency, [*hand.theta_f.values(), *hand.theta_y.values()]
    )
    expected = gradients(Adversarial(), ours, changed, 0.2 * factor)
    for name, value in zip([*hand.theta_f, *hand.theta_y], extra, strict=True):
        expected[f"network.{name}"] = expected[f"network.{name}"] + value
    objective = AdversarialConsistency(
        weight, threshold, reversal=0.2, spread=0.3, augment=lambda x: x * 1.5 - 0.2
    )
    assert_close(gradients(objective, ours, batch, factor), expected)
    total = number(Adversarial()(ours, changed, factor).total) + factor * number(consistency)
    assert number(objective(ours, batch, factor).total) == pytest.approx(total, abs=1e-12)


def test_consistency_keeps_the_statistics_of_unchanged_target_rows() -> None:
    network = nn.Sequential(nn.BatchNorm1d(4, momentum=1.0), nn.Linear(4, 5), nn.Linear(5, 3))
    classifier = DomainClassifier(5, hidden=(6,), seed=2)
    batch = data()
    inputs = batch.inputs
    assert isinstance(inputs, Tensor)
    for policy in ("joint", "separate", "target"):
        ours = DomainAdapter(network, "1", classifier, batch_norm=policy).double()  # type: ignore[arg-type]
        AdversarialConsistency(augment=lambda x: x * 9 + 5)(ours, batch, 0.1)
        assert torch.allclose(network[0].running_mean, inputs[6:].mean(0))
        assert torch.allclose(network[0].running_var, inputs[6:].var(0))
        assert network[0].track_running_stats


def test_consistency_with_all_target_rows_labelled_is_adversarial() -> None:
    batch = data()
    rows = batch.inputs
    assert isinstance(rows, Tensor)
    labels = torch.arange(5) % 3
    full = Batch.of(Samples(rows[:6], batch.labels[:6]), Samples(rows[6:], labels))
    objective = AdversarialConsistency(reversal=1.0, augment=lambda x: x)
    assert_close(
        gradients(objective, adapter(), full, 0.3), gradients(Adversarial(), adapter(), full, 0.3)
    )


def test_a_class_of_no_probability_has_a_finite_gradient() -> None:
    ours = adapter()
    with torch.no_grad():
        ours.network.get_parameter("upper.bias")[2] = -1e4
    losses = AdversarialConsistency(augment=lambda x: x)(ours, data(), 1.0)
    losses.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in ours.parameters() if p.grad is not None)


def test_consistency_refuses_what_it_can_not_do() -> None:
    for weight, threshold, message in ((-1, 0.5, "0 or more, not -1"), (1, 1.5, "0 to 1, not 1.5")):
        with pytest.raises(InputError, match=message):
            AdversarialConsistency(weight, threshold)
    with pytest.raises(InputError, match=r"Jitter changes images"):
        AdversarialConsistency()(adapter(), data(), 1.0)
    one = adapter(lambda: Perceptron(outputs=1))
    objective = AdversarialConsistency(augment=lambda x: x, label_loss=squared_error)
    with pytest.raises(InputError, match="for classes"):
        objective(one, data(regression=True), 1.0)


def test_entropy_needs_classes_and_a_weight() -> None:
    with pytest.raises(InputError, match="0 or more, not -1"):
        AdversarialEntropy(-1)
    one = adapter(lambda: Perceptron(outputs=1))
    with pytest.raises(InputError, match="for classes"):
        AdversarialEntropy(1.0, squared_error)(one, data(regression=True), 1.0)


def test_supervised_is_the_label_loss_alone() -> None:
    ours, batch = adapter(), data()
    hand = ByHand(ours)
    theta = {**hand.theta_f, **hand.theta_y}
    grads = torch.autograd.grad(hand.label_loss(batch), list(theta.values()))
    expected = {f"network.{k}": g for k, g in zip(theta, grads, strict=True)}
    assert_close(gradients(Supervised(), ours, batch, 1.0), expected)


def test_supervised_without_a_label_moves_nothing() -> None:
    ours = adapter()
    ours.network.lower.weight.requires_grad_(False)  # the first parameter may be frozen
    batch = Batch.of(Samples(torch.ones(3, 4, dtype=torch.float64), None))
    losses = Supervised()(ours, batch, 1.0)
    losses.total.backward()
    assert losses.label is None
    assert all(value.grad is None or not value.grad.abs().sum() for value in ours.parameters())


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_what_is_shown_is_what_is_minimised(objective: str) -> None:
    made = OBJECTIVES[objective](cross_entropy)
    if objective == "adversarial-consistency":  # its own changes are for images
        made = AdversarialConsistency(augment=lambda inputs: inputs)
    head = made.make_head(5, 3, (6,), 2) if isinstance(made, NeedsHead) else None
    ours = adapter()
    if head is not None:
        ours.domain_classifier = head.double()
    ours.train(objective != "partial")  # whose classes all weigh alike before training
    losses = made(ours, data(), 1.0)
    hand = ByHand(adapter())
    assert number(losses.label) == pytest.approx(number(hand.label_loss(data())), abs=1e-12)  # type: ignore[arg-type]
    if objective in ("two-losses",) or objective.startswith("adversarial"):
        shown = number(hand.domain_loss(data()))
        assert number(losses.domain) == pytest.approx(shown, abs=1e-12)  # type: ignore[arg-type]
        assert losses.domain_logits is not None
        assert not losses.domain_logits.requires_grad


class TestLabelLoss:
    """Exchangeable: any callable of (predictions, labels)."""

    @staticmethod
    def regressor() -> DomainAdapter:
        return adapter(lambda: Perceptron(outputs=1))

    def test_regression(self) -> None:
        ours, batch = self.regressor(), data(regression=True)
        losses = Adversarial(squared_error)(ours, batch, 0.5)
        hand = ByHand(ours)
        outputs = hand.predictions(hand.features(batch.inputs))  # type: ignore[arg-type]
        expected = sum(number((outputs[i, 0] - batch.labels[i]) ** 2) for i in range(6)) / 6
        assert number(losses.label) == pytest.approx(expected, abs=1e-12)  # type: ignore[arg-type]

    def test_minus_one_is_a_target_like_any_other(self) -> None:
        inputs = torch.randn(4, 4, dtype=torch.float64)
        labels = torch.tensor([-1.0, 0.5, -1.0, 0.0], dtype=torch.float64)
        batch = Batch.of(Samples(inputs, labels), Samples(inputs, None))
        assert batch.total_labelled == 4
        ours = self.regressor()
        expected = (ours.network(inputs)[:, 0] - labels).square().mean()
        losses = Supervised(squared_error)(ours, batch, 0.0)
        assert number(losses.total) == pytest.approx(number(expected), abs=1e-12)

    @pytest.mark.parametrize("objective", [Supervised, Adversarial, MeanMatching, KernelMatching])
    def test_a_mean_and_a_value_per_row_agree(self, objective: Any) -> None:
        ours, batch = adapter(), data(total_labelled=13, total_sizes=(13, 9))
        rows = partial(F.cross_entropy, reduction="none")
        per_row = gradients(objective(rows), ours, batch, 0.5)
        mean = gradients(objective(cross_entropy), ours, batch, 0.5)
        assert_close(per_row, mean)

    def test_values_of_more_dimensions_are_averaged_per_row(self) -> None:
        inputs = torch.randn(4, 4, dtype=torch.float64)
        labels = torch.randn(4, 3, dtype=torch.float64)
        batch = Batch.of(Samples(inputs, labels))
        ours = adapter()
        losses = Supervised(squared_error)(ours, batch, 0.0)
        expected = (ours.network(inputs) - labels).square().mean()
        assert number(losses.total) == pytest.approx(number(expected), abs=1e-12)

    def test_a_wrong_shape_is_one_line(self) -> None:
        def wrong(predictions: Tensor, labels: Tensor) -> Tensor:
            return torch.zeros(len(labels) + 2)

        with pytest.raises(InputError, match=r"gave shape \(8,\) for 6 samples") as caught:
            Adversarial(wrong)(adapter(), data(), 1.0)
        assert "\n" not in str(caught.value)

    def test_outputs_that_do_not_fit_the_labels_are_one_line(self) -> None:
        with pytest.raises(InputError, match=r"shape \(6, 3\), the labels \(6,\)") as caught:
            Adversarial(squared_error)(adapter(), data(regression=True), 1.0)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("split", [0, 1, 4, 6])
@pytest.mark.parametrize(
    "objective",
    [
        Supervised(),
        Adversarial(),
        AdversarialEntropy(0.4),
        AdversarialConsistency(0.4, 0.3, 0.5, spread=0.0, augment=lambda inputs: inputs * 1.5),
        TwoLosses("swapped"),
        TwoLosses("reversal"),
    ],
)
def test_parts_with_the_totals_add_up_to_the_whole(objective: Any, split: int) -> None:
    """Losses are sums over global counts, so unequal shares of the rows, or of labels, add up."""
    ours, whole = adapter(), data()
    expected = gradients(objective, ours, whole, 0.6)
    total = number(objective(ours, whole, 0.6).total)
    parts, values = [], 0.0
    for source, target in ((slice(0, split), slice(6, 8)), (slice(split, 6), slice(8, 11))):
        assert isinstance(whole.inputs, Tensor)
        part = Batch.of(
            Samples(whole.inputs[source], whole.labels[source]),
            Samples(whole.inputs[target], None),
            total_labelled=6,
            total_sizes=(6, 5),
        )
        values += number(objective(ours, part, 0.6).total)
        parts.append(gradients(objective, ours, part, 0.6))
    assert values == pytest.approx(total, abs=1e-12)
    summed = {
        name: sum((p[name] for p in parts if name in p), torch.zeros_like(expected[name]))
        for name in expected
    }
    assert_close(summed, expected)


def test_three_domains_have_three_logits() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (3, 2, 4)]
    batch = Batch.of(
        Samples(parts[0], torch.tensor([0, 1, 2])), *(Samples(p, None) for p in parts[1:])
    )
    ours = adapter(domains=3)
    losses = Adversarial()(ours, batch, 0.5)
    assert losses.domain_logits is not None
    assert losses.domain_logits.shape == (9, 3)
    chances = losses.domain_logits.exp() / losses.domain_logits.exp().sum(1, keepdim=True)
    slow = sum(-number(chances[i, d].log()) for i, d in enumerate([0] * 3 + [1] * 2 + [2] * 4)) / 9
    assert number(losses.domain) == pytest.approx(slow, abs=1e-12)  # type: ignore[arg-type]
    reversed_ = gradients(Adversarial(), ours, batch, 0.5)
    assert_close(reversed_, gradients(TwoLosses("reversal"), ours, batch, 0.5))
    with pytest.raises(InputError, match="two domains"):
        TwoLosses("swapped")(ours, batch, 0.5)


def test_an_unknown_pair_is_refused_when_made() -> None:
    with pytest.raises(InputError, match="'sideways'"):
        TwoLosses("sideways")  # type: ignore[arg-type]


def test_domain_loss_is_the_binomial_cross_entropy() -> None:
    logits = torch.tensor([-1.0, 0.2, 3.0], dtype=torch.float64)
    domains = torch.tensor([0, 1, 1])
    slow = -sum(
        np.log(1 / (1 + np.exp(-number(z)))) if d else np.log(1 - 1 / (1 + np.exp(-number(z))))
        for z, d in zip(logits, domains, strict=True)
    )
    for total in (3, 8):  # alone, and as one of several processes
        for shape in ((3,), (3, 1)):  # a last layer of one unit gives the second
            found = number(domain_loss(logits.reshape(shape), domains, total))
            assert found == pytest.approx(slow / total, abs=1e-12)
    for shape in ((3,), (3, 1)):
        assert domain_decisions(logits.reshape(shape)).tolist() == [0, 1, 1]
