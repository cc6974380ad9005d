"""`recipe="auto"`: what it tries, hands back and writes; and that labels can't leak."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from revgrad import adapt, from_arrays, from_frame, from_series, load, verdict
from revgrad.auto import Ladder, data_kind, default_steps, ema_decay, hand_over
from revgrad.diagnostics.choice import (
    CHOICE,
    Candidate,
    Opinions,
    Signals,
    choose,
    nearest,
    opinions_of,
    read_choice,
    refusal,
    signals_of,
    support_of,
)
from revgrad.diagnostics.evidence import Evidence
from revgrad.domains.domain import Domain
from revgrad.errors import InputError, RunError
from revgrad.objectives import Losses
from revgrad.objectives.losses import mean_label_loss
from revgrad.preprocessing import Preprocessing
from revgrad.tasks.losses import cross_entropy
from revgrad.training.callbacks import Callback
from revgrad.training.run import BASELINE, CANDIDATES, Run
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
    assert [one.name for one in found.choice.candidates] == [
        *("vectors", "kernel-matching", "consistency", "consistency-moved"),
    ]
    # the folder is a run as any other, with what was handed back
    run = tmp_path / "run"
    assert read_choice(run) == found.choice
    again = load(run, network(5))
    assert digest(again.network.state_dict()) == digest(found.network.state_dict())
    assert found.choice.sentence in verdict(run).sentence
    for one in found.choice.candidates:
        assert (run / CANDIDATES / one.name / "result.json").exists()
    # the same call finds everything done, and hands back the same
    repeated = fitted(x, run)
    assert repeated.choice == found.choice
    assert digest(repeated.network.state_dict()) == digest(found.network.state_dict())


def test_uneven_coordinates_get_a_start_by_gradient_descent_too(tmp_path: Path) -> None:
    (own, y), (other, _) = blobs(200, 0), blobs(150, 1, shift=0.7)
    scale = np.array([1.0, 1.0, 0.05, 0.05], dtype=np.float32)
    given = {"preprocessing": Preprocessing.identity(), "layer": "3", "progress": False}
    short: Any = {"steps": 40, "batch_size": 32}
    run = tmp_path / "run"
    found = adapt(network(), (own * scale, y), other * scale, run=run, **given, **short)
    starts = [run / CANDIDATES / f"source-only-{name}" for name in ("adam", "descent")]
    made = [load(start, network(5)) for start in starts]
    kept = digest(load(run / BASELINE, network(5)).network.state_dict())
    assert kept in [digest(one.network.state_dict()) for one in made]
    assert found.baseline is not None
    assert digest(found.baseline.network.state_dict()) == kept
    again = adapt(network(), (own * scale, y), other * scale, run=run, **given, **short)
    assert again.choice == found.choice
    even = adapt(network(), (own, y), other, run=tmp_path / "even", **given, **short)
    assert not list((tmp_path / "even" / CANDIDATES).glob("source-only*"))
    assert even.baseline is not None


def test_poisoned_target_labels_change_nothing() -> None:
    x, y = blobs(150, 1, shift=0.7)
    poison = np.random.default_rng(3).integers(0, 3, len(y))
    made = [fitted(from_arrays(x, labels, name="target")) for labels in (y, poison)]
    assert made[0].choice == made[1].choice
    assert len({digest(one.network.state_dict()) for one in made}) == 1


def test_what_is_chosen_is_what_is_handed_back(tmp_path: Path) -> None:
    """Of a target that can be reached an adapted network, of noise the source-only one."""
    noise = np.random.default_rng(3).normal(size=(60, 4)).astype(np.float32)
    adapted = []
    for name, x in (("near", blobs(150, 1, shift=0.7)[0]), ("noise", 9 * noise)):
        found = fitted(x, tmp_path / name)
        assert found.choice is not None
        adapted.append(found.choice.is_adapted)
        place = f"{CANDIDATES}/{found.choice.chosen}" if adapted[-1] else "baseline"
        same = load(tmp_path / name / place, network(5)).network, found.network
        assert len({digest(one.state_dict()) for one in same}) == 1
        words = "source-only network is handed back"
        assert (words in found.choice.sentence) != adapted[-1]
    assert adapted == [True, False]


def test_a_stopped_one_goes_on(tmp_path: Path) -> None:
    x, _ = blobs(150, 1, shift=0.7)
    whole = fitted(x, tmp_path / "whole")

    class Stop(Exception):
        pass

    class Stopper(Callback):
        def on_step(self, trainer: Any, step: int) -> None:
            if trainer.config.method == "kernel-matching" and step == 17:  # in the second one
                raise Stop

    with pytest.raises(Stop):
        fitted(x, tmp_path / "stopped", callbacks=[Stopper()])
    (tmp_path / "stopped" / ".choice.json.1.part").touch()  # what a kill can leave
    with Run(tmp_path / "stopped").held(), pytest.raises(RunError, match="by another process"):
        fitted(x, tmp_path / "stopped")
    resumed = fitted(x, tmp_path / "stopped")
    assert not list((tmp_path / "stopped").rglob("*.part"))
    # names of folders apart, all is the same
    assert digest(resumed.network.state_dict()) == digest(whole.network.state_dict())
    assert resumed.choice == whole.choice


def test_what_was_there_stays_where_it_can_not_be_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a full disk, which says so: what was there before is kept."""
    for name, text in (("chosen", "new"), ("run", "old")):
        for file in ("config.json", "evidence/end.safetensors"):
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text)
    (tmp_path / "run" / "evidence" / "step-1.safetensors").touch()

    def full(source: Any, to: Any, *_: Any) -> None:
        to.write(source.read(1))
        raise OSError(errno.ENOSPC, "full")

    def texts() -> set[str]:
        files = (tmp_path / "run").rglob("*")
        return {path.read_text() for path in files if path.is_file()}

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(RunError, match=r"the disk is full: .*config\.json .* is kept"):
            hand_over(tmp_path / "chosen", tmp_path / "run")
    assert texts() == {"old", ""}
    hand_over(tmp_path / "chosen", tmp_path / "run")
    assert texts() == {"new"}


