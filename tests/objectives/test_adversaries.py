"""Several adversaries in one pass of the network, against gradients worked out by hand."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad import (
    Adversary,
    Batch,
    DomainAdapter,
    DomainClassifier,
    adapt,
    from_arrays,
)
from revgrad.batch import Samples
from revgrad.errors import CutError, InputError
from revgrad.objectives import Adversaries, Losses
from revgrad.objectives.adversaries import squared_correlation
from revgrad.objectives.conditional import ConditionalDomainClassifier
from tiny import Images, Perceptron, images, seeded, vectors, weights_digest

FACTOR = 0.7


def number(value: Tensor) -> float:
    return float(value.detach())


class Two(nn.Module):
    """Two layers to attach to, both with an in-place ReLU right behind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.relu = nn.ReLU(inplace=True)
        self.second = nn.Linear(6, 5)
        self.relu2 = nn.ReLU(inplace=True)
        self.upper = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(self.relu2(self.second(self.relu(self.first(x)))))


class Untraceable(Two):
    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) > 1e9:  # a question about the data: no graph
            x = x + 1
        return super().forward(x)


SITES = torch.tensor([0, 2, -1, 1, 1, 0, 2, 2, -1, 0, 1])
AGES = torch.tensor(
    [0.3, -1.2, 2.4, float("nan"), 0.1, -0.6, 0.9, -1.9, 0.5, float("nan"), 1.1],
    dtype=torch.float64,
)


def data(labelled: int = 6, **more: Any) -> Batch:
    """Six source and five target samples with a site and an age."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(11, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (6,), generator=generator)
    batch = Batch.of(Samples(inputs[:6], labels), Samples(inputs[6:] + 1, None))
    known = {"site": int((SITES >= 0).sum()), "age": int((~AGES.isnan()).sum())}
    attributes: dict[str, Tensor] = {"site": SITES, "age": AGES}
    return batch._replace(attributes=attributes, attribute_totals=known, **more)


def attached(build: Any = Two, heads: Any = None) -> DomainAdapter:
    network = seeded(build, 1, torch.float64)
    site = DomainClassifier(6, (7,), domains=3, seed=2).double()
    age = DomainClassifier(5, (6,), seed=3).double()
    return DomainAdapter(network, "first", site, further=heads or [("second", age)])


BOTH = Adversaries((Adversary("site", "first", factor=0.5), Adversary("age", "second")))


def by_hand(adapter: DomainAdapter, batch: Batch) -> tuple[float, dict[str, Tensor]]:
    """Each weight's gradient from losses of its own: never a reversal, only signs."""
    network: Any = copy.deepcopy(adapter.network)
    site, age = (copy.deepcopy(head) for head in adapter.heads)
    first = network.first(batch.inputs)
    second = network.second(F.relu(first))
    predicted = network.upper(F.relu(second))[:6]
    label = -predicted.log_softmax(1)[range(6), batch.labels[:6]].sum() / 6
    known = [i for i in range(11) if int(SITES[i]) >= 0]
    of_site = sum(-site(first[i : i + 1]).log_softmax(1)[0, int(SITES[i])] for i in known) / 9
    aged = [i for i in range(11) if not bool(AGES[i].isnan())]
    errors = [age(second[i : i + 1])[0] - AGES[i] for i in aged]
    of_age = sum(0.5 * e**2 if abs(number(e)) < 1 else e.abs() - 0.5 for e in errors) / 9
    layers = dict(network.named_parameters())
    feature = label - FACTOR * (0.5 * of_site + of_age)
    grads = torch.autograd.grad(feature, list(layers.values()), retain_graph=True)
    found = {f"network.{name}": one for name, one in zip(layers, grads, strict=True)}
    for prefix, head, loss in (
        ("domain_classifier", site, of_site),
        ("further.0", age, of_age),
    ):
        own = dict(head.named_parameters())
        grads = torch.autograd.grad(loss, list(own.values()), retain_graph=True)
        found |= {f"{prefix}.{name}": one for name, one in zip(own, grads, strict=True)}
    return number(label + of_site + of_age), found


