"""What a run's folder keeps for judgement, so that nobody has to open the data again.

RUN/evidence/ holds safetensors of a sample of rows, the same ones throughout: `rows` (which they
are, labels of the source's, small pictures), `start`, `step-…` at each evaluation, `end`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.gathering import NotFiniteError, gather
from revgrad.diagnostics.scores import RECOMMENDED, SCORES
from revgrad.diagnostics.scores import score as score_of
from revgrad.diagnostics.thumbnails import thumbnails
from revgrad.domains.domain import Domain
from revgrad.errors import InputError, RunError, unknown
from revgrad.files import write_atomically
from revgrad.training.events import EvaluationRecord, Events, Outcome, TrainingRecord
from revgrad.training.runs import BASELINE

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

#: In a run's folder.
FOLDER = "evidence"
#: Rows of each domain that are kept at most, unless said.
ROWS = 2000
#: Inputs that are vectors are kept up to this width.
WIDTH = 4096
#: What a snapshot of every evaluation holds; start and end hold everything.
SMALL = ("target_logits", "source_logits", "target_changed_logits")
FIELDS = (
    *SMALL,
    "target_features",
    "source_features",
    "target_domain_logits",
    "source_domain_logits",
)


@dataclass(frozen=True, eq=False)
class KeptEvidence:
    """Evidence of one run, on the same rows throughout.

    start           of the network before the first step: logits and features
    end             of the weights that were handed back: everything; with `source_only_logits`
                    where the run has a baseline, and `checkpoint_logits` of the evaluations before
    by_step         at each evaluation, logits only, oldest first
    …_inputs        (rows, height, width, 3) uint8 pictures, small, or (rows, d) numbers; None for
                    inputs that are neither
    …_rows          (rows,) their places in the held-out source and in the target
    """

    source_rows: np.ndarray
    target_rows: np.ndarray
    start: Evidence | None = None
    end: Evidence | None = None
    by_step: dict[int, Evidence] = field(default_factory=dict)
    source_inputs: np.ndarray | None = None
    target_inputs: np.ndarray | None = None

    @property
    def source_images(self) -> np.ndarray | None:
        """The source's pictures, where it is of images."""
        return _pictures(self.source_inputs)

    @property
    def target_images(self) -> np.ndarray | None:
        """The target's pictures, where it is of images."""
        return _pictures(self.target_inputs)

    @property
    def last(self) -> Evidence | None:
        """The end's; of a run that did not get there, that of its last evaluation."""
        if self.end is not None or not self.by_step:
            return self.end
        return next(reversed(self.by_step.values()))


