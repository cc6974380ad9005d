"""From rows to records: what each row needs, doing it, skipping what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from revgrad.errors import RunError, unknown
from revgrad.experiments.budgets import Budget
from revgrad.experiments.experiment import Experiment
from revgrad.experiments.feature_rows import describe_feature_row, head_row, shallow_row
from revgrad.experiments.image_rows import (
    alignment_row,
    describe_row,
    synthetic_row,
    trained_row,
)
from revgrad.experiments.recipes import HEADS
from revgrad.experiments.records import RESULT, Record, read_record
from revgrad.experiments.row import Answers, Report, Row
from revgrad.experiments.table1 import TABLE1
from revgrad.training.settings import DISPLAY


def plan(
    experiments: Sequence[Experiment],
    budget: Budget,
    output: Path,
    *,
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> list[Row]:
    """Every row that is wanted, and those that others need before them, each once.

    No `methods` or `seeds` means all of the experiments'.
    """
    known = list(dict.fromkeys(m for experiment in experiments for m in experiment.methods))
    for method in methods:
        if method not in known:
            raise unknown("method of this table", method, known)
    rows: dict[Path, Row] = {}
    for experiment in experiments:
        for seed in seeds or experiment.seeds[: budget.seeds]:
            for method in experiment.methods:
                if not methods or method in methods:
                    row = Row(experiment, method, seed, budget, output)
                    for one in (*needs(row), row):
                        rows.setdefault(one.folder, one)
    return list(rows.values())


def needs(row: Row) -> tuple[Row, ...]:
    """Rows whose trained network this one reads."""
    if row.experiment.backbone is not None:
        return ()
    if row.method == "subspace-alignment":
        return (replace(row, method="source-only"),)
    if row.method == "synthetic-only":
        source = row.experiment.source
        bound = next(one for one in TABLE1 if one.source == source)
        return (replace(row, experiment=bound, method="source-only"),)
    return ()


def finished(row: Row) -> Record | None:
    """The row's record where it is done; refuses one of other settings."""
    record = read_record(row.folder / RESULT)
    if record is None:
        return None
    now = settings_of(row)
    differing = [
        key
        for key, value in now.items()
        if key not in DISPLAY and record.settings.get(key) != value
    ]
    if differing:
        key = differing[0]
        raise RunError(
            f"{row.folder} was made with other settings ({key}: {record.settings.get(key)} there, "
            f"{now[key]} now): choose another --output, or delete it"
        )
    return record


def run_row(row: Row, report: Report = lambda done, steps: None) -> Record:
    """The row's record: read where it is done, else computed, from where it was stopped."""
    import torch

    done = finished(row)
    if done is not None:
        return done
    answers = compute(row, report)
    record = Record(
        cell=row.experiment.cell,
        method=row.method,
        seed=row.seed,
        steps=answers.steps,
        budget=row.budget.text(answers.steps),
        source_accuracy=answers.source_accuracy,
        target_accuracy=answers.target_accuracy,
        settings={**settings_of(row), **answers.found},
        command=row.command,
        torch=torch.__version__,
        seconds=answers.seconds,
        target_accuracy_svm=answers.target_accuracy_svm,
        target_accuracy_oracle=answers.target_accuracy_oracle,
        data=answers.data,
    )
    row.folder.mkdir(parents=True, exist_ok=True)
    record.write(row.folder)
    return record


def compute(row: Row, report: Report = lambda done, steps: None) -> Answers:
    """What the row's method says, computed now."""
    if row.experiment.backbone is not None:
        return head_row(row, report) if row.method in HEADS else shallow_row(row, report)
    if row.method == "subspace-alignment":
        return alignment_row(row, report)
    if row.method == "synthetic-only":
        return synthetic_row(row, needs(row)[0], report)
    return trained_row(row, report)


def settings_of(row: Row) -> dict[str, Any]:
    """Every setting that the row's result depends on."""
    if row.experiment.backbone is not None:
        return describe_feature_row(row)
    if needs(row):
        return {"reads": describe_row(needs(row)[0]), "test": row.cell.test}
    return describe_row(row)
