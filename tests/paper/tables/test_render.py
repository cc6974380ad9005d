"""Tables from records made by hand, against numbers computed by hand."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest

from revgrad.paper.tables.experiment import Experiment, Published
from revgrad.paper.tables.render import (
    as_csv,
    as_latex,
    as_markdown,
    cell_name,
    gap_covered,
    notes,
    table_lines,
)
from revgrad.training.record import Record

CELL = Experiment(
    table="table1",
    cell="a->b",
    source="a",
    target="b",
    test="b:test",
    network="mnist",
    size=28,
    methods=("source-only", "subspace-alignment", "adversarial", "train-on-target"),
    published={
        "source-only": Published(0.5),
        "subspace-alignment-oracle": Published(0.6, gap=0.25),
        "adversarial": Published(0.7, 0.01, 0.5),
    },
    note="pictures are small",
)


def record(method: str, seed: int, accuracy: float, **changes: object) -> Record:
    made = Record(
        cell="a->b",
        method=method,
        seed=seed,
        steps=100,
        budget="100 steps",
        source_accuracy=0.9,
        target_accuracy=accuracy,
        settings={},
        command="revgrad",
        torch="2",
        seconds=60.0 * (seed + 1),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


RECORDS = [
    record("source-only", 0, 0.40),
    record("adversarial", 0, 0.60, target_accuracy_svm=0.5),
    record("adversarial", 1, 0.70, target_accuracy_svm=0.6),
    record("adversarial", 2, 0.80, target_accuracy_svm=0.7),
    record("train-on-target", 0, 0.90),
]


def test_means_deviations_gaps_and_times_are_those_computed_by_hand() -> None:
    lines = {line.method: line for line in table_lines(RECORDS, [CELL])}
    method = lines["adversarial"]
    assert method.value == pytest.approx(0.70, abs=1e-12)
    assert method.sd == pytest.approx(math.sqrt((0.1**2 + 0 + 0.1**2) / 2), abs=1e-12)
    assert method.seeds == 3
    assert method.svm == pytest.approx(0.60, abs=1e-12)
    assert method.gap == pytest.approx((0.70 - 0.40) / (0.90 - 0.40), abs=1e-12)
    assert method.seconds == pytest.approx(120.0)
    assert method.published == Published(0.7, 0.01, 0.5)
    assert lines["source-only"].sd is None
    assert lines["source-only"].gap is None
    assert lines["train-on-target"].gap is None


def test_an_svm_of_fewer_seeds_says_so() -> None:
    of_one = [replace(one, target_accuracy_svm=0.5 if one.seed == 0 else None) for one in RECORDS]
    assert "| 3 | 0.6000 |" in as_markdown(table_lines(RECORDS, [CELL]))
    assert "| 3 | 0.5000 (of 1) |" in as_markdown(table_lines(of_one, [CELL]))


def test_what_was_not_run_shows_as_a_dash_and_keeps_its_place() -> None:
    lines = table_lines(RECORDS, [CELL])
    assert [line.method for line in lines] == [
        "source-only",
        "subspace-alignment",
        "subspace-alignment-oracle",
        "adversarial",
        "train-on-target",
    ]
    rows = as_markdown(lines).splitlines()
    assert rows[3] == "| a->b | subspace alignment | – | – | – | – | – | – | – | – |"
    assert rows[4].startswith("| a->b | subspace alignment, oracle components | – | – | – | – |")
    assert "0.6000 (25.0 %)" in rows[4]
    shorter = table_lines(RECORDS, [CELL], missing=False)
    assert "subspace-alignment" not in {line.method for line in shorter}


def test_markdown_shows_every_number() -> None:
    row = as_markdown(table_lines(RECORDS, [CELL])).splitlines()[5]
    assert row == (
        "| a->b | DANN, as printed | 0.7000 ± 0.1000 | 3 | 0.6000 | 60.0 % "
        "| 0.7000 ± 0.0100 (50.0 %) | 0.9000 | 100 steps | 2 min |"
    )


def test_an_oracle_has_a_line_of_its_own() -> None:
    aligned = record("subspace-alignment", 0, 0.45, target_accuracy_oracle=0.55)
    lines = {line.method: line for line in table_lines([*RECORDS, aligned], [CELL])}
    assert lines["subspace-alignment"].value == pytest.approx(0.45)
    assert lines["subspace-alignment"].published is None
    oracle = lines["subspace-alignment-oracle"]
    assert oracle.value == pytest.approx(0.55)
    assert oracle.gap == pytest.approx(0.3)
    assert oracle.published == Published(0.6, gap=0.25)


def test_budgets_are_never_mixed_and_gaps_are_between_the_longest_bounds() -> None:
    longer = [
        record("source-only", 0, 0.50, steps=900, budget="900 steps"),
        record("adversarial", 0, 0.85, steps=900, budget="900 steps"),
    ]
    lines = [x for x in table_lines([*longer, *RECORDS], [CELL]) if x.method == "adversarial"]
    assert [(x.budget, x.seeds) for x in lines] == [("100 steps", 3), ("900 steps", 1)]
    assert lines[0].gap == pytest.approx((0.70 - 0.50) / 0.40)
    assert lines[1].gap == pytest.approx((0.85 - 0.50) / 0.40)


def test_gaps_are_those_of_the_svms_numbers_and_never_mix_them_with_others() -> None:
    svm = {"source-only": 0.50, "adversarial": 0.62, "train-on-target": 0.90}
    own = [replace(r, target_accuracy_svm=svm[r.method]) for r in RECORDS]
    aligned = record("subspace-alignment", 0, 0.54, target_accuracy_oracle=0.58)
    lines = {line.method: line for line in table_lines([*own, aligned], [CELL])}
    assert lines["adversarial"].gap == pytest.approx((0.62 - 0.50) / 0.40)  # not .70 − .40 of .50
    assert lines["subspace-alignment"].gap == pytest.approx((0.54 - 0.50) / 0.40)
    assert lines["subspace-alignment-oracle"].gap == pytest.approx((0.58 - 0.50) / 0.40)
    lacking = [*RECORDS[1:2], *(r for r in own if r.method != "adversarial")]
    lacking[0] = replace(lacking[0], target_accuracy_svm=None)
    assert {x.method: x.gap for x in table_lines(lacking, [CELL])}["adversarial"] is None


def test_no_gap_where_the_upper_bound_is_not_above_the_lower() -> None:
    assert gap_covered(0.5, 0.6, 0.6) is None
    assert gap_covered(0.5, 0.6, 0.4) is None
    assert gap_covered(0.7, 0.6, 0.8) == pytest.approx(0.5)


def test_errors_are_one_minus_accuracy() -> None:
    experiment = replace(CELL, measure="error", published={"adversarial": Published(0.059)})
    line = next(x for x in table_lines(RECORDS, [experiment]) if x.method == "adversarial")
    assert line.value == pytest.approx(0.30)
    assert line.sd == pytest.approx(0.10)
    assert line.svm == pytest.approx(0.40)
    assert "target error" in as_markdown([line])


def test_cells_that_no_experiment_has_come_last_where_wanted() -> None:
    stray = record("adversarial", 0, 0.66, cell="digits:train->digits-m:train")
    assert len(table_lines([stray, *RECORDS], [CELL])) == 5
    last = table_lines([stray, *RECORDS], [CELL], others=True)[-1]
    assert (last.cell, last.value) == ("digits->digits-m", 0.66)


def test_cells_of_single_runs_are_those_of_the_tables() -> None:
    assert cell_name("syn-numbers->svhn:test") == "syn-numbers->svhn"
    assert cell_name("digits:train->digits-m:train") == "digits->digits-m"
    assert cell_name("amazon->webcam:alexnet-conv5") == "amazon->webcam:alexnet-conv5"


def test_csv_has_the_numbers_in_full_and_nothing_where_there_is_none() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(table_lines(RECORDS, [CELL])))))
    method = next(row for row in rows if row["method"] == "adversarial")
    assert float(method["mean"]) == pytest.approx(0.70, abs=1e-12)
    assert float(method["gap"]) == pytest.approx(0.60, abs=1e-12)
    assert (method["published"], method["published_sd"]) == ("0.7", "0.01")
    absent = next(row for row in rows if row["method"] == "subspace-alignment")
    assert (absent["mean"], absent["published"], absent["seeds"]) == ("", "", "0")


def test_latex_is_balanced_and_escaped() -> None:
    text = as_latex(table_lines(RECORDS, [replace(CELL, cell="a_b->50%")]))
    assert r"a\_b$\to$50\%" in text
    assert "±" not in text
    assert "–" not in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 6
    assert {line.count("&") - line.count(r"\&") for line in body} == {9}
    assert text.startswith(r"\begin{tabular}{ll" + "r" * 8)
    assert text.rstrip().endswith(r"\end{tabular}")


def test_notes_name_cells_and_reduced_data() -> None:
    reduced = record("adversarial", 0, 0.5, data={"source": "mnist", "test": "svhn28"})
    assert notes([reduced], [CELL]) == [
        "a->b: pictures are small.",
        "SVHN: pixels reduced from 32×32 to 28×28.",
    ]
    assert notes(RECORDS, [CELL]) == ["a->b: pictures are small."]
