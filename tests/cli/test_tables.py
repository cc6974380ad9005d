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
    *("train", "--recipe", "paper", "--source", "a.csv", "--target", "b.csv", "--label", "y"),
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


@pytest.mark.slow
def test_weights_and_groups_of_columns_are_those_of_python(tables: Path, call: Call) -> None:
    """The same weights of the network, bit for bit; and neither column is an input."""
    import revgrad
    from revgrad.networks import build_network
    from tiny import weights_digest

    frame = pd.read_csv("a.csv")
    frame["person"] = np.arange(len(frame)) // 4
    frame["counts"] = np.linspace(0.5, 2, len(frame))
    frame.to_csv("a.csv", index=False)
    options = "--groups person --sample-weights counts --class-weights short=3,tall=1"
    run = call(*TRAIN, *options.split(), "--output", "runs/w")
    assert run.code == 0, run.err
    digests = []
    for weighted in (True, False):
        source = revgrad.from_frame("a.csv", "y", groups="person", weights="counts")
        if weighted:
            source = source.weighted(source.weights, by_class={"short": 3, "tall": 1})
        network = build_network(
            "mine:table", classes=2, channels=1, size=(1, 1), seed=0, shape=source.shape
        )
        short: dict[str, Any] = {
            "recipe": "paper",
            "steps": 40,
            "batch_size": 32,
            "domain_classifier": (4,),
        }
        target = revgrad.from_frame("b.csv")
        revgrad.adapt(network, source, target, layer="1", progress=False, **short)
        digests.append(weights_digest(network))
    trained = revgrad.load("runs/w", network)
    assert weights_digest(trained.network) == digests[0] != digests[1]
    assert trained.encoder is not None
    kept = trained.encoder.state()
    assert (kept["groups"], kept["weights"]) == ("person", "counts")
    assert not {"person", "counts"} & {one["column"] for one in kept["inputs"]}
    shown = call("predict", "runs/w", "a.csv", "--network", "mine:table")
    assert shown.code == 0
    assert "ignored" not in shown.err  # the columns are known, and are no inputs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--class-weights balance", "--class-weights takes balanced or CLASS=WEIGHT"),
        ("--class-weights tall=1", "class_weights has none for class 'short'"),
        ("--class-weights tall=1,short=1,tal=2", "no class 'tal'"),
        ("--sample-weights town", "town"),
        ("--sample-weights height", "the weights' column 'height' is empty in 20 of 160"),
        ("--groups persn", "no column 'persn'"),
    ],
)
def test_one_line_for_wrong_weights(tables: Path, call: Call, words: str, message: str) -> None:
    failed = call(*TRAIN, *words.split(), "--output", "runs/b")
    assert failed.code == 2
    assert message in failed.line


def test_columns_to_drop_and_numbers_that_are_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Shown]
) -> None:
    """Several labels in a table, of which one is learnt: the others are left out."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    here = pd.DataFrame({"age": random.normal(size=60), "code": np.arange(60) % 3})
    here = here.assign(low=here.age * 2, high=here.age + 1, ill=np.where(here.age > 0, "y", "n"))
    here.to_csv("a.csv", index=False)
    here.drop(columns=["ill", "low", "high"]).to_csv("b.csv", index=False)
    train = "train --source a.csv --target b.csv --recipe paper --steps 3 --batch-size 8 --quiet"
    shown = call(*f"{train} --label ill -o r".split())
    assert "b lacks columns that the source has: low, high" in shown.line
    assert "--drop" in shown.line
    rest = "--label ill --drop low --drop high --categorical code -o r"
    assert call(*train.split(), *rest.split()).code == 0
    encoder = json.loads(Path("r/encoder.json").read_text())
    assert [one["column"] for one in encoder["inputs"]] == ["age", "code"]
    assert encoder["inputs"][1]["categories"] == ["0", "1", "2"]
    assert call("evaluate", "r", "a.csv").code == 0
    # several numbers a sample
    several = call(*f"{train} --label low,high --drop ill --test a.csv -o s".split())
    assert several.code == 0, several.err
    assert "R²" in several.out
    assert call("predict", "s", "b.csv", "-o", "found.csv").code == 0
    assert Path("found.csv").read_text().startswith("file,value_0,value_1\n")
    wrong = call("predict", "s", "b.csv", "-o", "found.xlsx")
    assert "written as .csv or .npz, not '.xlsx'" in wrong.line
    here.to_csv("semi.csv", index=False, sep=";")
    wrong = call(*f"{train} --label ill --source semi.csv -o t".split())
    assert "separated by ';', and commas are wanted" in wrong.line
