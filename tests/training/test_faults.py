"""Faults seen in respected code, each with a test that would have found it."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import revgrad
from revgrad import Callback, Constant, Domain, GradientReversal, Run, from_arrays
from revgrad.preprocessing import Preprocessing
from revgrad.training.checkpoint import optimiser_state
from tiny import (
    Images,
    Perceptron,
    cut_by_tap,
    image_trainer,
    images,
    seeded,
    vectors,
    weights_digest,
)
from tiny import digest as tensor_digest

METHODS = ("adversarial", "adversarial-entropy", "two-losses", "mean-matching", "kernel-matching")
SMALL: dict[str, Any] = {
    "recipe": "paper",
    "steps": 12,
    "batch_size": 16,
    "device": "cpu",
    "progress": False,
    "domain_classifier": (6,),
}


def adapted(source: Domain, target: Domain, **changes: Any) -> revgrad.Adapted:
    """A short adversarial run of the same initial weights."""
    return revgrad.adapt(seeded(Perceptron), source, target, layer="lower", **{**SMALL, **changes})


def digest(result: revgrad.Adapted) -> str:
    assert result.adapter is not None
    return weights_digest(result.adapter)


class Watching(Callback):
    """Keeps the domain classifier's loss."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, trainer: Any, record: Any) -> None:
        self.losses.append(record.domain_loss)


def test_a_domain_classifier_that_learns_nothing() -> None:
    """Softmax over one unit: a gradient of exactly 0. With λ = 0 on separable domains the domain
    loss must fall well below ln 2."""
    watching = Watching()
    adapted(
        *(vectors(200, 1), vectors(200, 2, shift=4.0)),
        steps=150,
        adaptation_factor=Constant(0.0),
        learning_rate=Constant(0.05),
        log_every=10,
        callbacks=[watching],
    )
    assert watching.losses[0] > 0.3
    assert watching.losses[-1] < 0.1 * math.log(2)


def test_reversal_keeps_the_domain_loss_up() -> None:
    """The other half: with λ = 1 the features become harder to tell apart than with λ = 0."""
    final = []
    for factor in (0.0, 1.0):
        watching = Watching()
        adapted(
            *(vectors(200, 1), vectors(200, 2, shift=0.7)),
            steps=150,
            adaptation_factor=Constant(factor),
            learning_rate=Constant(0.05),
            log_every=50,
            preprocessing=Preprocessing.identity(),
            callbacks=[watching],
        )
        final.append(watching.losses[-1])
    assert final[1] > final[0] + 0.05


@pytest.mark.parametrize("method", METHODS)
def test_an_unlabelled_argument_that_nobody_reads(method: str) -> None:
    source, target = vectors(40, 1), vectors(40, 2, 1.0)
    changed = from_arrays(target.batch(range(40)).inputs * 1.5, name=target.name)  # type: ignore[operator]
    first = adapted(source, target, method=method)
    assert digest(first) != digest(adapted(source, changed, method=method))
    assert digest(first) == digest(adapted(source, target, method=method))  # and nothing else did


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("poison", ["shuffled", "constant", "absent"])
def test_target_labels_are_never_read(method: str, poison: str) -> None:
    source, target, test = vectors(40, 1), vectors(40, 2, 1.0), vectors(20, 3, 1.0)
    inputs, labels = target.batch(range(40)).inputs, target.labels
    assert labels is not None
    bad = {
        "shuffled": np.random.default_rng(0).permutation(labels),
        "constant": np.full_like(labels, 2),
        "absent": None,
    }[poison]
    assert bad is None or not np.array_equal(bad, labels)
    poisoned = from_arrays(inputs, bad, name=target.name)
    rest = {"method": method, "test": test, "ema_decay": 0.9, "evaluate_every": 3}
    assert digest(adapted(source, target, **rest)) == digest(adapted(source, poisoned, **rest))


def test_source_labels_are_read() -> None:
    """The digest above can differ: poison where it should matter, and it does."""
    source, target = vectors(40, 1), vectors(40, 2, 1.0)
    assert source.labels is not None
    other = from_arrays(source.batch(range(40)).inputs, (source.labels + 1) % 3, name=source.name)
    assert digest(adapted(source, target)) != digest(adapted(other, target))


def test_labels_of_the_target_count_only_where_they_were_kept() -> None:
    """Those that `keeping_labels` kept are used, all others are dropped unread."""
    source, target = vectors(40, 1), vectors(40, 2, 1.0)
    assert target.labels is not None
    kept = target.keeping_labels(10, seed=0)
    hidden = np.flatnonzero(~kept.labelled)
    poison = target.labels.copy()
    poison[hidden] = (poison[hidden] + 1) % 3
    poisoned = from_arrays(target.batch(range(40)).inputs, poison, name=target.name)
    plain = digest(adapted(source, target))
    semi = digest(adapted(source, kept))
    assert semi != plain
    assert digest(adapted(source, target.without_labels())) == plain
    again = adapted(source, poisoned.keeping_labels(10, seed=0))
    assert digest(again) == semi


