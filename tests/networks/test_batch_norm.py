"""BatchNorm of one's own, in Python or by F.batch_norm, gets the policies that torch's gets."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from revgrad import AdversarialConsistency, Batch, DomainAdapter, DomainClassifier
from revgrad.batch import Samples
from revgrad.diagnostics.evidence import gather_evidence
from revgrad.errors import InputError
from tiny import Images, image_trainer, images, seeded, weights_digest


class PythonNorm(nn.Module):
    """BatchNorm written out, its statistics replaced by new tensors under names of its own."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.register_buffer("centre", norm.running_mean.clone())
        self.register_buffer("spread", norm.running_var.clone())

    def forward(self, x: Tensor) -> Tensor:
        shape = [1, -1, *[1] * (x.ndim - 2)]
        mean, var = self.centre, self.spread
        if self.training:
            axes = [0, *range(2, x.ndim)]
            mean, var = x.mean(axes), x.var(axes, correction=0)
            unbiased = x.detach().var(axes)
            self.centre = 0.9 * self.centre + 0.1 * mean.detach()
            self.spread = 0.9 * self.spread + 0.1 * unbiased
        scaled = (x - mean.view(shape)) / (var.view(shape) + 1e-5).sqrt()
        return scaled * self.weight.view(shape) + self.bias.view(shape)


class InPlaceNorm(nn.Module):
    """The same by F.batch_norm, which writes into the buffers, under torch's names."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.register_buffer("running_mean", norm.running_mean.clone())
        self.register_buffer("running_var", norm.running_var.clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training
        )


class DisobedientNorm(nn.BatchNorm2d):
    """A subclass of torch's that asks for nothing but the training mode."""

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training
        )


class FunctionalImages(Images):
    """No module normalises: forward calls F.batch_norm with buffers of the network itself."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("norm", "norm2"):
            norm = getattr(self, name)
            delattr(self, name)
            self.register_parameter(f"{name}_weight", norm.weight)
            self.register_parameter(f"{name}_bias", norm.bias)
            self.register_buffer(f"{name}_a", norm.running_mean)
            self.register_buffer(f"{name}_b", norm.running_var)

    def normalised(self, name: str, x: Tensor) -> Tensor:
        parts = [getattr(self, f"{name}_{part}") for part in ("a", "b", "weight", "bias")]
        return F.batch_norm(x, *parts, training=self.training)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.normalised("norm", self.conv(x))))
        x = self.flat(self.drop(self.conv2(x)))
        return self.out(self.normalised("norm2", torch.relu(self.fc(x))))


def made(kind: str) -> Any:
    """The `Images` network with one kind of BatchNorm, and the same weights for each."""
    if kind == "functional":
        return seeded(FunctionalImages, 0, torch.float64)
    network = seeded(Images, 0, torch.float64)
    if kind == "disobedient":
        network.norm.__class__ = DisobedientNorm
    elif kind != "torch":
        norm = {"python": PythonNorm, "in place": InPlaceNorm}[kind]
        network.norm, network.norm2 = norm(network.norm), norm(network.norm2)
    return network


def statistics(network: Any) -> list[Tensor]:
    """Means and variances, in order."""
    return [buffer for _, buffer in network.named_buffers() if buffer.ndim]


OWN = ["python", "in place", "functional", "disobedient"]


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("policy", ["joint", "separate", "target"])
@pytest.mark.parametrize("layer", ["flat", "pool"])
def test_a_norm_of_ones_own_trains_as_torchs_does(kind: str, policy: str, layer: str) -> None:
    results = []
    for network in (made("torch"), made(kind)):
        trainer = image_trainer(network=network, layer=layer, steps=3, batch_norm=policy)
        trainer.adapter.double()
        identities = [id(buffer) for buffer in network.buffers()]
        trainer.fit()
        if kind != "python":  # which replaces them itself
            assert [id(buffer) for buffer in network.buffers()] == identities
        weights = (network.conv.weight.detach(), network.out.weight.detach())
        results.append([*statistics(network), *weights])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["torch", *OWN])
@pytest.mark.parametrize("policy", ["joint", "separate", "target"])
def test_keeping_statistics_keeps_those_of_any_norm(kind: str, policy: Any) -> None:
    network = made(kind)
    trainer = image_trainer(network=network, batch_norm=policy)
    adapter = trainer.adapter.double().train()
    batch = trainer.batches.batch(0)
    before = copy.deepcopy(statistics(network))
    with adapter.keeping_statistics():
        adapter(batch)[0].sum().backward()
    assert all(map(torch.equal, statistics(network), before))
    with adapter.keeping_statistics(False):
        adapter(batch)
    assert not any(map(torch.equal, statistics(network), before))


def test_consistency_keeps_the_statistics_of_unchanged_target_samples() -> None:
    network = made("python")
    network.drop.p = 0.0
    trainer = image_trainer(network=network, batch_norm="target")
    adapter = trainer.adapter.double().train()
    batch = trainer.batches.batch(0)
    reference = copy.deepcopy(network)
    with torch.no_grad():
        reference(adapter.preprocessing(batch.inputs[~batch.labelled]))  # type: ignore[index]
    AdversarialConsistency(augment=lambda x: x // 2)(adapter, batch, 0.1)
    for ours, theirs in zip(statistics(network), statistics(reference), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_evidence_is_normalised_by_a_norm_of_ones_own() -> None:
    found = []
    for kind in ("torch", "in place", "disobedient"):
        trainer = image_trainer(network=made(kind), steps=3, batch_norm="target")
        trainer.adapter.double()
        trainer.fit()
        before = weights_digest(trainer.adapter)
        found.append(gather_evidence(trainer.adapter, images(20, 5), images(25, 6, shift=40)))
        assert weights_digest(trainer.adapter) == before
    for other in found[1:]:
        np.testing.assert_allclose(other.source_logits, found[0].source_logits, atol=1e-5)
        np.testing.assert_allclose(other.target_logits, found[0].target_logits, atol=1e-5)


class Bare(Images):
    """Dropout, and no norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.Identity(), nn.Identity()