class EvidenceKeeper(Events):
    """Writes a run's evidence as it trains; `latest` is that of the last evaluation.

    held_out, target   as the trainer's; the target's labels are never read
    rows               of each domain at most, drawn once, whatever the seed of the training
    score              by which of `SCORES` it judges as a trainer's `scorer`
    """

    def __init__(
        self,
        held_out: Domain | None,
        target: Domain,
        *,
        rows: int = ROWS,
        score: str = RECOMMENDED,
    ) -> None:
        if rows < 1:
            raise InputError(f"evidence needs a row of each domain at least, not {rows}")
        sample = None if held_out is None else _sample(held_out, rows)
        # of a few rows, or of one class, nothing can be said: then there is the target alone
        self.held_out = sample if sample is not None and _tells(sample) else None
        self.target = _sample(target.without_labels(), rows)
        self._rows = (
            _places(None if self.held_out is None else held_out, rows),
            _places(target, rows),
        )
        self.score = score
        self._source_inputs = None if self.held_out is None else _inputs_of(self.held_out)
        self._target_inputs = _inputs_of(self.target)
        self.latest: Evidence | None = None
        self._step = -1
        self._judged = False  # whether a domain classifier is trained

    def require_score(self) -> None:
        """Refuse a score that these rows can't give, before anything is trained."""
        if self.score not in SCORES:
            raise unknown("score", self.score, SCORES)
        needs = SCORES[self.score].needs
        if self.held_out is None and any(name.startswith("source_") for name in needs):
            raise InputError(
                f"the score '{self.score}' needs held-out source rows of two classes or more; "
                "held_out=0.1 would do, or score='nuclear-norm'"
            )
        if "target_inputs" in needs and self._target_inputs is None:
            raise InputError(
                f"the score '{self.score}' needs images, or vectors of up to {WIDTH} numbers; "
                "score='estimated-accuracy' does without"
            )

    def __repr__(self) -> str:
        return f"score {self.score} of {len(self.target)} target rows"

    def __call__(self, trainer: Trainer, step: int) -> float:
        """The score of what would be handed back now; not a number where it can't be had."""
        self._look(trainer, step)
        return float("nan") if self.latest is None else score_of(self.score, self.latest)

    def on_start(self, trainer: Trainer, step: int) -> None:
        if trainer.run is None:
            return
        folder = trainer.run.folder / FOLDER
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():  # what was written after the checkpoint is made again
            if path.stem == "end" or _step_of(path) > step or path.suffix == ".part":
                path.unlink()
        if step == 0:
            self._write(folder / "rows", self._described())
            self._look(trainer, 0)
            self._keep(folder / "start", FIELDS[:-2])
        self._judged = any(
            isinstance(record, TrainingRecord) and record.domain_accuracy is not None
            for record in trainer.run.records()
        )

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        self._judged = record.domain_accuracy is not None

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        self._look(trainer, record.step)
        if trainer.run is not None:
            self._keep(trainer.run.folder / FOLDER / f"step-{record.step:08d}", SMALL)

    def on_end(self, trainer: Trainer, outcome: Outcome) -> None:
        self._step = -1  # the weights handed back need not be the last
        self._look(trainer, outcome.steps, returned=True)
        if trainer.run is not None:
            self._keep(trainer.run.folder / FOLDER / "end", FIELDS)

    def _look(self, trainer: Trainer, step: int, *, returned: bool = False) -> None:
        if step == self._step:
            return
        self._step, self.latest = step, None
        # at the end the weights handed back are in the network already
        with nullcontext() if returned else trainer.as_returned(), suppress(NotFiniteError):
            self.latest = self._gathered(trainer)

    def _gathered(self, trainer: Trainer) -> Evidence:
        found = gather(trainer.adapter, self.held_out, self.target, domain_logits=self._judged)
        if self._source_inputs is None or self._target_inputs is None:
            return found
        return replace(found, source_inputs=self._source_inputs, target_inputs=self._target_inputs)

    def _keep(self, path: Path, names: tuple[str, ...]) -> None:
        if self.latest is None:
            return
        values = {name: getattr(self.latest, name) for name in names}
        self._write(
            path,
            {
                name: torch.from_numpy(np.asarray(value, dtype=np.float32))
                for name, value in values.items()
                if value is not None
            },
        )

    def _write(self, path: Path, tensors: dict[str, Tensor]) -> None:
        from safetensors.torch import save

        write_atomically(path.with_suffix(".safetensors"), save(tensors))

    def _described(self) -> dict[str, Tensor]:
        found = {
            "source_rows": torch.from_numpy(self._rows[0]),
            "target_rows": torch.from_numpy(self._rows[1]),
        }
        if self._source_inputs is not None:
            found["source_inputs"] = torch.from_numpy(self._source_inputs)
        if self._target_inputs is not None:
            found["target_inputs"] = torch.from_numpy(self._target_inputs)
        if self.held_out is not None and self.held_out.labels is not None:
            found["source_labels"] = torch.from_numpy(np.asarray(self.held_out.labels))
        return found


def read_kept(folder: Path | str, *, baseline: Path | str | None = None) -> KeptEvidence | None:
    """What a run kept; None where it kept nothing.

    baseline   the source-only run to take `source_only_logits` of; by default RUN/baseline
    """
    run = Path(folder)
    described = _read(run / FOLDER / "rows.safetensors")
    if described is None:
        return None
    for name in ("source_images", "target_images"):  # as earlier versions called pictures
        if name in described:
            described[name.replace("images", "inputs")] = described.pop(name)
    by_step = {
        _step_of(path): evidence
        for path in sorted((run / FOLDER).glob("step-*.safetensors"))
        if (evidence := _evidence(path, described)) is not None
    }
    kept = KeptEvidence(
        described["source_rows"],
        described["target_rows"],
        _evidence(run / FOLDER / "start.safetensors", described),
        _evidence(run / FOLDER / "end.safetensors", described),
        by_step,
        described.get("source_inputs"),
        described.get("target_inputs"),
    )
    return _completed(kept, run / BASELINE if baseline is None else Path(baseline))


