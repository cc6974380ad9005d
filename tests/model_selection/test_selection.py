"""Choosing among finished runs: ranked by evidence alone, whatever target accuracies say."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad import Callback, Domain, RampUp, Trainer, adapt, from_arrays
from revgrad._seals import sealed_line, unsealed, unsealed_line, write_sealed
from revgrad.diagnostics.recorder import read_evidence
from revgrad.diagnostics.scores import SCORES, Score
from revgrad.errors import InputError, NonFiniteLossError, RunError, UnknownNameError
from revgrad.model_selection.selection import find_runs, select
from revgrad.schedules import Constant
from revgrad.training.callbacks import EvaluationRecord
from revgrad.training.run import Provenance, Run
from shown import Shown
from tiny import Perceptron, seeded, vectors

SOURCE, TARGET = vectors(60, 1), vectors(50, 2, shift=0.7)


def train(folder: Path, target: Domain = TARGET, **changes: Any) -> None:
    """A tiny run with evidence, two evaluations and a target test."""
    values: dict[str, Any] = {
        "recipe": "paper",
        "layer": "lower",
        "domain_classifier": (4,),
        "steps": 12,
        "batch_size": 8,
        "device": "cpu",
        "evaluate_every": 6,
        "held_out": 0.3,
        "progress": False,
    }
    test = vectors(20, 3, shift=0.7)
    network = seeded(Perceptron)
    adapt(network, SOURCE, target, test=test, run=folder, **{**values, **changes})


class Stopped(Exception):
    """The end of a training in its middle."""


class StopAfter(Callback):
    """Ends a training as a fault would, when a step has been evaluated."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        if record.step == self.step:
            raise Stopped


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of the same pair that differ in λ, seed and layer."""
    place = tmp_path_factory.mktemp("runs")
    train(place / "a")
    train(place / "b", seed=1, adaptation_factor=RampUp(height=0.3), learning_rate=Constant(0.05))
    train(place / "c", steps=3, evaluate_every=1)
    return place


@pytest.fixture
def runs(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to spoil."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "runs")
    return Path("runs")


def information(logits: np.ndarray) -> float:
    """Entropy of the mean prediction less the mean entropy, by loops."""
    every = []
    for row in logits.astype(float):
        powers = [math.exp(value - max(row)) for value in row]
        every.append([power / math.fsum(powers) for power in powers])

    def entropy(shares: list[float]) -> float:
        return -math.fsum(share * math.log(share) for share in shares if share > 0)

    mean = [math.fsum(row[i] for row in every) / len(every) for i in range(len(every[0]))]
    return entropy(mean) - math.fsum(map(entropy, every)) / len(every)


def test_runs_are_ranked_by_their_evidence_best_first(runs: Path) -> None:
    found = select([runs], "mutual-information")
    expected = {}
    for name in "abc":
        recorded = read_evidence(runs / name)
        assert recorded is not None
        assert recorded.end is not None
        expected[runs / name] = information(recorded.end.target_logits)
    order = sorted(expected, key=lambda run: -expected[run])
    assert [one.run for one in found.runs] == order
    for one in found.runs:
        assert one.score == pytest.approx(expected[one.run], rel=1e-9)
        assert one.estimate is not None
        assert one.estimate.low <= one.estimate.value <= one.estimate.high
        assert one.outcome in ("adapted", "no gain", "harmed", "can't tell")
    assert found.chosen.run == order[0]
    assert not found.left_out


def test_settings_that_differ_are_shown_and_no_others(runs: Path) -> None:
    rows = {one.run.name: one.settings for one in select([runs], "mutual-information").runs}
    assert rows["a"] == {
        "steps": "12",
        "learning rate": "annealed:0.01,10,0.75",
        "adaptation factor": "ramp-up:10,1",
        "seed": "0",
    }
    assert rows["b"] == {
        "steps": "12",
        "learning rate": "constant:0.05",
        "adaptation factor": "ramp-up:10,0.3",
        "seed": "1",
    }
    alone = select([runs / "a"], "mutual-information")
    assert alone.chosen.settings == {}


def test_recorded_target_accuracies_decide_nothing(runs: Path) -> None:
    """The run that the score likes least is made to look perfect, the best one hopeless."""
    before = select([runs], "mutual-information")
    for one, accuracy in zip(before.runs, (1e-17 / 3, 1.5 / 3.1, 1 - 1e-15), strict=True):
        path = one.run / "metrics.jsonl"
        lines = [unsealed_line(line) for line in path.read_text().splitlines(keepends=True)]
        assert any(line.get("target_accuracy") is not None for line in lines)
        for line in lines:
            if line["kind"] == "evaluation":
                line |= {"target_accuracy": accuracy, "target_loss": 9 - 9 * accuracy}
        written = "".join(map(sealed_line, lines))
        assert len(written) >= path.stat().st_size  # a checkpoint knows how much was written
        path.write_text(written)
        (one.run / "result.json").write_text(json.dumps({"target_accuracy": accuracy}))
    assert select([runs], "mutual-information") == before


def test_poisoned_target_labels_leave_the_ranking_as_it_is(runs: Path, tmp_path: Path) -> None:
    inputs = TARGET.batch(np.arange(len(TARGET))).inputs
    wrong = from_arrays(inputs.numpy(), 2 - np.asarray(TARGET.labels), name="vectors2")
    train(tmp_path / "poisoned" / "a", wrong)
    before = next(r for r in select([runs], "mutual-information").runs if r.run.name == "a")
    both = select([runs / "a", tmp_path / "poisoned"], "mutual-information")  # one target
    assert [one.score for one in both.runs] == [before.score, before.score]


def test_failed_runs_come_last_and_others_are_left_out_by_name(runs: Path) -> None:
    with pytest.raises(NonFiniteLossError):
        train(runs / "Failed", learning_rate=Constant(1e38), steps=40)
    train(runs / "blind", evidence_samples=0)
    with pytest.raises(Stopped):
        train(runs / "short", callbacks=[StopAfter(6)])
    found = select([runs], "mutual-information")
    assert {one.run.name for one in found.runs} == {"a", "b", "c", "Failed"}
    last = found.runs[-1]
    assert last.run.name == "Failed"
    assert last.score is None
    assert last.estimate is None
    assert last.failure is not None
    assert "not finite" in last.failure
    assert {run.name: reason for run, reason in found.left_out.items()} == {
        "blind": "it recorded no evidence (--evidence-samples of 1 or more would do)",
        "short": "it is not finished (step 6 of 12)",
    }


def test_a_score_that_is_no_number_ranks_behind_numbers(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = itertools.chain([math.nan, 1.0, 2.0], itertools.repeat(0.0))  # the verdicts too
    odd = Score(lambda evidence: next(values), ("target_logits",), "", "")
    monkeypatch.setitem(SCORES, "odd", odd)
    assert [one.run.name for one in select([runs], "odd").runs] == ["c", "b", "a"]


def test_equal_scores_keep_the_order_of_the_names(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCORES, "same", Score(lambda e: 1.0, ("target_logits",), "", ""))
    found = select([runs / "c", runs / "a", runs / "b"], "same")
    assert [one.run.name for one in found.runs] == ["c", "a", "b"]


def test_runs_of_other_seeds_are_evidence_for_one_another(runs: Path) -> None:
    train(runs / "d", seed=5)
    train(runs / "e", seed=6)
    found = select([runs], "seed-agreement")
    assert {one.run.name for one in found.runs} == {"a", "d", "e"}
    assert {run.name for run in found.left_out} == {"b", "c"}
    predicted = {}
    for name in "ade":
        recorded = read_evidence(runs / name)
        assert recorded is not None
        assert recorded.end is not None
        predicted[name] = recorded.end.target_logits.argmax(1)
    pairs = [(one, other) for one in "ade" for other in "ade" if one < other]
    mean = np.mean([(predicted[a] == predicted[b]).mean() for a, b in pairs])
    for one in found.runs:  # three models, each pair of them
        assert one.score == pytest.approx(mean)


def test_different_targets_and_classes_are_refused(runs: Path) -> None:
    train(runs / "other", vectors(50, 9, shift=0.7))
    with pytest.raises(InputError, match=r"different targets \(vectors2, 50 samples; vectors9"):
        select([runs], "mutual-information")
    shutil.rmtree(runs / "other")
    path = runs / "b" / "config.json"
    write_sealed(path, {**unsealed(path.read_text()), "class_count": 4})
    with pytest.raises(InputError, match="different classes"):
        select([runs], "mutual-information")


def test_a_source_only_run_is_compared_where_it_names_the_same_target(runs: Path) -> None:
    known = Provenance(source="s.npz", target="t.npz")
    train(runs / "new" / "adapted", provenance=known)
    train(runs / "new" / "plain", method="source-only", provenance=known)
    assert len(select([runs / "new"], "mutual-information").runs) == 2
    elsewhere = replace(known, target="u.npz")
    train(runs / "other", method="source-only", provenance=elsewhere)
    with pytest.raises(InputError, match=r"different targets \(t.npz, 50 samples; u.npz\)"):
        select([runs / "other", runs / "new"], "mutual-information")


def test_runs_are_found_in_folders_and_their_baselines_are_not(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "a", runs / "deep" / "er" / "x")
    shutil.copytree(runs / "b", runs / "c" / "baseline")
    found = find_runs([runs, runs / "a", tmp_path / "runs" / "b"])
    assert found == [runs / "a", runs / "b", runs / "c", runs / "deep" / "er" / "x"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="not a run, and there is none in it"):
        find_runs([tmp_path / "empty"])
    with pytest.raises(RunError, match="is not a folder"):
        find_runs([runs / "a" / "config.json"])


def test_where_no_run_can_be_chosen_the_reason_is_said(runs: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'mutual-information'"):
        select([runs], "mutual-informatio")
    for name in "abc":
        shutil.rmtree(runs / name / "evidence")
    with pytest.raises(RunError, match="no run to choose: runs/a: it recorded no evidence"):
        select([runs], "mutual-information")
    for name in "abc":
        Run(runs / name).note_failure("the loss is not finite at step 3")
    with pytest.raises(RunError, match="every run failed; runs/a: the loss is not finite"):
        select([runs], "mutual-information")


def test_the_command_shows_the_chosen_run_and_json(runs: Path, call: Callable[..., Shown]) -> None:
    train(runs / "blind", evidence_samples=0)
    shown = call("select", runs, "--score", "mutual-information")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0].split()[:2] == ["run", "mutual-information"]
    assert lines[1].startswith("→")
    assert sum(line.startswith("→") for line in lines) == 1
    assert "left out: runs/blind: it recorded no evidence" in shown.out
    chosen = lines[1].split()[1]
    assert lines[-1].startswith(f"chosen: {chosen}, by mutual-information")
    values = json.loads(call("select", runs, "--score", "mutual-information", "--json").out)
    assert values["chosen"] == chosen
    assert [row["run"] for row in values["runs"]] == [
        next(word for word in line.split() if word.startswith("runs/")) for line in lines[1:4]
    ]
    assert values["runs"][0]["estimate"]["low"] <= values["runs"][0]["estimate"]["high"]
    assert values["left_out"] == {"runs/blind": values["left_out"]["runs/blind"]}
    plain = json.loads(call("select", runs, "--json").out)  # the recommended score
    assert plain["score"]


def test_mistakes_are_one_line(runs: Path, call: Callable[..., Shown]) -> None:
    assert "not a folder" in call("select", "nowhere").line
    assert "no score 'entropie'" in call("select", runs, "--score", "entropie").line
    train(runs / "other", vectors(50, 9, shift=0.7))
    assert "different targets" in call("select", runs).line
