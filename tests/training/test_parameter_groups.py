"""Freezing, and learning rates by layer: each against a computation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from test_objectives import ByHand
from test_resume import stop_and_resume
from test_trainer import assert_close, vector_trainer, weights
from torch import Tensor, nn

import revgrad
from revgrad import Blueprint, Settings, Trainer
from revgrad.errors import InputError, UnknownNameError
from revgrad.networks.registry import mark_pretrained
from revgrad.training.parameter_groups import parameter_groups
from tiny import Perceptron, checkpoint_digest, image_trainer, seeded, vectors


class Pretrained(Perceptron):
    """Says that all of it but `upper` came with weights."""

    blueprint: ClassVar[Blueprint] = Blueprint("lower", new_layers=("upper",))


def test_steps_by_hand_with_rates_by_layer() -> None:
    """The longest name that fits a weight decides; the domain classifier has its own factor."""
    rates = {"lower": 0.1, "lower.bias": 3.0}
    trainer = vector_trainer(layer_rates=rates, domain_lr_factor=0.5, momentum=0.9)
    hand = ByHand(trainer.adapter)
    own = {f"network.{k}": v for k, v in {**hand.theta_f, **hand.theta_y}.items()}
    own |= {f"domain_classifier.{k}": v for k, v in hand.theta_d.items()}
    shares = {"network.lower.weight": 0.1, "network.lower.bias": 3.0}
    velocity: dict[str, Tensor] = {}
    for step in range(4):
        p = step / 4
        rate = 0.01 / (1 + 10 * p) ** 0.75
        factor = 2 / (1 + np.exp(-10 * p)) - 1
        gradients = hand.gradients(trainer.batches.batch(step), factor)
        with torch.no_grad():
            for name, gradient in gradients.items():
                velocity[name] = 0.9 * velocity.get(name, 0.0) + gradient
                share = 0.5 if name.startswith("domain") else shares.get(name, 1.0)
                own[name] -= rate * share * velocity[name]
    trainer.fit()
    assert_close(weights(trainer), own)


def factors(network: nn.Module, **settings: Any) -> dict[str, float]:
    groups = parameter_groups(network, [nn.Linear(1, 1)], Settings(**settings))
    by_id = {id(value): group["rate_factor"] for group in groups for value in group["params"]}
    return {name: by_id[id(value)] for name, value in network.named_parameters()}


def test_pretrained_layers_learn_slower_than_new_ones() -> None:
    network = seeded(Pretrained)
    assert set(factors(network).values()) == {1.0}  # the trainer by itself asks nobody
    slow = factors(network, pretrained_lr_factor=0.1)
    assert slow == {"lower.weight": 0.1, "lower.bias": 0.1, "upper.weight": 1, "upper.bias": 1}
    both = factors(network, pretrained_lr_factor=0.1, layer_rates={"lower.weight": 0.7})
    assert (both["lower.weight"], both["lower.bias"], both["upper.bias"]) == (0.7, 0.1, 1.0)
    assert set(factors(seeded(Perceptron), pretrained_lr_factor=0.1).values()) == {1.0}
    mark_pretrained(network, ())
    assert set(factors(network, pretrained_lr_factor=0.1).values()) == {0.1}
    assert Pretrained.blueprint.new_layers == ("upper",)  # the class's stays


def test_adapt_takes_the_rate_of_pretrained_layers_from_the_blueprint(tmp_path: Path) -> None:
    data = (vectors(20, 1), vectors(20, 2))
    quick: Any = {
        "recipe": "paper",
        "steps": 1,
        "batch_size": 8,
        "momentum": 0.0,
        "progress": False,
        "held_out": 0,
    }

    def moved(folder: str, network: nn.Module, **changes: Any) -> tuple[float, Any]:
        before = network.lower.weight.detach().clone()
        revgrad.adapt(network, *data, layer="lower", run=tmp_path / folder, **quick, **changes)
        settings = revgrad.Run(tmp_path / folder).config.settings
        change = (network.lower.weight.detach() - before).norm()
        return float(change), settings["pretrained_lr_factor"]

    slow, recorded = moved("slow", seeded(Pretrained))
    plain, none = moved("plain", seeded(Perceptron))
    same, one = moved("same", seeded(Pretrained), pretrained_lr_factor=1.0)
    assert (recorded, none, one) == (0.1, None, 1.0)
    assert slow == pytest.approx(0.1 * plain, rel=1e-3)
    assert same == plain


@pytest.mark.parametrize("policy", ["joint", "separate", "target"])
def test_frozen_layers_stay_weights_and_statistics(policy: str) -> None:
    """Also under weight decay and a limit of norms, with an EMA; the rest learns."""
    trainer = image_trainer(
        steps=3,
        freeze=("conv", "norm", "fc"),
        weight_decay=0.1,
        max_weight_norm=0.05,
        ema_decay=0.9,
        batch_norm=policy,
        learning_rate=0.1,
    )
    network = trainer.adapter.network
    before = {name: value.clone() for name, value in network.state_dict().items()}
    trainer.fit()
    after = network.state_dict()
    stayed = {name for name in before if torch.equal(before[name], after[name])}
    assert stayed == {name for name in before if name.split(".")[0] in ("conv", "norm", "fc")}
    assert all(value.requires_grad for value in network.parameters())  # as it came
    assert network.norm.training is network.conv.training


def test_frozen_batch_norm_normalises_by_the_statistics_it_has() -> None:
    trainer = image_trainer(steps=1, freeze=["norm"])
    norm = trainer.adapter.network.norm
    norm.running_mean.uniform_(-1, 1)
    seen: list[tuple[Tensor, Tensor]] = []
    hook = norm.register_forward_hook(
        lambda _, inputs, output: seen.append((inputs[0].detach(), output.detach()))
    )
    trainer.fit()
    hook.remove()
    inputs, output = seen[0]
    mean, variance = (v[:, None, None] for v in (norm.running_mean, norm.running_var))
    weight, bias = (v.detach()[:, None, None] for v in (norm.weight, norm.bias))
    by_hand = (inputs - mean) / (variance + norm.eps).sqrt() * weight + bias
    assert torch.allclose(output, by_hand, atol=1e-5)


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        (("conv",), {"conv.weight", "conv.bias"}),  # not conv2
        (("conv*",), {"conv.weight", "conv.bias", "conv2.weight", "conv2.bias"}),
        (("norm?",), {"norm2.weight", "norm2.bias"}),
        (("*.bias",), {f"{one}.bias" for one in ("conv", "norm", "conv2", "fc", "norm2", "out")}),
        (("fc.weight", "out"), {"fc.weight", "out.weight", "out.bias"}),
    ],
)
def test_names_and_patterns(patterns: tuple[str, ...], frozen: set[str]) -> None:
    trainer = image_trainer(steps=1, freeze=patterns)
    held = {id(v) for group in trainer.optimiser.param_groups for v in group["params"]}
    names = trainer.adapter.network.named_parameters()
    assert {name for name, value in names if id(value) not in held} == frozen


def test_gradients_of_frozen_layers_do_not_count_for_the_limit() -> None:
    """The limit of the gradients' norm is over what learns."""
    settings: dict[str, Any] = {"steps": 1, "max_gradient_norm": 0.05, "learning_rate": 1.0}
    trainer = vector_trainer(freeze="lower", adaptation_factor=0.5, **settings)
    hand, before = ByHand(trainer.adapter), weights(trainer)
    gradients = hand.gradients(trainer.batches.batch(0), 0.5)
    kept = {k: g for k, g in gradients.items() if not k.startswith("network.lower")}
    norm = sum(float(g.detach().square().sum()) for g in kept.values()) ** 0.5
    trainer.fit()
    share = 0.05 / (norm + 1e-6)
    expected = {k: v - share * kept[k] if k in kept else v for k, v in before.items()}
    assert_close(weights(trainer), expected)