def gradients(
    objective: Any, adapter: DomainAdapter, batch: Batch, factor: float = FACTOR
) -> tuple[Losses, dict[str, Tensor]]:
    adapter.zero_grad()
    losses = objective(adapter, batch, factor)
    losses.total.backward()
    return losses, {
        name: torch.zeros_like(one) if one.grad is None else one.grad.clone()
        for name, one in adapter.named_parameters()
    }


@pytest.mark.parametrize("build", [Two, Untraceable], ids=["traced", "tapped"])
def test_two_adversaries_at_two_layers_are_worked_out_by_hand(build: Any) -> None:
    adapter, batch = attached(build), data()
    assert adapter.cut.traced == (build is Two)
    assert (adapter.cut.layer, adapter.cut.also) == ("second", ("first",))
    losses, found = gradients(BOTH, adapter, batch)
    value, expected = by_hand(adapter, batch)
    assert number(losses.total) == pytest.approx(value, abs=1e-12)
    assert set(found) == set(expected)
    for name, one in expected.items():
        torch.testing.assert_close(found[name], one, atol=1e-12, rtol=0)
        assert bool(one.any())


def test_correlations_by_a_slow_count() -> None:
    """Beside λ and the factor, the squared correlations of each feature with each category or
    number, one after the other."""
    adapter, batch = attached(), data()
    _, plain = gradients(BOTH, adapter, batch)
    losses, found = gradients(replace(BOTH, correlation=0.3), adapter, batch)
    network: Any = adapter.network
    first = network.first(batch.inputs)
    second = network.second(F.relu(first))

    def correlation(x: Tensor, z: Tensor) -> Tensor:
        a, b = x - x.sum() / len(x), z - z.sum() / len(z)
        return (a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()

    known, aged = SITES >= 0, ~AGES.isnan()
    sites = [
        correlation(first[known][:, i], (SITES[known] == c).double()) ** 2
        for i in range(first.shape[1])
        for c in range(3)
    ]
    ages = [correlation(second[aged][:, i], AGES[aged]) ** 2 for i in range(second.shape[1])]
    expected = FACTOR * 0.3 * (0.5 * sum(sites) / 3 + sum(ages))
    assert isinstance(expected, Tensor)
    told = number(losses.total) - number(BOTH(adapter, batch, FACTOR).total)
    assert told == pytest.approx(number(expected), abs=1e-7)  # of what is added to the sizes
    weights = dict(network.named_parameters())
    grads = torch.autograd.grad(expected, list(weights.values()), allow_unused=True)
    for name, one in zip(weights, grads, strict=True):
        own = found[f"network.{name}"] - plain[f"network.{name}"]
        wanted = torch.zeros_like(own) if one is None else one
        torch.testing.assert_close(own, wanted, atol=1e-7, rtol=0)
    for name, value in plain.items():
        if not name.startswith("network"):
            torch.testing.assert_close(found[name], value, atol=1e-14, rtol=0)


def test_nothing_correlates_with_what_never_changes() -> None:
    features = torch.randn(9, 3, dtype=torch.float64)
    constant = torch.ones(9, 1, dtype=torch.float64)
    assert number(squared_correlation(features, constant)) == 0
    assert number(squared_correlation(1e6 * features[:, :1], features[:, :1])) == pytest.approx(1)


def test_what_is_shown_of_each() -> None:
    adapter, batch = attached(), data()
    losses = BOTH(adapter, batch, FACTOR)
    site, age = losses.adversaries
    assert (site.known, age.known) == (9, 9)
    network: Any = adapter.network
    first = network.first(batch.inputs)
    said = adapter.domain_classifier(first).argmax(1)
    assert int(site.right) == sum(int(a == b) for a, b in zip(said, SITES, strict=True))
    errors = adapter.further[0](network.second(F.relu(first))) - AGES
    known = ~AGES.isnan()
    assert float(age.right) == pytest.approx(number((1 - errors[known] ** 2).sum()), abs=1e-12)
    assert losses.domain is None
    assert losses.domain_logits is None


def test_shares_of_two_processes_add_up_to_the_whole() -> None:
    """Half of a batch each, counts of the whole: losses and gradients are shares of a sum."""
    adapter, whole = attached(), data()
    _, expected = gradients(BOTH, adapter, whole)
    total = {name: torch.zeros_like(one) for name, one in expected.items()}
    parts = [([0, 1, 2], [6]), ([3, 4, 5], [7, 8, 9, 10])]
    for source, target in parts:
        rows = torch.tensor(source + target)
        assert whole.attribute_totals is not None
        part = Batch.of(
            Samples(whole.inputs[source], whole.labels[source]),  # type: ignore[index]
            Samples(whole.inputs[target], None),  # type: ignore[index]
            total_labelled=6,
            total_sizes=(6, 5),
        )._replace(
            attributes={"site": SITES[rows], "age": AGES[rows]},
            attribute_totals=whole.attribute_totals,
        )
        for name, one in gradients(BOTH, adapter, part)[1].items():
            total[name] += one
    for name, one in expected.items():
        torch.testing.assert_close(total[name], one, atol=1e-12, rtol=0)


def test_a_process_without_a_known_value_has_a_loss_of_zero() -> None:
    batch = data()._replace(
        attributes={"site": torch.full((11,), -1), "age": torch.full((11,), float("nan"))},
        attribute_totals={"site": 0, "age": 4},
    )
    losses, found = gradients(BOTH, attached(), batch)
    assert losses.label is not None
    assert number(losses.total) == pytest.approx(number(losses.label), abs=1e-15)
    assert not any(bool(one.any()) for name, one in found.items() if "network" not in name)


def test_a_conditional_adversary_sees_features_times_classes() -> None:
    head = ConditionalDomainClassifier(5, 3, (6,), seed=4, domains=3).double()
    network = seeded(Perceptron, 1, torch.float64)
    adapter = DomainAdapter(network, "lower", head)
    objective = Adversaries((Adversary("site", "lower", conditional="class"),))
    batch = data()
    losses, _ = gradients(objective, adapter, batch)
    features = network.lower(batch.inputs)
    predicted = network(batch.inputs).softmax(1)
    expected = 0.0
    for i in range(11):
        if int(SITES[i]) >= 0:
            product = torch.stack([f * p for f in features[i] for p in predicted[i]])
            scores = head.classifier(product[None])[0]
            expected -= number(scores.log_softmax(0)[SITES[i]]) / 9
    assert float(losses.adversaries[0].loss) == pytest.approx(expected, abs=1e-12)
    # where all have a label, it is the label that counts: equalised odds
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])
    labelled = Batch.of(Samples(batch.inputs, labels))._replace(  # type: ignore[arg-type]
        attributes=batch.attributes, attribute_totals=batch.attribute_totals
    )
    losses, _ = gradients(objective, adapter, labelled)
    expected = 0.0
    for i in range(11):
        if int(SITES[i]) >= 0:
            product = torch.zeros(5, 3, dtype=torch.float64)
            product[:, labels[i]] = features[i]
            scores = head.classifier(product.flatten()[None])[0]
            expected -= number(scores.log_softmax(0)[SITES[i]]) / 9
    assert float(losses.adversaries[0].loss) == pytest.approx(expected, abs=1e-12)