def test_mistakes_are_said(tmp_path: Path) -> None:
    x, y = blobs(60, 0)
    with pytest.raises(InputError, match="needs a target"):
        adapt(network(), (x, y), layer="3", progress=False)
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
    assert [rung.name for rung in ladder.rungs] == ["stabilised", "kernel-matching", "recommended"]
    assert [rung.fresh for rung in ladder.rungs] == [False, False, True]
    # half of a training each but for one, and a start has half of the samples: three trainings
    vectors = Ladder.of("vectors", network(), 1000, {})
    assert vectors.plainer is not None
    assert [rung.fresh for rung in vectors.rungs] == [True, False, False, False]
    steps = [rung.recipe.settings.steps for rung in vectors.rungs]
    assert sum(steps) + vectors.start.settings.steps / 2 <= 3 * vectors.start.settings.steps
    assert [rung.moved for rung in vectors.rungs] == [False, False, False, True]
    given = Ladder.of("vectors", network(), 1000, {"adaptation_factor": 0.5, "steps": 10})
    assert {rung.recipe.settings.at(1.0).adaptation_factor for rung in given.rungs} == {0.5}
    assert [rung.name for rung in Ladder.of("other", network(), 1000, {}).rungs] == [
        *("stabilised", "kernel-matching"),
    ]


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
    return Evidence(
        np.eye(2)[target] * 9.0,
        np.eye(2)[source] * 9.0,
        labels,
        np.ones((len(target), 3)),
        np.ones((len(source), 3)),
    )


def test_signals_say_what_they_mean() -> None:
    right = np.arange(40) % 2
    opinions = opinions_of(
        np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20), right[:, None] * 1.0, 2
    )
    start = evidence(np.where(np.arange(40) < 12, 1 - right, right), right)
    better, collapsed = evidence(right, right), evidence(np.zeros(40, int), right)
    forgotten = evidence(right, 1 - right)
    own = signals_of(start, start, [opinions], [better.target_logits])
    assert (own.gain, own.source_fall, own.differing) == (0.0, 0.0, 0.0)
    gained = signals_of(better, start, [opinions], [better.target_logits])
    assert gained.alike == 1.0
    assert signals_of(better, start, [opinions], [-better.target_logits]).alike == -1.0
    assert gained.cleaner > 0.9
    assert gained.differing == pytest.approx(0.3)
    assert gained.smoother > 0.1
    assert gained.agreed > 0.1
    best = sorted([gained.agreed, gained.smoother, gained.supported])[1:]
    assert gained.gain == pytest.approx(max(0.8 * sum(best), gained.differing / 2))
    # in two scales: the one that likes it less
    unlike = Opinions(1 - opinions.probabilities, opinions.neighbours)
    both = signals_of(better, start, [opinions, unlike], [])
    assert both.agreed < 0 < gained.agreed
    assert refusal(gained, better, start) == ""
    assert "collapse" in refusal(signals_of(collapsed, start, [opinions]), collapsed, start)
    assert "fell from 1.00 to 0.00" in refusal(gained, forgotten, start)
    assert "two of three views" in refusal(own, start, start)


