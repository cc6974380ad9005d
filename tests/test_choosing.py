"""Choosing among finished runs: ranked by evidence alone, whatever target accuracies say."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revgrad import Domain, RampUp, adapt, from_arrays
from revgrad.choosing.differing import differing_settings
from revgrad.choosing.finding import find_runs
from revgrad.choosing.selecting import select
from revgrad.diagnostics.kept import read_kept
from revgrad.diagnostics.scores import SCORES, Score
from revgrad.errors import InputError, NonFiniteLossError, RunError, UnknownNameError
from revgrad.schedules import Constant
from revgrad.training.runs import Run
from shown import Shown
from tiny import Perceptron, seeded, vectors

SOURCE, TARGET = vectors(60, 1), vectors(50, 2, shift=0.7)


def train(folder: Path, target: Domain = TARGET, **changes: Any) -> None:
    """A tiny run with evidence, two evaluations and a target test."""
    values: dict[str, Any] = {
        "layer": "lower",
        "hidden": (4,),
        "steps": 12,
        "batch": 8,
        "device": "cpu",
        "evaluate_every": 6,
        "held_out": 0.3,
        "progress": False,
    }
    test = vectors(20, 3, shift=0.7)
    network = seeded(Perceptron)
    adapt(network, SOURCE, target, target_test=test, run=folder, **{**values, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of the same pair that differ in λ, seed and layer."""
    place = tmp_path_factory.mktemp("runs")
    train(place / "a")
    train(place / "b", seed=1, factor=RampUp(height=0.3), rate=Constant(0.05))
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
        kept = read_kept(runs / name)
        assert kept is not None
        assert kept.end is not None
        expected[runs / name] = information(kept.end.target_logits)
    order = sorted(expected, key=lambda run: -expected[run])
    assert [row.run for row in found.rows] == order
    for row in found.rows:
        assert row.score == pytest.approx(expected[row.run], rel=1e-9)
        assert row.estimate is not None
        assert row.estimate.low <= row.estimate.value <= row.estimate.high
        assert row.outcome in ("adapted", "no gain", "harmed", "can't tell")
    assert found.chosen.run == order[0]
    assert not found.left_out


def test_settings_that_differ_are_shown_and_no_others(runs: Path) -> None:
    rows = {row.run.name: row.settings for row in select([runs], "mutual-information").rows}
    assert rows["a"] == {
        "steps": "12",
        "rate": "annealed:0.01,10,0.75",
        "factor": "ramp-up:10,1",
        "seed": "0",
    }
    assert rows["b"] == {
        "steps": "12",
        "rate": "constant:0.05",
        "factor": "ramp-up:10,0.3",
        "seed": "1",
    }
    alone = select([runs / "a"], "mutual-information")
    assert alone.chosen.settings == {}


def test_recorded_target_accuracies_decide_nothing(runs: Path) -> None:
    """The run that the score likes least is made to look perfect, the best one hopeless."""
    before = select([runs], "mutual-information")
    for row, accuracy in zip(before.rows, (0.0, 0.5, 1.0), strict=True):
        path = row.run / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert any(line.get("target_accuracy") is not None for line in lines)
        for line in lines:
            if line["kind"] == "evaluation":
                line |= {"target_accuracy": accuracy, "target_loss": 9 - 9 * accuracy}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (row.run / "result.json").write_text(json.dumps({"target_accuracy": accuracy}))
    assert select([runs], "mutual-information") == before


def test_poisoned_target_labels_leave_the_ranking_as_it_is(runs: Path, tmp_path: Path) -> None:
    inputs = TARGET.batch(np.arange(len(TARGET))).inputs
    wrong = from_arrays(inputs.numpy(), 2 - np.asarray(TARGET.labels), name="vectors2")
    train(tmp_path / "poisoned" / "a", wrong)
    before = next(r for r in select([runs], "mutual-information").rows if r.run.name == "a")
    both = select([runs / "a", tmp_path / "poisoned"], "mutual-information")  # one target
    assert [row.score for row in both.rows] == [before.score, before.score]