def test_policies_agree_bit_for_bit_where_samples_do_not_meet() -> None:
    found = set()
    for policy in ("joint", "separate", "target"):
        trainer = image_trainer(network=seeded(Bare), steps=3, batch_norm=policy)
        trainer.fit()
        found.add(weights_digest(trainer.adapter))
    assert len(found) == 1


class TrackedInstanceNorm(nn.Sequential):
    def __init__(self) -> None:
        norm = nn.InstanceNorm1d(3, track_running_stats=True, momentum=1.0)
        super().__init__(norm, nn.Flatten(), nn.Linear(12, 5), nn.Linear(5, 2))


def test_statistics_of_instance_norm_are_the_targets_too() -> None:
    network = seeded(TrackedInstanceNorm)
    adapter = DomainAdapter(network, "2", DomainClassifier(5, hidden=(4,)), batch_norm="target")
    torch.manual_seed(1)
    source, target = torch.randn(4, 3, 4), torch.randn(4, 3, 4) + 5
    adapter.train()(Batch.of(Samples(source, torch.zeros(4).long()), Samples(target, None)))
    torch.testing.assert_close(network[0].running_mean, target.mean((0, 2)))


class Counting(nn.Sequential):
    """A buffer that counts, and spectral norm's: they change, whatever the samples are."""

    def __init__(self) -> None:
        lower = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5))
        super().__init__(lower, nn.Dropout(0.5), nn.Linear(5, 3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return super().forward(x)


class Passes(nn.Module):
    """Notes the number of samples of each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x


def passes(network: nn.Sequential, policy: Any) -> list[list[int]]:
    """Sizes of the passes of two training steps, by step, those that only look left out."""
    network.append(noted := Passes())
    adapter = DomainAdapter(network, "0", DomainClassifier(5, hidden=(4,)), batch_norm=policy)
    labels = torch.zeros(4).long()
    batch = Batch.of(Samples(torch.randn(4, 4), labels), Samples(torch.randn(4, 4) + 1, labels))
    steps = []
    for _ in range(2):
        noted.sizes.clear()
        adapter.train()(batch)
        steps.append([*noted.sizes])
    return steps


def test_a_network_whose_samples_do_not_meet_takes_one_pass() -> None:
    plain = seeded(lambda: nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.LayerNorm(5)))
    assert passes(copy.deepcopy(plain), "joint") == [[8], [8]]
    assert passes(plain, "target")[1] == [8]
    counting = seeded(Counting)
    assert passes(counting, "target")[1] == [8]
    assert counting.count == 2  # looking was not counted
    centred = nn.Sequential(nn.Linear(4, 5), Centred())
    assert passes(centred, "target")[1] == [4, 4]


class Centred(nn.Module):
    """Batch statistics without any that are kept."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Plain(nn.Module):
    """Statistics in tensors that are no buffers."""

    def __init__(self, names: tuple[str, str], functional: bool) -> None:
        super().__init__()
        self.names = names
        self.functional = functional
        for name, value in zip(names, (torch.zeros(4), torch.ones(4)), strict=True):
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        mean, var = (getattr(self, name) for name in self.names)
        if self.functional:
            return F.batch_norm(x, mean, var, training=self.training)
        setattr(self, self.names[0], 0.9 * mean + 0.1 * x.detach().mean(0))
        return x - x.mean(0)


@pytest.mark.parametrize(
    ("names", "functional"),
    [(("running_mean", "running_var"), False), (("mine", "yours"), True)],
)
@pytest.mark.parametrize("beside", [False, True])
def test_statistics_that_can_not_be_held_are_refused(
    names: tuple[str, str], functional: bool, beside: bool
) -> None:
    norm = Plain(names, functional)
    first: nn.Module = nn.BatchNorm1d(4) if beside else nn.Identity()
    network = nn.Sequential(first, norm, nn.Linear(4, 5), nn.Linear(5, 3))
    adapter = DomainAdapter(network, "2", DomainClassifier(5, hidden=(4,)), batch_norm="target")
    batch = Batch.of(
        Samples(torch.randn(4, 4), torch.zeros(4).long()), Samples(torch.randn(4, 4), None)
    )
    named = rf"'1\.{names[0]}' keeps running statistics in a plain tensor.*register_buffer"
    with pytest.raises(InputError, match=named):
        adapter.train()(batch)
    adapter.batch_norm = "joint"
    adapter(batch)