def test_other_networks_speak_for_a_candidate_or_against_it() -> None:
    random = np.random.default_rng(0)
    own, others = random.integers(0, 3, 20), random.normal(size=(2, 20, 3))
    held = []
    for logits in others:
        for row, predicted in zip(logits, own, strict=True):
            held.append(np.exp(row[predicted]) / np.exp(row).sum())
    assert support_of(own, list(others)) == pytest.approx(np.mean(held))
    assert support_of(own, []) == 0.0


def test_a_judged_gain_must_exceed_chance() -> None:
    """The more, the fewer samples there are."""
    right = np.arange(4000) % 2
    for count, said in ((4000, ""), (40, "are needed")):
        start = evidence(right[:count], right[:count])
        after = evidence(
            np.where(np.arange(4000) % 8 == 0, 1 - right, right)[:count], right[:count]
        )
        opinions = Opinions(np.full((count, 2), 0.5), np.zeros((count, 0), np.int64))
        found = signals_of(after, start, [opinions], [after.target_logits])
        assert found.chance == pytest.approx(np.sqrt(0.125 / count))
        found = replace(found, gain=0.05, agreed=0.1)
        assert said in refusal(found, after, start)
        assert bool(said) == bool(refusal(found, after, start))


def test_two_of_three_views_must_speak_for_it() -> None:
    right = np.arange(400) % 2
    start, after = evidence(1 - right, right), evidence(right, right)
    base = Signals(0.3, 0.2, 0.2, 0.0, 0.0, 1.0, 0.5, 0.2, 0.2)
    assert base.views == (0.2, 0.2, 0.2)
    for one in ("agreed", "smoother", "supported"):
        assert refusal(replace(base, **{one: -0.1}), after, start) == ""
        for other in ("agreed", "smoother", "supported"):
            if other != one:
                against = replace(base, **{one: -0.1, other: -0.1})
                assert "two of three views" in refusal(against, after, start)
    alone = replace(base, agreed=-0.1, supported=-0.1)
    assert refusal(replace(alone, cleaner=0.8), after, start) == ""  # a clear cut
    assert "contradicts" in refusal(replace(alone, cleaner=0.8, alike=0.0), after, start)
    # others that hardly left the start are against all that goes far: outweighed, or not
    assert refusal(replace(base, supported=-0.3), after, start) == ""
    assert "outweigh" in refusal(replace(base, supported=-0.5), after, start)
    # the other networks and one view, but the two that share nothing with a network are against
    apart = replace(base, agreed=0.02, smoother=-0.05)
    assert "against it together" in refusal(apart, after, start)
    assert refusal(replace(apart, smoother=-0.01), after, start) == ""
    assert refusal(replace(apart, cleaner=0.8), after, start) == ""
    much = replace(base, agreed=-0.1, differing=0.4)
    assert "changes 40% of the predictions" in refusal(much, after, start)
    assert refusal(replace(much, agreed=0.1), after, start) == ""


