"""bf16, gradient accumulation, activation checkpointing, torch.compile: each against the plain
training, or a loop written out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad import DomainAdapter, DomainClassifier, Settings, Trainer, adapt, from_arrays
from revgrad.errors import InputError
from revgrad.objectives import OBJECTIVES, Adversarial, AdversarialEntropy, Supervised, TwoLosses
from revgrad.reversal import reverse_gradient
from revgrad.tasks import task_named
from tiny import Perceptron, images, seeded, vectors, weights_digest


def perceptron_trainer(
    objective: Any = None, dtype: Any = torch.float64, kept: int = 9, **settings: Any
) -> Any:
    kind = np.float64 if dtype is torch.float64 else np.float32
    network = seeded(Perceptron, dtype=dtype)
    classifier = DomainClassifier(5, hidden=(6,), seed=3).to(dtype)
    values = {"steps": 8, "batch_size": 21, "device": "cpu", **settings}
    return Trainer(
        DomainAdapter(network, "lower", classifier),
        vectors(60, 1, dtype=kind),
        vectors(50, 2, shift=1.0, dtype=kind).keeping_labels(kept),
        objective=objective,
        settings=Settings(**values),
    )


@pytest.mark.parametrize("micro_batch", [2, 4, 7, 20, 21, 100])
@pytest.mark.parametrize("build", [Adversarial, AdversarialEntropy, TwoLosses, Supervised])
def test_accumulated_gradients_are_the_batchs(build: Any, micro_batch: int) -> None:
    """Weights after eight steps with momentum, in float64, and what is shown of the losses."""
    whole, parts = (
        perceptron_trainer(build(), micro_batch=given, max_gradient_norm=1.0)
        for given in (None, micro_batch)
    )
    for trainer in (whole, parts):
        trainer.fit()
    for one, other in zip(whole.adapter.parameters(), parts.adapter.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-13)
    sizes = [len(part[3]) for part in parts.window.steps]
    assert sizes == [len(part[3]) for part in whole.window.steps]


def test_accumulation_counts_positions_and_weights_of_the_whole_batch() -> None:
    """Dense labels with an ignored value, samples that weigh differently."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(40, 3, 6, 6))
    labels = random.integers(0, 3, (40, 6, 6))
    labels[random.random(labels.shape) < 0.4] = 255
    source = from_arrays(inputs, labels, name="s").weighted(random.random(40) + 0.1)
    target = from_arrays(random.normal(size=(30, 3, 6, 6)), name="t")
    found = []
    for given in (None, 5):
        network = seeded(
            lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh(), nn.Conv2d(4, 3, 1)),
            dtype=torch.float64,
        )
        adapt(
            network, source, target, recipe="paper", layer="1", steps=5,
            task=task_named("dense:255"),
            batch_size=16, micro_batch=given, held_out=0, progress=False, learning_rate=0.1,
        )  # fmt: skip
        found.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.allclose(*found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["kernel-matching", "stabilised", "mcc", "dann-mcc", "cdan"])
def test_methods_that_compare_a_whole_batch_are_not_divided(method: str) -> None:
    assert method in OBJECTIVES
    with pytest.raises(InputError, match="compares the samples of a whole batch"):
        adapt(
            seeded(Perceptron), vectors(40, 1), vectors(40, 2), layer="lower", method=method,
            steps=2, micro_batch=8, progress=False,
        )  # fmt: skip


