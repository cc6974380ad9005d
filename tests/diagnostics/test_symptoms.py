"""Each symptom on a case that has it, and on one that has not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_recorder import trained

from revgrad.diagnostics import Evidence, Symptom, find_symptoms, verdict
from revgrad.diagnostics.divergence import own_domain_error
from revgrad.diagnostics.symptoms import CHECKS, SEVERITIES
from revgrad.training.callbacks import EvaluationRecord, TrainingRecord
from revgrad.training.run import Run

CLASSES = 5
Record = TrainingRecord | EvaluationRecord


def training(n: int = 40, **fields: Callable[[float], float | None]) -> list[Record]:
    """Records of a training as it should be; a field by name is a function of progress."""
    usual: dict[str, Callable[[float], float | None]] = {
        "label_loss": lambda p: 0.05 + 1.5 * math.exp(-8 * p),
        "domain_loss": lambda p: 0.6 - 0.2 * math.exp(-5 * p),
        "domain_accuracy": lambda p: 0.65 + 0.2 * math.exp(-5 * p),
        "adaptation_factor": lambda p: 2 / (1 + math.exp(-10 * p)) - 1,
    }
    chosen = {**usual, **fields}
    found: list[Record] = []
    for i in range(1, n + 1):
        values: dict[str, Any] = {name: value(i / n) for name, value in chosen.items()}
        found.append(TrainingRecord(step=50 * i, learning_rate=0.01, seconds=1.0 * i, **values))
    return found


#: An adversary as a run's configuration describes it.
SITE = {
    "name": "site",
    "attribute": "site",
    "layer": "lower",
    "factor": 1.0,
    "values": ["a", "b", "c"],
    "guessing_loss": 1.1,
    "guessing_score": 0.4,
}


def of_site(loss: float, score: float) -> list[Record]:
    """A training with an adversary that does so well throughout."""
    shown: Any = {
        "adversary_losses": lambda p: {"site": loss},
        "adversary_scores": lambda p: {"site": score},
    }
    return training(**shown)


def evaluations(*accuracies: float, loss: float = 0.1) -> list[Record]:
    return [
        EvaluationRecord(500 * i, accuracy, loss, None, None, 1.0)
        for i, accuracy in enumerate(accuracies, 1)
    ]


def evidence(**changes: Any) -> Evidence:
    """A model that is right for most samples, classes alike often in both domains."""
    rng = np.random.default_rng(0)
    parts: dict[str, Any] = {}
    for name, n in (("source", 400), ("target", 500)):
        labels = np.arange(n) % CLASSES
        parts[f"{name}_logits"] = 3 * np.eye(CLASSES)[labels] + rng.normal(size=(n, CLASSES))
        parts[f"{name}_features"] = np.abs(rng.normal(size=(n, 6))) + np.eye(6)[labels]
    parts["source_labels"] = np.arange(400) % CLASSES
    return Evidence(**{**parts, **changes})


def names(records: list[Record], *rest: Any, **more: Any) -> list[str]:
    return [symptom.name for symptom in find_symptoms(records, *rest, **more)]


def test_a_sound_run_shows_nothing() -> None:
    records = training() + evaluations(0.9, 0.97, 0.965)
    separation = own_domain_error([-1.0, 1.0] * 50, [1.0, -1.0] * 50)
    assert find_symptoms(records, evidence(), separation=separation, steps=2000) == ()
    assert find_symptoms([]) == ()


ILL: dict[str, tuple[list[Record], dict[str, Any]]] = {
    "non-finite loss": (training(label_loss=lambda p: math.nan if p > 0.8 else 0.5), {}),
    "features collapsed": (
        training(),
        {"evidence": evidence(target_features=np.full((500, 6), 3.0))},
    ),
    "predictions collapsed": (
        training(),
        {"evidence": evidence(target_logits=np.eye(CLASSES)[np.arange(500) % 9 // 8])},
    ),
    "source not learned": (training(label_loss=lambda p: 1.6), {"classes": CLASSES}),
    "source error rising": (training() + evaluations(0.97, 0.98, 0.9), {}),
    "domain classifier overpowered": (
        training(domain_loss=lambda p: 3 * p, domain_accuracy=lambda p: 0.3),
        {},
    ),
    "domain classifier too strong": (
        training(domain_loss=lambda p: 0.3 * (1 - p), domain_accuracy=lambda p: 0.9 + 0.1 * p),
        {},
    ),
    "λ never grew": (training(adaptation_factor=lambda p: 0.0), {}),
    "classes missing in the target": (
        training(),
        {"evidence": evidence(target_logits=3 * np.eye(CLASSES)[np.arange(500) % (CLASSES - 1)])},
    ),
    "label shift": (
        training(),
        {
            "evidence": evidence(
                target_logits=3 * np.eye(CLASSES)[np.minimum(np.arange(500) % 9, CLASSES - 1)]
            )
        },
    ),
    "domain classifier fooled, features apart": (
        training(domain_accuracy=lambda p: 0.52),
        {"separation": own_domain_error([-1.0] * 200, [1.0] * 200)},
    ),
    "domain classifier never learned": (
        training(domain_loss=lambda p: 0.6931, domain_accuracy=lambda p: 0.5),
        {},
    ),
    "adversary too strong": (of_site(0.05, 0.99), {"adversaries": [SITE]}),
    "adversary overpowered": (of_site(1.8, 0.3), {"adversaries": [SITE]}),
    "adversary never learned": (of_site(1.1, 0.4), {"adversaries": [SITE]}),
    "stopped early": (training(), {"steps": 5000}),
    "BatchNorm sees two domains": (training(), {"batch_norm": "joint"}),
}


@pytest.mark.parametrize("name", CHECKS)
def test_each_symptom_alone_on_a_case_that_has_it(name: str) -> None:
    records, more = ILL[name]
    found = find_symptoms(records, **more)
    assert [symptom.name for symptom in found] == [name]
    for text in (found[0].seen, found[0].cause, found[0].remedy):
        assert len(text) > 15
        assert "\n" not in text
    assert found[0].severity in SEVERITIES


@pytest.mark.parametrize("name", CHECKS)
def test_each_symptom_is_absent_from_all_other_cases(name: str) -> None:
    for other, (records, more) in ILL.items():
        if other != name:
            assert name not in names(records, **more), other


def test_the_most_serious_come_first() -> None:
    records = training(adaptation_factor=lambda p: 0.0)
    found = find_symptoms(records, steps=5000, batch_norm="joint")
    assert [symptom.severity for symptom in found] == ["serious", "warning", "note"]


def test_numbers_are_shown() -> None:
    def only(name: str) -> Symptom:
        records, more = ILL[name]
        return find_symptoms(records, **more)[0]

    assert "98.0% to 90.0%" in only("source error rising").seen
    assert "class 4" in only("label shift").seen
    assert "20.0% of the source" in only("label shift").seen
    assert "class 0 for 89.0% of the samples" in only("predictions collapsed").seen
    assert "step 2000 of 5000" in only("stopped early").seen
    assert "step 1650" in only("non-finite loss").seen


def test_a_run_that_stopped_on_a_non_finite_loss_is_judged_by_its_error() -> None:
    """The trainer stops before it records such a loss: only its error tells."""
    failure = "the loss is not finite at step 812 (L_y nan, L_d 0.7); …"
    found = find_symptoms(training(16), steps=2000, failure=failure)
    assert [symptom.name for symptom in found] == ["non-finite loss"]
    assert found[0].seen == failure
    assert names(training(16), steps=2000, failure="disk full") == ["stopped early"]


def test_one_bad_record_among_many_is_no_end() -> None:
    records = training()
    spoilt = [
        replace(r, domain_accuracy=1.0, domain_loss=0.0) if i == 38 else r
        for i, r in enumerate(records)
        if isinstance(r, TrainingRecord)
    ]
    assert names([*spoilt]) == []


def test_a_strong_domain_classifier_is_less_serious_where_little_fights_it() -> None:
    won: dict[str, Any] = {"domain_loss": lambda p: 0.05, "domain_accuracy": lambda p: 0.99}
    for factor, severity in ((1.0, "serious"), (0.01, "note")):
        found = {
            s.name: s
            for s in find_symptoms(training(**won, adaptation_factor=lambda p, f=factor: f))
        }
        assert found["domain classifier too strong"].severity == severity


def test_a_domain_classifier_that_was_right_for_one_record_has_learned() -> None:
    """What the chart shows: its lowest point, not a mean around it."""
    records = training(
        domain_loss=lambda p: 0.303 if p == 0.5 else 0.95, domain_accuracy=lambda p: 0.5
    )
    assert names(records) == []
    records = training(
        domain_loss=lambda p: 0.75 if p == 0.5 else 0.95, domain_accuracy=lambda p: 0.5
    )
    found = find_symptoms(records)
    assert [symptom.name for symptom in found] == ["domain classifier never learned"]
    assert "never below 0.750" in found[0].seen


@pytest.mark.parametrize(
    ("method", "severity"), [("adversarial", "serious"), ("adversarial-consistency", "note")]
)
def test_a_reversal_that_is_weak_by_design_may_leave_the_domains_apart(
    tmp_path: Path, method: str, severity: str
) -> None:
    """adversarial-consistency reverses .01 λ: the changed images adapt, and λ itself reaches 1."""
    trained(tmp_path / "run", method=method, evaluate_every=0)
    records = training(domain_loss=lambda p: 0.05, domain_accuracy=lambda p: 0.99)
    lines = [json.dumps({"kind": "training", **asdict(record)}) for record in records]
    (tmp_path / "run" / "metrics.jsonl").write_text("\n".join(lines))
    found = {symptom.name: symptom for symptom in verdict(tmp_path / "run").symptoms}
    assert found["domain classifier too strong"].severity == severity


def test_other_objectives_distances_are_not_taken_for_a_domain_classifiers_loss() -> None:
    """MeanMatching's L_d is a squared distance: 0 is good, 5 is no defeat."""
    for distance in (0.0, 0.69, 5.0):
        records = training(domain_loss=lambda p, d=distance: d, domain_accuracy=lambda p: None)
        assert names(records) == []