def _completed(kept: KeptEvidence, baseline: Path) -> KeptEvidence:
    """The end's evidence with what other files know of the same target rows."""
    if kept.end is None:
        return kept
    returned = kept.end.target_logits  # evaluated as one of the steps: the last, or the best
    every = (evidence.target_logits for evidence in kept.by_step.values())
    earlier = itertools.takewhile(lambda logits: not np.allclose(logits, returned), every)
    end = replace(kept.end, checkpoint_logits=tuple(earlier))
    other = read_kept(baseline) if (baseline / FOLDER).exists() else None
    if other is not None and other.end is not None:
        if not np.array_equal(other.target_rows, kept.target_rows):
            raise RunError(
                f"{baseline} kept evidence of other target rows than the run: train both on the "
                "same target"
            )
        end = replace(end, source_only_logits=other.end.target_logits)
    return replace(kept, end=end)


def _evidence(path: Path, described: Mapping[str, np.ndarray]) -> Evidence | None:
    tensors = _read(path)
    if tensors is None or "target_logits" not in tensors:
        return None
    if "source_logits" in tensors and "source_labels" in described:
        tensors["source_labels"] = described["source_labels"]
        if "source_inputs" in described and "target_inputs" in described:
            tensors |= {name: described[name] for name in ("source_inputs", "target_inputs")}
    return Evidence(**tensors)  # type: ignore[arg-type]  # names were checked when read


def _read(path: Path) -> dict[str, np.ndarray] | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path} can't be read: {error.strerror}") from error
    try:
        found: dict[str, np.ndarray] = dict(load(data))
    except SafetensorError as error:
        raise RunError(f"{path} is not a safetensors file: {error}") from error
    known = {"source_rows", "target_rows", "source_labels", "source_images", "target_images"}
    known |= {"source_inputs", "target_inputs"}
    found.pop("source_changed_logits", None)  # kept by an earlier version
    if stranger := next((name for name in found if name not in known and name not in FIELDS), None):
        raise RunError(f"{path} is not a run's evidence: it holds '{stranger}'")
    return found


def _inputs_of(domain: Domain) -> np.ndarray | None:
    """The rows as evidence keeps them; None where they are neither images nor short vectors."""
    pictures = thumbnails(domain)
    if pictures is not None:
        found: np.ndarray = pictures.numpy()
        return found
    shape = domain.shape
    if not isinstance(shape, tuple) or len(shape) != 1 or not isinstance(shape[0], int):
        return None
    if shape[0] > WIDTH:
        return None
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    assert isinstance(inputs, Tensor)  # one tensor a row, as its shape says
    if not (inputs.is_floating_point() and bool(torch.isfinite(inputs).all())):
        return None
    found = inputs.float().cpu().numpy()
    return found


def _pictures(inputs: np.ndarray | None) -> np.ndarray | None:
    return inputs if inputs is not None and inputs.ndim == 4 else None


def _tells(held_out: Domain) -> bool:
    """Whether the rows' labels are of two classes at least."""
    return held_out.labels is not None and len(np.unique(held_out.labels)) > 1


def _places(domain: Domain | None, rows: int) -> np.ndarray:
    """Which rows are kept: the same for every run on as many rows."""
    count = 0 if domain is None else len(domain)
    return np.sort(np.random.default_rng(0).permutation(count)[:rows])


def _sample(domain: Domain, rows: int) -> Domain:
    return domain.subset(_places(domain, rows), name=domain.name)


def _step_of(path: Path) -> int:
    name = path.stem.removeprefix("step-")
    return int(name) if path.stem.startswith("step-") and name.isdigit() else -1