def test_bf16_is_autocast_with_weights_and_losses_in_full() -> None:
    """Bit for bit a loop by hand under torch.autocast; not what full precision gives."""
    trainer = perceptron_trainer(dtype=torch.float32, precision="bf16", momentum=0.0)
    batch = trainer.batches.batch(0)
    by_hand = seeded(Perceptron)
    classifier = DomainClassifier(5, hidden=(6,), seed=3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = by_hand.lower(batch.inputs)
        assert features.dtype is torch.bfloat16
        predictions = by_hand.upper(F.relu(features[batch.labelled]))
        logits = classifier(reverse_gradient(features, 0.5))
    label = F.cross_entropy(predictions.float(), batch.labels[batch.labelled])
    logits = logits.float().reshape(len(batch.domains))
    domain = F.binary_cross_entropy_with_logits(logits, batch.domains.float())
    (label + domain).backward()
    losses = trainer.step(batch, 0.5)
    assert losses.total.dtype is torch.float32
    assert float(losses.label) == label.item()
    losses.total.backward()
    for one, other in zip(
        [*trainer.adapter.network.parameters(), *trainer.adapter.domain_classifier.parameters()],
        [*by_hand.parameters(), *classifier.parameters()],
        strict=True,
    ):
        assert one.grad is not None
        assert one.dtype is torch.float32
        assert torch.equal(one.grad, other.grad)
    plain = perceptron_trainer(dtype=torch.float32)
    assert float(plain.step(batch, 0.5).label) != label.item()


class Blocks(nn.Module):
    """Two blocks with BatchNorm and dropout before the layer, one behind it."""

    def __init__(self) -> None:
        super().__init__()

        def block(wide: int, width: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(wide, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Dropout(0.3),
            )  # fmt: skip

        self.body = nn.Sequential(block(3, 4), block(4, 5))
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.flat = nn.Flatten()
        self.head = nn.Sequential(nn.Linear(20, 6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.flat(self.pool(self.body(x))))


@pytest.mark.parametrize("batch_norm", ["joint", "target"])
def test_checkpointed_activations_change_no_bit(batch_norm: Any) -> None:
    """Also dropout's masks and BatchNorm's statistics; and less is kept."""
    found, kept = [], []
    for checkpointed in (False, True):
        network = seeded(Blocks)
        adapter = DomainAdapter(network, "flat", DomainClassifier(20, hidden=(7,), seed=3))
        trainer = Trainer(
            adapter,
            images(40, 1),
            images(30, 2, shift=40).without_labels(),
            settings=Settings(
                steps=6,
                batch_size=12,
                device="cpu",
                batch_norm=batch_norm,
                checkpoint_activations=checkpointed,
            ),
        )
        trainer.fit()
        found.append(weights_digest(network))
        sizes: list[int] = []

        def count(value: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(value.numel())
            return value

        network.train()
        with trainer.activations(), torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            trainer.step(trainer.batches.batch(0), 0.5)
        kept.append(sum(sizes))
        assert "forward" not in vars(network.body[0])
    assert found[0] == found[1]
    assert kept[1] < 0.6 * kept[0]


def test_networks_without_blocks_can_not_be_checkpointed() -> None:
    with pytest.raises(InputError, match="has no blocks"):
        perceptron_trainer(checkpoint_activations=True)


@pytest.mark.filterwarnings("ignore")  # what torch warns of while it compiles
def test_a_compiled_step_has_one_graph_for_every_factor() -> None:
    """And the weights of the plain one; the backend here differentiates without generating code."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    plain, compiled = (perceptron_trainer(compile=given, kept=0) for given in (False, "aot_eager"))
    compiled.train_step(0)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs >= 1
    for step in range(1, 8):
        compiled.train_step(step)
    assert counters["stats"]["unique_graphs"] == graphs
    for step in range(8):
        plain.train_step(step)
    for one, other in zip(plain.adapter.parameters(), compiled.adapter.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"precision": "fp8"}, "precision is one of full, bf16, not 'fp8'"),
        ({"micro_batch": 1}, "micro_batch must be at least 2"),
        ({"micro_batch": 2.5}, "micro_batch must be a whole number"),
    ],
)
def test_settings_that_mean_nothing(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Settings(**given)


def test_from_the_command_line(tmp_path: Path) -> None:
    from revgrad.cli.train_options import TrainOptions

    options = TrainOptions(
        source="digits", output=tmp_path, precision="bf16", micro_batch=8,
        checkpoint_activations=True, compile=True,
    )  # fmt: skip
    settings = options.make_recipe().settings
    assert settings.precision == "bf16"
    assert settings.micro_batch == 8
    assert settings.checkpoint_activations is True
    assert settings.compile is True
    assert "--micro-batch 8" in options.command()
    assert "--checkpoint-activations" in options.command()
