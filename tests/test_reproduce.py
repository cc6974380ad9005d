"""The tiny budget from end to end: every kind of row, skipped when done, resumed when not; target
labels that change nothing."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from revgrad import Run, load
from revgrad.domains import Domain
from revgrad.errors import RunError
from revgrad.experiments import feature_rows, image_rows, running, workers
from revgrad.experiments.budgets import BUDGETS
from revgrad.experiments.choosing import choose_cells
from revgrad.experiments.recipes import FACTORS, HEADS
from revgrad.experiments.records import Record, read_record
from revgrad.experiments.row import Row
from revgrad.experiments.running import compute, finished, needs, run_row
from revgrad.experiments.semi_supervised import SEMI_SUPERVISED
from revgrad.experiments.table1 import TABLE1
from revgrad.experiments.table2 import TABLE2
from revgrad.training.events import EvaluationRecord
from revgrad.training.settings import Settings
from shown import Shown
from tiny import checkpoint_digest, environment

TINY = BUDGETS["tiny"]
MNIST_M = TABLE1[0]
Call = Callable[..., Shown]


def records(folder: Path) -> dict[str, Record]:
    found = [read_record(path) for path in folder.glob("*/result.json")]
    return {record.method: record for record in found if record is not None}


def check(record: Record) -> None:
    assert record.target_accuracy is not None
    for value in (record.target_accuracy, record.target_accuracy_svm, record.source_accuracy):
        assert value is None or (math.isfinite(value) and 0 <= value <= 1)
    assert record.budget.endswith("stand-ins, 300 rows a domain, 200 test rows")


@pytest.mark.timeout(600)
def test_table1_tiny_all_methods_then_nothing_again(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("reproduce", "table1", "--cell", "mnist-to-mnist-m", "--budget", "tiny", "--jobs", "1")
    shown = call(*words, "--output", tmp_path)
    assert shown.code == 0, shown.err
    found = records(tmp_path / "tiny" / "mnist-to-mnist-m")
    assert set(found) == set(MNIST_M.methods)
    for record in found.values():
        check(record)
    # better than chance, where sixty steps are enough to ask for it
    assert found["source-only"].source_accuracy > 0.5
    assert found["train-on-target"].target_accuracy > 0.2
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
        raise AssertionError("a done row was computed again")

    monkeypatch.setattr(running, "compute", refuse)
    again = call(*words, "--output", tmp_path, "--json")
    assert again.code == 0, again.err
    assert again.err.count("done before") == len(MNIST_M.methods)
    lines = [json.loads(line) for line in again.out.splitlines()]
    assert {line["method"]: line["value"] for line in lines}["adversarial"] == (
        found["adversarial"].target_accuracy
    )


def test_t_sne_reads_the_same_runs(tmp_path: Path, call: Call) -> None:
    words = ("reproduce", "tsne", "--cell", "mnist-to-mnist-m", "--budget", "tiny", "-o", tmp_path)
    shown = call(*words, "--layer", "fc3")
    assert shown.code == 0, shown.err
    picture = tmp_path / "tiny" / "tsne-mnist-to-mnist-m-fc3.png"
    assert f"see {picture}" in shown.out
    assert picture.stat().st_size > 10_000
    wrong = call(*words, "--layer", "fc33")
    assert wrong.code == 2
    assert "no layer of the network 'mnist' 'fc33'; did you mean 'fc3'?" in wrong.err


@pytest.mark.parametrize(
    ("cell", "method"), [("svhn->mnist", "adversarial"), ("syn-signs->gtsrb", "source-only")]
)
def test_the_other_networks(cell: str, method: str, tmp_path: Path) -> None:
    experiment = choose_cells("table1", [cell])[0]
    record = run_row(Row(experiment, method, 0, TINY, tmp_path))
    check(record)
    assert record.steps == 12
    assert record.settings["network"] == experiment.network
    assert Run(record_folder(tmp_path, cell, method)).config.network == experiment.network


def record_folder(output: Path, cell: str, method: str, seed: int = 0) -> Path:
    return output / "tiny" / cell.replace("->", "-to-") / f"{method}-{seed}"


@pytest.mark.timeout(600)
def test_semi_supervised_rows(tmp_path: Path) -> None:
    for experiment in SEMI_SUPERVISED:
        small = replace(experiment, network="mnist", size=28)  # the big network has its own test
        for method in ("real-only", "both"):
            record = run_row(Row(small, method, 0, TINY, tmp_path))
            check(record)
            assert record.steps == 60
        assert record.target_accuracy > 0.15  # both, of ten classes
    target = Run(Row(SEMI_SUPERVISED[0], "both", 0, TINY, tmp_path).folder).config.domains["target"]
    assert (target["samples"], target["labels"]) == (100, 100)
    target = Run(Row(SEMI_SUPERVISED[1], "both", 0, TINY, tmp_path).folder).config.domains["target"]
    assert (target["samples"], target["labels"]) == (300, 100)


def test_synthetic_only_is_the_source_only_network_on_another_test(tmp_path: Path) -> None:
    experiment = replace(SEMI_SUPERVISED[0], size=28)
    row = Row(experiment, "synthetic-only", 0, TINY, tmp_path)
    with pytest.raises(RunError, match="holds no trained network"):
        run_row(row)
    (bound,) = needs(row)
    assert (bound.experiment.cell, bound.method) == ("syn-signs->gtsrb", "source-only")
    needed = replace(bound, experiment=replace(bound.experiment, network="mnist", size=28))
    run_row(needed)
    answers = compute(row)
    test = image_rows.open_data(row).test
    np.testing.assert_array_equal(answers.predictions, load(needed.folder).predict(test))
    assert answers.target_accuracy == np.mean(answers.predictions == test.labels)
    known = image_rows.open_data(replace(row, method="both")).target
    assert known is not None
    assert not np.intersect1d(known.rows, test.rows).size


@pytest.mark.timeout(600)
def test_table2_rows_here_and_in_other_processes_are_the_same(tmp_path: Path, call: Call) -> None:
    words = ["reproduce", "table2", "--cell", "amazon-to-webcam:alexnet-conv5", "--budget", "tiny"]
    for method in ("source-only", "bottleneck-only", "kernel-matching"):
        words += ["--method", method]
    here = call(*words, "--output", tmp_path / "here", "--json", "--quiet", "--jobs", "1")
    assert here.code == 0, here.err
    there = call(*words, "--output", tmp_path / "there", "--json", "--quiet", "--jobs", "2")
    assert there.code == 0, there.err
    both = [[json.loads(x) for x in shown.out.splitlines()] for shown in (here, there)]
    values = [{x["method"]: x["value"] for x in lines} for lines in both]
    assert values[0] == values[1]
    assert values[0]["bottleneck-only"] > 0.15
    assert values[0]["adversarial"] is None  # not asked for: a dash


@pytest.mark.parametrize(
    ("cores", "gigabytes", "device", "expected"),
    [
        (2, 24, "cpu", 2),
        (64, 24, "cpu", 12),
        (8, 1, "cpu", 1),
        (64, 24, "cuda", 1),
    ],
)
def test_as_many_rows_at_once_as_cores_and_memory_carry(
    cores: int, gigabytes: int, device: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"SC_PHYS_PAGES": gigabytes * 2**18, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(workers, "usable_cores", lambda: cores)
    monkeypatch.setattr(workers.os, "sysconf", memory.__getitem__)
    monkeypatch.setattr(workers, "choose_device", lambda wanted: torch.device(device))
    assert workers.rows_at_once() == expected


@pytest.mark.timeout(600)
def test_the_other_rows_of_table2(tmp_path: Path) -> None:
    for method in ("geodesic-flow", "subspace-alignment", "nbnn", "interpolating-path"):
        check(run_row(Row(TABLE2[0], method, 0, TINY, tmp_path)))
    record = run_row(Row(TABLE2[0], "mean-matching", 0, TINY, tmp_path))
    check(record)
    assert record.settings["chosen_width"] in feature_rows.WIDTHS
    assert record.settings["chosen_factor"] in FACTORS["mean-matching"]
    assert record.settings["per_class"] == 20
    adapted = run_row(Row(TABLE2[1], "adversarial", 0, TINY, tmp_path))
    check(adapted)
    assert adapted.settings["per_class"] == 8
    assert adapted.source_accuracy > 0.3


def test_coordinates_in_the_span_keep_every_distance_and_each_domains_mean_is_zero(
    tmp_path: Path,
) -> None:
    split = feature_rows.open_split(Row(TABLE2[0], "adversarial", 0, TINY, tmp_path))
    moved = feature_rows.in_span(split)
    for before, after in ((split.source, moved.source), (split.target, moved.target)):
        raw, new = (feature_rows._array(one).astype(np.float64) for one in (before, after))
        raw = raw - raw.mean(0)
        np.testing.assert_allclose(new.mean(0), 0, atol=1e-5)
        ratio = np.linalg.norm(new, axis=1) / np.linalg.norm(raw, axis=1)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)
        np.testing.assert_allclose(new @ new.T, raw @ raw.T * ratio[0] ** 2, rtol=1e-3, atol=0.05)
    squares = [np.square(feature_rows._array(one)).mean() for one in (moved.source, moved.target)]
    assert np.mean(squares) == pytest.approx(1.0, rel=1e-4)
    assert moved.source.shape[0] <= len(split.source) + len(split.target) - 2
    joint = feature_rows.in_span(split, one_mean=True)
    means = [feature_rows._array(one).mean(0) for one in (joint.source, joint.target)]
    np.testing.assert_allclose(means[0], -means[1], atol=1e-4)
    assert np.abs(means[0]).max() > 0.1  # the shift is left for the method to see


def test_the_factor_of_the_best_held_out_source_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(TABLE2[0], "mean-matching", 0, TINY, tmp_path)
    split = feature_rows.open_split(row)
    accuracies = {0.003: 0.91, 0.01: 0.93, 0.03: 0.93, 0.1: 0.92, 0.25: 0.2}

    def trained(network: object, split: object, objective: str, settings: Settings, *_: object):
        last = EvaluationRecord(1, accuracies[settings.factor(0)], 0.0, None, None, 0.0)
        return SimpleNamespace(outcome=SimpleNamespace(last=last))

    monkeypatch.setattr(feature_rows, "_adapt", trained)
    assert feature_rows.choose_factor(row, split, lambda done, steps: None) == 0.03
    accuracies[0.003] = 0.94
    assert feature_rows.choose_factor(row, split, lambda done, steps: None) == 0.003


# -- done, interrupted, changed ---------------------------------------------------------------


def test_a_record_of_other_settings_is_refused(tmp_path: Path) -> None:
    row = Row(TABLE2[0], "bottleneck-only", 0, TINY, tmp_path)
    run_row(row)
    assert finished(row) is not None
    longer = replace(TINY, steps={**TINY.steps, "bottleneck": 61})
    with pytest.raises(RunError, match=r"other settings \(steps: 60 there, 61 now\)"):
        finished(replace(row, budget=longer))


SCRIPT = """
import sys
from dataclasses import replace
from revgrad.experiments import budgets
tiny = budgets.BUDGETS["tiny"]
budgets.BUDGETS["tiny"] = replace(tiny, steps={**tiny.steps, "mnist": 130})
if __name__ == "__main__":
    from revgrad.cli import main
    main()
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("jobs", "number", "code"), [(1, signal.SIGINT, 130), (2, signal.SIGTERM, 143)]
)
def test_an_interrupted_table_goes_on_where_it_stopped(
    jobs: int, number: int, code: int, tmp_path: Path
) -> None:
    script = tmp_path / "long.py"
    script.write_text(SCRIPT)
    output = tmp_path / "out"
    words = [sys.executable, str(script), "reproduce", "table1", "--cell", "mnist-to-mnist-m"]
    words += ["--method", "source-only", "--method", "adversarial", "--budget", "tiny"]
    words += ["--output", str(output), "--jobs", str(jobs)]
    first = subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True)
    metrics = record_folder(output, "mnist->mnist-m", "adversarial") / "metrics.jsonl"
    end = time.monotonic() + 400
    while not metrics.exists() and time.monotonic() < end:
        assert first.poll() is None, first.stderr.read() if first.stderr else ""
        time.sleep(0.02)
    os.kill(first.pid, number)
    _, said = first.communicate(timeout=400)
    assert first.returncode == code, said
    last = said.strip().splitlines()[-1]
    assert "the same command goes on from there" in last
    assert "of 2 rows done" in last
    folder = metrics.parent
    stopped = Run(folder).checkpoint()
    assert stopped is not None
    assert 50 <= stopped.step < 130
    assert not (folder / "result.json").exists()
    second = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert (folder / "result.json").exists()
    steps = [record.step for record in Run(folder).records()]
    assert steps[0] == 50  # metrics of the first process are kept: it went on, not anew
    assert checkpoint_digest(folder) == _undisturbed(tmp_path / "whole")


