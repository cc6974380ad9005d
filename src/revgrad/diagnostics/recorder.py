"""Evidence files of a run: recorded while it trains, read by `verdict` and `report`.

RUN/evidence/ holds safetensors of the same samples of both domains throughout: samples (their
indices, inputs and the source's labels), start, step-…, end.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from revgrad._distributed import from_first_process, rank
from revgrad._seals import SEAL_METADATA, check_tensors, sealed_tensors
from revgrad._system import disk_errors, read_file, write_atomically
from revgrad.diagnostics.evidence import (
    ClassLogits,
    Evidence,
    NotFiniteError,
    gather_evidence,
)
from revgrad.diagnostics.scores import RECOMMENDED_SCORE, SCORES
from revgrad.diagnostics.scores import score as score_of
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.errors import InputError, RunError, unknown
from revgrad.evaluation import chunks
from revgrad.training.callbacks import Callback, EvaluationRecord, TrainingRecord, TrainingResult
from revgrad.training.run import BASELINE

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

#: In a run's folder.
EVIDENCE_FOLDER = "evidence"
#: Samples of each domain that are recorded at most, unless said.
EVIDENCE_SAMPLES = 2000
#: Inputs that are numbers, and features, are recorded as they are up to so many a sample; of more,
#: random projections to this many are, which keep distances and what is linear in them.
WIDEST_INPUT, WIDEST_FEATURES, PROJECTED = 1500, 256, 256
#: Longest side of a recorded image, in pixels.
THUMBNAIL_SIDE = 48

_SAMPLES, _START, _STEP, _END = "samples", "start", "step-", "end"
#: Tensors of every evaluation's file; those of start and end hold more.
_LOGITS = ("target_logits", "source_logits", "target_changed_logits")
_FEATURES = ("target_features", "source_features")
_DOMAIN_LOGITS = ("target_domain_logits", "source_domain_logits")
#: Tensors of the file of samples.
_INPUTS = ("source_inputs", "target_inputs")
_TRAINING = ("training_inputs", "training_labels")
_DESCRIBED = (
    *("source_indices", "target_indices", "target_parts", "source_labels"),
    *_INPUTS,
    *_TRAINING,
)


@dataclass(frozen=True, eq=False)
class RecordedEvidence:
    """Evidence of one run, on the same n source and m target samples throughout.

    Attributes
    ----------
    start
        of the network before the first step: logits and features
    end
        of the weights that were handed back: everything; with `source_only_logits`
        where the run has a baseline, and `checkpoint_logits` of the evaluations before
    by_step
        at each evaluation, logits only, oldest first
    source_indices, target_indices
        (n,), (m,): their places in the held-out source and in the target
    source_inputs, target_inputs
        (·, height, width, 3) uint8 images, small, or (·, …) numbers; None for inputs that are
        neither
    target_parts
        (m,): of several targets, which one each sample is of; None where there is one
    """

    source_indices: np.ndarray
    target_indices: np.ndarray
    start: Evidence | None = None
    end: Evidence | None = None
    by_step: dict[int, Evidence] = field(default_factory=dict)
    source_inputs: np.ndarray | None = None
    target_inputs: np.ndarray | None = None
    target_parts: np.ndarray | None = None

    @property
    def source_images(self) -> np.ndarray | None:
        """The source's images, where it is of images."""
        return _if_images(self.source_inputs)

    @property
    def target_images(self) -> np.ndarray | None:
        """The target's images, where it is of images."""
        return _if_images(self.target_inputs)

    @property
    def last(self) -> Evidence | None:
        """The end's; of a run that did not get there, that of its last evaluation."""
        if self.end is not None or not self.by_step:
            return self.end
        return next(reversed(self.by_step.values()))


def read_evidence(
    folder: Path | str, *, baseline: Path | str | None = None
) -> RecordedEvidence | None:
    """The evidence of a run; None where it recorded none.

    Parameters
    ----------
    baseline
        the source-only run to take `source_only_logits` of; by default RUN/baseline
    """
    run = Path(folder)
    where = run / EVIDENCE_FOLDER
    described = _tensors_of(where, _SAMPLES)
    if described is None:
        return None
    steps = sorted(where.glob(f"{_STEP}*.safetensors"))
    by_step = {_step_of(path): _evidence_of(where, path.stem, described) for path in steps}
    recorded = RecordedEvidence(
        described["source_indices"],
        described["target_indices"],
        _evidence_of(where, _START, described),
        _evidence_of(where, _END, described),
        {step: evidence for step, evidence in by_step.items() if evidence is not None},
        described.get("source_inputs"),
        described.get("target_inputs"),
        described.get("target_parts"),
    )
    return _with_others_logits(recorded, run / BASELINE if baseline is None else Path(baseline))


