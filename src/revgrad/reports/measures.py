"""Source-only against adapted: what is known of both, number by number."""

from __future__ import annotations

from dataclasses import dataclass

from revgrad.diagnostics.estimating import AccuracyEstimate
from revgrad.diagnostics.verdict import Verdict
from revgrad.reports.findings import Findings
from revgrad.reports.page_curves import MEASURED
from revgrad.training.events import EvaluationRecord


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
    """One quantity of both networks; `points`: adapted less source-only, in hundredths."""

    title: str
    says: str
    readings: tuple[Reading, ...]
    measured: bool = True

    @property
    def points(self) -> float | None:
        """None of estimates: a verdict estimates the gain by itself, and its sentence says it."""
        if len(self.readings) != 2 or not self.measured:
            return None
        return 100 * (self.readings[1].value - self.readings[0].value)


def measures_of(findings: Findings) -> tuple[Measure, ...]:
    """What there is of: estimated target accuracy, held-out source, target test."""
    own = "adapted" if findings.config.method != "source-only" else "this run"
    found = []
    judged = findings.verdict
    if judged is not None and judged.estimate is not None:
        compared = "source only" if findings.baseline is not None else judged.compared_with
        readings = _estimated(compared, "baseline", judged.baseline) + _estimated(
            own, "target", judged.estimate
        )
        level = f"{judged.estimate.level:.0%}"
        says = f"Without target labels; the line is the {level} interval."
        found.append(Measure("Estimated target accuracy", says, readings, measured=False))
    for field, title, says, look in (
        ("source_accuracy", "Held-out source accuracy", "On source rows not trained on.", "source"),
        ("target_accuracy", "Target test accuracy", f"{MEASURED.capitalize()}.", "target"),
    ):
        below = None if findings.baseline is None else handed_back(findings.baseline)
        readings = _evaluated("source only", "baseline", below, field) + _evaluated(
            own, look, handed_back(findings), field
        )
        if readings:
            found.append(Measure(title, says + _surprise(field, readings[-1], judged), readings))
    return tuple(found)


def _surprise(field: str, measured: Reading, judged: Verdict | None) -> str:
    """Said where labels show that the estimate was wrong: nobody should have to find out alone."""
    estimate = None if judged is None else judged.estimate
    if field != "target_accuracy" or estimate is None:
        return ""
    if estimate.low <= measured.value <= estimate.high:
        return ""
    return f" The estimate is wrong here: its interval does not hold the {measured.value:.1%}."


def handed_back(findings: Findings) -> EvaluationRecord | None:
    """The evaluation of the weights that the run hands back: the last, or the best by score."""
    every = findings.evaluations
    if not every:
        return None
    if not findings.config.chosen_by:
        return every[-1]
    scored = [
        record for record in every if record.score is not None and record.score == record.score
    ]
    return max(scored, key=lambda record: record.score or 0.0, default=every[-1])


def _estimated(who: str, look: str, estimate: AccuracyEstimate | None) -> tuple[Reading, ...]:
    if estimate is None:
        return ()
    return (Reading(who, look, estimate.value, estimate.low, estimate.high),)


def _evaluated(
    who: str, look: str, record: EvaluationRecord | None, field: str
) -> tuple[Reading, ...]:
    value = None if record is None else getattr(record, field)
    return () if value is None else (Reading(who, look, float(value)),)
