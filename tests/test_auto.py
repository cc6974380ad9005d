"""`recipe="auto"`: what it tries, hands back and writes; and that labels can't leak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from revgrad import Run, adapt, from_arrays, load, verdict
from revgrad.auto import CANDIDATES, Ladder, data_kind, default_steps, ema_decay
from revgrad.diagnostics.choice import (
    CHOICE,
    Candidate,
    Signals,
    choose,
    harm,
    nearest,
    opinions_of,
    read_choice,
    refusal,
    signals_of,
)
from revgrad.diagnostics.evidence import Evidence
from revgrad.domains.domain import Domain
from revgrad.errors import InputError, RunError
from tiny import digest


def blobs(count: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in four dimensions, moved as a whole."""
    random = np.random.default_rng(seed)
    centres = 2.0 * np.eye(3, 4)
    y = random.integers(0, 3, count)
    x = centres[y] + 0.5 * random.normal(size=(count, 4)) + shift * np.array([1.0, -1.0, 0.5, 2.0])
    return x.astype(np.float32), y


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
        )


def fitted(target: Any, run: Path | None = None, **changes: Any) -> Any:
    return adapt(
        network(),
        blobs(200, 0),
        target,
        layer="3",
        recipe="auto",
        run=run,
        progress=False,
        **{"steps": 60, "batch_size": 32, **changes},
    )


def test_it_gains_or_hands_back_source_only(tmp_path: Path) -> None:
    x, y = blobs(150, 1, shift=0.7)
    found = fitted(x, tmp_path / "run")
    assert found.choice is not None
    assert found.baseline is not None
    gain = found.evaluate(x, y).accuracy - found.baseline.evaluate(x, y).accuracy
    assert gain >= 0
    assert {one.method for one in found.choice.candidates} == {"stabilised", "kernel-matching"}
    # the folder is a run as any other, with what was handed back
    run = tmp_path / "run"
    assert read_choice(run) == found.choice
    again = load(run, network(5))
    assert digest(again.network.state_dict()) == digest(found.network.state_dict())
    assert found.choice.sentence in verdict(run).sentence
    for one in found.choice.candidates:
        assert Run(run / CANDIDATES / one.name).config.method == one.method
    # the same call finds everything done, and hands back the same
    repeated = fitted(x, run)
    assert repeated.choice == found.choice
    assert digest(repeated.network.state_dict()) == digest(found.network.state_dict())


def test_poisoned_target_labels_change_nothing() -> None:
    x, y = blobs(150, 1, shift=0.7)
    poison = np.random.default_rng(3).integers(0, 3, len(y))
    made = [fitted(from_arrays(x, labels, name="target")) for labels in (y, poison)]
    assert made[0].choice == made[1].choice
    assert len({digest(one.network.state_dict()) for one in made}) == 1


def test_where_nothing_can_be_gained_source_only_comes_back() -> None:
    x, _ = blobs(150, 1)
    found = fitted(x)
    assert found.choice is not None
    if not found.choice.is_adapted:
        assert found.baseline is not None
        same = {digest(one.network.state_dict()) for one in (found, found.baseline)}
        assert len(same) == 1
        assert "source-only network is handed back" in found.choice.sentence


def test_a_stopped_one_goes_on(tmp_path: Path) -> None:
    x, _ = blobs(150, 1, shift=0.7)
    whole = fitted(x, tmp_path / "whole")

    class Stop(Exception):
        pass

    class Stopper:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def on_step(self, trainer: Any, step: int) -> None:
            if trainer.settings.steps == 30 and step == 17:  # in the first candidate
                raise Stop

    with pytest.raises(Stop):
        fitted(x, tmp_path / "stopped", callbacks=[Stopper()])
    resumed = fitted(x, tmp_path / "stopped")
    # names of folders apart, all is the same
    assert digest(resumed.network.state_dict()) == digest(whole.network.state_dict())
    assert resumed.choice == whole.choice


def test_mistakes_are_said(tmp_path: Path) -> None:
    x, y = blobs(60, 0)
    with pytest.raises(InputError, match="judges by predicted classes"):
        adapt(network(), (x, x[:, 0]), x, layer="3", recipe="auto", progress=False)
    with pytest.raises(InputError, match="held-out source"):
        adapt(network(), (x, y), x, layer="3", recipe="auto", held_out=0, progress=False)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        adapt(network(), (x, y), x, layer="3", recipe="auto", run=tmp_path, progress=False)
    paper = tmp_path / "paper"
    adapt(network(), (x, y), x, layer="3", recipe="paper", steps=2, run=paper, progress=False)
    with pytest.raises(RunError, match="another recipe than 'auto'"):
        adapt(network(), (x, y), x, layer="3", recipe="auto", run=paper, progress=False)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / CHOICE).write_text("[1]")
    with pytest.raises(RunError, match="can't be read as a choice"):
        read_choice(bad)
    assert read_choice(tmp_path / "nowhere") is None


def test_steps_follow_the_samples() -> None:
    assert default_steps(100, 128) == 1000
    assert default_steps(8000, 128) == 2000
    assert default_steps(1_000_000, 128) == 10_000
    assert ema_decay(300) == pytest.approx(0.98)
    assert ema_decay(100_000) == 0.998
    assert ema_decay(1) == 0.5