class EvidenceRecorder(Callback):
    """Writes a run's evidence as it trains; `latest` is that of the last evaluation.

    Parameters
    ----------
    held_out, target
        as the trainer's; the target's labels are never read
    training
        the source that is trained on: where held-out samples are few, second
        opinions are made of some of its inputs and labels too
    samples
        of each domain at most, drawn once, whatever the seed of the training
    parts
        of several targets that `target` joins, how many samples each has: as many of each are
        drawn as can be
    score
        by which of `SCORES` it judges as a trainer's `scorer`
    class_logits
        the network's outputs → (n, classes) logits (`Task.class_logits`)
    """

    every_process = True

    def __init__(
        self,
        held_out: Domain | None,
        target: Domain,
        *,
        training: Domain | None = None,
        samples: int = EVIDENCE_SAMPLES,
        score: str = RECOMMENDED_SCORE,
        class_logits: ClassLogits = lambda outputs: outputs,
        parts: Sequence[int] = (),
    ) -> None:
        if samples < 1:
            raise InputError(f"evidence needs a sample of each domain at least, not {samples}")
        source_indices = drawn_indices(0 if held_out is None else len(held_out), samples)
        self.held_out = None if held_out is None else held_out.subset(source_indices)
        # of a few samples, or of one class, nothing can be said: then there is the target alone
        if self.held_out is not None and not has_classes(self.held_out):
            self.held_out, source_indices = None, source_indices[:0]
        target_indices, target_parts = drawn_indices(len(target), samples), None
        if len(parts) > 1:
            target_indices, target_parts = _drawn_of_parts(parts, samples)
        self.target = target.without_labels().subset(target_indices)
        self.score = score
        self.class_logits = class_logits
        self._source_inputs = None if self.held_out is None else _recorded_inputs(self.held_out)
        self._target_inputs = _recorded_inputs(self.target)
        self._training = _training_samples(self.held_out, training, samples)
        described = {
            **self._training,
            "source_indices": source_indices,
            "target_indices": target_indices,
            "target_parts": target_parts,
            "source_labels": None if self.held_out is None else self.held_out.labels,
            "source_inputs": self._source_inputs,
            "target_inputs": self._target_inputs,
        }
        self._described = {
            name: torch.from_numpy(np.asarray(value))
            for name, value in described.items()
            if value is not None
        }
        self.latest: Evidence | None = None
        self._step = -1
        self._judged = False  # whether a domain classifier is trained

    def require_score(self) -> None:
        """Refuse a score that these samples can't give, before anything is trained."""
        if self.score not in SCORES:
            raise unknown("score", self.score, SCORES)
        needs = SCORES[self.score].needs
        if self.held_out is None and any(name.startswith("source_") for name in needs):
            raise InputError(
                f"the score '{self.score}' needs held-out source samples of two classes or more; "
                "held_out=0.1 would do, or score='nuclear-norm'"
            )
        if "target_inputs" in needs and self._target_inputs is None:
            raise InputError(
                f"the score '{self.score}' needs images or numbers as inputs; "
                "score='estimated-accuracy' does without"
            )

    def __repr__(self) -> str:
        return f"score {self.score} of {len(self.target)} target samples"

    def __call__(self, trainer: Trainer, step: int) -> float:
        """The score of what would be handed back now; not a number where it can't be had."""
        self._look(trainer, step)
        return float("nan") if self.latest is None else score_of(self.score, self.latest)

    def on_start(self, trainer: Trainer, step: int) -> None:
        if trainer.run is None:
            return
        folder = trainer.run.folder / EVIDENCE_FOLDER
        if step > 0:
            self._refuse_other_samples(folder)
        if rank() == 0:
            with disk_errors(folder):
                folder.mkdir(exist_ok=True)
                for path in folder.iterdir():  # what was written after the checkpoint is made again
                    if path.stem == _END or _step_of(path) > step or path.suffix == ".part":
                        path.unlink()
        if step == 0:
            self._write(trainer, _SAMPLES, self._described)
            self._look(trainer, 0)
            self._record(trainer, _START, (*_LOGITS, *_FEATURES))
        records = trainer.run.records() if rank() == 0 else []
        self._judged = from_first_process(
            any(
                isinstance(record, TrainingRecord) and record.domain_accuracy is not None
                for record in records
            )
        )

    def _refuse_other_samples(self, folder: Path) -> None:
        """Evidence of a run that is resumed must be of the same samples throughout."""
        before = _tensors_of(folder, _SAMPLES) or {}
        for name in ("source_indices", "target_indices"):
            then, now = len(before.get(name, ())), len(self._described[name])
            if then != now or not np.array_equal(before[name], self._described[name].numpy()):
                raise RunError(
                    f"{folder.parent} began with evidence of {then} {name.split('_')[0]} samples "
                    f"and can't go on with {now}: the same evidence_samples (--evidence-samples) "
                    "resume it"
                )

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        self._judged = record.domain_accuracy is not None

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        self._look(trainer, record.step)
        self._record(trainer, f"{_STEP}{record.step:08d}", _LOGITS)

    def on_end(self, trainer: Trainer, result: TrainingResult) -> None:
        self._step = -1  # the weights handed back need not be the last
        self._look(trainer, result.steps, returned=True)
        self._record(trainer, _END, (*_LOGITS, *_FEATURES, *_DOMAIN_LOGITS))

    def _look(self, trainer: Trainer, step: int, *, returned: bool = False) -> None:
        """`latest` of this step, gathered once."""
        if step == self._step:
            return
        self._step, self.latest = step, None
        # at the end the weights handed back are in the network already
        with nullcontext() if returned else trainer.as_returned(), suppress(NotFiniteError):
            self.latest = self._gathered(trainer)

    def _gathered(self, trainer: Trainer) -> Evidence:
        found = gather_evidence(
            trainer.adapter,
            self.held_out,
            self.target,
            # of several adversaries the first may tell another attribute, or more domains
            domain_logits=self._judged and not trainer.adversaries,
            class_logits=self.class_logits,
        )
        if self._source_inputs is None or self._target_inputs is None:
            return found
        return replace(
            found,
            source_inputs=self._source_inputs,
            target_inputs=self._target_inputs,
            training_inputs=self._training.get("training_inputs"),
            training_labels=self._training.get("training_labels"),
        )

    def _record(self, trainer: Trainer, name: str, fields: tuple[str, ...]) -> None:
        if self.latest is None:
            return
        values = {one: getattr(self.latest, one) for one in fields}
        tensors = {
            one: torch.from_numpy(np.asarray(value, dtype=np.float32))
            for one, value in values.items()
            if value is not None
        }
        for one in _FEATURES:
            if one in tensors and tensors[one].shape[1] > WIDEST_FEATURES:
                tensors[one] = projected(tensors[one])
        self._write(trainer, name, tensors)

    def _write(self, trainer: Trainer, name: str, tensors: dict[str, Tensor]) -> None:
        from safetensors.torch import save

        if trainer.run is not None and rank() == 0:
            path = trainer.run.folder / EVIDENCE_FOLDER / f"{name}.safetensors"
            write_atomically(path, sealed_tensors(save(tensors, SEAL_METADATA)))


