"""Initialising the feature extractor by an autoencoder: what it learns, what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import Batch, Callback, Constant, Domain, DomainAdapter, Settings, adapt, from_arrays
from revgrad.batch import Samples
from revgrad.errors import InputError
from revgrad.paper.autoencoder import Decoder, Pretrained, Reconstruction, pretrain
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.preprocessing import Preprocessing
from tiny import Images, Perceptron, digest, images, seeded, vectors, weights_digest

QUICK: dict[str, Any] = {"device": "cpu", "batch_size": 32, "steps": 30}


class Plane(nn.Module):
    """12 → 3 features → 2 outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Linear(12, 8)
        self.tanh = nn.Tanh()
        self.features = nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(3)
        self.upper = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(self.norm(self.features(self.tanh(self.lower(x)))))


def on_a_plane(n: int, seed: int, shift: float = 0.0) -> Domain:
    """(n, 12) vectors of two hidden dimensions: three features are enough to restore them."""
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(99).normal(size=(2, 12))
    values = (rng.normal(size=(n, 2)) + shift) @ basis
    return from_arrays(values.astype(np.float32), rng.integers(0, 2, n), name=f"plane{seed}")


def parts(net: nn.Module, *prefixes: str) -> dict[str, Tensor]:
    return {
        name: value.detach().clone()
        for name, value in net.state_dict().items()
        if name.startswith(prefixes)
    }


def test_it_restores_far_better_than_the_mean_and_leaves_the_label_predictor() -> None:
    net = seeded(Plane)
    behind, before = parts(net, "norm", "upper"), parts(net, "lower", "features")
    source, target = on_a_plane(150, 1), on_a_plane(120, 2, shift=0.5)
    made = pretrain(
        *(net, "features", source, target),
        preprocessing=Preprocessing.identity(),
        **{**QUICK, "steps": 500, "learning_rate": Constant(0.005), "masked": 0.1},
    )
    assert made.error < 0.15 * made.of_mean
    assert digest(parts(net, "norm", "upper")) == digest(behind)
    after = parts(net, "lower", "features")
    assert all(not torch.equal(after[name], before[name]) for name in before)
    # the two numbers, by loops
    rows = np.concatenate([d.batch(range(len(d))).inputs.numpy() for d in (source, target)])  # type: ignore[union-attr]
    mean = rows.astype(np.float64).mean(0)
    slow = sum(sum((row - mean) ** 2) / 12 for row in rows.astype(np.float64)) / len(rows)
    assert made.of_mean == pytest.approx(slow, rel=1e-5)
    with torch.no_grad():
        restored = made.decoder(net.features(net.tanh(net.lower(torch.from_numpy(rows)))))
    slow = sum(sum((a - b) ** 2) / 12 for a, b in zip(restored.numpy(), rows, strict=True))
    assert made.error == pytest.approx(slow / len(rows), rel=1e-4)


def test_real_digits_in_the_papers_network() -> None:
    from sklearn.datasets import load_digits

    pixels = load_digits().images.astype(np.uint8) * 15
    pixels = pixels.repeat(2, 1).repeat(2, 2)  # 16×16, the smallest the network takes
    domain = from_arrays(pixels[:200], name="digits")
    net = MNISTNetwork(channels=1, size=16)
    behind = parts(net, "fc")
    made = pretrain(
        net, "pool2", domain, **{**QUICK, "steps": 120, "learning_rate": Constant(0.005)}
    )
    assert made.error < 0.75 * made.of_mean
    assert digest(parts(net, "fc")) == digest(behind)
    assert net.conv1.weight.is_contiguous()


@pytest.mark.parametrize("both", [True, False], ids=["both", "target alone"])
def test_labels_can_not_matter(both: bool) -> None:
    source, target = images(30, 1), images(26, 2, shift=40)
    assert source.labels is not None

    def made(*domains: Domain) -> str:
        net = seeded(Images, 3)
        result = pretrain(net, "flat", *(domains if both else domains[-1:]), **QUICK)
        return digest({**net.state_dict(), **result.decoder.state_dict()})

    def poisoned(domain: Domain) -> Domain:
        assert domain.labels is not None
        inputs = domain.batch(range(len(domain))).inputs
        return from_arrays(inputs, (domain.labels + 1) % 3, name=domain.name)

    known = made(source, target)
    assert made(poisoned(source), poisoned(target)) == known
    assert made(source.without_labels(), target.without_labels()) == known
    assert made(images(30, 7), images(26, 8)) != known  # but the inputs do


