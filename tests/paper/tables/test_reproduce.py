"""Tables from end to end: jobs skipped when done, resumed when interrupted; target labels that
change nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from revgrad import Domain, Run
from revgrad.errors import RunError
from revgrad.paper.tables import feature_split, job_data, plan, pool, tsne
from revgrad.paper.tables.budgets import BUDGETS
from revgrad.paper.tables.display import Display
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import Job, Predicted
from revgrad.paper.tables.job_recipe import HEADS
from revgrad.paper.tables.plan import compute, finished, run_job
from revgrad.paper.tables.table2 import TABLE2
from revgrad.training.record import Record, read_record
from shown import Shown
from table_jobs import MNIST_M, SHORT, TINY, check_record, job, job_folder
from tiny import checkpoint_digest

Call = Callable[..., Shown]


def records(folder: Path) -> dict[str, Record]:
    found = [read_record(path) for path in folder.glob("*/job.json")]
    return {record.method: record for record in found if record is not None}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's tiny budget is the tests' short one."""
    monkeypatch.setitem(BUDGETS, "tiny", SHORT)


def test_table1_tiny_all_methods_then_nothing_again(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = replace(TINY, steps={**TINY.steps, "mnist": 40, "compact": 3})
    monkeypatch.setitem(BUDGETS, "tiny", brief)
    words = ("reproduce", "table1", "--cell", "mnist-to-mnist-m", "--budget", "tiny", "--jobs", "1")
    shown = call(*words, "--output", tmp_path)
    assert shown.code == 0, shown.err
    found = records(tmp_path / "tiny" / "mnist-to-mnist-m")
    assert set(found) == set(MNIST_M.methods)
    for record in found.values():
        check_record(record, "stand-ins, 300 samples a domain, 200 test samples")
    # better than chance, where forty steps are enough to ask for it
    assert found["source-only"].source_accuracy > 0.5
    assert found["train-on-target"].target_accuracy > 0.15
    assert found["recommended"].settings["network"] == "compact"
    assert found["recommended"].settings["batch_norm"] == "target"
    aligned = found["subspace-alignment"]
    assert aligned.target_accuracy_oracle >= aligned.target_accuracy
    trained = set(found) - {"subspace-alignment"}
    assert all(found[method].target_accuracy_svm is not None for method in trained)
    table = (tmp_path / "tiny" / "table1.md").read_text()
    assert table.splitlines()[0] in shown.out
    assert "0.8149" not in table  # numbers of other data do not stand beside stand-ins
    for suffix in (".tex", ".csv", ".png", ".jsonl"):
        assert (tmp_path / "tiny" / f"table1{suffix}").stat().st_size > 500

    def refuse(*arguments: object) -> None:
        raise AssertionError("a job that is done was computed again")

    monkeypatch.setattr(plan, "compute", refuse)
    again = call(*words, "--output", tmp_path, "--json")
    assert again.code == 0, again.err
    assert again.err.count("done before") == len(MNIST_M.methods)
    lines = [json.loads(line) for line in again.out.splitlines()]
    assert {line["method"]: line["value"] for line in lines}["adversarial"] == (
        found["adversarial"].target_accuracy
    )


def test_t_sne_reads_the_same_runs(
    short: None, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsne, "CLOUD_SAMPLES", 60)
    words = ("reproduce", "tsne", "--cell", "mnist-to-mnist-m", "--budget", "tiny", "-o", tmp_path)
    shown = call(*words, "--layer", "fc3", "--jobs", "1")
    assert shown.code == 0, shown.err
    picture = tmp_path / "tiny" / "tsne-mnist-to-mnist-m-fc3.png"
    assert f"see {picture}" in shown.out
    assert picture.stat().st_size > 10_000
    wrong = call(*words, "--layer", "fc33")
    assert wrong.code == 2
    assert "no layer of the network 'mnist' 'fc33'; did you mean 'fc3'?" in wrong.err


@pytest.mark.parametrize(
    ("cores", "gigabytes", "device", "expected"),
    [
        (2, 24, "cpu", 2),
        (64, 24, "cpu", 12),
        (8, 1, "cpu", 1),
        (64, 24, "cuda", 1),
    ],
)
def test_as_many_jobs_at_once_as_cores_and_memory_carry(
    cores: int, gigabytes: int, device: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"SC_PHYS_PAGES": gigabytes * 2**18, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(pool, "usable_cores", lambda: cores)
    monkeypatch.setattr(pool.os, "sysconf", memory.__getitem__)
    monkeypatch.setattr(pool, "choose_device", lambda wanted: torch.device(device))
    assert pool.jobs_at_once() == expected


# -- done, interrupted, changed ---------------------------------------------------------------


def test_a_record_has_each_number_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicted = Predicted(
        predictions=np.zeros(4, dtype=np.int64),
        target_accuracy=0.25,
        source_accuracy=0.5,
        steps=7,
        seconds=1.5,
        target_accuracy_svm=0.375,
        target_accuracy_oracle=0.625,
        chosen={"components": 3},
    )
    monkeypatch.setattr(plan, "compute", lambda job, progress: predicted)
    done = Job(MNIST_M, "source-only", 2, TINY, tmp_path)
    run_job(done)
    record = finished(done)
    assert record is not None
    accuracies = [record.target_accuracy, record.target_accuracy_svm, record.target_accuracy_oracle]
    assert accuracies == [0.25, 0.375, 0.625]
    assert (record.source_accuracy, record.steps, record.seconds) == (0.5, 7, 1.5)
    assert (record.cell, record.method, record.seed) == (MNIST_M.cell, "source-only", 2)
    assert (record.settings["components"], record.settings["seed"]) == (3, 2)


def test_a_record_of_other_settings_is_refused(tmp_path: Path) -> None:
    done = job(TABLE2[0], "bottleneck-only", tmp_path)
    run_job(done)
    assert finished(done) is not None
    longer = replace(SHORT, steps={**SHORT.steps, "bottleneck": 61})
    with pytest.raises(RunError, match=r"other settings \(steps: 6 there, 61 now\)"):
        finished(replace(done, budget=longer))


@pytest.mark.parametrize(
    ("processes", "number", "code"), [(1, signal.SIGINT, 130), (2, signal.SIGTERM, 143)]
)
def test_an_interrupted_table_goes_on_where_it_stopped(
    processes: int,
    number: int,
    code: int,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal comes when the adversarial training tells of its first steps; what goes on from
    there, perhaps in another process, ends with the bytes of a training that was never stopped."""
    steps = 20 if processes == 1 else 60  # a signal to another process takes its time
    brief = replace(SHORT, steps={"mnist": steps})
    monkeypatch.setitem(BUDGETS, "tiny", brief)
    words = ["reproduce", "table1", "--cell", "mnist-to-mnist-m", "--budget", "tiny"]
    words += ["--method", "source-only", "--method", "adversarial", "--output", str(tmp_path)]
    folder = job_folder(tmp_path, "mnist->mnist-m", "adversarial")

    def interrupt(display: Display, job: Job, done: int, steps: int) -> None:
        if job.method == "adversarial" and done >= 10:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(Display, "stepped", interrupt)
        first = call(*words, "--jobs", processes)
    assert first.code == code, first.err
    last = first.err.strip().splitlines()[-1]
    assert "the same command goes on from there" in last
    assert "of 2 jobs done" in last
    stopped = Run(folder).checkpoint()
    assert stopped is not None
    assert 10 <= stopped.step < steps
    assert not (folder / "job.json").exists()

    begun = []
    monkeypatch.setattr(
        Display, "stepped", lambda display, job, done, steps: begun.append((job.method, done))
    )
    second = call(*words, "--jobs", 1)
    assert second.code == 0, second.err
    assert (folder / "job.json").exists()
    assert next(done for method, done in begun if method == "adversarial") == stopped.step
    whole = Job(MNIST_M, "adversarial", 0, brief, tmp_path / "whole")
    run_job(whole)
    assert checkpoint_digest(folder) == checkpoint_digest(whole.folder)


def test_jobs_in_other_processes_give_what_they_give_here(tmp_path: Path) -> None:
    jobs = [job(TABLE2[0], "nbnn", tmp_path, seed=seed) for seed in (0, 1)]
    there = pool.run_jobs(jobs, Display(len(jobs), quiet=True), processes=2)
    assert not there.failures
    for one in jobs:
        here = compute(one)
        assert there.records[one.folder].target_accuracy == here.target_accuracy
        assert read_record(one.folder / "job.json") == there.records[one.folder]


def test_a_job_that_fails_stops_those_that_need_it_and_no_others(
    short: None, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute_or_fail(job: Job, progress: object) -> Predicted:
        if job.method == "source-only":
            raise RunError("the disk is gone")
        return compute(job, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "compute", compute_or_fail)
    words = ("reproduce", "table1", "--cell", "mnist-to-mnist-m", "--budget", "tiny")
    words += ("--method", "subspace-alignment", "--method", "train-on-target", "--jobs", "1")
    shown = call(*words, "-o", tmp_path)
    assert shown.code == 1
    assert "mnist->mnist-m source-only 0 failed: the disk is gone" in shown.err
    assert "mnist->mnist-m subspace-alignment 0 failed: what it needs failed" in shown.err
    assert set(records(tmp_path / "tiny" / "mnist-to-mnist-m")) == {"train-on-target"}


def test_a_call_for_one_cell_adds_to_the_table_that_is_there(
    short: None, tmp_path: Path, call: Call
) -> None:
    words = ("reproduce", "table2", "--budget", "tiny", "--method", "bottleneck-only")
    for cell in ("amazon-to-webcam:alexnet-conv5", "dslr-to-webcam:alexnet-conv5"):
        shown = call(*words, "-o", tmp_path, "--cell", cell, "--quiet", "--json")
        assert shown.code == 0, shown.err
        lines = [json.loads(line) for line in shown.out.splitlines()]
        assert {line["cell"] for line in lines} == {cell.replace("-to-", "->")}
        values = {line["method"]: line["value"] for line in lines}
        assert values["bottleneck-only"] is not None
        assert values["adversarial"] is None  # not asked for: a dash
    written = (tmp_path / "tiny" / "table2.jsonl").read_text().splitlines()
    assert [json.loads(line)["cell"] for line in written] == [
        "amazon->webcam:alexnet-conv5",
        "dslr->webcam:alexnet-conv5",
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tabel1"], "no table or figure 'tabel1'; did you mean 'table1'?"),
        (["table1", "--cell", "mnist->mnist-n"], "did you mean 'mnist->mnist-m'?"),
        (["table1", "--method", "adversarail"], "did you mean 'adversarial'?"),
        (["table1", "--budget", "tinny"], "no budget 'tinny'; did you mean 'tiny'?"),
        (["table1", "--jobs", "0"], "--jobs takes 1 or more processes, not 0"),
        (["table1", "--seeds", "x"], "seeds are numbers"),
        (["table1", "--layer", "fc3"], "--layer is for tsne, not for table1"),
    ],
)
def test_mistakes_are_one_line(words: list[str], line: str, tmp_path: Path, call: Call) -> None:
    shown = call("reproduce", *words, "-o", tmp_path / "out")
    assert shown.code == 2
    assert line in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


# -- target labels ----------------------------------------------------------------------------


def poisoned(domain: Domain) -> Domain:
    """The same inputs with every label wrong."""
    assert domain.labels is not None
    return domain._with(labels=(domain.labels + 3) % 10)


def opening(monkeypatch: pytest.MonkeyPatch, poison: bool) -> None:
    real = job_data.open_at_size

    def opened(text: str, size: int) -> Domain:
        domain = real(text, size)
        return poisoned(domain) if poison and text.startswith("digits-m") else domain

    monkeypatch.setattr(job_data, "open_at_size", opened)
    monkeypatch.setattr(feature_split, "open_at_size", opened)


@pytest.mark.parametrize("experiment", [MNIST_M, TABLE2[0]], ids=["table1", "table2"])
def test_poisoned_target_labels_leave_all_predictions_as_they_are(
    experiment: Experiment, tmp_path: Path
) -> None:
    predicted: dict[bool, dict[str, Predicted]] = {}
    digests: dict[bool, dict[str, str]] = {}
    for poison in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            opening(patch, poison)
            predicted[poison], digests[poison] = {}, {}
            for method in experiment.methods:
                one = job(experiment, method, tmp_path / str(poison))
                predicted[poison][method] = compute(one)
                if (one.folder / "checkpoint.json").exists():
                    digests[poison][method] = checkpoint_digest(one.folder)
    for method, clean in predicted[False].items():
        dirty = predicted[True][method]
        if method == "train-on-target":  # the one that sees them: the poison does work
            assert not np.array_equal(clean.predictions, dirty.predictions)
            assert digests[False][method] != digests[True][method]
            continue
        np.testing.assert_array_equal(clean.predictions, dirty.predictions, err_msg=method)
        # no label is the same twice, so who knows neither can't be right on both
        assert clean.target_accuracy + dirty.target_accuracy <= 1
        assert (clean.target_accuracy_svm or 0) + (dirty.target_accuracy_svm or 0) <= 1
        assert digests[False].get(method) == digests[True].get(method), method
    networks = set(HEADS) if experiment is TABLE2[0] else {"source-only", "recommended"}
    assert networks <= set(digests[False])