def thumbnails(domain: Domain, side: int = THUMBNAIL_SIDE) -> Tensor | None:
    """(n, height, width, 3) uint8 of every image, none larger than `side`; None for no images."""
    if not len(domain) or not domain.is_images:
        return None
    parts = []
    for inputs in chunks(domain, torch.device("cpu")):
        assert isinstance(inputs, Tensor)  # `is_images` says so
        parts.append(_small(inputs, side))
    return torch.cat(parts)


def _small(images: Tensor, side: int) -> Tensor:
    """(n, channels, h, w) → (n, h, w, 3), both uint8."""
    values = images.float()
    longest = max(values.shape[2:])
    if longest > side:
        size = [max(round(length * side / longest), 1) for length in values.shape[2:]]
        values = interpolate(values, size=size, mode="bilinear", antialias=True)
    colour = values[:, :3] if values.shape[1] >= 3 else values[:, :1].expand(-1, 3, -1, -1)
    return colour.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def projected(values: Tensor) -> Tensor:
    """(n, d) → (n, PROJECTED): the same random signs for the same d, scaled so that distances stay
    what they are on average (Johnson and Lindenstrauss 1984; Achlioptas 2003)."""
    rng, found = np.random.default_rng(0), torch.zeros(len(values), PROJECTED)
    for start in range(0, values.shape[1], 4096):
        part = values[:, start : start + 4096]
        signs = rng.integers(0, 2, (part.shape[1], PROJECTED), dtype=np.int8) * 2 - 1
        found += part @ torch.from_numpy(signs.astype(np.float32))
    return found / float(np.sqrt(PROJECTED))


