"""Everything that a page says of a run, read from its folder once. No data is opened, no code run.

findings = read_findings("runs/a")
findings.state, findings.verdict, findings.evidence
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.kept import KeptEvidence, read_kept
from revgrad.diagnostics.symptoms import Symptom, find_symptoms
from revgrad.diagnostics.verdict import Verdict, verdict
from revgrad.errors import RevgradError
from revgrad.training.events import EvaluationRecord, TrainingRecord
from revgrad.training.runs import BASELINE, Run, RunConfig

T = TypeVar("T")
Judge = Callable[[Run], Verdict]


@dataclass(frozen=True, eq=False)
class Findings:
    """A run's configuration, records, evidence and verdict, as far as they are there.

    missing    what there is none of, and why, in words: a sentence each
    baseline   the source-only run of the same budget, where one was trained with the run
    """

    folder: Path
    config: RunConfig
    training: tuple[TrainingRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    failure: str | None = None
    kept: KeptEvidence | None = None
    verdict: Verdict | None = None
    baseline: Findings | None = None
    missing: tuple[str, ...] = ()

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """The verdict's; without one, what the records alone show."""
        if self.verdict is not None:
            return self.verdict.symptoms
        return find_symptoms(
            self._records,
            steps=self.steps,
            failure=self.failure,
            classes=self.config.class_count,
        )

    @property
    def steps(self) -> int:
        """That the run was to have."""
        return int(self.config.settings.get("steps", 0)) or self.step

    @property
    def step(self) -> int:
        """The last one that there is a record of."""
        return max((record.step for record in self._records), default=0)

    @property
    def seconds(self) -> float:
        """Spent in training, as far as recorded."""
        return max((record.seconds for record in self._records), default=0.0)

    @property
    def _records(self) -> tuple[TrainingRecord | EvaluationRecord, ...]:
        return (*self.training, *self.evaluations)

    @property
    def finished(self) -> bool:
        return self.failure is None and 0 < self.steps <= self.step

    @property
    def state(self) -> str:
        """Where the run stands, in words."""
        if self.failure is not None:
            return f"failed after step {self.step:,}" if self.step else "failed"
        if self.finished:
            return f"finished, {self.steps:,} steps"
        return f"unfinished, step {self.step:,} of {self.steps:,}"

    @property
    def evidence(self) -> Evidence | None:
        """The latest there is: the end's, else the last evaluation's, else the start's."""
        if self.kept is None:
            return None
        return self.kept.last or self.kept.start

    @property
    def evidence_of(self) -> str:
        """Which moment `evidence` is of."""
        if self.kept is None or self.kept.end is not None:
            return "the end of training"
        if self.kept.by_step:
            return f"step {list(self.kept.by_step)[-1]:,}, the last evaluation so far"
        return "the start, before the first step"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the network's outputs; numbers where they have none."""
        names = [str(name) for name in self.config.classes or ()]
        count = self.config.class_count or 0
        if self.evidence is not None:
            count = self.evidence.target_logits.shape[1]
        return (*names[:count], *(str(number) for number in range(len(names), count)))


def read_findings(folder: Path | str, judge: Judge = verdict) -> Findings:
    """Of a finished, failed or unfinished run; one that is none raises a RunError.

    judge   what gives the verdict
    """
    run = Run(folder)
    config, records, missing = run.config, run.records(), Missing()
    baseline = missing.unless(lambda: _baseline(run.folder), "The baseline can't be read")
    kept = missing.unless(lambda: read_kept(run.folder), "The kept evidence can't be used")
    if kept is None and not missing.said:
        missing.say(_no_evidence(config))
        judged = Missing().unless(lambda: judge(run), "")  # for the same reason
    else:
        judged = missing.unless(lambda: judge(run), "There is no verdict")
    if not records:
        missing.say(
            "Nothing is recorded, so there are no curves: they begin with the first record."
        )
    return Findings(
        run.folder,
        config,
        tuple(record for record in records if isinstance(record, TrainingRecord)),
        tuple(record for record in records if isinstance(record, EvaluationRecord)),
        run.failure,
        kept,
        judged,
        baseline,
        tuple(missing.said),
    )


class Missing:
    """Collects what there is none of, so that a page still shows the rest."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def unless(self, read: Callable[[], T], otherwise: str) -> T | None:
        try:
            return read()
        except RevgradError as error:
            self.say(f"{otherwise}: {error}.")
            return None


def _baseline(folder: Path) -> Findings | None:
    """The source-only run's records and evidence; it needs no verdict."""
    run = Run(folder / BASELINE)
    if not run.exists():
        return None
    records = run.records()
    return Findings(
        run.folder,
        run.config,
        tuple(record for record in records if isinstance(record, TrainingRecord)),
        tuple(record for record in records if isinstance(record, EvaluationRecord)),
        run.failure,
        read_kept(run.folder),
    )


def _no_evidence(config: RunConfig) -> str:
    """Why there are no pictures of predictions."""
    without = "so there are no clouds, no confusion and no images to show, and nothing to judge by"
    if config.class_count is None:
        return f"The labels are numbers, not classes, {without}."
    if "target" not in config.domains and config.method != "source-only":
        return f"The run has no target, {without}."
    return (
        f"The run kept no evidence (no target was given, --evidence 0, or an older version), "
        f"{without}."
    )
