"""The trainer: each switch against a second, slow computation; what it refuses, in one line."""

from __future__ import annotations

import copy
import logging
import random
from typing import Any

import numpy as np
import pytest
import torch
from test_objectives import ByHand
from torch import Tensor, nn

import revgrad
from revgrad import (
    Annealed,
    Callback,
    Constant,
    Domain,
    DomainAdapter,
    DomainClassifier,
    Preprocessing,
    RampUp,
    Settings,
    Supervised,
    Trainer,
    from_arrays,
)
from revgrad.errors import InputError
from revgrad.training import EvaluationRecord, TrainingRecord, TrainingResult
from revgrad.training.weights import MovingAverage
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


def vector_trainer(
    target: Domain | None = None, source: Domain | None = None, **settings: Any
) -> Trainer:
    """A float64 perceptron on vectors."""
    network = seeded(Perceptron, 1, torch.float64)
    classifier = DomainClassifier(5, hidden=(6,), seed=2).double()
    own: dict[str, Any] = {
        k: settings.pop(k)
        for k in ("objective", "held_out", "test", "callbacks", "run")
        if k in settings
    }
    values = {"steps": 4, "batch_size": 10, "device": "cpu", "momentum": 0.0, **settings}
    return Trainer(
        DomainAdapter(network, "lower", classifier),
        vectors(30, 1, dtype=np.float64) if source is None else source,
        vectors(20, 2, 1.0, dtype=np.float64).without_labels() if target is None else target,
        settings=Settings(**values),
        **own,
    )


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {k: v.detach().clone() for k, v in trainer.adapter.named_parameters()}


def assert_close(left: dict[str, Tensor], right: dict[str, Tensor], limit: float = 1e-12) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert float((left[name] - right[name]).detach().abs().max()) <= limit, name


def test_the_defaults_are_the_papers() -> None:
    s = Settings()
    assert (s.batch_size, s.source_share, s.sizes([900], [800])) == (128, 0.5, [64, 64])
    assert s.learning_rate == Annealed(0.01, 10.0, 0.75)
    assert s.adaptation_factor == RampUp(10.0, 1.0)
    assert (s.optimiser, s.momentum) == ("sgd", 0.9)
    assert (s.weight_decay, s.max_weight_norm, s.max_gradient_norm, s.ema_decay) == (
        0.0,
        None,
        None,
        None,
    )
    assert s.domain_lr_factor == 1.0
    made = s.make_optimiser([{"params": [nn.Parameter(torch.ones(1))]}])
    assert isinstance(made, torch.optim.SGD)
    assert made.param_groups[0]["momentum"] == 0.9
    assert made.param_groups[0]["nesterov"] is False


@pytest.mark.parametrize("domain_rate", [1.0, 0.3])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_steps_by_hand(domain_rate: float, decay: float) -> None:
    """μ and λ of the step, weight decay, momentum, a separate rate for the domain classifier."""
    trainer = vector_trainer(domain_lr_factor=domain_rate, weight_decay=decay, momentum=0.9)
    hand = ByHand(trainer.adapter)
    own = {f"network.{k}": v for k, v in {**hand.theta_f, **hand.theta_y}.items()}
    own |= {f"domain_classifier.{k}": v for k, v in hand.theta_d.items()}
    velocity: dict[str, Tensor] = {}
    for step in range(4):
        p = step / 4
        rate = 0.01 / (1 + 10 * p) ** 0.75
        factor = 2 / (1 + np.exp(-10 * p)) - 1
        gradients = hand.gradients(trainer.batches.batch(step), factor)
        with torch.no_grad():
            for name, gradient in gradients.items():
                velocity[name] = 0.9 * velocity.get(name, 0.0) + gradient + decay * own[name]
                share = domain_rate if name.startswith("domain") else 1.0
                own[name] -= rate * share * velocity[name]
    trainer.fit()
    assert_close(weights(trainer), own)