def test_what_is_tried_follows_the_kind_of_data() -> None:
    def kind(shape: tuple[int, ...], dtype: Any) -> str:
        return data_kind(from_arrays(np.zeros((4, *shape), dtype)))

    assert kind((8, 8, 3), np.uint8) == "images"
    assert kind((5,), np.float32) == "vectors"
    assert kind((3, 20), np.float32) == "series"
    ladder = Ladder.of("images", network(), 1000, {})
    assert [rung.name for rung in ladder.rungs] == [
        "stabilised-0.3",
        "kernel-matching-1",
        "recommended",
    ]
    assert [rung.fresh for rung in ladder.rungs] == [False, False, True]
    # half of a training each, and the start has half of the samples: twice a training in all
    vectors = Ladder.of("vectors", network(), 1000, {})
    assert vectors.between is not None
    steps = [rung.recipe.settings.steps for rung in (*vectors.rungs, vectors.between[0])]
    assert sum(steps) + vectors.start.settings.steps / 2 == 2 * vectors.start.settings.steps
    given = Ladder.of("vectors", network(), 1000, {"adaptation_factor": 0.5, "steps": 10})
    assert given.between is None
    assert {rung.recipe.settings.at(1.0).adaptation_factor for rung in given.rungs} == {0.5}


def test_opinions_by_a_slow_computation() -> None:
    """Spread among neighbours, point by point, in plain loops."""
    random = np.random.default_rng(0)
    own, labels = random.normal(size=(40, 3)), random.integers(0, 2, 40)
    other = random.normal(size=(25, 3)) + 0.3
    found = opinions_of(own, labels, other, 3).probabilities
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    spread = own.std(axis=0)
    scale = spread + 0.1 * spread.mean() + 1e-12
    a, b = (own - own.mean(axis=0)) / scale, (other - own.mean(axis=0)) / scale
    first = np.zeros((25, 3))
    for model in (LogisticRegression(C=0.1), KNeighborsClassifier(7)):
        first[:, :2] += model.fit(a, labels).predict_proba(b) / 2
    now = first
    for _ in range(20):
        following = np.zeros_like(now)
        for i in range(25):
            others = sorted(
                (j for j in range(25) if j != i), key=lambda j: np.linalg.norm(b[i] - b[j])
            )
            following[i] = 0.2 * first[i] + 0.8 * np.mean([now[j] for j in others[:10]], axis=0)
        now = following
    assert np.allclose(found, now, atol=1e-6)
    assert np.allclose(opinions_of(own, np.ones(40, int), other, 3).probabilities[:, 1], 1.0)
    assert nearest(b[:1], 10).shape == (1, 0)


def evidence(target: np.ndarray, source: np.ndarray) -> Evidence:
    labels = np.arange(len(source)) % 2
    return Evidence(np.eye(2)[target] * 9.0, np.eye(2)[source] * 9.0, labels)


def test_signals_say_what_they_mean() -> None:
    right = np.arange(20) % 2
    opinions = opinions_of(
        np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20), right[:, None] * 1.0, 2
    )
    start = evidence(np.where(np.arange(20) < 6, 1 - right, right), right)
    better, collapsed = evidence(right, right), evidence(np.zeros(20, int), right)
    forgotten = evidence(right, 1 - right)
    own = signals_of(start, start, opinions)
    assert (own.gain, own.source_fall, own.differing) == (0.0, 0.0, 0.0)
    gained = signals_of(better, start, opinions)
    assert gained.gain > 0.05
    assert gained.differing == pytest.approx(0.3)
    assert refusal(gained, own, 200) == ""
    assert "collapsed" in harm(signals_of(collapsed, start, opinions), own, 200)
    assert "fell by 100.0 points" in harm(signals_of(forgotten, start, opinions), own, 200)
    assert "are needed" in refusal(own, own, 200)


def test_the_best_that_is_not_refused_is_chosen() -> None:
    base = Signals(0.05, 0.05, 0.0, 0.0, 1.0, 0.5, 0.1)
    few = [
        Candidate("one", "stabilised", {}, base),
        Candidate("two", "kernel-matching", {}, replace(base, gain=0.2), "it collapsed"),
        Candidate("three", "kernel-matching", {}, replace(base, gain=0.1)),
        Candidate("four", "stabilised", {}, None, "it failed"),
    ]
    assert choose("vectors", few).chosen == "three"
    none = choose("vectors", [few[1], few[3]])
    assert not none.is_adapted
    assert "it collapsed" in none.sentence


def test_the_domains_are_those_of_the_user() -> None:
    """A wide input is described by fewer numbers; images by edges and colours."""
    from revgrad.diagnostics.choice import image_descriptors

    random = np.random.default_rng(0)
    images = random.integers(0, 255, (6, 12, 12, 3)).astype(np.uint8)
    found = image_descriptors(images)
    coarse = found[:, -51:-3].reshape(6, 4, 4, 3)
    assert np.allclose(coarse[2, 1, 3], images[2, 3:6, 9:12].mean(axis=(0, 1)) / 255)
    assert np.allclose(found[:, -3:], (images / 255).std(axis=(1, 2)))
    wide = opinions_of(
        random.normal(size=(30, 300)), np.arange(30) % 2, random.normal(size=(8, 300)), 2
    )
    assert wide.probabilities.shape == (8, 2)
    assert isinstance(from_arrays(images), Domain)
