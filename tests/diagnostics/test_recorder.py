"""What a run records for judgement: evidence of the same samples throughout, the best weights, why
it failed, the baseline beside it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from test_resume import StopAt

import revgrad
from revgrad import Constant, Domain, Run, Trainer, adapt, from_arrays, load
from revgrad.diagnostics import EvidenceRecorder, gather_evidence, read_evidence, score
from revgrad.diagnostics.recorder import EVIDENCE_FOLDER, WIDEST_INPUT, projected, thumbnails
from revgrad.errors import InputError, NonFiniteLossError, RunError
from revgrad.training import EvaluationRecord, Interrupted
from tiny import Images, checkpoint_digest, digest, image_trainer, images, seeded, weights_digest


def trained(folder: Path | None, target: Domain | None = None, **changes: Any) -> revgrad.Adapted:
    """The tiny image network by the front door; the same call is the same run."""
    values: dict[str, Any] = {
        "recipe": "paper",
        "steps": 12,
        "batch_size": 12,
        "device": "cpu",
        "log_every": 2,
        "evaluate_every": 4,
        "checkpoint_every": 4,
        "progress": False,
        "layer": "flat",
        "domain_classifier": (7,),
        **changes,
    }
    chosen = images(30, 2, shift=40) if target is None else target
    return adapt(seeded(Images), images(60, 1), chosen, run=folder, **values)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / EVIDENCE_FOLDER).iterdir())}


@pytest.mark.parametrize("policy", ["joint", "target"])
def test_evidence_is_what_the_network_says(policy: str) -> None:
    """Second computation: the network itself, sample by sample where BatchNorm lets it."""
    trainer = image_trainer(batch_norm=policy, steps=3)
    trainer.fit()
    held_out, target = images(20, 5), images(25, 6, shift=40)
    before = digest(trainer.adapter.state_dict())
    found = gather_evidence(trainer.adapter, held_out, target)
    assert digest(trainer.adapter.state_dict()) == before  # no statistics were kept

    network, adapter = trainer.adapter.network.eval(), trainer.adapter.eval()

    def said(domain: Domain, alone: bool) -> torch.Tensor:
        inputs = adapter.preprocessing(domain.batch(range(len(domain)), augment=False).inputs)
        if not alone:
            return torch.cat([network(row[None]) for row in inputs])
        hidden = network.conv(inputs)
        mean, var = (
            hidden.mean((0, 2, 3), True),
            hidden.var((0, 2, 3), unbiased=False, keepdim=True),
        )
        norm = (hidden - mean) / (var + network.norm.eps).sqrt()
        weight, bias = (v.reshape(1, -1, 1, 1) for v in (network.norm.weight, network.norm.bias))
        hidden = network.conv2(network.pool(torch.relu(norm * weight + bias)))
        hidden = torch.relu(network.fc(network.flat(hidden)))
        norm = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 1e-5).sqrt()
        return network.out(norm * network.norm2.weight + network.norm2.bias)

    with torch.no_grad():
        expected = said(target, False), said(held_out, policy == "target")
    np.testing.assert_allclose(found.target_logits, expected[0], atol=1e-5)
    np.testing.assert_allclose(found.source_logits, expected[1], atol=1e-5)  # type: ignore[arg-type]
    assert found.source_features is not None
    assert found.source_features.shape == (20, 16)
    assert found.source_domain_logits is not None
    assert len(found.source_domain_logits) == 20
    assert (found.source_labels == held_out.labels).all()


def test_a_run_records_start_every_evaluation_and_end(tmp_path: Path) -> None:
    adapted = trained(tmp_path / "run")
    kept = read_evidence(tmp_path / "run")
    assert kept is not None
    assert kept.end is not None
    assert kept.start is not None
    assert list(kept.by_step) == [4, 8, 12]
    target = images(30, 2, shift=40).subset(kept.target_indices)
    np.testing.assert_allclose(kept.end.target_logits, adapted.outputs(target), atol=1e-5)
    np.testing.assert_allclose(kept.by_step[12].target_logits, kept.end.target_logits)
    assert [len(logits) for logits in kept.end.checkpoint_logits] == [30, 30]
    assert not np.allclose(kept.start.target_logits, kept.end.target_logits)
    assert kept.end.target_domain_logits is not None
    assert kept.start.target_domain_logits is None
    assert kept.target_images is not None
    pixels = target.batch(range(30), augment=False).inputs.permute(0, 2, 3, 1)  # type: ignore[union-attr]
    assert (kept.target_images == pixels.numpy()).all()


def test_samples_are_drawn_once_whatever_the_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        trained(tmp_path / str(seed), seed=seed, evidence_samples=10)
    one, other = (read_evidence(tmp_path / str(seed)) for seed in (0, 1))
    assert one is not None
    assert other is not None
    assert one.end is not None
    assert len(one.target_indices) == 10 == len(one.end.target_logits)
    assert (one.target_indices == other.target_indices).all()


def test_target_labels_change_nothing(tmp_path: Path) -> None:
    plain = images(30, 2, shift=40)
    poisoned = from_arrays(
        plain.batch(range(30), augment=False).inputs.permute(0, 2, 3, 1).numpy(),  # type: ignore[union-attr]
        np.zeros(30, dtype=np.int64),
    )
    for name, target in (("plain", plain), ("poisoned", poisoned)):
        trained(tmp_path / name, target, return_weights="best", test=target)
    assert contents(tmp_path / "plain") == contents(tmp_path / "poisoned")
    assert checkpoint_digest(tmp_path / "plain") == checkpoint_digest(tmp_path / "poisoned")


@pytest.mark.parametrize("step", [3, 4, 9])
def test_a_resumed_run_keeps_the_same_bytes(tmp_path: Path, step: int) -> None:
    changes = {"return_weights": "best", "ema_decay": 0.9, "batch_norm": "target"}
    trained(tmp_path / "whole", **changes)
    with pytest.raises(Interrupted):
        trained(tmp_path / "stopped", callbacks=[StopAt(step, signal.SIGTERM)], **changes)
    # as a kill between an evaluation and the next checkpoint leaves it
    later = tmp_path / "stopped" / EVIDENCE_FOLDER / "step-00000011.safetensors"
    shutil.copy(later.with_name("start.safetensors"), later)
    trained(tmp_path / "stopped", **changes)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert checkpoint_digest(tmp_path / "stopped") == checkpoint_digest(tmp_path / "whole")


def test_keeping_evidence_changes_no_weight(tmp_path: Path) -> None:
    with_evidence = trained(tmp_path / "with")
    without = trained(tmp_path / "without", evidence_samples=0)
    assert not (tmp_path / "without" / EVIDENCE_FOLDER).exists()
    assert weights_digest(with_evidence.network) == weights_digest(without.network)


class Liking:
    """A scorer that likes one step best; and remembers the weights then."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.weights = ""

    def __repr__(self) -> str:
        return f"likes {self.step}"

    def __call__(self, trainer: Trainer, step: int) -> float:
        if step == self.step:
            with trainer.as_returned():
                self.weights = weights_digest(trainer.adapter.network)
        return float("nan") if step < 3 else -abs(step - self.step)