def test_clip_limits_the_norm_of_all_gradients_together() -> None:
    trainer = vector_trainer(
        max_gradient_norm=0.05,
        steps=1,
        learning_rate=Constant(1.0),
        adaptation_factor=Constant(0.5),
    )
    hand, before = ByHand(trainer.adapter), weights(trainer)
    gradients = hand.gradients(trainer.batches.batch(0), 0.5)
    norm = sum(float(g.detach().square().sum()) for g in gradients.values()) ** 0.5
    assert norm > 0.05
    trainer.fit()
    expected = {name: before[name] - 0.05 / (norm + 1e-6) * gradients[name] for name in before}
    assert_close(weights(trainer), expected)


def test_max_norm_is_a_slow_loop() -> None:
    free = image_trainer(steps=1, channels_last=False, learning_rate=Constant(0.5))
    limited = image_trainer(
        steps=1, channels_last=False, learning_rate=Constant(0.5), max_weight_norm=0.4
    )
    free.fit()
    limited.fit()
    expected, changed = weights(free), 0
    matrices = [n for n, v in expected.items() if v.ndim > 1]
    for name in matrices:
        for unit in range(len(expected[name])):
            norm = float(sum(float(x) ** 2 for x in expected[name][unit].flatten())) ** 0.5
            if norm > 0.4:
                expected[name][unit] *= 0.4 / norm
                changed += 1
    assert changed > 5
    assert "network.norm.weight" not in matrices
    assert_close(weights(limited), expected, 1e-6)


def test_average_is_a_slow_loop_and_handed_over() -> None:
    history: list[dict[str, Tensor]] = []

    class Keep(Callback):
        def on_start(self, trainer: Trainer, step: int) -> None:
            history.append(copy.deepcopy(trainer.adapter.network.state_dict()))

        def on_step(self, trainer: Trainer, step: int) -> None:
            history.append(copy.deepcopy(trainer.adapter.network.state_dict()))

    trainer = vector_trainer(
        ema_decay=0.3, steps=9, learning_rate=Constant(0.3), callbacks=[Keep()]
    )
    trainer.fit()
    average = history[0]
    for step, now in enumerate(history[1:]):
        d = min(0.3, (1 + step) / (10 + step))
        average = {name: d * average[name] + (1 - d) * now[name] for name in now}
    final = trainer.adapter.network.state_dict()
    assert float((final["lower.weight"] - history[-1]["lower.weight"]).abs().max()) > 1e-4
    assert_close(dict(final), average)


def test_average_of_weights_that_two_layers_share() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

    network = Tied()
    average = MovingAverage(network, 0.5)
    assert set(average.tensors()) == set(network.state_dict())
    first = network.a.weight.detach().clone()
    with torch.no_grad():
        network.a.weight.add_(1.0)
    average.update(100)
    with average.in_place():
        torch.testing.assert_close(network.b.weight.detach(), first + 0.5)
    torch.testing.assert_close(network.a.weight.detach(), first + 1.0)
    restored = Tied()
    restored.load_state_dict({**network.state_dict(), **average.tensors()})
    torch.testing.assert_close(restored.a.weight.detach(), first + 0.5)