@pytest.mark.parametrize("every", [0, 1, 5])
def test_nothing_is_chosen_on_target_test_labels(every: int, tmp_path: Path) -> None:
    """Poisoned test labels: the same weights at the end and in the checkpoint, other numbers."""
    source, target, test = vectors(40, 1), vectors(40, 2, 1.0), vectors(30, 3, 1.0)
    assert test.labels is not None
    poisoned = from_arrays(test.batch(range(30)).inputs, (test.labels + 1) % 3, name=test.name)
    results, accuracies = [], []
    for name, data in (("good", test), ("bad", poisoned)):
        result = adapted(
            *(source, target),
            test=data,
            evaluate_every=every,
            checkpoint_every=4,
            ema_decay=0.8,
            steps=40,
            learning_rate=Constant(0.1),
            run=tmp_path / name,
        )
        loaded = revgrad.load(tmp_path / name, seeded(Perceptron, 9))
        assert weights_digest(loaded.network) == weights_digest(result.network)
        results.append(digest(result))
        assert result.result is not None
        assert result.result.last is not None
        accuracies.append(result.result.last.target_accuracy)
    assert results[0] == results[1]
    assert accuracies[0] != accuracies[1]


class AlexLike(nn.Module):
    """In-place ReLUs directly behind the layer, as AlexNet has them."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace), nn.Linear(8, 8))
        self.classifier = nn.Sequential(
            nn.ReLU(inplace), nn.Linear(8, 8), nn.ReLU(inplace), nn.Linear(8, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


@pytest.mark.parametrize("layer", ["features", "features.2", "classifier.0", "classifier.1"])
@pytest.mark.parametrize("tap", [False, True])
def test_an_in_place_relu_does_not_overwrite_the_features(
    layer: str, tap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:

    cut_by_tap(monkeypatch, tap)
    digests = []
    for inplace in (True, False):
        network = seeded(lambda inplace=inplace: AlexLike(inplace))
        result = revgrad.adapt(network, vectors(40, 1), vectors(40, 2, 1.0), layer=layer, **SMALL)
        digests.append(digest(result))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("tap", [False, True])
def test_a_deep_copy_does_not_write_to_the_original(
    tap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:

    cut_by_tap(monkeypatch, tap)
    source, target = images(40, 1), images(30, 2, 40)
    result = revgrad.adapt(seeded(Images), source, target, layer="flat", **SMALL)
    adapter = result.adapter
    assert adapter is not None
    copied = copy.deepcopy(adapter).train()
    before = weights_digest(adapter)
    trainer = revgrad.Trainer(
        copied, source, target.without_labels(), settings=revgrad.Settings(steps=3, device="cpu")
    )
    trainer.fit()
    assert weights_digest(adapter) == before
    assert weights_digest(copied) != before
    hooks = [m for m in (*adapter.modules(), *copied.modules()) if m._forward_hooks]
    assert not hooks


def test_the_factor_is_no_state(tmp_path: Path) -> None:
    """λ is a function of the step: no layer counts, no state holds it, evaluation moves nothing."""
    layer = GradientReversal(0.3)
    assert not layer.state_dict()
    for _ in range(5):
        layer(torch.ones(2))
    assert layer.factor == 0.3

    class Factors(Callback):
        def __init__(self) -> None:
            self.seen: dict[int, float] = {}

        def on_log(self, trainer: Any, record: Any) -> None:
            self.seen[record.step] = record.adaptation_factor

    often, never = Factors(), Factors()
    for events, every in ((often, 1), (never, 0)):
        trainer = image_trainer(
            tmp_path / f"run{every}",
            held_out=images(9, 5),
            evaluate_every=every,
            log_every=1,
            callbacks=(events,),
        )
        trainer.fit()
        saved = Run(tmp_path / f"run{every}").checkpoint()
        assert saved is not None
        assert not [name for name in saved.tensors if "factor" in name or "lambda" in name]
    assert often.seen == never.seen
    for step, factor in often.seen.items():
        p = (step - 1) / 30
        assert factor == pytest.approx(2 / (1 + math.exp(-10 * p)) - 1, abs=1e-15)


def test_how_often_is_evaluated_never_changes_the_weights() -> None:
    """Dropout, BatchNorm and an average of the weights in the network; every 0, 1, 7 steps."""
    digests = set()
    for every in (0, 1, 7):
        trainer = image_trainer(
            held_out=images(20, 7),
            test=images(20, 8, 40),
            evaluate_every=every,
            log_every=every,
            ema_decay=0.9,
            batch_norm="target",
            steps=15,
        )
        trainer.fit()
        tensors, _ = optimiser_state(trainer.optimiser)
        digests.add((weights_digest(trainer.adapter), tensor_digest(tensors)))
    assert len(digests) == 1


def test_evaluation_changes_nothing_at_all() -> None:
    trainer = image_trainer(ema_decay=0.9, steps=3)
    trainer.fit()
    before, state = weights_digest(trainer.adapter), torch.get_rng_state()
    modes = [m.training for m in trainer.adapter.modules()]
    one, two = trainer.evaluate(images(20, 7)), trainer.evaluate(images(20, 7))
    assert one.loss == two.loss
    assert weights_digest(trainer.adapter) == before
    assert torch.equal(state, torch.get_rng_state())
    assert modes == [m.training for m in trainer.adapter.modules()]


def test_a_comparison_whose_result_is_looked_at() -> None:
    """The digests of this file tell a single flipped bit."""
    network = seeded(Perceptron)
    before = weights_digest(network)
    with torch.no_grad():
        network.upper.bias[0] = torch.nextafter(network.upper.bias[0], torch.tensor(9.0))
    assert weights_digest(network) != before
