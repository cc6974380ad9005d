"""A table's jobs: which are wanted, what each needs, and doing one of them, unless it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from revgrad._seals import write_sealed
from revgrad.errors import RunError, unknown
from revgrad.paper.tables.budgets import Budget
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import JOB_RECORD, Job, Predicted, Progress
from revgrad.paper.tables.job_recipe import HEADS
from revgrad.paper.tables.table1 import TABLE1
from revgrad.paper.tables.train_chosen_heads import chosen_head_job, chosen_head_settings
from revgrad.paper.tables.train_heads import feature_job_settings, shallow_job, train_head_job
from revgrad.paper.tables.train_networks import (
    alignment_job,
    network_job_settings,
    synthetic_only_job,
    train_network_job,
)
from revgrad.training.record import Record, read_record, source_commit
from revgrad.training.run import differences, there_and_now
from revgrad.training.settings import RESUME_MAY_CHANGE, Settings


def plan(
    experiments: Sequence[Experiment],
    budget: Budget,
    output: Path,
    *,
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> list[Job]:
    """Every job that is wanted, and those that others need before them, each once.

    No `methods` or `seeds` means all of the experiments'.
    """
    known = list(dict.fromkeys(m for experiment in experiments for m in experiment.methods))
    for method in methods:
        if method not in known:
            raise unknown("method of this table", method, known)
    jobs: dict[Path, Job] = {}
    for experiment in experiments:
        for seed in seeds or experiment.seeds[: budget.seeds]:
            for method in experiment.methods:
                if not methods or method in methods:
                    job = Job(experiment, method, seed, budget, output)
                    for one in (*needs(job), job):
                        jobs.setdefault(one.folder, one)
    return list(jobs.values())


def needs(job: Job) -> tuple[Job, ...]:
    """Jobs whose trained network this one reads."""
    if job.experiment.backbone is not None:
        return ()
    if job.method == "subspace-alignment":
        return (replace(job, method="source-only"),)
    if job.method == "synthetic-only":
        source = job.experiment.source
        bound = next(one for one in TABLE1 if one.source == source)
        return (replace(job, experiment=bound, method="source-only"),)
    return ()


def run_job(job: Job, progress: Progress = lambda done, steps: None) -> Record:
    """The job's record: read where it is done, else computed, from where it was stopped."""
    import torch

    done = finished(job)
    if done is not None:
        return done
    predicted = compute(job, progress)
    record = Record(
        cell=job.experiment.cell,
        method=job.method,
        seed=job.seed,
        steps=predicted.steps,
        budget=job.budget.text(predicted.steps),
        source_accuracy=predicted.source_accuracy,
        target_accuracy=predicted.target_accuracy,
        settings={**job_settings(job), **predicted.chosen},
        command=job.command,
        torch=torch.__version__,
        seconds=predicted.seconds,
        target_accuracy_svm=predicted.target_accuracy_svm,
        target_accuracy_oracle=predicted.target_accuracy_oracle,
        data=predicted.data,
        commit=source_commit(),
    )
    job.folder.mkdir(parents=True, exist_ok=True)
    write_sealed(job.folder / JOB_RECORD, asdict(record))
    return record


def finished(job: Job) -> Record | None:
    """The job's record where it is done; refuses one of other settings."""
    record = read_record(job.folder / JOB_RECORD)
    if record is None:
        return None
    now = decisive(job_settings(job))
    recorded = decisive(record.settings)
    found = differences([{key: recorded.get(key) for key in now}, now])
    if found:
        raise RunError(
            f"{job.folder} was made with other settings ({there_and_now(found)}): choose another "
            "--output, or delete it"
        )
    return record


#: Settings that older records do not have: trained as by the default.
LATER = ("share_out", "precision", "micro_batch", "checkpoint_activations", "compile")


def decisive(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that results depend on, those of a job that is read among them."""
    default = Settings().describe()
    return {
        key: decisive(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if key not in RESUME_MAY_CHANGE and not (key in LATER and value == default[key])
    }


def compute(job: Job, progress: Progress = lambda done, steps: None) -> Predicted:
    """What the job's method predicts, computed now."""
    if job.experiment.backbone is not None:
        if job.experiment.whole_source:
            return chosen_head_job(job, progress)
        return train_head_job(job, progress) if job.method in HEADS else shallow_job(job)
    if job.method == "subspace-alignment":
        return alignment_job(job)
    if job.method == "synthetic-only":
        return synthetic_only_job(job, needs(job)[0])
    return train_network_job(job, progress)


def job_settings(job: Job) -> dict[str, Any]:
    """Every setting that the job's result depends on."""
    if job.experiment.backbone is not None:
        return (
            chosen_head_settings(job) if job.experiment.whole_source else feature_job_settings(job)
        )
    if needs(job):
        return {"reads": network_job_settings(needs(job)[0]), "test": job.cell.test}
    return network_job_settings(job)
