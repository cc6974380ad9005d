"""Runs for the page's tests: folders as a training leaves them, written and never trained."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from revgrad._seals import write_sealed
from revgrad.training.callbacks import EvaluationRecord, TrainingRecord
from revgrad.training.run import Provenance, RunConfig
from revgrad.training.settings import Settings

SOURCE_SAMPLES, TARGET_SAMPLES, SIDE = 36, 48, 12


@dataclass(frozen=True)
class Made:
    """What a run is to look like."""

    classes: tuple[str, ...] | None = ("round", "square", "star")
    steps: int = 40
    reached: int = 40
    failure: str | None = None
    evidence: bool = True
    images: bool = True
    held_out: bool = True
    tested: bool = True
    regression: bool = False
    gain: float = 2.0  # how far apart the target's classes are
    seed: int = 0
    source: str = "drawings"
    target: str = "photos"
    command: str = "revgrad train --source drawings --target photos -o runs/a"
    method: str = "adversarial"
    factor: float = 1.0


def make_run(folder: Path, made: Made | None = None, *, baseline: bool = False) -> Path:
    """A run's folder; with `baseline` a source-only run inside, on the same samples."""
    made = made or Made()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(asdict(config_of(made))))
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in metrics_of(made)))
    if made.failure is not None:
        write_sealed(folder / "failure.json", {"reason": made.failure})
    if made.evidence and not made.regression:
        write_evidence(folder / "evidence", made)
    if baseline:
        below = replace(made, gain=0.3, method="source-only", seed=made.seed + 1)
        make_run(folder / "baseline", below)
    return folder


def config_of(made: Made) -> RunConfig:
    def about(name: str, samples: int, labels: int) -> dict[str, object]:
        return {"name": name, "samples": samples, "labels": labels, "fingerprint": ""}

    domains = {"source": about(made.source, 360, 360)}
    if made.method != "source-only":
        domains["target"] = about(made.target, 480, 0)
    domains["held_out"] = about(f"{made.source} (held out)", SOURCE_SAMPLES, SOURCE_SAMPLES)
    return RunConfig(
        method=made.method,
        layer="pool2",
        settings={
            **Settings(steps=made.steps, seed=made.seed).describe(),
            "adaptation_factor": made.factor,
        },
        input_shape=[3, SIDE, SIDE],
        outputs=len(made.classes or "abc"),
        class_count=None if made.regression else len(made.classes or "abc"),
        task={"name": "regression" if made.regression else "classes"},
        classes=None if made.classes is None else list(made.classes),
        domain_classifier=[100],
        domains=domains,
        machine={"torch": "2.13.0", "device": "cpu", "threads": 1},
        provenance=Provenance("mnist", made.source, made.target, command=made.command),
        version="0.1.0",
    )


def metrics_of(made: Made) -> list[str]:
    """A training record every 5 steps, an evaluation every 10."""
    adversarial, lines = made.method != "source-only", []
    for step in range(5, made.reached + 1, 5):
        p = step / made.steps
        record = TrainingRecord(
            step,
            2.0 * math.exp(-3 * p),
            0.4 + 0.2 * p if adversarial else None,
            0.9 - 0.3 * p if adversarial else None,
            made.factor * p,
            0.01 / (1 + 10 * p) ** 0.75,
            step / 10,
        )
        lines.append(json.dumps({"kind": "training", **asdict(record)}))
        if step % 10 == 0:
            lines.append(json.dumps({"kind": "evaluation", **asdict(evaluation_of(made, step))}))
    return lines


def evaluation_of(made: Made, step: int) -> EvaluationRecord:
    p = step / made.steps
    source = None if made.regression else 0.7 + 0.25 * p
    target = 0.4 + 0.1 * made.gain * p if made.tested and not made.regression else None
    target_loss = 1.2 - 0.3 * p if made.tested else None
    return EvaluationRecord(step, source, 1 - 0.5 * p, target, target_loss, step / 10)


def write_evidence(folder: Path, made: Made) -> None:
    """Three classes far apart in the source, less so in the target; every image has one colour."""
    folder.mkdir()
    kinds = len(made.classes or "abc")
    rng = np.random.default_rng(0)  # the samples are the same whatever the seed of the training
    labels = rng.integers(kinds, size=SOURCE_SAMPLES)
    hidden = rng.integers(kinds, size=TARGET_SAMPLES)
    samples = {
        "source_indices": np.arange(SOURCE_SAMPLES) * 3,
        "target_indices": np.arange(TARGET_SAMPLES) * 7 + 1,
        "source_labels": labels,
    }
    if not made.held_out:
        samples["source_indices"] = np.zeros(0, np.int64)
        del samples["source_labels"]
    if made.images:
        if made.held_out:
            samples["source_inputs"] = colours(SOURCE_SAMPLES, 0)
        samples["target_inputs"] = colours(TARGET_SAMPLES, 1)
    save_file(samples, folder / "samples.safetensors")
    ended = made.reached >= made.steps and made.failure is None
    moments = {"start": (0.1, True)}
    for step in range(10, made.reached + 1, 10):
        moments[f"step-{step:08d}"] = (step / made.steps, False)
    if ended:
        moments["end"] = (1.0, True)
    for name, (progress, features) in moments.items():
        # at the end as at the last step
        noise = np.random.default_rng(round(1000 * progress) + made.seed)
        source = logits(labels, kinds, 4.0 * progress, noise)
        target = logits(hidden, kinds, made.gain * progress, noise)
        found = {"target_logits": target}
        if made.held_out:
            found["source_logits"] = source
        if features and made.held_out:
            lifting = np.random.default_rng(5).normal(size=(kinds, 8))
            found["source_features"] = (source @ lifting).astype(np.float32)
            found["target_features"] = (target @ lifting + 1).astype(np.float32)
        save_file(found, folder / f"{name}.safetensors")


def logits(labels: np.ndarray, kinds: int, size: float, rng: np.random.Generator) -> np.ndarray:
    found = rng.normal(size=(len(labels), kinds))
    found[np.arange(len(labels)), labels] += size
    return found.astype(np.float32)


def colours(samples: int, domain: int) -> np.ndarray:
    """(samples, SIDE, SIDE, 3): sample i is all of `colour(i, domain)`."""
    return np.stack([np.full((SIDE, SIDE, 3), colour(i, domain), np.uint8) for i in range(samples)])


def colour(sample: int, domain: int) -> tuple[int, int, int]:
    return 40 + 4 * sample % 200, 220 - 3 * sample % 180, 200 if domain else 40
