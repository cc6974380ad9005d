"""From a data frame to vectors: imputed and standardised numbers, one-hot categories, dates.

Fitting is scikit-learn's (SimpleImputer, StandardScaler, OneHotEncoder, as in a
ColumnTransformer); what was learnt is kept as plain numbers and names, so that a run's folder can
hold it as json and nothing has to be unpickled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import Domain
from revgrad.domains.table import Column, Table, as_dates, as_numbers, as_text
from revgrad.domains.text_column import TextInput, fit_text
from revgrad.errors import InputError, some

log = logging.getLogger("revgrad")

#: Categories of a column that get an input each; the rarest of more share one.
MOST_CATEGORIES = 50

#: What is taken of a date: days since 1970, and what comes round again.
DATE_PARTS = ("days", "month", "day", "weekday", "hour")


@dataclass(frozen=True)
class NumberInput:
    """A column of numbers, or a part of a date: (x or the median − mean) / scale.

    Attributes
    ----------
    flag
        whether a further input is 1 where the value was missing, else 0
    """

    column: str
    part: str | None
    median: float
    mean: float
    scale: float
    flag: bool

    @property
    def names(self) -> list[str]:
        name = self.column if self.part is None else f"{self.column} ({self.part})"
        return [name, f"{name} missing"] if self.flag else [name]


@dataclass(frozen=True)
class CategoryInput:
    """A column of categories: an input each, 1 for the sample's own; None is "missing".

    Attributes
    ----------
    rare
        whether a last input is 1 for the rarest categories, and for any that is unknown; else
        an unknown category is 0 everywhere
    """

    column: str
    categories: tuple[str | None, ...]
    rare: bool

    @property
    def names(self) -> list[str]:
        shown = ["missing" if one is None else one for one in self.categories]
        return [f"{self.column}={one}" for one in [*shown, *(["(rare)"] if self.rare else [])]]


#: The inputs that a column becomes.
ColumnInput = NumberInput | CategoryInput | TextInput


@dataclass(frozen=True)
class FrameEncoder:
    """Columns of a frame → (n, width) float32; `names` says what each input is.

    Attributes
    ----------
    inputs
        in the order of the frame's columns
    label
        the columns of the labels, where there are: they are never inputs
    groups, weights
        the columns of the groups and of the samples' weights, where there are: no inputs either
    attributes, categorical
        columns that are attributes of the samples, no inputs; and those of them, numbers too, that
        are names
    """

    inputs: tuple[ColumnInput, ...]
    label: tuple[str, ...] = ()
    groups: str | None = None
    weights: str | None = None
    attributes: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    kind: ClassVar[str] = "frame"
    takes: ClassVar[str] = "a data frame"

    @staticmethod
    def fit(
        table: Table,
        features: Sequence[str],
        categorical: Sequence[str],
        name: str,
        label: tuple[str, ...] = (),
        groups: str | None = None,
    ) -> FrameEncoder:
        """Kinds of columns, categories, medians, means and scales of a whole table."""
        inputs: list[ColumnInput] = []
        for one in features:
            column = table.columns[one]
            if one in categorical:
                inputs += _categories(one, as_text(column), name)
            elif column.kind == "text":
                inputs += _texts(one, column.values, name)
            elif column.kind == "date":
                parts = date_parts(column.values)
                made = [_numbers(one, part, values, name) for part, values in parts.items()]
                # a part that never changes (the hour of bare dates) says nothing
                varies = [
                    i
                    for i in made
                    if i and np.nanmin(parts[str(i.part)]) != np.nanmax(parts[str(i.part)])
                ]
                inputs += [
                    replace(i, flag=i.flag and number == 0) for number, i in enumerate(varies)
                ]
            else:
                found = _numbers(one, None, column.values, name)
                inputs += [] if found is None else [found]
        if not inputs:
            raise InputError(f"{name}: no column is left to learn from (of {some(list(features))})")
        return FrameEncoder(tuple(inputs), label, groups)

    @property
    def names(self) -> list[str]:
        """What each input is: "age", "age missing", "city=Paris", "when (month)"."""
        return [name for one in self.inputs for name in one.names]

    def refitted(self, raw: Table, rows: np.ndarray) -> FrameEncoder:
        """The medians, means and scales of `rows` alone; categories and inputs stay."""

        def again(one: ColumnInput) -> ColumnInput:
            if isinstance(one, CategoryInput):
                return one
            if isinstance(one, TextInput):
                texts = as_text(raw.columns[one.column])[rows]
                return fit_text(one.column, texts, one.groups) or one
            return _fitted(one, _values(one, raw.columns[one.column], one.column)[rows])

        return replace(self, inputs=tuple(again(one) for one in self.inputs))

    def encode(self, raw: Table, name: str) -> ArrayStore:
        """The inputs of all samples. Columns that are missing are an error, others are ignored."""
        wanted = list(dict.fromkeys(one.column for one in self.inputs))
        gone = [one for one in wanted if one not in raw.columns]
        if gone:
            raise InputError(
                f"{name} lacks columns that the source has: {some(gone)} (empty ones would do, or "
                "leave them out of the source: drop=[…], --drop)"
            )
        known = {*wanted, *self.label, self.groups, self.weights, *self.attributes}
        more = [one for one in raw.columns if one not in known]
        if more:
            log.info("%s: columns that the source has not are ignored: %s", name, some(more))
        parts = [self._encoded(one, raw, name) for one in self.inputs]
        return ArrayStore(np.concatenate(parts, axis=1, dtype=np.float32), name=name)

    def read(self, data: Any, labels: Any, name: str) -> Domain:
        """A domain of a frame, its attributes and categories named as the source's."""
        from revgrad.domains.frame import from_frame

        own = [one for one in self.attributes if one in map(str, getattr(data, "columns", ()))]
        named = [one for one in self.categorical if one in own]
        return from_frame(data, labels, attributes=own, categorical=named, name=name)

    def labels(self, raw: Table) -> Any:
        """The labels of a frame; None where it has no such column."""
        if not self.label or any(one not in raw.columns for one in self.label):
            return None
        return labels_of(raw, self.label, "the data")

    def state(self) -> dict[str, Any]:
        """What was fitted, as plain json."""
        return {
            "kind": self.kind,
            "label": list(self.label),
            "groups": self.groups,
            "weights": self.weights,
            "attributes": list(self.attributes),
            "categorical": list(self.categorical),
            "inputs": [asdict(one) for one in self.inputs],
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> FrameEncoder:
        """The encoder of such a state."""

        def build(values: dict[str, Any]) -> ColumnInput:
            if "categories" in values:
                return CategoryInput(**{**values, "categories": tuple(values["categories"])})
            if "groups" in values:
                mixed = tuple(tuple(map(float, one)) for one in values["components"])
                plain = {key: tuple(values[key]) for key in ("groups", "weights")}
                return TextInput(values["column"], **plain, components=mixed)
            return NumberInput(**values)

        return FrameEncoder(
            tuple(map(build, state["inputs"])),
            _names(state["label"]),
            state["groups"],
            state["weights"],
            tuple(state["attributes"]),
            tuple(state["categorical"]),
        )

    @staticmethod
    def _encoded(one: ColumnInput, raw: Table, name: str) -> np.ndarray:
        column, where = raw.columns[one.column], f"{name}, column '{one.column}'"
        if isinstance(one, CategoryInput):
            return _one_hot(one, as_text(column), where)
        if isinstance(one, TextInput):
            return one.encode(as_text(column))
        values = _values(one, column, where)
        missing = np.isnan(values)
        scaled = (np.where(missing, one.median, values) - one.mean) / one.scale
        return np.stack([scaled, missing] if one.flag else [scaled], axis=1)


def labels_of(table: Table, columns: Sequence[str], name: str) -> np.ndarray:
    """Labels (n,) of a column, or (n, columns) numbers of several."""
    if len(columns) == 1:
        return label_values(table.columns[columns[0]])
    for one in columns:
        if table.columns[one].kind != "number":
            raise InputError(
                f"{name}: several labels a sample are numbers, and column '{one}' holds "
                f"{table.columns[one].kind}: names of classes are one column"
            )
    each = [label_values(table.columns[one]) for one in columns]
    for one, values in zip(columns, each, strict=True):
        if values.dtype.kind == "O" or np.isnan(values.astype(np.float64)).any():
            raise InputError(f"{name}: labels are missing in column '{one}': leave them out")
    return np.stack(each, axis=1)


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Of a run's record; those of earlier versions have one column or none."""
    return () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def label_values(column: Column) -> np.ndarray:
    """Labels of a column: integers and truth values are classes, other numbers a regression."""
    values = column.values
    if column.kind == "date":
        raise InputError("labels are dates: numbers (of days, say) or names of classes would do")
    if column.kind == "text" or column.stored == "f":
        return values
    if np.isnan(values).any():
        return np.array([None if one != one else int(one) for one in values], dtype=object)
    return values.astype(bool if column.stored == "b" else np.int64)


def date_parts(dates: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers that are taken of datetime64[s] dates, each (n,) float64 with NaN for NaT."""
    missing = np.isnat(dates)
    seconds = np.where(missing, 0, dates.astype(np.int64))
    days = seconds // 86400
    months = dates.astype("datetime64[M]")
    found = {
        "days": seconds / 86400,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (dates.astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
        + 1,
        "weekday": (days + 3) % 7,  # 1 January 1970 was a Thursday; Monday is 0
        "hour": (seconds % 86400) / 3600,
    }
    return {part: np.where(missing, np.nan, values) for part, values in found.items()}


def _values(one: NumberInput, column: Column, where: str) -> np.ndarray:
    if one.part is not None:
        return date_parts(as_dates(column, where))[one.part]
    values = as_numbers(column, where)
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(f"{where} is infinite, first in sample {int(infinite.argmax())}")
    return values


def _numbers(column: str, part: str | None, values: np.ndarray, name: str) -> NumberInput | None:
    missing = np.isnan(values)
    if missing.all():
        log.info("%s: column '%s' is empty and left out", name, column)
        return None
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(
            f"{name}, column '{column}' is infinite, first in sample {int(infinite.argmax())}"
        )
    return _fitted(NumberInput(column, part, 0.0, 0.0, 1.0, bool(missing.any())), values)


def _fitted(one: NumberInput, values: np.ndarray) -> NumberInput:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    if np.isnan(values).all():
        return replace(one, median=0.0, mean=0.0, scale=1.0)
    imputer = SimpleImputer(strategy="median").fit(values[:, None])
    scaler = StandardScaler().fit(imputer.transform(values[:, None]))
    return replace(
        one,
        median=float(imputer.statistics_[0]),
        mean=float(scaler.mean_[0]),
        scale=float(scaler.scale_[0]),
    )


def _texts(column: str, texts: np.ndarray, name: str) -> list[CategoryInput | TextInput]:
    """A column of text: categories, or where those are too many what skrub makes of it."""
    different = len({one for one in texts if one is not None})
    if different > MOST_CATEGORIES:
        found = fit_text(column, texts)
        if found is not None:
            log.info(
                "%s: column '%s' has %d different values and is read as text, by skrub; "
                "categorical=['%s'] reads categories",
                *(name, column, different, column),
            )
            return [found]
    return [*_categories(column, texts, name)]


def _categories(column: str, texts: np.ndarray, name: str) -> list[CategoryInput]:
    from sklearn.preprocessing import OneHotEncoder

    present = [one for one in texts if one is not None]
    if not present:
        log.info("%s: column '%s' is empty and left out", name, column)
        return []
    different = len(set(present))
    if different > MOST_CATEGORIES and different > len(present) / 2:
        log.warning(
            "%s: column '%s' has %d different values in %d samples: an identifier or free text? "
            "drop=['%s'] leaves it out; with skrub installed, text is read as such",
            *(name, column, different, len(present), column),
        )
    encoder = OneHotEncoder(
        max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit(texts[:, None])
    rare = encoder.infrequent_categories_[0]
    few = set() if rare is None else set(rare.tolist())
    kept = tuple(one for one in encoder.categories_[0].tolist() if one not in few)
    return [CategoryInput(column, kept, bool(few))]


def _one_hot(one: CategoryInput, texts: np.ndarray, where: str) -> np.ndarray:
    place = {category: number for number, category in enumerate(one.categories)}
    unknown = len(one.categories)
    numbers = np.array([place.get(text, unknown) for text in texts.tolist()], dtype=np.int64)
    strange = int((numbers == unknown).sum())
    if strange and not one.rare:
        first = texts[int((numbers == unknown).argmax())]
        log.info(
            "%s: %d of %d values are unknown to the source (%r, …) and taken as none of its "
            "categories",
            *(where, strange, len(texts), first),
        )
    table = np.eye(unknown + 1, unknown + int(one.rare))
    return table[numbers]
