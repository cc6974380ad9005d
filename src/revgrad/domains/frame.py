"""Domains from data frames of pandas or polars, and from files that hold a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from revgrad.domains.domain import UNNAMED, Domain
from revgrad.domains.encoded import EncodedStore
from revgrad.domains.frame_encoder import FrameEncoder, labels_of
from revgrad.domains.labels import as_labels
from revgrad.domains.table import Column, Table, as_numbers, as_text, read_table
from revgrad.domains.text import from_texts
from revgrad.domains.weights import ClassWeights
from revgrad.errors import DataError, InputError, missing_extra, unknown

#: Files that hold a table, by how their names end.
TABLE_FILES = (".csv", ".tsv", ".parquet")


def from_frame(
    frame: Any,
    label: Any = None,
    *,
    groups: str | None = None,
    weights: Any = None,
    class_weights: ClassWeights | None = None,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    attributes: str | Sequence[str] = (),
    classes: Sequence[str] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of the samples of a data frame (pandas, polars), or of the path of a `.csv`, `.tsv`
    or `.parquet` file of one, read by pandas; inputs are vectors of floats.

    Numbers and truth values: missing ones become the median, with a further input that says so;
    then standardised. Text and categories: an input for each category; those of a target that the
    source does not know are none of them. Text of more than 50 different values, where skrub is
    installed: 30 inputs by its StringEncoder, so that similar texts are near. Dates: days, month,
    day, weekday, hour, as numbers.

    In training the source's columns, categories, medians, means and scales hold for all domains:
    the numbers are those of its training part alone. `Adapted.predict(frame)` takes raw frames.

    Parameters
    ----------
    frame
        the data frame, or the path of a file of one
    label
        the column of the labels (classes by number or name, or numbers to predict), or
        labels, one a sample; None: no labels. Several columns, of numbers, are several labels
        a sample: a list of their names, or "a,b"
    groups
        a column whose values are groups (see `from_arrays`); it is no input
    weights, class_weights
        how much each sample's label counts in the label loss (see `Domain.weighted`): a column,
        which is no input, or weights, one a sample; and weights by class
    categorical
        columns of numbers that are names (a postcode) and no quantities, and of text that is
        never read as such
    drop
        columns to leave out
    attributes
        columns that are attributes of the samples (`Domain.with_attributes`) and no inputs; those
        that are in `categorical` too are categories, whatever their values are
    classes
        names of the classes in the order of their numbers
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"age": [31, 52, 40], "ward": ["a", "b", "a"], "ill": [0, 1, 1]})
    >>> domain = revgrad.from_frame(frame, label="ill")
    >>> len(domain), domain.classes is None
    (3, True)
    """
    if isinstance(frame, str | Path):
        path = Path(frame).expanduser()
        frame, name = read_frame(path), path.stem if name == UNNAMED else name
    table = read_table(frame, name)
    categorical, drop, attributes = map(_listed, (categorical, drop, attributes))
    named = _label_columns(label, table)
    own = [*named, *(one for one in (groups, weights) if isinstance(one, str))]
    for column in (*own, *categorical, *drop, *attributes):
        if column not in table.columns:
            raise InputError(f"{name}: {unknown('column', column, table.columns)}")
    apart = {*own, *drop, *attributes}
    features = [one for one in table.columns if one not in apart]
    if not features:
        raise InputError(f"{name}: no column is left to learn from")
    if named:
        values, names = as_labels(labels_of(table, named, name), name, classes)
    elif label is not None:
        values, names = as_labels(label, name, classes)
    else:
        values, names = None, None if classes is None else tuple(classes)

    def fit() -> FrameEncoder:
        names = [one for one in categorical if one not in attributes]
        encoder = FrameEncoder.fit(table, features, names, name, named, groups)
        kept = tuple(one for one in categorical if one in attributes)
        return replace(
            encoder,
            weights=weights if isinstance(weights, str) else None,
            attributes=tuple(attributes),
            categorical=kept,
        )

    domain = Domain(
        EncodedStore(table, table.length, name, FrameEncoder, fit),
        values,
        classes=names,
        groups=None if groups is None else as_text(table.columns[groups]),
        attributes={
            one: _attribute_values(table.columns[one], one in categorical) for one in attributes
        },
        name=name,
    )
    if weights is None and class_weights is None:
        return domain
    each = weights  # the encoder is fitted later, and by the column's name
    if isinstance(weights, str):
        each = _weights_of(table.columns[weights], weights, name)
    return domain.weighted(each, by_class=class_weights)


