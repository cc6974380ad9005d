"""Source-free adaptation: pseudo-labels by hand, what stays, what moves, and resuming."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import revgrad
from revgrad import Adapted, Callback, adapt, adapt_without_source, from_arrays, load
from revgrad.cli import app
from revgrad.errors import InputError
from revgrad.source_free import pseudo_labels
from revgrad.training.session import Interrupted
from tiny import Perceptron, seeded, vectors

SHIFT = 2.0


def trained(**settings: object) -> Adapted:
    given = {"steps": 150, "optimiser": "adam", "learning_rate": 0.02, **settings}
    return adapt(
        seeded(Perceptron, 1),
        vectors(400, 1),
        layer="lower",
        recipe="paper",
        method="source-only",
        progress=False,
        **given,  # type: ignore[arg-type]
    )


def moved(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    domain = vectors(n, 2, SHIFT)
    inputs = domain.batch(range(n)).inputs
    assert isinstance(inputs, Tensor)
    assert domain.labels is not None
    return inputs.numpy(), domain.labels


def test_pseudo_labels_are_their_loops() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 4))
    chances = rng.dirichlet([0.5, 0.5, 0.5, 0.01], 12)
    chances[:, 3] *= 1e-6  # no sample is most likely of the last class
    points = []
    for row in features:
        extended = [*row, 1.0]
        length = sum(x * x for x in extended) ** 0.5
        points.append([x / length for x in extended])

    def nearest(weights: list[list[float]]) -> list[int]:
        found = []
        centres = {
            k: [sum(weights[i][k] * points[i][d] for i in range(12)) for d in range(5)]
            for k in range(3)
        }
        for point in points:
            angles = {
                k: sum(a * b for a, b in zip(point, c, strict=True)) / sum(x * x for x in c) ** 0.5
                for k, c in centres.items()
                if any(c)
            }
            found.append(max(angles, key=lambda k: angles[k]))
        return found

    first = nearest(chances.tolist())
    hard = [[float(k == label) for k in range(3)] for label in first]
    assert pseudo_labels(features, chances).tolist() == nearest(hard)
    with pytest.raises(InputError, match="one or more"):
        pseudo_labels(features[:0], chances[:0])


def test_the_label_predictor_stays_and_the_target_gains() -> None:
    start = trained()
    inputs, labels = moved()
    before = {name: value.clone() for name, value in start.network.state_dict().items()}
    adapted = adapt_without_source(
        start, inputs, rounds=5, steps=60, learning_rate=0.02, progress=False
    )
    for name, value in start.network.state_dict().items():
        assert torch.equal(value, before[name]), f"{name} of what was given has changed"
    after = adapted.network.state_dict()
    assert torch.equal(after["upper.weight"], before["upper.weight"])
    assert torch.equal(after["upper.bias"], before["upper.bias"])
    assert not torch.equal(after["lower.weight"], before["lower.weight"])
    first, second = (one.evaluate(inputs, labels).accuracy for one in (start, adapted))
    assert first is not None
    assert second is not None
    assert second > first + 0.02
    assert all(value.requires_grad for value in adapted.network.parameters())


def test_target_labels_are_not_read() -> None:
    start = trained()
    inputs, labels = moved(100)

    def weights(target: object) -> list[Tensor]:
        found = adapt_without_source(start, target, rounds=2, steps=10, progress=False)
        return list(found.network.parameters())

    first = weights(inputs)
    for one, other in zip(first, weights((inputs, 7 - labels)), strict=True):
        assert torch.equal(one, other)
    other_data = weights(inputs + 1.0)
    assert any(not torch.equal(a, b) for a, b in zip(first, other_data, strict=True))


class Stop(Callback):
    """Stops the second round in its middle."""

    def __init__(self) -> None:
        self.rounds = 0

    def on_start(self, trainer: revgrad.Trainer, step: int) -> None:
        self.rounds += 1

    def on_step(self, trainer: revgrad.Trainer, step: int) -> None:
        if self.rounds == 2 and step == 5:
            raise Interrupted(15, "stopped")


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    start = trained(run=tmp_path / "first")
    inputs, _ = moved(100)

    def second(folder: str, **given: object) -> Adapted:
        return adapt_without_source(
            load(tmp_path / "first", seeded(Perceptron, 9)),
            inputs,
            rounds=3,
            steps=10,
            checkpoint_every=4,
            run=tmp_path / folder,
            progress=False,
            **given,  # type: ignore[arg-type]
        )

    whole = second("whole")
    with pytest.raises(Interrupted):
        second("stopped", callbacks=[Stop()])
    resumed = second("stopped")
    again = load(tmp_path / "stopped", seeded(Perceptron, 9))
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name])
        assert torch.equal(value, again.network.state_dict()[name])
    assert np.array_equal(again.predict(inputs), whole.predict(inputs))
    assert start.run is not None


def test_mistakes_are_one_line() -> None:
    start = trained()
    inputs, _ = moved(20)
    with pytest.raises(InputError, match="at least one round"):
        adapt_without_source(start, inputs, rounds=0, progress=False)
    with pytest.raises(InputError, match="setting 'stepz'"):
        adapt_without_source(start, inputs, stepz=3, progress=False)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="empty"):
        adapt_without_source(start, inputs[:0], progress=False)
    top = adapt(
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.Identity()),
        vectors(40, 1),
        layer="2",
        recipe="paper",
        method="source-only",
        steps=2,
        progress=False,
    )
    with pytest.raises(InputError, match="no parameter lies behind the layer '2'"):
        adapt_without_source(top, inputs, progress=False)
    numbers = adapt(
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)),
        from_arrays(torch.randn(40, 4), np.random.default_rng(0).normal(size=40)),
        layer="0",
        recipe="paper",
        method="source-only",
        steps=2,
        progress=False,
    )
    with pytest.raises(InputError, match="one class a sample"):
        adapt_without_source(numbers, inputs, progress=False)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = tmp_path / "first"
    adapt(
        "perceptron",
        vectors(200, 1),
        recipe="paper",
        method="source-only",
        steps=60,
        run=first,
        progress=False,
    )
    inputs, _ = moved(80)
    np.savez(tmp_path / "target.npz", x=inputs)
    words = ["source-free", str(first), str(tmp_path / "target.npz"), "--rounds", "2"]
    words += ["--steps", "10", "--output", str(tmp_path / "second"), "--json"]
    app(words, standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert said["run"] == str(tmp_path / "second")
    assert sum(said["predicted"].values()) == 80
    app(["predict", str(tmp_path / "second"), str(tmp_path / "target.npz")], standalone_mode=False)
    assert len(capsys.readouterr().out.splitlines()) == 81