# -- through adapt -------------------------------------------------------------------------------


def trained(network: nn.Module, source: Any, target: Any, **more: Any) -> str:
    values: dict[str, Any] = {"steps": 12, "batch_size": 12, "device": "cpu", "progress": False}
    adapt(network, source, target, **{"recipe": "paper", **values, **more})
    return weights_digest(network)


@pytest.mark.parametrize("method", ["adversarial", "stabilised"])
def test_the_domain_alone_is_dann_bit_for_bit(method: Any) -> None:
    source, target = vectors(40, 1), vectors(30, 2, shift=1.0)
    more: dict[str, Any] = {"layer": "lower", "method": method, "domain_classifier": (7,)}
    today = trained(seeded(Perceptron), source, target, **more)
    for one in (Adversary(), Adversary("domain", layer="lower"), Adversary(classifier=(7,))):
        assert trained(seeded(Perceptron), source, target, adversaries=[one], **more) == today
    other = [Adversary(factor=0.5)]
    assert trained(seeded(Perceptron), source, target, adversaries=other, **more) != today


@pytest.mark.parametrize("policy", ["joint", "separate", "target"])
def test_of_images_too_whatever_batch_norm_sees(policy: Any) -> None:
    source, target = images(40, 1), images(30, 2, shift=40)
    more: dict[str, Any] = {"layer": "flat", "batch_norm": policy, "domain_classifier": (7,)}
    today = trained(seeded(Images), source, target, **more)
    assert trained(seeded(Images), source, target, adversaries=[Adversary()], **more) == today
    two = [Adversary(), Adversary(layer="pool", factor=0.3)]
    assert trained(seeded(Images), source, target, adversaries=two, **more) != today