@pytest.mark.parametrize("average", [None, 0.9])
def test_the_best_weights_are_handed_back_and_loaded(tmp_path: Path, average: float | None) -> None:
    liking = Liking(6)
    trainer = image_trainer(
        tmp_path / "run", held_out=images(20, 5), steps=10, evaluate_every=2, ema_decay=average
    )
    trainer.scorer = liking
    outcome = trainer.fit()
    assert weights_digest(trainer.adapter.network) == liking.weights
    assert outcome.last is not None
    assert outcome.last.step == 6
    assert outcome.last.score == 0
    scores = [r.score for r in Run(tmp_path / "run").records() if isinstance(r, EvaluationRecord)]
    assert scores[1:] == [-2, 0, -2, -4]
    assert np.isnan(scores[0])
    restored = load(tmp_path / "run", seeded(Images, 7))
    assert weights_digest(restored.network) == liking.weights


def test_best_by_a_score_is_the_best_of_what_was_kept(tmp_path: Path) -> None:
    """Second computation: the score of every kept evaluation."""
    trained(tmp_path / "run", return_weights="best", score="negative-entropy")
    kept = read_evidence(tmp_path / "run")
    assert kept is not None
    assert kept.end is not None
    scores = {step: score("negative-entropy", e) for step, e in kept.by_step.items()}
    best = max(scores, key=lambda step: scores[step])
    np.testing.assert_allclose(kept.end.target_logits, kept.by_step[best].target_logits, atol=1e-6)