def from_text_file(
    path: Path | str,
    text: str,
    label: Any = None,
    *,
    groups: str | None = None,
    tokenizer: Any = None,
    classes: Sequence[str] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of the texts in a column of a `.csv`, `.tsv` or `.parquet` file, as `from_texts`
    makes inputs of them; a missing one is empty.

    Parameters
    ----------
    text, label, groups
        columns
    """
    path = Path(path).expanduser()
    frame, name = read_frame(path), path.stem if name == UNNAMED else name
    table = read_table(frame, name)
    named = _label_columns(label, table)
    for column in (text, *named, *(() if groups is None else (groups,))):
        if column not in table.columns:
            raise InputError(f"{name}: {unknown('column', column, table.columns)}")
    if text in named:
        raise InputError(f"{name}: column '{text}' holds the labels: which one holds the texts?")
    column = table.columns[text]
    if column.kind != "text":
        raise InputError(f"{name}: column '{text}' holds {column.kind}s, not text")
    return from_texts(
        [one or "" for one in column.values],
        labels_of(table, named, name) if named else None,
        tokenizer=tokenizer,
        groups=None if groups is None else as_text(table.columns[groups]),
        classes=classes,
        name=name,
    )


def _weights_of(column: Column, called: str, name: str) -> np.ndarray:
    values = as_numbers(column, f"{name}, column '{called}'")
    missing = np.isnan(values)
    if missing.any():
        raise InputError(
            f"{name}: the weights' column '{called}' is empty in {int(missing.sum())} of "
            f"{len(values)} samples, the first is sample {int(missing.argmax())}: 0 would leave "
            "their labels out"
        )
    return values


def _attribute_values(column: Column, named: bool) -> Any:
    """A column's values as `read_attributes` takes them; `named`: numbers that are names."""
    if column.kind == "text" or (named and column.stored != "b"):
        return as_text(column)
    if column.kind == "number" and column.stored in "bi" and not np.isnan(column.values).any():
        return column.values.astype(bool if column.stored == "b" else np.int64)
    return column.values


def _listed(columns: str | Sequence[str]) -> list[str]:
    """Names of columns; one by itself is a list of one."""
    return [str(one) for one in ([columns] if isinstance(columns, str) else columns)]


def _label_columns(label: Any, table: Table) -> tuple[str, ...]:
    """The columns that `label` names; none where it holds the labels themselves."""
    if isinstance(label, str):
        parts = tuple(one.strip() for one in label.split(","))
        known = all(one in table.columns for one in parts)
        return parts if label not in table.columns and known else (label,)
    if isinstance(label, list | tuple) and label and all(isinstance(one, str) for one in label):
        if len(label) < table.length or all(one in table.columns for one in label):
            return tuple(label)
    elif np.ndim(label) == 0 and label is not None:  # a column that is called by a number
        return (str(label),)
    return ()


def read_frame(path: Path) -> Any:
    """The table of a file as a pandas frame.

    Text that is dates in the whole column (2024-05-01) is read as dates.
    """
    if path.suffix.lower() not in TABLE_FILES:
        raise InputError(f"{path} is no table: one of {', '.join(TABLE_FILES)} would do")
    try:
        import pandas
    except ImportError:
        raise missing_extra("pandas", "frames", f"reading {path.name}") from None
    if not path.exists():
        raise InputError(f"no file {path}")
    if not path.is_file():  # a pipe would make its reader wait for ever
        raise InputError(f"{path} is no regular file")
    try:
        if path.suffix.lower() == ".parquet":
            return pandas.read_parquet(path)
        frame = pandas.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",")
    except ImportError:
        raise missing_extra("pyarrow", "frames", f"reading {path.name}") from None
    except (ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no data"
        raise DataError(f"{path} can't be read as a table: {reason}") from None
    if len(frame.columns) == 1 and ";" in str(frame.columns[0]):
        raise DataError(
            f"{path} can't be read as a table: its columns are separated by ';', and commas are "
            "wanted (pandas.read_csv(path, sep=';') makes a frame for from_frame)"
        )
    for column in frame.columns:
        dates = _dates(frame[column])
        if dates is not None:
            frame[column] = dates
    return frame


def _dates(series: Any) -> Any:
    """A column of text as dates, where every text is one; else None."""
    if getattr(series.dtype, "kind", "O") in "biufMm":
        return None
    texts = series.dropna()
    if not len(texts) or not texts.map(lambda one: isinstance(one, str)).all():
        return None
    if not texts.str.fullmatch(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?").all():
        return None
    try:
        return series.astype("datetime64[s]")
    except (ValueError, TypeError):
        return None