def test_each_domain_in_its_own_scale() -> None:
    """A sensor that reads otherwise: in its own scale the target is told right."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    own, other = (labels[:, None] + 0.1 * random.normal(size=(200, 2)) for _ in range(2))
    moved = 3 * other + 5
    by_source, apart = (opinions_of(own, labels, moved, 2, apart=one) for one in (False, True))
    assert apart.held_of(labels) > 0.9
    assert by_source.held_of(labels) < 0.7


def test_neighbours_by_a_slow_computation() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(30, 2))
    opinions = opinions_of(points, random.integers(0, 3, 30), points, 3)
    scale = points.std(axis=0) + 0.1 * points.std(axis=0).mean() + 1e-12
    scaled = (points - points.mean(axis=0)) / scale
    said = random.integers(0, 3, 30)
    unlike = []
    for i in range(30):
        order = sorted(range(30), key=lambda j: np.linalg.norm(scaled[i] - scaled[j]))
        unlike += [said[i] != said[j] for j in order[1:11]]
    assert opinions.unlike_neighbours(said) == pytest.approx(np.mean(unlike))


def test_the_best_that_is_not_refused_is_chosen() -> None:
    base = Signals(0.05, 0.05, 0.0, 0.0, 0.0, 1.0, 0.5, 0.1)
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


class Ruin:
    """An objective that drives all predictions to one class, at any λ or where λ is large."""

    label_loss = staticmethod(cross_entropy)

    def __init__(self, least: float) -> None:
        self.least = least

    def __repr__(self) -> str:
        return f"Ruin({self.least})"

    def __call__(self, adapter: Any, batch: Any, factor: Any) -> Losses:
        predictions = adapter(batch)[1]
        loss = mean_label_loss(cross_entropy, predictions, batch)
        if float(factor) >= self.least:
            loss = cross_entropy(predictions, torch.zeros(len(predictions), dtype=torch.long))
        return Losses(loss, loss.detach(), None, None)


@pytest.mark.parametrize(("least", "named"), [(0.05, "bad-weaker"), (0.0, "signs of harm")])
def test_a_step_back_at_the_first_sign_of_harm(
    least: float, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """λ .3 ruins it; a tenth of that, from the last good weights, does not."""
    own = Ladder.of

    def ladder(*given: Any) -> Ladder:
        found = own(*given)
        bad = found.rungs[1]
        settings = replace(bad.recipe.settings, adaptation_factor=0.3, ema_decay=None)
        recipe = replace(bad.recipe, method=Ruin(least), settings=settings)
        return replace(found, rungs=(replace(bad, name="bad", recipe=recipe),))

    monkeypatch.setattr(Ladder, "of", staticmethod(ladder))
    x, _ = blobs(150, 1, shift=0.7)
    found = fitted(x, tmp_path / "run", learning_rate=0.05)
    [candidate] = found.choice.candidates
    assert candidate.name == "bad-weaker"
    assert named in f"{candidate.name} {candidate.refused}"
    assert (candidate.signals is None) == (least == 0.0)
    # the same call goes the same way again
    assert fitted(x, tmp_path / "run", learning_rate=0.05).choice == found.choice


@pytest.mark.parametrize("kind", ["vectors", "series"])
def test_raw_samples_are_tried_in_all_ways(kind: str) -> None:
    """What an encoder makes inputs of (a table's rows, series of lists) is moved like arrays."""

    def raw(seed: int, shift: float, labelled: bool) -> Domain:
        x, y = blobs(60, seed, shift)
        if kind == "series":
            return from_series([np.tile(one[:, None], 12) for one in x], y if labelled else None)
        frame = pd.DataFrame(x, columns=list("abcd")).assign(y=y)
        return from_frame(frame, "y") if labelled else from_frame(frame.drop(columns="y"))

    pd = pytest.importorskip("pandas")
    built = "series" if kind == "series" else network()
    layer = {} if kind == "series" else {"layer": "3"}
    domains = raw(0, 0.0, True), raw(1, 0.7, False)
    found = adapt(built, *domains, **layer, steps=8, batch_size=16, progress=False)
    assert found.choice is not None
    names = [one.name for one in found.choice.candidates]
    assert {kind, "consistency-moved"} <= set(names)
    assert not any("failed" in one.refused for one in found.choice.candidates)


def test_a_rare_class_that_the_held_out_sample_misses() -> None:
    """One sample in two hundred: what is drawn of the held-out part holds one class alone."""
    x = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    y = np.zeros(400, np.int64)
    y[::50] = 1
    held_out = from_arrays(x, np.arange(400) // 399)
    found = adapt(
        *(network(), (x, y), x + 0.1),
        layer="3",
        held_out=held_out,
        steps=4,
        batch_size=8,
        evidence_samples=20,
        progress=False,
    )
    assert found.choice is not None
