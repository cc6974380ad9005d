"""Summary of a run, read from its folder once. No data is opened, no code run.

summary = read_summary("runs/a")
summary.state, summary.verdict, summary.evidence
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from revgrad.diagnostics.accuracy_estimate import AccuracyEstimate
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.recorder import RecordedEvidence, read_evidence
from revgrad.diagnostics.symptoms import Symptom, symptoms_of_run
from revgrad.diagnostics.verdict import Verdict, verdict
from revgrad.errors import RevgradError
from revgrad.reports.svg import shown_number
from revgrad.tasks import ClassLabels, CustomTask, Task, restored_task
from revgrad.tasks.metrics import METRIC_KINDS, MetricKind
from revgrad.training.callbacks import EvaluationRecord, TrainingRecord
from revgrad.training.run import BASELINE, Run, RunConfig

#: Said of every accuracy on target labels.
MEASURED = "measured with labels; decided nothing"

#: What evaluations are of: held-out source, and the target's test.
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
SIDE_TITLES = {"source": "Held-out source", "target": "Target test"}
#: What gives the verdict on a run.
Judge = Callable[[Run], Verdict]
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class RunSummary:
    """A run's configuration, records, evidence and verdict, as far as they are there.

    Attributes
    ----------
    missing
        what there is none of, and why, in words: a sentence each
    baseline
        the source-only run of the same budget, where one was trained with the run
    """

    folder: Path
    config: RunConfig
    training: tuple[TrainingRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    failure: str | None = None
    recorded: RecordedEvidence | None = None
    verdict: Verdict | None = None
    baseline: RunSummary | None = None
    missing: tuple[str, ...] = ()

    @property
    def next_step(self) -> str:
        """What to do where the verdict can't tell, and does not itself say what."""
        judged = self.verdict
        if judged is None or judged.outcome != "can't tell" or "--baseline" in judged.sentence:
            return ""
        return (
            "Label some target samples, fifty or so: measure both networks on them (revgrad "
            "evaluate), or train on them too (--target-labels)."
        )

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """The verdict's; without one, what the records alone show."""
        if self.verdict is not None:
            return self.verdict.symptoms
        return symptoms_of_run(self.config, self._records, failure=self.failure)

    @property
    def task(self) -> Task:
        """What the network's outputs mean."""
        return restored_task(self.config.task) if self.config.task else ClassLabels()

    @property
    def loss_unit(self) -> str:
        """Of the label loss; of one of the user's own, what its function is called."""
        own = self.config.label_loss
        if not own or isinstance(self.task, CustomTask):
            return own
        task_loss = self.task.label_loss
        known = getattr(task_loss, "__qualname__", type(task_loss).__name__)
        return self.task.loss_unit if own == known else own

    @property
    def method(self) -> str:
        """The method's name; of an objective that has none, its class."""
        return self.config.method.partition("(")[0]

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
    def returned(self) -> EvaluationRecord | None:
        """The evaluation of the weights that the run hands back: the last, or the best by score."""
        if not self.evaluations:
            return None
        last = self.evaluations[-1]
        if not self.config.chosen_by:
            return last
        scored = [r for r in self.evaluations if r.score is not None and r.score == r.score]
        return max(scored, key=lambda record: record.score or 0.0, default=last)

    @property
    def evidence(self) -> Evidence | None:
        """The latest there is: the end's, else the last evaluation's, else the start's."""
        if self.recorded is None:
            return None
        return self.recorded.last or self.recorded.start

    @property
    def evidence_of(self) -> str:
        """Which moment `evidence` is of."""
        if self.recorded is None or self.recorded.end is not None:
            return "the end of training"
        if self.recorded.by_step:
            return f"step {list(self.recorded.by_step)[-1]:,}, the last evaluation so far"
        return "the start, before the first step"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the network's outputs; numbers where they have none."""
        names = [str(name) for name in self.config.classes or ()]
        count = self.config.class_count or 0
        if self.evidence is not None:
            count = self.evidence.target_logits.shape[1]
        return (*names[:count], *(str(number) for number in range(len(names), count)))

    @property
    def _records(self) -> tuple[TrainingRecord | EvaluationRecord, ...]:
        return (*self.training, *self.evaluations)


@dataclass(frozen=True)
class Reading:
    """A share, with an interval where it has one."""

    who: str
    look: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Measure:
    """One quantity of both networks, source-only and adapted."""

    title: str
    says: str
    readings: tuple[Reading, ...]
    measured: bool = True
    kind: MetricKind = METRIC_KINDS["accuracy"]

    def shown(self, value: float) -> str:
        """In percent, or as a number."""
        return f"{value:.1%}" if self.kind.share else shown_number(value)

    @property
    def difference(self) -> tuple[str, str] | None:
        """Adapted less source-only, and its unit: points, a share of an error, or a number."""
        if self.kind.share:
            return None if self.points is None else (_signed(self.points, ".1f"), "points")
        if len(self.readings) != 2:
            return None
        before, after = (reading.value for reading in self.readings)
        if self.kind.error:
            return (_signed(100 * (after / before - 1), ".1f") + " %", "") if before > 0 else None
        return _signed(after - before, ".3f"), ""

    @property
    def points(self) -> float | None:
        """Adapted less source-only, in hundredths. None of estimates: a verdict estimates the gain
        by itself, and its sentence says it."""
        if len(self.readings) != 2 or not self.measured:
            return None
        return 100 * (self.readings[1].value - self.readings[0].value)