class TestBatchNorm:
    """Running statistics after two steps with a rate of 0, against a slow computation."""

    @staticmethod
    def outputs(network: Images, x: Tensor, upto: str) -> Tensor:
        """What enters `norm` or `norm2` when every BatchNorm normalises by this very batch."""

        def normalised(v: Tensor, norm: Any) -> Tensor:
            axes = [0, *range(2, v.ndim)]
            mean = v.mean(axes, keepdim=True)
            var = (v - mean).square().mean(axes, keepdim=True)
            shape = [1, -1, *[1] * (v.ndim - 2)]
            scaled = (v - mean) / (var + norm.eps).sqrt()
            return scaled * norm.weight.reshape(shape) + norm.bias.reshape(shape)

        x = network.conv(x)
        if upto == "norm":
            return x
        x = network.pool(torch.relu(normalised(x, network.norm)))
        return torch.relu(network.fc(network.flat(network.conv2(x))))

    @pytest.mark.parametrize("policy", ["joint", "separate", "target"])
    @pytest.mark.parametrize("tap", [False, True])
    @pytest.mark.parametrize("layer", ["flat", "pool"])
    @torch.no_grad()
    def test_running_statistics(
        self, policy: Any, tap: bool, layer: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cut_by_tap(monkeypatch, tap)
        trainer = image_trainer(
            layer=layer,
            steps=2,
            batch_size=14,
            source_share=0.6,
            learning_rate=Constant(0.0),
            batch_norm=policy,
        )
        network = trainer.adapter.network
        network.drop.p = 0.0
        network.double()
        trainer.adapter.double()
        reference = copy.deepcopy(network)
        running = {
            "norm": [torch.zeros(4).double(), torch.ones(4).double()],
            "norm2": [torch.zeros(6).double(), torch.ones(6).double()],
        }
        for step in range(2):
            batch = trainer.batches.batch(step)
            inputs = trainer.adapter.preprocessing(batch.inputs)
            source, target = (inputs[part] for part in batch.domain_slices())
            # rows that reach each BatchNorm and change its statistics, in order
            seen = {
                "joint": {"norm": [inputs], "norm2": [source]},
                "separate": {"norm": [source, target], "norm2": [source]},
                "target": {"norm": [target], "norm2": [target]},
            }[policy]
            for name, groups in seen.items():
                for group in groups:
                    if policy == "joint" and name == "norm2":  # features normalised with all rows
                        values = self.outputs(reference, inputs, name)[: len(source)]
                    else:
                        values = self.outputs(reference, group, name)
                    flat = values.transpose(0, 1).flatten(1)
                    mean = flat.mean(1)
                    var = (flat - mean[:, None]).square().sum(1) / (flat.shape[1] - 1)
                    old = running[name]
                    running[name] = [0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * var]
        with torch.enable_grad():
            trainer.fit()
        for name, (mean, var) in running.items():
            norm = getattr(network, name)
            torch.testing.assert_close(norm.running_mean, mean, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(norm.running_var, var, rtol=1e-9, atol=1e-9)
            assert norm.track_running_stats is True

    def test_policies_agree_without_batch_norm(self) -> None:
        made = [vector_trainer(batch_norm=policy) for policy in ("joint", "separate", "target")]
        for trainer in made:
            trainer.fit()
        assert len({weights_digest(trainer.adapter) for trainer in made}) == 1

    def test_separate_passes_normalise_each_domain_by_itself(self) -> None:
        trainer = image_trainer(batch_norm="separate", steps=1)
        adapter = trainer.adapter.train()
        adapter.network.drop.p = 0.0
        batch = trainer.batches.batch(0)
        features, predictions = adapter(batch)
        for part in batch.domain_slices():
            alone = adapter.cut.features(adapter.preprocessing(batch.inputs[part]))  # type: ignore[index]
            torch.testing.assert_close(features[part], alone)
        assert predictions.shape == (6, 3)

    def test_an_unknown_policy_is_one_line(self) -> None:
        with pytest.raises(InputError, match="joint, separate, target, not 'both'"):
            Settings(batch_norm="both")  # type: ignore[arg-type]


def test_events_come_in_order_with_typed_records(tmp_path: Any) -> None:
    heard: list[tuple[str, Any]] = []

    class Listener(Callback):
        def on_start(self, trainer: Trainer, step: int) -> None:
            heard.append(("start", step))

        def on_step(self, trainer: Trainer, step: int) -> None:
            heard.append(("step", step))

        def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
            assert isinstance(record, TrainingRecord)
            heard.append(("log", record.step))

        def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
            assert isinstance(record, EvaluationRecord)
            heard.append(("evaluation", record.step))

        def on_checkpoint(self, trainer: Trainer, step: int) -> None:
            saved = trainer.run.checkpoint()  # type: ignore[union-attr]
            assert saved is not None
            assert saved.step == step
            heard.append(("checkpoint", step))

        def on_end(self, trainer: Trainer, outcome: TrainingResult) -> None:
            assert isinstance(outcome, TrainingResult)
            heard.append(("end", outcome.steps))

        def close(self) -> None:
            heard.append(("close", None))

    trainer = image_trainer(
        tmp_path / "run",
        steps=5,
        log_every=2,
        evaluate_every=3,
        checkpoint_every=4,
        held_out=images(9, 6),
        callbacks=(Listener(),),
    )
    outcome = trainer.fit()
    at = "start 0,step 1,step 2,log 2,step 3,evaluation 3,step 4,log 4,checkpoint 4,step 5,log 5,"
    at += "evaluation 5,checkpoint 5,end 5,close None"
    assert ",".join(f"{name} {value}" for name, value in heard) == at
    assert outcome.last is not None
    assert outcome.last.step == 5
    assert outcome.last.target_accuracy is None
    kinds = [(type(r).__name__, r.step) for r in trainer.run.records()]  # type: ignore[union-attr]
    logged = [("TrainingRecord", n) for n in (2, 4, 5)]
    evaluated = [("EvaluationRecord", n) for n in (3, 5)]
    assert kinds == [logged[0], evaluated[0], logged[1], logged[2], evaluated[1]]


def test_a_log_record_is_the_mean_of_its_window() -> None:
    records: list[TrainingRecord] = []

    class Keep(Callback):
        def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
            records.append(record)

    each = vector_trainer(log_every=1, steps=6, callbacks=[Keep()], momentum=0.9)
    each.fit()
    single = list(records)
    records.clear()
    vector_trainer(log_every=3, steps=6, callbacks=[Keep()], momentum=0.9).fit()
    for number, record in enumerate(records):
        part = single[3 * number : 3 * number + 3]
        for name in ("label_loss", "domain_loss", "domain_accuracy"):
            mean = sum(getattr(r, name) for r in part) / 3
            assert getattr(record, name) == pytest.approx(mean, rel=1e-6), name
        assert (record.adaptation_factor, record.learning_rate) == (
            part[-1].adaptation_factor,
            part[-1].learning_rate,
        )


def test_kept_losses_hold_no_graph() -> None:
    trainer = vector_trainer(log_every=0)
    trainer.train_step(0)
    kept = [value for value in trainer.window.steps[0].losses[:4] if value is not None]
    assert len(kept) == 4  # L_y, L_d, the domain classifier's logits; the total without its graph
    assert not any(value.requires_grad for value in kept)


class TestRefusals:
    """What a user can get wrong: one line that names it."""

    @staticmethod
    def line(caught: Any) -> str:
        text = str(caught.value)
        assert "\n" not in text
        return text

    def test_device(self) -> None:
        with pytest.raises(InputError, match="device 'nonsense' can't be used") as caught:
            vector_trainer(device="nonsense")
        assert "'cpu' would do" in self.line(caught)

    @pytest.mark.parametrize("role", ["source", "held_out", "test"])
    def test_labels_out_of_range(self, role: str) -> None:
        bad = vectors(30, 5, classes=7, dtype=np.float64).renamed("too many")
        with pytest.raises(InputError, match="too many: labels are out of range") as caught:
            vector_trainer(**{role: bad})
        assert "network has 3 outputs" in self.line(caught)

    def test_source_without_labels(self) -> None:
        source = vectors(30, 1, dtype=np.float64).without_labels()
        with pytest.raises(InputError, match="has no labels") as caught:
            vector_trainer(source=source)
        self.line(caught)

    def test_empty_target(self) -> None:
        empty = from_arrays(np.zeros((0, 4)), name="nothing")
        with pytest.raises(InputError, match="nothing is empty") as caught:
            vector_trainer(target=empty)
        self.line(caught)
        with pytest.raises(InputError, match="empty"):
            revgrad.adapt(
                seeded(Perceptron),
                vectors(9, 1),
                empty,
                recipe="paper",
                layer="lower",
                progress=False,
            )

    def test_a_one_sample_target_works_with_a_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, logger="revgrad"):
            trainer = vector_trainer(target=vectors(1, 4, dtype=np.float64).without_labels())
            before = weights_digest(trainer.adapter)
            trainer.fit()
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert "1 samples" in caplog.text
        assert weights_digest(trainer.adapter) != before

    def test_shapes_that_differ(self) -> None:
        other = from_arrays(np.zeros((9, 5)), name="wider")
        with pytest.raises(InputError, match=r"\(4,\), wider of \(5,\)") as caught:
            vector_trainer(target=other)
        self.line(caught)

    def test_labels_of_another_kind(self) -> None:
        target = from_arrays(np.zeros((9, 4)), np.zeros(9), name="numbers")
        with pytest.raises(InputError, match="another kind") as caught:
            vector_trainer(target=target)
        self.line(caught)

    def test_a_frozen_network(self) -> None:
        network = seeded(Perceptron).requires_grad_(False)
        with pytest.raises(InputError, match="no parameter that requires a gradient"):
            revgrad.adapt(
                *(network, vectors(20, 1), vectors(20, 2)),
                recipe="paper",
                layer="lower",
                progress=False,
            )

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("steps", 0),
            ("batch_size", 1),
            ("source_share", 1.0),
            ("momentum", 1.0),
            ("weight_decay", -1.0),
            ("domain_lr_factor", 0.0),
            ("max_weight_norm", -1.0),
            ("max_gradient_norm", -1.0),
            ("ema_decay", 1.0),
            ("seed", -1),
            ("log_every", -1),
        ],
    )
    def test_settings(self, name: str, value: Any) -> None:
        with pytest.raises(InputError, match=name):
            Settings(**{name: value})

    def test_optimiser(self) -> None:
        with pytest.raises(InputError, match="did you mean 'adam'"):
            Settings(optimiser="adan")