def test_another_score_or_rhythm_is_another_run(tmp_path: Path) -> None:
    trained(tmp_path / "run", return_weights="best")
    with pytest.raises(RunError, match="score"):
        trained(tmp_path / "run", return_weights="best", score="negative-entropy")
    with pytest.raises(RunError, match="evaluate_every"):
        trained(tmp_path / "run", return_weights="best", evaluate_every=3)


def test_a_baseline_is_the_source_only_run(tmp_path: Path) -> None:
    adapted = trained(tmp_path / "run", baseline=True, batch_norm="target")
    alone = trained(tmp_path / "alone", method="source-only", batch_norm="joint")
    assert adapted.baseline is not None
    assert weights_digest(adapted.baseline.network) == weights_digest(alone.network)
    kept = read_evidence(tmp_path / "run")
    other = read_evidence(tmp_path / "alone")
    assert kept is not None
    assert kept.end is not None
    assert other is not None
    assert other.end is not None
    assert kept.end.source_only_logits is not None
    np.testing.assert_array_equal(kept.end.source_only_logits, other.end.target_logits)
    again = trained(tmp_path / "run", baseline=True, batch_norm="target")  # done: nothing happens
    assert again.baseline is not None
    assert weights_digest(again.network) == weights_digest(adapted.network)


def test_a_baseline_elsewhere_must_be_of_the_same_samples(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    trained(tmp_path / "other", evidence_samples=9, method="source-only")
    with pytest.raises(RunError, match="other target samples"):
        read_evidence(tmp_path / "run", baseline=tmp_path / "other")


def test_why_a_run_failed_is_kept_until_it_goes_on(tmp_path: Path) -> None:
    bad = {"learning_rate": Constant(1e9), "checkpoint_every": 1}
    with pytest.raises(NonFiniteLossError):
        trained(tmp_path / "run", **bad)
    assert "not finite" in (Run(tmp_path / "run").failure or "")
    kept = read_evidence(tmp_path / "run")
    assert kept is not None
    assert kept.end is None
    assert kept.start is not None
    with pytest.raises(NonFiniteLossError):
        trained(tmp_path / "run", **bad)
    trained(tmp_path / "good")
    assert Run(tmp_path / "good").failure is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"return_weights": "first"}, "return_weights is last or best, not 'first'"),
        ({"stepz": 3}, "no setting 'stepz'; did you mean 'steps'"),
        ({"evidence_samples": -1}, "evidence_samples must be 0 or more, not -1"),
        ({"return_weights": "best", "score": "entropi"}, "entropi"),
        (
            {"return_weights": "best", "score": "bound", "held_out": 0},
            "needs held-out source samples",
        ),
    ],
)
def test_mistakes_get_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        trained(tmp_path / "run", **changes)


def test_damaged_evidence_gets_one_line(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    assert read_evidence(tmp_path) is None
    end = tmp_path / "run" / EVIDENCE_FOLDER / "end.safetensors"
    whole = end.read_bytes()
    end.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        RunError, match=r"end.safetensors can't be used as evidence: it was altered or cut short"
    ):
        read_evidence(tmp_path / "run")
    save_file({"surprise": np.zeros(3)}, end)
    with pytest.raises(RunError, match="it holds 'surprise'"):
        read_evidence(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / EVIDENCE_FOLDER)
    assert read_evidence(tmp_path / "run") is None