def with_attributes(n: int, seed: int, **shift: float) -> Any:
    random = np.random.default_rng(seed + 100)
    domain = vectors(n, seed, **shift)
    return domain.with_attributes(
        {
            "site": random.choice(["a", "b", "c"], n),
            "age": np.where(random.random(n) < 0.2, np.nan, random.normal(50, 9, n)),
        }
    )


def test_attributes_of_a_target_are_read_and_its_labels_are_not() -> None:
    source, target = with_attributes(40, 1), with_attributes(30, 2, shift=1.0)
    site = [Adversary("site", "lower"), Adversary("age", "relu")]
    found = trained(seeded(Perceptron), source, target, adversaries=site)
    poisoned = target._with(labels=(target.labels + 1) % 3)
    assert trained(seeded(Perceptron), source, poisoned, adversaries=site) == found
    turned = target.attributes["site"]
    moved = target.with_attributes({"site": turned.values[::-1].copy()})
    with pytest.raises(AssertionError):
        assert trained(seeded(Perceptron), source, moved, adversaries=site) == found


def test_several_domains_are_told_apart_each() -> None:
    domains = [vectors(40, seed, shift=seed / 2) for seed in range(4)]
    network = seeded(Perceptron)
    adapted = adapt(
        network,
        domains[:2],
        domains[2:],
        recipe="paper",
        layer="lower",
        steps=6,
        batch_size=16,
        device="cpu",
        progress=False,
    )
    assert adapted.adapter is not None
    assert adapted.adapter.domain_classifier.domains == 4
    # the same through adversaries
    other = seeded(Perceptron)
    adapt(
        other,
        domains[:2],
        domains[2:],
        recipe="paper",
        layer="lower",
        steps=6,
        batch_size=16,
        device="cpu",
        progress=False,
        adversaries=[Adversary()],
    )
    assert weights_digest(network) == weights_digest(other)


def test_of_several_sources_one_may_be_grey() -> None:
    colour, target = images(40, 1), images(30, 2, shift=40)
    grey = images(40, 3).as_grey()
    assert (grey.shape[0], colour.shape[0]) == (1, 3)
    for sources in ([grey, colour], [colour, grey]):
        assert trained(seeded(Images), sources, target, layer="flat")


def test_semi_supervised_targets_among_several() -> None:
    domains = [vectors(40, seed, shift=seed / 2) for seed in range(3)]
    more: dict[str, Any] = {"layer": "lower"}
    plain = trained(seeded(Perceptron), domains[0], domains[1:], **more)
    kept = [domains[1], domains[2].keeping_labels(9)]
    assert trained(seeded(Perceptron), domains[0], kept, **more) != plain