def test_parts_of_the_network_may_be_frozen() -> None:
    trainer = vector_trainer()
    trainer.adapter.network.lower.weight.requires_grad_(False)
    again = Trainer(trainer.adapter, *trainer.batches.domains, settings=trainer.settings)
    before = {k: v.clone() for k, v in trainer.adapter.network.state_dict().items()}
    again.fit()
    after = trainer.adapter.network.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"lower.bias", "upper.weight", "upper.bias"}


def test_any_optimiser_does() -> None:
    def rprop(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(groups, lr=settings.learning_rate(0.0))

    trainer = vector_trainer(optimiser=rprop, domain_lr_factor=0.5)
    trainer.fit()
    assert isinstance(trainer.optimiser, torch.optim.RMSprop)
    rates = [group["lr"] for group in trainer.optimiser.param_groups]
    last = Annealed()(3 / 4)
    assert rates == [last, 0.5 * last]


def test_global_generators_are_undisturbed() -> None:
    source, target = images(40, 1), images(30, 2, 40)
    network = seeded(Images)
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    expected = (torch.rand(3).tolist(), np.random.rand(), random.random())
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    trainer = image_trainer(steps=3, source=source, target=target)
    torch.manual_seed(5)
    trainer.fit()
    assert (torch.rand(3).tolist(), np.random.rand(), random.random()) == expected
    torch.manual_seed(5)
    revgrad.adapt(
        network, source, target, recipe="paper", layer="flat", steps=2, batch_size=8, progress=False
    )
    assert torch.rand(3).tolist() == expected[0]


def test_noise_is_another_at_each_step() -> None:
    trainer, kept = image_trainer(steps=4), []
    network: Any = trainer.adapter.network
    network.drop.register_forward_hook(lambda module, given, out: kept.append(out[:6] != 0))
    trainer.fit()
    assert len({mask.numpy().tobytes() for mask in kept}) == len(kept) >= 4


def test_the_result_does_not_depend_on_global_generators() -> None:
    digests = set()
    for seed in (1, 2):
        trainer = image_trainer(steps=5)
        torch.manual_seed(seed)
        trainer.fit()
        digests.add(weights_digest(trainer.adapter))
    assert len(digests) == 1


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_the_network_comes_back(training: bool, interrupted: bool) -> None:
    class Stop(Callback):
        def on_step(self, trainer: Trainer, step: int) -> None:
            assert all(m.training for m in trainer.adapter.modules())
            weight = trainer.adapter.network.conv.weight
            assert weight.is_contiguous(memory_format=torch.channels_last)
            if interrupted:
                raise KeyboardInterrupt

    network = seeded(Images).train(training)
    network.norm.eval()  # a mode of its own
    keys, parameters = list(network.state_dict()), list(network.parameters())
    arguments = (network, images(40, 1), images(30, 2, 40))
    settings = {
        "recipe": "paper",
        "layer": "flat",
        "steps": 3,
        "batch_size": 8,
        "progress": False,
        "callbacks": [Stop()],
    }
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            revgrad.adapt(*arguments, **settings)  # type: ignore[arg-type]
    else:
        result = revgrad.adapt(*arguments, **settings)  # type: ignore[arg-type]
        assert result.network is network
    assert list(network.state_dict()) == keys
    assert all(a is b for a, b in zip(network.parameters(), parameters, strict=True))
    assert all(value.is_contiguous() for value in network.state_dict().values())
    assert [m.training for m in (network, network.conv, network.norm)] == [
        training,
        training,
        False,
    ]
    assert not any(m._forward_hooks for m in network.modules())


def test_memory_order_changes_rounding_only() -> None:
    first, second = image_trainer(steps=3), image_trainer(steps=3, channels_last=False)
    first.fit()
    second.fit()
    assert_close(weights(first), weights(second), 1e-5)


class TestPreprocessing:
    def test_fit_is_a_slow_computation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("revgrad.preprocessing.IMAGES_AT_ONCE", 7)
        domains = [images(11, 1), images(29, 2, 60)]
        made = Preprocessing.fit(*domains)
        channel_means = []
        for channel in range(3):
            each = []
            for domain in domains:
                pixels = domain.batch(range(len(domain))).inputs[:, channel].double()  # type: ignore[index]
                each.append(float(pixels.sum()) / pixels.numel())
            channel_means.append(sum(each) / 2)  # domains weigh alike, whatever their sizes
        squares = []
        for domain in domains:
            values = domain.batch(range(len(domain))).inputs.double()  # type: ignore[union-attr]
            centred = values - torch.tensor(channel_means)[:, None, None]
            squares.append(float(centred.square().sum()) / centred.numel())
        assert made.mean.flatten().tolist() == pytest.approx(channel_means, rel=1e-6)
        assert float(made.scale) == pytest.approx((sum(squares) / 2) ** 0.5, rel=1e-6)

    def test_it_takes_a_sample_of_large_domains(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("revgrad.preprocessing.FITTED_SAMPLES", 3)
        domain = images(11, 1)
        sample = domain.subset([0, 5, 10])
        assert torch.equal(Preprocessing.fit(domain).mean, Preprocessing.fit(sample).mean)

    def test_forward(self) -> None:
        prepare = Preprocessing(torch.tensor([10.0, 20.0, 30.0])[:, None, None], 5.0)
        values = images(4, 1).batch(range(4)).inputs
        assert isinstance(values, Tensor)
        made = prepare(values)
        for c, mean in enumerate((10.0, 20.0, 30.0)):
            torch.testing.assert_close(made[:, c], (values[:, c].float() - mean) / 5.0)

    def test_per_image_is_a_slow_loop(self) -> None:
        values = images(5, 1).batch(range(5)).inputs
        assert isinstance(values, Tensor)
        made = Preprocessing.fit(images(5, 1), per_image=True)(values)
        for row in range(5):
            numbers = values[row].double().flatten()
            mean = float(numbers.sum()) / 192
            sd = (sum((float(x) - mean) ** 2 for x in numbers) / 192) ** 0.5
            expected = ((values[row].double() - mean) / sd).float()
            torch.testing.assert_close(made[row], expected, rtol=1e-4, atol=1e-5)

    def test_a_flat_image_is_not_divided_by_zero(self) -> None:
        flat = torch.full((2, 3, 8, 8), 9, dtype=torch.uint8)
        assert bool((Preprocessing(0.0, 1.0, per_image=True)(flat) == 0).all())
        constant = from_arrays(np.full((4, 8, 8, 3), 7, np.uint8), name="flat")
        assert float(Preprocessing.fit(constant).scale) == 1.0

    def test_numbers_pass_in_the_networks_type(self) -> None:
        prepare = Preprocessing.identity().double()
        assert prepare(torch.ones(2, 3)).dtype == torch.float64
        tokens = torch.ones(2, 3, dtype=torch.int64)
        assert prepare(tokens) is tokens
        nested = prepare({"image": torch.ones(1, 3, 2, 2, dtype=torch.uint8), "tokens": tokens})
        assert nested["image"].dtype == torch.float64
        assert nested["tokens"] is tokens

    def test_a_scale_of_zero_is_refused(self) -> None:
        with pytest.raises(InputError, match="scale above 0"):
            Preprocessing(0.0, 0.0)

    def test_an_adapter_takes_the_networks_type(self) -> None:
        network = seeded(Perceptron, 0, torch.float64)
        adapter = DomainAdapter(network, "lower", DomainClassifier(5, hidden=()).double())
        assert adapter.predict(torch.ones(2, 4)).dtype == torch.float64


def test_evaluation_is_a_slow_loop() -> None:
    trainer = image_trainer(steps=3)
    trainer.fit()
    test = images(23, 9, 20)
    result = trainer.evaluate(test)
    network = trainer.adapter.network.eval()
    confusion, loss = np.zeros((3, 3), int), 0.0
    with torch.no_grad():
        for row in range(23):
            sample = test.batch([row])
            logits = network(trainer.adapter.preprocessing(sample.inputs))[0].double()
            assert sample.labels is not None
            label = int(sample.labels[0])
            confusion[label, int(logits.argmax())] += 1
            loss -= float((logits[label].exp() / logits.exp().sum()).log())
    assert result.count == 23
    assert result.confusion is not None
    assert result.confusion.tolist() == confusion.tolist()
    assert result.accuracy == pytest.approx(np.trace(confusion) / 23)
    assert result.loss == pytest.approx(loss / 23, rel=1e-5)
    rows = confusion.sum(1)
    assert result.per_class == pytest.approx(np.diag(confusion) / np.where(rows, rows, np.nan))


def test_evaluation_looks_at_labelled_rows_only() -> None:
    trainer = image_trainer(steps=1)
    trainer.fit()
    test = images(23, 9, 20)
    part = test.keeping_labels(6, seed=1)
    kept = test.subset(np.flatnonzero(part.labelled))
    assert trainer.evaluate(part).loss == pytest.approx(trainer.evaluate(kept).loss, rel=1e-6)
    with pytest.raises(InputError, match="has no labels to evaluate"):
        trainer.evaluate(test.without_labels())


def test_regression_trains_and_is_evaluated() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 4)).astype(np.float32)
    truth = inputs @ np.array([1.0, -2.0, 0.5, 0.0], np.float32)
    source = from_arrays(inputs, truth - 1.0, name="s")
    target = from_arrays(inputs + 0.3, name="t")
    result = revgrad.adapt(
        *(seeded(lambda: Perceptron(outputs=1, width=16)), source, target),
        recipe="paper",
        layer="lower",
        domain_classifier=(6,),
        steps=300,
        learning_rate=Constant(0.02),
        adaptation_factor=Constant(0.1),
        progress=False,
    )
    assert result.result is not None
    assert result.result.last is not None
    assert result.result.last.source_accuracy is None
    assert result.result.last.source_loss is not None
    assert result.result.last.source_loss < 0.2 * float(np.var(truth))
    assert result.evaluate(source).loss < 0.2 * float(np.var(truth))