def test_the_seed_decides_and_the_global_generator_does_not() -> None:
    def made(seed: int) -> str:
        net = seeded(Images, 3)
        pretrain(net, "flat", images(30, 1), images(30, 2), seed=seed, **QUICK)
        return weights_digest(net)

    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = made(0)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert made(0) == first
    assert made(1) != first


def test_modes_go_back_and_layers_behind_keep_their_statistics() -> None:
    net = seeded(Images, 3).eval()
    net.drop.train()
    before = parts(net, "fc", "norm2", "out")
    pretrain(net, "flat", images(30, 1), **QUICK)
    assert net.drop.training
    assert not net.norm.training
    assert digest(parts(net, "fc", "norm2", "out")) == digest(before)
    assert int(net.norm.num_batches_tracked) == 30  # the extractor's are of what it saw


class TestReconstruction:
    @staticmethod
    def adapter() -> DomainAdapter:
        decoder = Decoder((5,), (4,), hidden=6, seed=2).double()
        return DomainAdapter(
            seeded(Perceptron, 1, torch.float64), "lower", decoder, Preprocessing(0.5, 2.0).double()
        )

    @staticmethod
    def batch(source: slice = slice(0, 6), target: slice = slice(6, 11), **totals: Any) -> Batch:
        rows = torch.randn(11, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return Batch.of(Samples(rows[source], None), Samples(rows[target], None), **totals)

    def test_is_a_slow_loop(self) -> None:
        ours, batch = self.adapter(), self.batch()
        net, decoder = ours.network, ours.domain_classifier
        torch.manual_seed(5)
        losses = Reconstruction(masked=0.4, noise=0.3)(ours, batch, 1.0)
        torch.manual_seed(5)
        assert isinstance(batch.inputs, Tensor)
        x = (batch.inputs - 0.5) / 2
        corrupted = x + 0.3 * torch.randn_like(x)
        corrupted = torch.where(torch.rand_like(x) < 0.4, 0.0, corrupted)
        total = torch.zeros((), dtype=torch.float64)
        for clean, seen in zip(x, corrupted, strict=True):
            features = net.lower.weight @ seen + net.lower.bias
            first, last = decoder.layers[1], decoder.layers[2]
            hidden = (first.weight @ features + first.bias).clamp(min=0)
            restored = last.weight @ hidden + last.bias
            total = total + sum((a - b) ** 2 for a, b in zip(restored, clean, strict=True)) / 4
        wanted = total / 11
        assert float(losses.total.detach()) == pytest.approx(float(wanted.detach()), rel=1e-12)
        assert losses.label is None
        assert losses.domain is not None
        assert torch.equal(losses.domain, losses.total.detach())
        weights = [net.lower.weight, decoder.layers[1].weight]
        found = torch.autograd.grad(losses.total, weights)
        for one, other in zip(found, torch.autograd.grad(wanted, weights), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)

    def test_parts_with_the_totals_add_up_to_the_whole(self) -> None:
        objective, ours = Reconstruction(masked=0.0), self.adapter()
        whole = float(objective(ours, self.batch(), 0.0).total.detach())
        totals = {"total_sizes": (6, 5)}
        pieces = [
            self.batch(slice(0, 1), slice(6, 11), **totals),
            self.batch(slice(1, 6), slice(6, 6), **totals),
        ]
        summed = sum(float(objective(ours, piece, 0.0).total.detach()) for piece in pieces)
        assert summed == pytest.approx(whole, rel=1e-12)

    def test_corruption_is_of_a_copy(self) -> None:
        clean = torch.ones(2000, 10)
        torch.manual_seed(0)
        masked = Reconstruction(masked=0.3).corrupt(clean)
        assert 0.29 < float((masked == 0).double().mean()) < 0.31
        noisy = Reconstruction(masked=0.0, noise=0.5).corrupt(clean)
        assert 0.49 < float((noisy - clean).std()) < 0.51
        same = Reconstruction(masked=0.0).corrupt(clean)
        assert torch.equal(same, clean)
        same.zero_()
        assert bool((clean == 1).all())


@pytest.mark.parametrize(
    ("features", "inputs"),
    [
        ((48, 4, 4), (3, 28, 28)),
        ((7,), (1, 10, 14)),
        ((6, 2), (3, 8, 8)),
        ((5,), (9,)),
        ((2, 3, 3), (4,)),
    ],
)
def test_a_decoder_goes_back_to_the_inputs(
    features: tuple[int, ...], inputs: tuple[int, ...]
) -> None:
    decoder = Decoder(features, inputs)
    x = torch.randn(3, *features, generator=torch.Generator().manual_seed(0))
    restored = decoder(x)
    assert restored.shape == (3, *inputs)
    assert bool((restored < 0).any())  # linear at the end
    restored[0].square().sum().backward()
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(decoder(x)[1].square().sum(), x)
    assert bool(gradient[1].abs().sum() > 0)
    assert not gradient[0].any()  # no row reads another
    assert torch.equal(decoder(x), Decoder(features, inputs, seed=0)(x))
    assert not torch.equal(decoder(x), Decoder(features, inputs, seed=1)(x))


class Losses(Callback):
    def __init__(self) -> None:
        self.kept: list[float | None] = []

    def on_log(self, trainer: Any, record: Any) -> None:
        self.kept.append(record.domain_loss)


def test_then_the_method() -> None:
    """The outlook as a whole: initialise, then adapt with the same preprocessing."""
    source, target = images(60, 1), images(50, 2, shift=40)
    net, watching = seeded(Images, 3), Losses()
    made = pretrain(
        *(net, "flat", source, target),
        callbacks=[watching],
        log_every=20,
        masked=0.0,
        **{**QUICK, "steps": 100, "learning_rate": Constant(0.005)},
    )
    assert isinstance(made, Pretrained)
    assert watching.kept[-1] < 0.9 * watching.kept[0]  # type: ignore[operator]
    started = net.conv.weight.detach().clone()
    result = adapt(
        *(net, source, target),
        recipe="paper",
        layer="flat",
        preprocessing=made.preprocessing,
        domain_classifier=(6,),
        steps=5,
        batch_size=16,
        device="cpu",
        progress=False,
        learning_rate=Constant(1e-4),
    )
    assert result.preprocessing is made.preprocessing
    moved = (net.conv.weight.detach() - started).abs().max()
    assert 0 < float(moved) < 0.01


def test_mistakes_are_one_line() -> None:
    net, domain = seeded(Perceptron), vectors(20, 1)
    cases: list[tuple[Any, str]] = [
        (lambda: pretrain(net, "lower"), "one domain or two, not 0"),
        (lambda: pretrain(net, "lower", domain, domain, domain), "one domain or two, not 3"),
        (lambda: pretrain(net, "lower", domain, masked=1.0), r"in \[0, 1\), not 1.0"),
        (lambda: pretrain(net, "lower", domain, noise=-1.0), "0 or more, not -1.0"),
        (
            lambda: pretrain(net, "lower", domain, max_weight_norm=1.0),
            "max_weight_norm would change the label",
        ),
        (
            lambda: pretrain(net, "lower", domain, settings=Settings(ema_decay=0.9)),
            "ema_decay would change the label",
        ),
        (lambda: pretrain(net, "lower", domain, decoder=nn.Linear(5, 3)), r"shape \(1, 3\) for"),
        (
            lambda: pretrain(net, "lower", from_arrays(np.zeros((0, 4), np.float32))),
            "is empty",
        ),
        (
            lambda: pretrain(net, "lower", from_arrays(np.zeros((9, 4), np.int64))),
            "one tensor of real numbers",
        ),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
