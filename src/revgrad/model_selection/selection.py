"""Selection of a run among several finished ones, by a label-free score.

    selection = select(["runs/a", "runs/b"])
    print(selection.chosen.run)

The runs' recorded evidence decides. Target labels, and target accuracies in their records, are
never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from revgrad.diagnostics.accuracy_estimate import AccuracyEstimate
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.recorder import RecordedEvidence, read_evidence
from revgrad.diagnostics.scores import RECOMMENDED_SCORE, SCORES
from revgrad.diagnostics.scores import score as score_of
from revgrad.diagnostics.verdict import verdict
from revgrad.errors import InputError, RevgradError, RunError, unknown
from revgrad.reports.settings import differing_settings
from revgrad.training.run import Run, RunConfig, differences


@dataclass(frozen=True)
class SelectedRun:
    """A run and its place.

    Attributes
    ----------
    score
        the higher the better; None for a run that failed
    estimate
        of its target accuracy, where one can be had
    outcome
        of its verdict: adapted, no gain, harmed, can't tell
    settings
        those that are not the same in all runs
    failure
        the error that ended the run
    """

    run: Path
    score: float | None
    estimate: AccuracyEstimate | None
    outcome: str
    settings: dict[str, str]
    failure: str | None = None


@dataclass(frozen=True)
class Selection:
    """Runs by `score`, the best first, failed ones last; and why others were left out."""

    score: str
    runs: tuple[SelectedRun, ...]
    left_out: dict[Path, str]

    @property
    def chosen(self) -> SelectedRun:
        """The best run."""
        return self.runs[0]


def select(runs: Iterable[Path | str], score: str = RECOMMENDED_SCORE) -> Selection:
    """Rank runs of one target by one of `SCORES`.

    Runs that differ in their seed only are evidence for one another (the score "seed-agreement").
    Refused: runs of different targets or classes, whose scores can't be compared.

    Parameters
    ----------
    runs
        folders of runs, or folders that runs lie in
    """
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    candidates: list[_Candidate] = []
    left_out: dict[Path, str] = {}
    for folder in find_runs(runs):
        try:
            candidates.append(_candidate(folder))
        except RevgradError as error:
            left_out[folder] = str(error)
    _must_be_comparable(candidates)
    judged: list[tuple[_Candidate, float | None]] = []
    for candidate in candidates:
        try:
            judged.append((candidate, _score(candidate, candidates, score)))
        except InputError as error:
            left_out[candidate.folder] = str(error)
    if not any(value is not None for _, value in judged):
        raise RunError(_why_none(left_out, judged))
    # stable: of equal scores the first named comes first
    judged.sort(key=lambda pair: _place(pair[1]))
    differing = differing_settings([candidate.config for candidate, _ in judged])
    selected = []
    for place, (candidate, value) in enumerate(judged):
        said = verdict(candidate.folder, full=False)
        selected.append(
            SelectedRun(
                candidate.folder,
                value,
                None if candidate.failure else said.estimate,
                said.outcome,
                {one.name: one.values[place] for one in differing},
                candidate.failure,
            )
        )
    return Selection(score, tuple(selected), left_out)


def find_runs(places: Iterable[Path | str]) -> list[Path]:
    """The runs among `places`, and below those that are folders, by name; each once.

    What lies inside a run, as its baseline does, is part of it and not found.
    """
    found: dict[Path, Path] = {}
    for place in map(Path, places):
        if not place.is_dir():
            raise RunError(f"{place} is not a folder: a run or a folder of runs would do")
        runs = list(_below(place))
        if not runs:
            raise RunError(f"{place} is not a run, and there is none in it")
        found |= {run.resolve(): run for run in runs if run.resolve() not in found}
    return list(found.values())


@dataclass(frozen=True)
class _Candidate:
    """A run that ended, one way or the other."""

    folder: Path
    config: RunConfig
    recorded: RecordedEvidence | None
    failure: str | None


def _below(folder: Path) -> Iterator[Path]:
    if Run(folder).exists():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _candidate(folder: Path) -> _Candidate:
    run = Run(folder)
    config, failure = run.config, run.failure
    recorded = None if failure else read_evidence(folder)
    if failure is None and (recorded is None or recorded.end is None):
        steps = config.settings["steps"]
        step = max((record.step for record in run.records()), default=0)
        if step < steps:
            raise RunError(f"it is not finished (step {step} of {steps})")
        raise RunError("it recorded no evidence (--evidence-samples of 1 or more would do)")
    return _Candidate(folder, config, recorded, failure)


def _score(candidate: _Candidate, others: list[_Candidate], name: str) -> float | None:
    if candidate.recorded is None or candidate.recorded.end is None:
        return None
    evidence = candidate.recorded.end
    if "seed_logits" in SCORES[name].needs:
        evidence = replace(evidence, seed_logits=_of_other_seeds(candidate, others))
    return float(score_of(name, evidence))


def _of_other_seeds(candidate: _Candidate, others: list[_Candidate]) -> tuple[np.ndarray, ...]:
    """Target logits of the same training with other seeds, on the same samples."""

    def same(other: _Candidate) -> Evidence | None:
        if other is candidate or other.recorded is None or candidate.recorded is None:
            return None
        found = differences([candidate.config.identity(), other.config.identity()])
        alike = {one.name for one in found} <= {"seed"}
        same_samples = np.array_equal(
            candidate.recorded.target_indices, other.recorded.target_indices
        )
        return other.recorded.end if alike and same_samples else None

    return tuple(found.target_logits for other in others if (found := same(other)) is not None)


def _must_be_comparable(candidates: list[_Candidate]) -> None:
    # beside one that knows its target's data, where there is one
    first = min(candidates, key=lambda c: "target" not in c.config.domains, default=None)
    for other in candidates:
        if first is None or other is first:
            continue
        if not _same_target(first.config, other.config):
            raise _incomparable("targets", first, other, _target_name)
        if _class_names(first.config) != _class_names(other.config):
            raise _incomparable("classes", first, other, lambda c: f"{c.class_count} classes")


def _same_target(one: RunConfig, other: RunConfig) -> bool:
    """By the data; by its name where a run was not trained on it, as source-only."""
    marks = [config.domains.get("target", {}).get("fingerprint") for config in (one, other)]
    if all(marks):
        return bool(marks[0] == marks[1])
    names = [config.provenance.target for config in (one, other)]
    return None in names or names[0] == names[1]


def _target_name(config: RunConfig) -> str:
    target = config.domains.get("target", {})
    name = config.provenance.target or target.get("name")
    return f"{name}, {target['samples']} samples" if target else str(name)


def _class_names(config: RunConfig) -> object:
    return config.classes or config.class_count


def _incomparable(
    what: str, one: _Candidate, other: _Candidate, said: Callable[[RunConfig], str]
) -> InputError:
    return InputError(
        f"{one.folder} and {other.folder} are of different {what} ({said(one.config)}; "
        f"{said(other.config)}): their scores can't be compared"
    )


def _place(value: float | None) -> tuple[int, float]:
    """The highest score first, then what is no number, then runs that failed."""
    if value is None:
        return (2, 0.0)
    return (1, 0.0) if np.isnan(value) else (0, -value)


def _why_none(left_out: dict[Path, str], judged: list[tuple[_Candidate, float | None]]) -> str:
    if judged:
        first = judged[0][0]
        return f"every run failed; {first.folder}: {first.failure}"
    reasons = [f"{folder}: {reason}" for folder, reason in left_out.items()]
    more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return f"there is no run to choose: {'; '.join(reasons[:3])}{more}"
