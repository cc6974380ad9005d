"""Did it work? One answer, an estimated accuracy, the three most important reasons; no target
labels.

    print(verdict("runs/mine").sentence)

"Adapted" is two points or more above the source-only network of the same budget, "harmed" two or
more below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from revgrad.diagnostics.correctness import estimated_accuracy, suffices
from revgrad.diagnostics.estimating import AccuracyEstimate, available_estimates, combined_estimate
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.kept import KeptEvidence, read_kept
from revgrad.diagnostics.scores import available_scores
from revgrad.diagnostics.symptoms import Symptom, find_symptoms
from revgrad.errors import RunError
from revgrad.training.runs import BASELINE, Run, RunConfig

Outcome = Literal["adapted", "no gain", "harmed", "can't tell"]
#: Points above or below the baseline that count.
MARGIN = 0.02


@dataclass(frozen=True)
class Verdict:
    """What a run came to.

    sentence        the outcome in plain words
    estimate        of the adapted network's accuracy on the target; None where nothing is known
    baseline        the same of what it is compared with
    compared_with   in words
    reasons         the most important first, three at most
    scores          every label-free score of `SCORES` that could be had
    """

    outcome: Outcome
    sentence: str
    estimate: AccuracyEstimate | None
    baseline: AccuracyEstimate | None
    compared_with: str
    reasons: tuple[str, ...]
    symptoms: tuple[Symptom, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)


def verdict(run: Run | Path | str, *, baseline: Path | str | None = None) -> Verdict:
    """Judge a run by what its folder keeps.

    baseline   a source-only run on the same domains to compare with; by default RUN/baseline, else
               the run's own first evaluation, from when λ had hardly grown
    """
    directory = run if isinstance(run, Run) else Run(run)
    config, records, failure = directory.config, directory.records(), directory.failure
    kept = read_kept(directory.folder, baseline=baseline)
    if kept is None and failure is None:
        raise RunError(
            f"{directory.folder} kept no evidence to judge by: train it with evidence=… of 1 row or "
            "more, a target, and classes as labels"
        )
    before, compared_with = _reference(directory.folder, kept, baseline)
    after = None if kept is None else kept.last
    symptoms = find_symptoms(
        records,
        after,
        steps=config.settings.get("steps"),
        failure=failure,
        classes=config.class_count,
    )
    return judge(
        after,
        before,
        compared_with=compared_with,
        symptoms=symptoms,
        failure=failure,
        config=config,
    )


def judge(
    after: Evidence | None,
    before: Evidence | None,
    *,
    compared_with: str,
    symptoms: Sequence[Symptom] = (),
    failure: str | None = None,
    config: RunConfig | None = None,
) -> Verdict:
    """The verdict on a model's evidence beside that of what it is compared with."""
    raise NotImplementedError


def _reference(
    folder: Path, kept: KeptEvidence | None, baseline: Path | str | None
) -> tuple[Evidence | None, str]:
    """What to compare with, and what it is in words."""
    where = folder / BASELINE if baseline is None else Path(baseline)
    below = read_kept(where) if where.exists() else None
    if below is not None and below.end is not None:
        return below.end, "the source-only network of the same budget"
    if baseline is not None:
        raise RunError(f"{where} is no finished run with evidence to compare with")
    if kept is None or len(kept.by_step) < 2:
        return None, "nothing: the run has no baseline (train it with baseline=True, --baseline)"
    step = next(iter(kept.by_step))
    return kept.by_step[step], f"this run at step {step}, as it has no baseline"


def estimate_of(evidence: Evidence) -> AccuracyEstimate | None:
    """The best estimate that the evidence allows."""
    if suffices(evidence):
        return estimated_accuracy(evidence)
    found = available_estimates(evidence)
    return combined_estimate(found, bias=0.1) if found else None