def test_source_only_training_has_no_factor_to_grow() -> None:
    records = training(
        domain_loss=lambda p: None, domain_accuracy=lambda p: None, adaptation_factor=lambda p: 0.0
    )
    assert names(records) == []
    small = find_symptoms(training(adaptation_factor=lambda p: 0.01))
    assert [(s.name, s.severity) for s in small] == [("λ never grew", "note")]


def test_a_rising_label_loss_shows_without_evaluations() -> None:
    records = training(label_loss=lambda p: 0.1 if 0.3 < p < 0.7 else 0.6)
    assert names(records) == ["source error rising"]
    assert "0.100 to 0.600" in find_symptoms(records)[0].seen
    # small losses may double
    assert names(training(label_loss=lambda p: 0.01 if p < 0.5 else 0.03)) == []


def test_separate_batch_norm_shows_where_inference_is_worse_than_training() -> None:
    worse, same = training() + evaluations(0.5, loss=2.0), training() + evaluations(0.95)
    assert names(worse, batch_norm="separate") == ["BatchNorm sees two domains"]
    assert names(same, batch_norm="separate") == []
    assert names(worse, batch_norm="target") == []
    assert names(worse) == []


def test_few_classes_in_the_source_are_no_collapse() -> None:
    """Two of five classes in source and target alike."""
    few = evidence(
        source_labels=np.arange(400) % 2,
        source_logits=3 * np.eye(CLASSES)[np.arange(400) % 2],
        target_logits=np.eye(CLASSES)[np.arange(500) % 2],
    )
    assert names(training(), few) == []
    alone = Evidence(np.eye(CLASSES)[np.arange(500) % 2])
    assert names(training(), alone) == ["predictions collapsed"]