def test_failed_runs_come_last_and_others_are_left_out_by_name(runs: Path) -> None:
    with pytest.raises(NonFiniteLossError):
        train(runs / "Failed", rate=Constant(1e38), steps=40)
    train(runs / "blind", evidence=0)
    train(runs / "short")
    (runs / "short" / "evidence" / "end.safetensors").unlink()
    lines = (runs / "short" / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["step"] <= 6]
    (runs / "short" / "metrics.jsonl").write_text("\n".join(kept) + "\n")
    found = select([runs], "mutual-information")
    assert {row.run.name for row in found.rows} == {"a", "b", "c", "Failed"}
    last = found.rows[-1]
    assert last.run.name == "Failed"
    assert last.score is None
    assert last.estimate is None
    assert last.failure is not None
    assert "not finite" in last.failure
    assert {run.name: reason for run, reason in found.left_out.items()} == {
        "blind": "it kept no evidence (train it with evidence, --evidence)",
        "short": "it is not finished (step 6 of 12)",
    }


def test_a_score_that_is_no_number_ranks_behind_numbers(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = itertools.chain([math.nan, 1.0, 2.0], itertools.repeat(0.0))  # the verdicts too
    odd = Score(lambda evidence: next(values), ("target_logits",), "", "")
    monkeypatch.setitem(SCORES, "odd", odd)
    assert [row.run.name for row in select([runs], "odd").rows] == ["c", "b", "a"]


def test_equal_scores_keep_the_order_of_the_names(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCORES, "same", Score(lambda e: 1.0, ("target_logits",), "", ""))
    found = select([runs / "c", runs / "a", runs / "b"], "same")
    assert [row.run.name for row in found.rows] == ["c", "a", "b"]


def test_runs_of_other_seeds_are_evidence_for_one_another(runs: Path) -> None:
    train(runs / "d", seed=5)
    train(runs / "e", seed=6)
    found = select([runs], "seed-agreement")
    assert {row.run.name for row in found.rows} == {"a", "d", "e"}
    assert {run.name for run in found.left_out} == {"b", "c"}
    predicted = {}
    for name in "ade":
        kept = read_kept(runs / name)
        assert kept is not None
        assert kept.end is not None
        predicted[name] = kept.end.target_logits.argmax(1)
    pairs = [(one, other) for one in "ade" for other in "ade" if one < other]
    mean = np.mean([(predicted[a] == predicted[b]).mean() for a, b in pairs])
    for row in found.rows:  # three models, each pair of them
        assert row.score == pytest.approx(mean)


def test_different_targets_and_classes_are_refused(runs: Path) -> None:
    train(runs / "other", vectors(50, 9, shift=0.7))
    with pytest.raises(InputError, match=r"different targets \(vectors2, 50 rows; vectors9"):
        select([runs], "mutual-information")
    shutil.rmtree(runs / "other")
    path = runs / "b" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "class_count": 4}))
    with pytest.raises(InputError, match="different classes"):
        select([runs], "mutual-information")


def test_a_source_only_run_is_compared_where_it_names_the_same_target(runs: Path) -> None:
    options = {"source": "s.npz", "target": "t.npz", "test": None}
    train(runs / "new" / "adapted", options=options)
    train(runs / "new" / "plain", method="source-only", options=options)
    assert len(select([runs / "new"], "mutual-information").rows) == 2
    train(runs / "other", method="source-only", options={**options, "target": "u.npz"})
    with pytest.raises(InputError, match=r"different targets \(t.npz, 50 rows; u.npz\)"):
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
    with pytest.raises(RunError, match="no run to choose: runs/a: it kept no evidence"):
        select([runs], "mutual-information")
    for name in "abc":
        Run(runs / name).note_failure("the loss is not finite at step 3")
    with pytest.raises(RunError, match="every run failed; runs/a: the loss is not finite"):
        select([runs], "mutual-information")


def test_a_differing_objective_is_shown_where_the_method_does_not_say_it(runs: Path) -> None:
    configs = [Run(runs / name).config for name in "ab"]
    by_method = [
        {**vars(configs[0]), "objective": "One()", "method": "one"},
        {**vars(configs[1]), "objective": "Two()", "method": "two"},
    ]
    shown = differing_settings([type(configs[0])(**values) for values in by_method])
    assert shown[0]["method"] == "one"
    assert "objective" not in shown[0]
    by_method[1]["method"] = "one"
    shown = differing_settings([type(configs[0])(**values) for values in by_method])
    assert shown[1]["objective"] == "Two()"


def test_the_command_shows_the_chosen_run_and_json(runs: Path, call: Callable[..., Shown]) -> None:
    train(runs / "blind", evidence=0)
    shown = call("select", runs, "--score", "mutual-information")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0].split()[:2] == ["run", "mutual-information"]
    assert lines[1].startswith("→")
    assert sum(line.startswith("→") for line in lines) == 1
    assert "left out: runs/blind: it kept no evidence" in shown.out
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