@pytest.mark.parametrize("method", ["mean-matching", "kernel-matching", "coral", "mdd", "mcc"])
def test_methods_that_match_take_all_sources_and_all_targets(method: str) -> None:
    domains = [vectors(40, seed, shift=seed / 2) for seed in range(3)]
    trained(seeded(Perceptron), domains[:2], domains[2:], layer="lower", method=method)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"adversaries": []}, "adversaries is empty"),
        ({"adversaries": ["site"]}, "adversaries are Adversary"),
        ({"adversaries": [Adversary("size")]}, "no domain has an attribute 'size'"),
        (
            {"adversaries": [Adversary(), Adversary("domain", "lower")]},
            "two adversaries of 'domain' at layer 'lower'",
        ),
        ({"adversaries": [Adversary("site"), Adversary("site")]}, "two adversaries of 'site'"),
        ({"adversaries": [Adversary("twin")]}, "'twin' equals the label"),
        ({"adversaries": [Adversary("same")]}, r"one value only \(x\)"),
        ({"adversaries": [Adversary(layer="lowre")]}, "did you mean 'lower'"),
        ({"adversaries": [Adversary()], "method": "mcc"}, "not 'mcc'"),
    ],
)
def test_bad_adversaries_are_one_line(more: dict[str, Any], told: str) -> None:
    source, target = with_attributes(40, 1), with_attributes(30, 2, shift=1.0)
    names = np.array(["p", "q", "r"])
    source = source.with_attributes({"twin": names[source.labels], "same": ["x"] * 40})
    values: dict[str, Any] = {"steps": 2, "progress": False, "layer": "lower", "device": "cpu"}
    with pytest.raises(InputError, match=told) as error:
        adapt(seeded(Perceptron), source, target, **{**values, **more})
    assert "\n" not in str(error.value)


def test_numbers_that_equal_the_label_are_refused() -> None:
    source = vectors(40, 1)
    ages = np.linspace(20, 60, 40)
    numbers = from_arrays(np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32), ages)
    with pytest.raises(InputError, match="equals the label"):
        adapt(
            seeded(lambda: Perceptron(1)),
            numbers.with_attributes({"days": ages * 365}),
            None,
            recipe="paper",
            layer="lower",
            adversaries=[Adversary("days")],
            steps=2,
            progress=False,
        )
    assert len(source) == 40


def test_without_a_target_the_domain_is_no_attribute() -> None:
    with pytest.raises(InputError, match="needs two domains or more"):
        trained(seeded(Perceptron), vectors(40, 1), None, layer="lower", adversaries=[Adversary()])
    with pytest.raises(InputError, match="needs a target"):
        trained(seeded(Perceptron), vectors(40, 1), None, layer="lower")


def test_several_domains_are_no_pair_for_cdan() -> None:
    with pytest.raises(InputError, match="one source and one target, not 3 domains"):
        trained(
            seeded(Perceptron),
            [vectors(40, 1), vectors(40, 2)],
            vectors(30, 3),
            layer="lower",
            method="cdan",
        )


def test_layers_that_do_not_lie_behind_one_another_are_refused() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(4, 5), nn.Linear(4, 5)
            self.upper = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.upper(self.left(x) + self.right(x))

    with pytest.raises(CutError, match="used behind it as well"):
        trained(
            seeded(Branches),
            vectors(40, 1),
            vectors(30, 2),
            adversaries=[Adversary(layer="left"), Adversary(layer="right")],
        )


def test_one_and_the_same_layer_may_have_several() -> None:
    source, target = with_attributes(40, 1), with_attributes(30, 2, shift=1.0)
    several = [Adversary(), Adversary("site"), Adversary("age", "relu")]
    found = trained(seeded(Perceptron), source, target, layer="lower", adversaries=several)
    other = trained(seeded(Perceptron), source, target, layer="lower", adversaries=several[:2])
    assert found != other