def _undisturbed(output: Path) -> str:
    longer = replace(TINY, steps={**TINY.steps, "mnist": 130})
    row = Row(MNIST_M, "adversarial", 0, longer, output)
    run_row(row)
    return checkpoint_digest(row.folder)


def test_a_row_that_fails_stops_those_that_need_it_and_no_others(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute_or_fail(row: Row, report: object) -> object:
        if row.method == "source-only":
            raise RunError("the disk is gone")
        return compute(row, report)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "compute", compute_or_fail)
    words = ("reproduce", "table1", "--cell", "mnist-to-mnist-m", "--budget", "tiny")
    words += ("--method", "subspace-alignment", "--method", "train-on-target", "--jobs", "1")
    shown = call(*words, "-o", tmp_path)
    assert shown.code == 1
    assert "mnist->mnist-m source-only 0 failed: the disk is gone" in shown.err
    assert "mnist->mnist-m subspace-alignment 0 failed: what it needs failed" in shown.err
    assert set(records(tmp_path / "tiny" / "mnist-to-mnist-m")) == {"train-on-target"}


def test_a_call_for_one_cell_adds_to_the_table_that_is_there(tmp_path: Path, call: Call) -> None:
    words = ("reproduce", "table2", "--budget", "tiny", "--method", "bottleneck-only")
    for cell in ("amazon-to-webcam:alexnet-conv5", "dslr-to-webcam:alexnet-conv5"):
        shown = call(*words, "-o", tmp_path, "--cell", cell, "--quiet", "--json")
        assert shown.code == 0, shown.err
        assert {json.loads(line)["cell"] for line in shown.out.splitlines()} == {
            cell.replace("-to-", "->")
        }
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
    real = image_rows.opened

    def opened(text: str, size: int) -> Domain:
        domain = real(text, size)
        return poisoned(domain) if poison and text.startswith("digits-m") else domain

    monkeypatch.setattr(image_rows, "opened", opened)
    monkeypatch.setattr(feature_rows, "opened", opened)