def read_summary(folder: Path | str, judge: Judge = verdict) -> RunSummary:
    """Of a finished, failed or unfinished run; a folder that is no run raises a RunError."""
    run = Run(folder)
    config, (training, evaluations) = run.config, _records(run)
    baseline, no_baseline = _tried(lambda: _baseline(run.folder), "The baseline can't be read")
    recorded, no_evidence = _tried(
        lambda: read_evidence(run.folder), "The recorded evidence can't be used"
    )
    judged, no_verdict = _tried(lambda: judge(run), "There is no verdict")
    if recorded is None:  # then there is no verdict for the same reason
        no_evidence, no_verdict = no_evidence or _why_no_evidence(config), ""
    no_records = "" if training or evaluations else "Nothing is recorded: there are no curves yet."
    return RunSummary(
        run.folder,
        config,
        training,
        evaluations,
        run.failure,
        recorded,
        judged,
        baseline,
        tuple(filter(None, (no_baseline, no_evidence, no_verdict, no_records))),
    )


def measures_of(summary: RunSummary) -> tuple[Measure, ...]:
    """What there is of: estimated target accuracy, held-out source, target test."""
    own = "adapted" if summary.config.method != "source-only" else "this run"
    found = []
    judged = summary.verdict
    if judged is not None and judged.estimate is not None:
        compared = "source only" if summary.baseline is not None else judged.compared_with
        readings = _estimated(compared, "baseline", judged.baseline) + _estimated(
            own, "target", judged.estimate
        )
        level = f"{judged.estimate.level:.0%}"
        says = f"Without target labels; the line is the {level} interval."
        found.append(Measure("Estimated target accuracy", says, readings, measured=False))
    below = None if summary.baseline is None else summary.baseline.returned
    for name in evaluated_metrics([summary]):
        kind = kind_of(name, summary.task)
        for side in SIDES:
            readings = _evaluated("source only", "baseline", below, name, side) + _evaluated(
                own, side, summary.returned, name, side
            )
            if not readings:
                continue
            says = f"{MEASURED.capitalize()}."
            if side == "target" and name == "accuracy":
                says += _surprise(readings[-1], judged)
            elif side == "source":
                says = "On source samples not trained on."
            if kind.error:
                says += " The lower, the better."
            title = f"{SIDE_TITLES[side]} {kind.title}"
            found.append(Measure(title, says, readings, kind=kind))
    return tuple(found)


def evaluated_metrics(runs: Sequence[RunSummary]) -> list[str]:
    """Names of the metrics that evaluations recorded, those of the runs' tasks first; "loss" where
    there are none: beside metrics, a loss would say the same twice."""
    wanted = [name for run in runs for name in run.task.metrics]
    seen = [
        name
        for run in runs
        for record in run.evaluations
        for side in SIDES
        for name in record.figures(side)
    ]
    return [name for name in dict.fromkeys([*wanted, *seen]) if name in seen] or ["loss"]


def kind_of(name: str, task: Task) -> MetricKind:
    """How a metric of the task, or its loss, is read."""
    if name == "loss":
        return MetricKind("loss", share=False, unit=task.loss_unit, error=True)
    return task.metric_kind(name) if name in METRIC_KINDS else MetricKind(name, share=False)


def value_of(record: EvaluationRecord | None, name: str, side: Side) -> float | None:
    """A metric, or the loss, as an evaluation recorded it."""
    if record is None:
        return None
    return record.loss(side) if name == "loss" else record.figures(side).get(name)


def _tried(read: Callable[[], _T], otherwise: str) -> tuple[_T | None, str]:
    """What is read, or the sentence that says why it can't be."""
    try:
        return read(), ""
    except RevgradError as error:
        return None, f"{otherwise}: {error}."


def _baseline(folder: Path) -> RunSummary | None:
    """The source-only run's records and evidence; it needs no verdict."""
    run = Run(folder / BASELINE)
    if not run.exists():
        return None
    training, evaluations = _records(run)
    return RunSummary(
        run.folder, run.config, training, evaluations, run.failure, read_evidence(run.folder)
    )


def _records(run: Run) -> tuple[tuple[TrainingRecord, ...], tuple[EvaluationRecord, ...]]:
    records = run.records()
    return (
        tuple(record for record in records if isinstance(record, TrainingRecord)),
        tuple(record for record in records if isinstance(record, EvaluationRecord)),
    )


def _why_no_evidence(config: RunConfig) -> str:
    """Why there are no pictures of predictions."""
    without = "so there are no clouds, no confusion and no images to show, and nothing to judge by"
    task = restored_task(config.task) if config.task else ClassLabels()
    if not task.one_class:
        return (
            f"The verdict judges predicted classes, and this run is {task.noun}. Measure it on "
            "labelled target data: give test= when training, or run revgrad evaluate."
        )
    if "target" not in config.domains and config.method != "source-only":
        if config.adversaries:  # judged by what the features tell of attributes, which is shown
            return "The run has no target, so no predictions of one are shown."
        return f"The run has no target, {without}."
    return (
        f"The run recorded no evidence (no target was given, or --evidence-samples 0), {without}."
    )


def _estimated(who: str, look: str, estimate: AccuracyEstimate | None) -> tuple[Reading, ...]:
    if estimate is None:
        return ()
    return (Reading(who, look, estimate.value, estimate.low, estimate.high),)


def _evaluated(
    who: str, look: str, record: EvaluationRecord | None, name: str, side: Side
) -> tuple[Reading, ...]:
    value = value_of(record, name, side)
    return () if value is None else (Reading(who, look, float(value)),)


def _signed(value: float, digits: str) -> str:
    return f"{value:+{digits}}".replace("-", "−")


def _surprise(measured: Reading, judged: Verdict | None) -> str:
    """Said where labels show that the estimate was wrong: nobody should have to find out alone."""
    estimate = None if judged is None else judged.estimate
    if estimate is None:
        return ""
    if estimate.low <= measured.value <= estimate.high:
        return ""
    return f" The estimate is wrong here: its interval does not hold the {measured.value:.1%}."