def test_vectors_and_numbers() -> None:
    """Inputs that are no images have no pictures; a recorder without a run judges all the same."""
    vectors = from_arrays(np.zeros((3, 4), dtype=np.float32))
    assert thumbnails(vectors) is None
    assert (EvidenceRecorder(None, vectors)._target_inputs == np.zeros((3, 4))).all()
    wide = from_arrays(np.ones((3, WIDEST_INPUT + 1), dtype=np.float32))
    assert EvidenceRecorder(None, wide)._target_inputs is not None
    words = from_arrays(np.zeros((3, 7), dtype=np.int64))  # token ids are no measurements
    assert EvidenceRecorder(None, words)._target_inputs is None
    recorder = EvidenceRecorder(images(20, 5), words, score="second-opinion")
    with pytest.raises(InputError, match="needs images or numbers as inputs"):
        recorder.require_score()
    recorder = EvidenceRecorder(images(20, 5), images(25, 6), samples=10)
    trainer = image_trainer(steps=4, evaluate_every=2)
    trainer.scorer, trainer.callbacks = recorder, [recorder]
    trainer.fit()
    assert recorder.latest is not None
    assert recorder.latest.target_logits.shape == (10, 3)


def test_series_are_recorded_as_they_are_and_wide_inputs_projected() -> None:
    rng = np.random.default_rng(0)
    series = rng.normal(size=(4, 6, 20)).astype(np.float32)
    assert (EvidenceRecorder(None, from_arrays(series))._target_inputs == series).all()
    wide = rng.normal(size=(30, 5000)).astype(np.float32)
    found = projected(torch.from_numpy(wide)).double().numpy()
    random, slow = np.random.default_rng(0), np.zeros((30, 256))
    for start in (0, 4096):  # second computation: the same signs, in float64, number by number
        part = wide[:, start : start + 4096].astype(np.float64)
        signs = random.integers(0, 2, (part.shape[1], 256), dtype=np.int8).astype(np.float64)
        slow += np.einsum("ij,jk->ik", part, 2 * signs - 1) / 16
    assert np.allclose(found, slow, atol=1e-3)
    lengths = np.linalg.norm(found, axis=1) / np.linalg.norm(wide, axis=1)
    assert 0.8 < lengths.min() <= lengths.max() < 1.2


def test_samples_trained_on_are_recorded_where_held_out_ones_are_few(tmp_path: Path) -> None:
    trained(tmp_path / "run", evidence_samples=20)
    kept = read_evidence(tmp_path / "run")
    assert kept is not None
    assert kept.end is not None
    assert kept.end.source_labels is not None
    assert kept.end.training_labels is not None
    assert kept.end.training_inputs is not None
    assert len(kept.end.source_labels) + len(kept.end.training_labels) == 20
    whole = images(60, 1)
    inputs = whole.batch(np.arange(60)).inputs
    assert isinstance(inputs, torch.Tensor)
    known = {one.tobytes() for one in inputs.permute(0, 2, 3, 1).numpy()}
    assert all(
        one[..., :1].tobytes() in known or one.tobytes() in known
        for one in kept.end.training_inputs
    )


def test_held_out_samples_of_one_class_are_no_evidence_and_no_error(tmp_path: Path) -> None:
    source = images(60, 1)
    one_class = source.subset(np.flatnonzero(np.asarray(source.labels) == 1))
    trained(tmp_path / "run", held_out=one_class)
    kept = read_evidence(tmp_path / "run")
    assert kept is not None
    assert kept.end is not None
    assert kept.end.source_logits is None
    assert len(kept.source_indices) == 0


def test_thumbnails_are_small_and_colourful() -> None:
    grey = np.arange(2 * 100 * 50, dtype=np.int64).reshape(2, 100, 50) % 256
    found = thumbnails(from_arrays(grey.astype(np.uint8)))
    assert found is not None
    assert found.shape == (2, 48, 24, 3)
    assert found.dtype == torch.uint8
    assert (found[..., 0] == found[..., 2]).all()