SHORT = replace(TINY, steps={**TINY.steps, "mnist": 12, "compact": 4, "bottleneck": 12})


@pytest.mark.timeout(600)
@pytest.mark.parametrize("experiment", [MNIST_M, TABLE2[0]], ids=["table1", "table2"])
def test_poisoned_target_labels_leave_all_predictions_as_they_are(
    experiment: object, tmp_path: Path
) -> None:
    answers: dict[bool, dict[str, np.ndarray]] = {}
    digests: dict[bool, dict[str, str]] = {}
    for poison in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            opening(patch, poison)
            answers[poison], digests[poison] = {}, {}
            for method in experiment.methods:  # type: ignore[attr-defined]
                row = Row(experiment, method, 0, SHORT, tmp_path / str(poison))  # type: ignore[arg-type]
                answers[poison][method] = compute(row).predictions
                if (row.folder / "checkpoint.json").exists():
                    digests[poison][method] = checkpoint_digest(row.folder)
    for method, clean in answers[False].items():
        if method == "train-on-target":  # the one that sees them: the poison does work
            assert not np.array_equal(clean, answers[True][method])
            assert digests[False][method] != digests[True][method]
            continue
        np.testing.assert_array_equal(clean, answers[True][method], err_msg=method)
        assert digests[False].get(method) == digests[True].get(method), method
    networks = set(HEADS) if experiment is TABLE2[0] else {"source-only", "recommended"}
    assert networks <= set(digests[False])