def test_a_limit_of_norms_leaves_alone_what_the_user_froze() -> None:
    trainer = vector_trainer(max_weight_norm=0.01)
    trainer.adapter.network.lower.requires_grad_(False)
    again = Trainer(trainer.adapter, *trainer.batches.domains, settings=trainer.settings)
    before = trainer.adapter.network.lower.weight.clone()
    again.fit()
    assert torch.equal(trainer.adapter.network.lower.weight, before)


def test_stopped_and_resumed_they_end_the_same(tmp_path: Path) -> None:
    fine: dict[str, Any] = {
        "freeze": ("conv", "norm"),
        "layer_rates": {"fc": 0.1, "conv2": 0.3},
        "domain_lr_factor": 2.0,
        "ema_decay": 0.9,
    }
    whole = image_trainer(tmp_path / "whole", **fine)
    whole.fit()
    stopped, _ = stop_and_resume(tmp_path / "stopped", 3, **fine)
    assert stopped == checkpoint_digest(tmp_path / "whole")


def test_a_run_of_other_rates_is_not_resumed(tmp_path: Path) -> None:
    image_trainer(tmp_path / "run", steps=2, layer_rates={"fc": 0.1}).fit()
    with pytest.raises(revgrad.errors.RunError, match=r"layer_rates: \{'fc': 0.1\} there"):
        image_trainer(tmp_path / "run", steps=2, layer_rates={"fc": 0.2}).fit()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"freeze": ("layer9",)}, r"no layer to freeze 'layer9' \(there are: conv, norm"),
        ({"freeze": 3}, "freeze takes names of layers"),
        ({"layer_rates": {"conv9": 0.1}}, "did you mean 'conv"),
        ({"layer_rates": {"conv": 0.0}}, "'conv' must be a number above 0.*freeze"),
        ({"layer_rates": {"conv": "slow"}}, "must be a number above 0, not 'slow'"),
        ({"layer_rates": ["conv"]}, "layer_rates maps layers to factors"),
        ({"pretrained_lr_factor": 0.0}, "pretrained_lr_factor must be above 0"),
        ({"freeze": "*"}, "no parameter that requires a gradient"),
    ],
)
def test_what_is_refused_in_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        image_trainer(steps=1, **changes)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UnknownNameError) == str(caught.value).startswith("no layer")


def test_untouched_settings_are_described_as_before() -> None:
    """Records of runs that were made before there were these settings compare as equal."""
    told = Settings().describe()
    assert (told["layer_rates"], told["freeze"], told["pretrained_lr_factor"]) == (None,) * 3
    used = Settings(freeze="conv", layer_rates={"fc": 1}).describe()
    assert (used["freeze"], used["layer_rates"]) == (["conv"], {"fc": 1.0})
    assert isinstance(hash(Settings(layer_rates={"fc": 1})), int)
