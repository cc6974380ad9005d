"""Tables from the command line: train, evaluate and predict on .csv and .parquet files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shown import Shown

pd = pytest.importorskip("pandas")
Call = Callable[..., Shown]

MINE = """
from torch import nn

def table(classes, shape):
    return nn.Sequential(nn.Linear(*shape, 8), nn.ReLU(), nn.Linear(8, classes))
"""
TRAIN = (
    *("train", "--source", "a.csv", "--target", "b.csv", "--label", "y"),
    *("--network", "mine:table", "--layer", "1"),
    *("--steps", "40", "--batch-size", "32", "--domain-classifier", "4", "--quiet"),
)


def patients(n: int, shift: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    height = rng.normal(shift, 1, n)
    frame = pd.DataFrame(
        {
            "height": height,
            "town": rng.choice(["Oslo", "Rome"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
            "y": np.where(height > shift, "tall", "short"),
        }
    )
    frame.loc[::8, "height"] = np.nan
    return frame


@pytest.fixture
def tables(place: Path) -> Path:
    (place / "mine.py").write_text(MINE)
    patients(160, 0.0, 0).to_csv(place / "a.csv", index=False)
    target = patients(120, 0.4, 1)
    target.drop(columns="y").to_csv(place / "b.csv", index=False)
    target.to_parquet(place / "test.parquet")
    return place


@pytest.mark.slow
def test_from_a_table_to_predictions(tables: Path, call: Call) -> None:
    run = call(*TRAIN, "--test", "test.parquet", "--output", "runs/a", "--json")
    assert run.code == 0, run.err
    network = ("--network", "mine:table")
    evaluated = json.loads(call("evaluate", "runs/a", "test.parquet", *network, "--json").out)
    assert evaluated["accuracy"] == pytest.approx(json.loads(run.out)["target_accuracy"])
    assert set(evaluated["by_class"]) == {"short", "tall"}
    shown = call("predict", "runs/a", "b.csv", *network)  # the file has no labels
    assert shown.code == 0, shown.err
    lines = list(csv.DictReader(shown.out.splitlines()))
    assert len(lines) == 120
    truth = pd.read_parquet(tables / "test.parquet")["y"].tolist()
    right = np.mean([line["class"] == one for line, one in zip(lines, truth, strict=True)])
    assert right == pytest.approx(evaluated["accuracy"])
    inputs = json.loads((tables / "runs/a/encoder.json").read_text())["inputs"]
    assert [one["column"] for one in inputs if "categories" in one] == ["town"]
    assert {one["part"] for one in inputs if one.get("part")} >= {"days", "month", "weekday"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--label", "Y"), "no column 'Y'"),
        (("--label", None), "--label is missing: the column of a.csv that holds the labels"),
        (("--target", "c.csv"), "c lacks columns that the source has: height, town, day"),
        (("--source", "none.csv"), "no file none.csv"),
        (("--source", "torn.parquet"), "torn.parquet can't be read as a table"),
        (("--test", "b.csv"), "no column 'y'"),
    ],
)
def test_one_line_for_a_mistake(
    tables: Path, call: Call, change: tuple[str, str | None], message: str
) -> None:
    (tables / "c.csv").write_text("x,z\n1,2\n3,4\n")
    (tables / "torn.parquet").write_bytes(b"PAR1 and no more")
    words = [*TRAIN, "--output", "runs/b"]
    option, value = change
    if option in words:
        at = words.index(option)
        words[at : at + 2] = [] if value is None else [option, value]
    else:
        words += [option, str(value)]
    failed = call(*words)
    assert failed.code in (1, 2)
    assert message in failed.err
    assert failed.err.strip().count("\n") == 0
