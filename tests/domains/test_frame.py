"""Data frames: kinds of columns, what is learnt of the source alone, frames that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import revgrad
from revgrad import adapt, from_frame, load
from revgrad.domains import FrameEncoder, as_domain, encode, encoder_of, fit_encoder
from revgrad.domains.encoded import encoder_from_state
from revgrad.domains.frame_encoder import MOST_CATEGORIES, date_parts
from revgrad.errors import InputError, RunError
from tiny import seeded, weights_digest

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
CITIES = np.array(["Oslo", "Paris", "Rome", None], dtype=object)


def people(n: int = 120, seed: int = 0, shift: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    age = rng.normal(40 + shift, 12, n)
    city = rng.choice(CITIES, n)
    sick = np.where(age + 10 * (city == "Rome") > 42 + shift, "sick", "well")
    age[::9] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "city": city,
            "smoker": rng.random(n) > 0.5,
            "children": rng.integers(0, 4, n),
            "seen": pd.Timestamp("2023-11-20") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
            "y": sick,
        }
    )


def values(domain: revgrad.Domain) -> np.ndarray:
    return domain.batch(np.arange(len(domain))).inputs.numpy()  # type: ignore[union-attr]


class Net(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.lower = nn.Linear(width, 6)
        self.upper = nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.upper(self.lower(x).relu())


def trained(source: Any, target: Any, **changes: Any) -> revgrad.Adapted:
    short = {
        "recipe": "paper",
        "layer": "lower",
        "steps": 6,
        "batch_size": 16,
        "domain_classifier": (4,),
    }
    return adapt(seeded(Net), source, target, progress=False, **{**short, **changes})


def test_inputs_are_those_of_a_column_transformer() -> None:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = people().drop(columns="seen")
    frame["street"] = [f"street {i % 70}" for i in range(len(frame))]  # more than the most
    domain = from_frame(frame, label="y")
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(
        max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    reference = ColumnTransformer(
        [
            ("age", number, ["age"]),
            ("gone", SimpleImputer(strategy="constant", add_indicator=True), ["age"]),
            ("city", categories, ["city"]),
            ("rest", number, ["smoker", "children"]),
            ("street", categories, ["street"]),
        ]
    )
    inputs = frame.drop(columns="y").astype({"city": object, "street": object, "smoker": float})
    inputs["city"] = inputs["city"].where(inputs["city"].notna(), None)
    wanted = np.delete(reference.fit_transform(inputs), 1, axis=1)  # the constant imputer's value
    np.testing.assert_allclose(values(domain), wanted, rtol=1e-6, atol=1e-6)
    names = encoder_of(domain).names  # type: ignore[union-attr]
    assert names[:8] == [
        *("age", "age missing", "city=Oslo", "city=Paris", "city=Rome", "city=missing"),
        *("smoker", "children"),
    ]
    assert names[-1] == "street=(rare)"
    assert len(names) == values(domain).shape[1] == 8 + MOST_CATEGORIES
    assert domain.classes == ("sick", "well")


def test_dates_become_the_calendar_s_numbers() -> None:
    dates = pd.Series(pd.to_datetime(["2024-02-29 18:30", "1969-12-31 00:00", None]))
    found = date_parts(dates.to_numpy().astype("datetime64[s]"))
    for i, date in enumerate(dates[:2]):
        assert found["days"][i] == (date - pd.Timestamp(0)) / pd.Timedelta("1D")
        assert (found["month"][i], found["day"][i]) == (date.month, date.day)
        assert (found["weekday"][i], found["hour"][i]) == (
            date.weekday(),
            date.hour + date.minute / 60,
        )
    assert all(np.isnan(one[2]) for one in found.values())


def test_pandas_and_polars_alike() -> None:
    frame = people()
    other = pl.from_pandas(frame)
    one, two = from_frame(frame, label="y"), from_frame(other, label="y")
    assert one.fingerprint() == two.fingerprint()
    assert encoder_of(one).state() == encoder_of(two).state()  # type: ignore[union-attr]
    nullable = frame.convert_dtypes()
    assert from_frame(nullable, label="y").fingerprint() == one.fingerprint()
    category = frame.astype({"city": "category"})
    assert from_frame(category, label="y").fingerprint() == one.fingerprint()
    assert as_domain(frame.drop(columns="y"), "x").shape == one.shape
    assert as_domain((frame.drop(columns="y"), frame["y"]), "x").fingerprint() == one.fingerprint()


@pytest.mark.parametrize(
    ("labels", "classes", "first"),
    [
        (pd.Series([3, 0, 1]), None, 3),
        (pd.Series([True, False, True]), ("False", "True"), 1),
        (pd.Series([2.0, 0.5, 1.0]), None, 2.0),
        (pd.Series([2.0, 4.0, 1.0]), None, 2.0),  # floats stay a regression
        (pd.Series(["b", "a", "b"], dtype="category"), ("a", "b"), 1),
    ],
)
def test_labels_of_a_column(labels: Any, classes: Any, first: Any) -> None:
    domain = from_frame(pd.DataFrame({"x": [1.0, 2, 3], "y": labels}), label="y")
    assert domain.classes == classes
    assert domain.is_classification == (labels.dtype.kind != "f")
    assert domain.labels is not None
    assert domain.labels[0] == first


def test_what_is_learnt_is_of_the_training_part_alone() -> None:
    frame, target = people(), people(80, 1, 30.0).drop(columns="y")
    adapted = trained(from_frame(frame, label="y"), target, held_out=0.3)
    rest, _ = from_frame(frame, label="y").split(0.3)
    age = frame["age"].to_numpy()[rest.rows]
    filled = np.where(np.isnan(age), np.nanmedian(age), age)
    encoder = adapted.encoder
    assert isinstance(encoder, FrameEncoder)
    first: Any = encoder.inputs[0]
    assert first.median == np.nanmedian(age)
    assert (first.mean, first.scale) == pytest.approx((filled.mean(), filled.std()))
    # nothing of the target, nor of what is held out, takes part
    other = people(80, 5, -100.0).drop(columns="y")
    assert trained(from_frame(frame, label="y"), other, held_out=0.3).encoder == encoder
    changed = frame.copy()
    out = np.setdiff1d(np.arange(len(frame)), rest.rows)
    changed.loc[out, "age"] = 1e6
    assert trained(from_frame(changed, label="y"), target, held_out=0.3).encoder == encoder


def test_a_target_s_labels_are_not_read() -> None:
    frame, target = people(), people(80, 1, 5.0)
    source = from_frame(frame, label="y")
    poisoned = target.assign(y=np.where(target["y"] == "sick", "well", "dog"))
    plain = trained(source, from_frame(target.drop(columns="y")))
    for one in (target, poisoned, from_frame(target, label="y"), from_frame(poisoned, label="y")):
        assert weights_digest(trained(source, one).network) == weights_digest(plain.network)


def test_raw_frames_after_training_and_from_a_run_s_folder(tmp_path: Path) -> None:
    frame, target = people(), people(80, 1, 5.0)
    adapted = trained(
        from_frame(frame, label="y"), target.drop(columns="y"), test=target, run=tmp_path / "run"
    )
    predicted = adapted.predict(target.drop(columns="y"))
    assert (adapted.predict(pl.from_pandas(target)) == predicted).all()
    shuffled = target[["y", "seen", "smoker", "city", "children", "age"]]
    assert (adapted.predict(shuffled) == predicted).all()
    accuracy = adapted.evaluate(target).accuracy
    assert accuracy == adapted.evaluate(target.drop(columns="y"), target["y"]).accuracy
    assert adapted.result is not None
    assert adapted.result.last is not None
    assert accuracy == adapted.result.last.target_accuracy
    loaded = load(tmp_path / "run", Net())
    assert loaded.encoder == adapted.encoder
    np.testing.assert_array_equal(loaded.outputs(target), adapted.outputs(target))
    # the same call goes on with it; a description that was altered is refused
    again = trained(from_frame(frame, label="y"), target.drop(columns="y"), run=tmp_path / "run")
    assert weights_digest(again.network) == weights_digest(adapted.network)
    path = tmp_path / "run" / "encoder.json"
    state = json.loads(path.read_text())
    state["inputs"][0]["median"] += 1
    path.write_text(json.dumps(state))
    with pytest.raises(RunError, match=r"encoder.json can.t be read: it was altered"):
        load(tmp_path / "run", Net())


def test_state_is_plain_json() -> None:
    encoder = encoder_of(from_frame(people(), label="y"))
    assert encoder is not None
    state = json.loads(json.dumps(encoder.state()))
    assert encoder_from_state(state) == encoder
    with pytest.raises(RunError, match="no encoder is called 'pickle'"):
        encoder_from_state({"kind": "pickle"})
    with pytest.raises(RunError, match="can't be read: KeyError"):
        encoder_from_state({"kind": "frame"})


def test_what_a_target_may_differ_in(caplog: pytest.LogCaptureFixture) -> None:
    source = from_frame(people(), label="y")
    encoder = fit_encoder(source)
    target = people(40, 1).drop(columns="y")
    plain = values(encode(from_frame(target), encoder))
    more = target.assign(shoe=1.0)
    with caplog.at_level("INFO", "revgrad"):
        assert (values(encode(from_frame(more, name="b"), encoder)) == plain).all()
        assert "b: columns that the source has not are ignored: shoe" in caplog.text
        strange = target.assign(city="Atlantis")
        found = values(encode(from_frame(strange, name="b"), encoder))
        assert (found[:, 2:6] == 0).all()
        assert (
            "column 'city': 40 of 40 values are unknown to the source ('Atlantis', …)"
            in caplog.text
        )
    as_text = target.assign(
        age=[None if np.isnan(one) else repr(one) for one in target["age"]],
        seen=[str(one.date()) for one in target["seen"]],
        children=target["children"].astype(float),
    )
    np.testing.assert_allclose(values(encode(from_frame(as_text), encoder)), plain)
    empty = target.assign(age=np.nan)
    found = values(encode(from_frame(empty), encoder))
    assert (found[:, 1] == 1).all()
    assert len(set(found[:, 0])) == 1


def test_numbers_that_are_names() -> None:
    frame = pd.DataFrame({"post": [101, 202, 101, 303], "x": [1.0, 2, 3, 4], "y": [0, 1, 0, 1]})
    domain = from_frame(frame, label="y", categorical=["post"])
    assert encoder_of(domain).names == ["post=101", "post=202", "post=303", "x"]  # type: ignore[union-attr]
    other = frame.astype({"post": float})  # as a file with missing values would give it
    assert (values(encode(from_frame(other), encoder_of(domain))) == values(domain)).all()


def test_groups_of_a_column_are_no_input() -> None:
    frame = people().assign(doctor=[f"doctor {i % 5}" for i in range(120)])
    domain = from_frame(frame, label="y", groups="doctor")
    assert not any("doctor" in name for name in encoder_of(domain).names)  # type: ignore[union-attr]
    _, held = domain.split(0.2)
    assert len(set(np.asarray(held.rows) % 5)) == 1


FRAME = people(12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_frame(FRAME, label="Y"), r"no column 'Y'.*there are: age, city"),
        (lambda: from_frame(FRAME, label="y", drop=["town"]), "no column 'town'"),
        (lambda: from_frame(FRAME[["y"]], label="y"), "no column is left to learn from"),
        (lambda: from_frame({"x": [1]}), "a data frame of pandas or polars is wanted, not dict"),
        (lambda: from_frame(pl.from_pandas(FRAME).lazy()), r"lazy frame: read it first"),
        (
            lambda: from_frame(pd.DataFrame([[1, 2]], columns=["a", "a"])),
            "columns of the same name: a; rename them",
        ),
        (
            lambda: from_frame(pd.DataFrame({"x": [[1], [2]]})).shape,
            "column 'x' holds a list in a cell",
        ),
        (
            lambda: from_frame(pd.DataFrame({"x": [1.0, np.inf]})).shape,
            "column 'x' is infinite, first in sample 1",
        ),
        (
            lambda: from_frame(pd.DataFrame({"x": [1, 2], "y": ["a", None]}), label="y"),
            "1 of 2 labels are missing, the first in sample 1",
        ),
        (
            lambda: from_frame(pd.DataFrame({"x": [np.nan, np.nan], "y": [0, 1]}), label="y").shape,
            "no column is left to learn from",
        ),
        (
            lambda: trained(from_frame(FRAME, label="y"), FRAME.drop(columns=["age", "city"])),
            "target lacks columns that the source has: age, city",
        ),
        (
            lambda: trained(from_frame(FRAME, label="y"), FRAME.assign(age="old")),
            r"column 'age' holds text \('old'\), but numbers in the source",
        ),
        (
            lambda: trained(from_frame(FRAME, label="y"), FRAME.assign(seen=7)),
            "column 'seen' holds numbers, but dates in the source",
        ),
        (
            lambda: trained(from_frame(FRAME, label="y"), np.zeros((9, 12), np.float32)),
            "target: a data frame of pandas or polars is wanted, not ndarray",
        ),
    ],
)
def test_one_line_for_what_does_not_fit(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_file_is_a_frame(tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "here.csv", index=False)
    for path in (tmp_path / "here.csv", str(tmp_path / "here.csv")):
        read = from_frame(path, label="y")
        assert read.name == "here"
        np.testing.assert_array_equal(values(read), values(from_frame(frame, label="y")))
    (tmp_path / "here.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"here.xlsx is no table: one of \.csv, \.tsv, \.parquet"):
        from_frame(tmp_path / "here.xlsx", label="y")


@pytest.mark.parametrize("label", [["low", "high"], ("low", "high"), "low,high"])
def test_several_columns_are_several_labels(label: Any, tmp_path: Path) -> None:
    frame = people().assign(low=lambda f: f.children * 0.5, high=lambda f: f.children + 2.0)
    domain = from_frame(frame, label=label, drop="y")
    np.testing.assert_array_equal(domain.labels, frame[["low", "high"]])
    assert not {"low", "high"} & set(encoder_of(domain).names)  # type: ignore[union-attr]
    made = trained(domain, frame, task="regression", run=tmp_path / "run")
    found = made.evaluate(frame)  # the labels are the frame's own columns
    assert found.figures == made.evaluate(frame, frame[["low", "high"]].to_numpy()).figures
    assert load(tmp_path / "run", Net()).evaluate(frame).figures == found.figures
    ticks = frame.assign(low=frame.children > 1, high=[0, 1] * 60)
    assert from_frame(ticks, label=label, drop="y").labels.dtype.kind == "i"  # type: ignore[union-attr]


def test_columns_by_number_and_by_one_name() -> None:
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3)).astype({2: int})
    assert from_frame(frame, label=2).labels.tolist() == [2, 5, 8, 11]  # type: ignore[union-attr]
    domain = from_frame(people(), label="y", drop="city", categorical="children")
    assert encoder_of(domain).names[2:6] == [  # type: ignore[union-attr]
        *("smoker", "children=0", "children=1", "children=2")
    ]


def test_decimals_are_numbers_and_periods_dates() -> None:
    from decimal import Decimal

    frame = pd.DataFrame(
        {
            "price": [Decimal("1.50"), None, Decimal("3.25"), Decimal("4.00")],
            "month": pd.period_range("2024-01", periods=4, freq="M"),
        }
    )
    plain = pd.DataFrame({"price": [1.5, np.nan, 3.25, 4], "month": frame.month.dt.to_timestamp()})
    np.testing.assert_array_equal(values(from_frame(frame)), values(from_frame(plain)))
    np.testing.assert_array_equal(
        values(from_frame(pl.DataFrame({"price": frame.price.tolist()}))),
        values(from_frame(plain[["price"]])),
    )


def test_a_frame_beside_arrays_is_refused() -> None:
    """It would be encoded by what itself has learnt."""
    network, frame = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)), people(20)
    numbers = frame[["smoker", "children"]]
    options: dict[str, Any] = {"layer": "1", "recipe": "paper", "steps": 2, "progress": False}
    source = (np.ones((20, 2), np.float32), np.arange(20) % 2)
    with pytest.raises(InputError, match="target holds a data frame, but the source arrays"):
        adapt(network, source, numbers, **options)
    made = adapt(network, source, source[0], **options)
    with pytest.raises(InputError, match="the data holds a data frame, but the source arrays"):
        made.predict(numbers)