def _drawn_of_parts(parts: Sequence[int], samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices into several domains, one after the other, and which domain each is of."""
    each = max(samples // len(parts), 1)
    drawn = [drawn_indices(length, each) for length in parts]
    starts = np.cumsum([0, *parts[:-1]])
    indices = [one + start for one, start in zip(drawn, starts, strict=True)]
    numbers = np.repeat(np.arange(len(parts)), [len(one) for one in drawn])
    return np.concatenate(indices), numbers


def _recorded_inputs(domain: Domain) -> np.ndarray | None:
    """The inputs as evidence holds them; None where they are neither images nor numbers."""
    images = thumbnails(domain)
    if images is not None:
        found: np.ndarray = images.numpy()
        return found
    shape = domain.shape
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        return None
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    if not isinstance(inputs, Tensor) or inputs.ndim < 2:
        return None
    if not (inputs.is_floating_point() and bool(torch.isfinite(inputs).all())):
        return None
    values = inputs.float().cpu()
    found = (projected(values.flatten(1)) if values[0].numel() > WIDEST_INPUT else values).numpy()
    return found


def _training_samples(
    held_out: Domain | None, training: Domain | None, samples: int
) -> dict[str, np.ndarray]:
    """Inputs and labels of samples that are trained on, as many as the held-out ones lack."""
    if held_out is None or training is None or len(held_out) >= samples:
        return {}
    count = training.labelled_count
    chosen = drawn_indices(count, samples - len(held_out))
    if count < len(training):
        chosen = np.flatnonzero(training.labelled)[chosen]
    if not len(chosen):
        return {}
    inputs = _recorded_inputs(training.subset(chosen))
    return (
        {}
        if inputs is None
        else dict(zip(_TRAINING, (inputs, np.asarray(training.labels_at(chosen))), strict=True))
    )


def has_classes(held_out: Domain) -> bool:
    """Whether the labels are of two classes at least."""
    return held_out.labels is not None and len(np.unique(held_out.labels)) > 1


def _with_others_logits(recorded: RecordedEvidence, baseline: Path) -> RecordedEvidence:
    """The end's evidence with what other files know of the same target samples."""
    if recorded.end is None:
        return recorded
    returned = recorded.end.target_logits  # evaluated as one of the steps: the last, or the best
    every = (evidence.target_logits for evidence in recorded.by_step.values())
    earlier = itertools.takewhile(lambda logits: not np.allclose(logits, returned), every)
    end = replace(recorded.end, checkpoint_logits=tuple(earlier))
    other = read_evidence(baseline) if (baseline / EVIDENCE_FOLDER).exists() else None
    if other is not None and other.end is not None:
        if not np.array_equal(other.target_indices, recorded.target_indices):
            raise RunError(
                f"{baseline} recorded evidence of other target samples than the run: train both "
                "on the same target"
            )
        end = replace(end, source_only_logits=other.end.target_logits)
    return replace(recorded, end=end)


def _evidence_of(folder: Path, name: str, described: Mapping[str, np.ndarray]) -> Evidence | None:
    tensors = _tensors_of(folder, name)
    if tensors is None or "target_logits" not in tensors:
        return None
    if "source_logits" in tensors and "source_labels" in described:
        tensors["source_labels"] = described["source_labels"]
        if all(one in described for one in _INPUTS):
            tensors |= {one: described[one] for one in (*_INPUTS, *_TRAINING) if one in described}
    return Evidence(**tensors)  # type: ignore[arg-type]  # names were checked when read


def _tensors_of(folder: Path, name: str) -> dict[str, np.ndarray] | None:
    """A file's tensors by name; None where there is no such file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / f"{name}.safetensors"
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path} can't be read: {error.strerror}") from error
    try:
        check_tensors(data)
        found: dict[str, np.ndarray] = dict(load(data))
    except (SafetensorError, ValueError) as error:
        raise RunError(f"{path} can't be used as evidence: {error}") from error
    known = _DESCRIBED if name == _SAMPLES else (*_LOGITS, *_FEATURES, *_DOMAIN_LOGITS)
    if stranger := next((one for one in found if one not in known), None):
        raise RunError(f"{path} is not a run's evidence: it holds '{stranger}'")
    return found


def _step_of(path: Path) -> int:
    """The step of an evaluation's file; −1 of another."""
    digits = path.stem.removeprefix(_STEP)
    return int(digits) if path.stem.startswith(_STEP) and digits.isdigit() else -1


def _if_images(inputs: np.ndarray | None) -> np.ndarray | None:
    return inputs if inputs is not None and inputs.ndim == 4 else None
