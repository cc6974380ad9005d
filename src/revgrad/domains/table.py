"""A data frame's columns as NumPy arrays, whichever library the frame is of (pandas, polars)."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from revgrad.errors import InputError, some

#: "number": float64, missing NaN. "text": str or None, as objects. "date": datetime64[s] or NaT.
ColumnKind = Literal["number", "text", "date"]


#: Python's numbers that a column of objects may hold.
_NUMBERS = (int, float, np.number, decimal.Decimal)


@dataclass(frozen=True)
class Column:
    """One column; what its values are says `kind`.

    Attributes
    ----------
    stored
        of numbers: "b" truth values, "i" integers, "f" others, as the frame held them
    """

    kind: ColumnKind
    values: np.ndarray
    stored: str = "f"


@dataclass(frozen=True)
class Table:
    """Columns of one length by their names."""

    columns: dict[str, Column]
    length: int


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame of pandas or polars; neither is imported to see it."""
    return _library(data) is not None and type(data).__name__ in ("DataFrame", "LazyFrame")


def read_table(frame: Any, name: str) -> Table:
    """The columns of a frame; what can't be a column of numbers, text or dates is named."""
    if type(frame).__name__ == "LazyFrame":
        raise InputError(f"{name} is a lazy frame: read it first, frame.collect()")
    if not is_frame(frame):
        raise InputError(
            f"{name}: a data frame of pandas or polars is wanted, not {type(frame).__name__}: "
            "pandas.DataFrame(…) makes one, with the source's columns where that holds a frame; "
            "from_arrays takes arrays"
        )
    names = [str(one) for one in frame.columns]
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise InputError(f"{name}: columns of the same name: {some(twice)}; rename them")
    if _library(frame) == "polars":
        read = {one: _of_polars(frame[one], f"{name}, column '{one}'") for one in names}
    else:
        read = {
            one: _of_pandas(frame.iloc[:, i], f"{name}, column '{one}'")
            for i, one in enumerate(names)
        }
    return Table(read, len(frame))


def as_text(column: Column) -> np.ndarray:
    """(n,) objects: text or None; whole numbers as "3", dates as "2024-05-01T00:00:00"."""
    if column.kind == "text":
        return column.values
    texts = np.empty(len(column.values), dtype=object)
    texts[:] = [_text(one) for one in column.values.tolist()]
    return texts


def as_numbers(column: Column, name: str) -> np.ndarray:
    """(n,) float64, missing NaN; text that is numbers is read as such."""
    if column.kind == "number":
        return column.values
    if column.kind == "date":
        raise InputError(f"{name} holds dates, but numbers in the source")
    return _parsed(column.values, np.float64, name, "numbers")


def as_dates(column: Column, name: str) -> np.ndarray:
    """(n,) datetime64[s], missing NaT; text such as 2024-05-01 is read as such."""
    if column.kind == "date":
        return column.values
    if column.kind == "number":
        raise InputError(f"{name} holds numbers, but dates in the source")
    return _parsed(column.values, "datetime64[s]", name, "dates")


def _library(data: Any) -> str | None:
    library = type(data).__module__.partition(".")[0]
    return library if library in ("pandas", "polars") else None


def _of_pandas(series: Any, name: str) -> Column:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "biuf":
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column("number", numbers, kind.replace("u", "i"))
    if kind == "M":
        if getattr(series.dt, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column("date", series.to_numpy().astype("datetime64[s]"))
    if kind == "m":
        return Column("number", _seconds(series.to_numpy()))
    if str(series.dtype).startswith("period"):
        return Column("date", series.dt.to_timestamp().to_numpy().astype("datetime64[s]"))
    if kind == "c":
        raise InputError(f"{name} holds complex numbers: real ones are wanted (two columns)")
    return _of_objects(series.tolist(), series.isna().tolist(), name)


def _of_polars(series: Any, name: str) -> Column:
    kind = series.dtype
    if kind.is_numeric() or str(kind) == "Boolean":
        values = [np.nan if one is None else float(one) for one in series.to_list()]
        stored = "b" if str(kind) == "Boolean" else "i" if kind.is_integer() else "f"
        return Column("number", np.array(values, dtype=np.float64), stored)
    if str(kind).startswith("Duration"):
        return Column("number", _seconds(series.to_numpy()))
    if str(kind).startswith(("Date", "Datetime")):
        return Column("date", np.asarray(series.to_numpy()).astype("datetime64[s]"))
    values = series.to_list()
    return _of_objects(values, [one is None for one in values], name)


def _of_objects(values: Sequence[Any], missing: Sequence[bool], name: str) -> Column:
    """A column of Python objects by what they are: all numbers, all dates, else text."""
    present = [one for one, gone in zip(values, missing, strict=True) if not gone]
    nested = next(
        (o for o in present if isinstance(o, list | tuple | dict | set | np.ndarray)), None
    )
    if nested is not None:
        raise InputError(
            f"{name} holds a {type(nested).__name__} in a cell: one number, text or date a sample "
            "is wanted (drop=[…] leaves a column out)"
        )
    if present and all(isinstance(one, _NUMBERS) for one in present):
        numbers = [np.nan if g else float(v) for v, g in zip(values, missing, strict=True)]
        kinds = {type(one) for one in present}
        stored = "b" if kinds == {bool} else "i" if kinds <= {int, bool} else "f"
        return Column("number", np.array(numbers, dtype=np.float64), stored)
    if present and all(isinstance(one, datetime.date) for one in present):
        dates = [None if g else v for v, g in zip(values, missing, strict=True)]
        return Column("date", np.array(dates, dtype="datetime64[s]"))
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if g else _text(v) for v, g in zip(values, missing, strict=True)]
    return Column("text", texts)


def _seconds(values: Any) -> np.ndarray:
    spans = np.asarray(values).astype("timedelta64[ns]")
    return np.where(np.isnat(spans), np.nan, spans.astype(np.int64) / 1e9)


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _parsed(texts: np.ndarray, kind: Any, name: str, wanted: str) -> np.ndarray:
    empty = np.full(len(texts), "NaT" if wanted == "dates" else "nan", dtype=kind)
    present = np.array([one is not None for one in texts], dtype=bool)
    try:
        empty[present] = np.array([str(one) for one in texts[present]]).astype(kind)
    except ValueError:
        strange = next(one for one in texts[present] if not _can_parse(one, kind))
        raise InputError(
            f"{name} holds text ({strange!r}), but {wanted} in the source: empty cells would do "
            "for missing values"
        ) from None
    return empty


def _can_parse(text: str, kind: Any) -> bool:
    try:
        np.array([text]).astype(kind)
    except ValueError:
        return False
    return True