def test_chance_is_no_label_shift() -> None:
    """Twenty target samples never hold five classes in the same shares as the source."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        drawn = rng.integers(0, CLASSES, 20)
        few = Evidence(
            np.eye(CLASSES)[drawn],
            source_logits=np.eye(CLASSES)[np.arange(50) % CLASSES],
            source_labels=np.arange(50) % CLASSES,
        )
        found += "label shift" in names(training(), few)
    assert found <= 1


def test_target_accuracy_is_never_looked_at() -> None:
    records = training() + evaluations(0.9, 0.97)
    poisoned = [
        replace(r, target_accuracy=0.01, target_loss=99.0) if isinstance(r, EvaluationRecord) else r
        for r in records
    ]
    assert find_symptoms(poisoned, evidence()) == find_symptoms(records, evidence())


def test_records_of_a_run_on_disk(tmp_path: Path) -> None:
    records = [{"kind": "training", **asdict(record)} for record in ILL["λ never grew"][0]]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert names(Run(tmp_path).records()) == ["λ never grew"]


def test_classes_that_the_target_lacks_are_named() -> None:
    whole = evidence(source_features=None, target_features=None)
    there = whole.target_logits.argmax(1) != 1
    partial = replace(whole, target_logits=whole.target_logits[there])
    found = {symptom.name: symptom for symptom in find_symptoms([], partial)}
    assert "label shift" not in found
    assert "of class 1," in found["classes missing in the target"].seen
    assert "partial" in found["classes missing in the target"].remedy
    assert "classes missing in the target" not in names([], whole)
    # one class alone is left: that is a collapse, or another task
    first = whole.target_logits[whole.target_logits.argmax(1) == 0]
    one = replace(whole, target_logits=first)
    assert "classes missing in the target" not in names([], one)