def test_source_only_sees_the_rows_that_adaptation_sees() -> None:
    source = vectors(30, 1, dtype=np.float64)
    one = Trainer(
        vector_trainer().adapter,
        source,
        objective=Supervised(),
        settings=Settings(steps=4, batch_size=10, device="cpu", momentum=0.0),
    )
    both = vector_trainer(objective=Supervised())
    one.fit()
    both.fit()
    assert_close(weights(one), weights(both))


def test_a_step_without_labels_does_not_count_as_a_loss_of_zero() -> None:
    records: list[TrainingRecord] = []

    class Keep(Callback):
        def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
            records.append(record)

    def train(every: int) -> list[TrainingRecord]:
        records.clear()
        source = vectors(30, 1, dtype=np.float64).keeping_labels(3)
        vector_trainer(source=source, steps=6, log_every=every, callbacks=[Keep()]).fit()
        return list(records)

    single = [r.label_loss for r in train(1)]
    known = [value for value in single if value is not None]
    assert 0 < len(known) < 6
    (whole,) = train(0)
    assert whole.label_loss == pytest.approx(sum(known) / len(known), rel=1e-9)


def test_a_network_that_returns_a_dict_trains_with_a_loss_of_ones_own() -> None:
    class TwoHeads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = torch.nn.Linear(4, 5)
            self.first, self.second = torch.nn.Linear(5, 3), torch.nn.Linear(5, 2)

        def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
            hidden = self.hidden(inputs).relu()
            return {"first": self.first(hidden), "second": self.second(hidden)}

    def loss(outputs: dict[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs["first"], labels)

    torch.manual_seed(0)
    network = TwoHeads()
    before = network.first.weight.detach().clone()
    source = revgrad.from_arrays(np.random.rand(20, 4), np.arange(20) % 3)
    target = revgrad.from_arrays(np.random.rand(20, 4))
    options = {
        "recipe": "paper",
        "layer": "hidden",
        "label_loss": loss,
        "steps": 3,
        "batch_size": 8,
        "progress": False,
    }
    network.double()
    with pytest.raises(InputError, match=r"returns a dict, not one tensor.*output='first'"):
        revgrad.adapt(network, source, target, **{**options, "label_loss": None})
    made = revgrad.adapt(network, source, target, **options)
    assert not torch.equal(network.first.weight, before.double())
    found = made.evaluate(source)
    with torch.no_grad():
        outputs = network(torch.as_tensor(made.preprocessing(source.batch(range(20)).inputs)))
    assert found.loss == pytest.approx(float(loss(outputs, torch.arange(20) % 3)))
    assert found.figures == {}
    with pytest.raises(InputError, match="no prediction function"):
        made.predict(source)


def test_hooks_of_the_optimiser_are_called() -> None:
    trainer, plain = vector_trainer(steps=3), vector_trainer(steps=3)
    seen: list[str] = []
    trainer.optimiser.register_step_pre_hook(lambda *_: seen.append("before"))
    trainer.optimiser.register_step_post_hook(lambda *_: seen.append("after"))
    trainer.fit()
    plain.fit()
    assert seen == ["before", "after"] * 3
    assert all(torch.equal(one, weights(plain)[name]) for name, one in weights(trainer).items())
