"""What is kept of a finished row: the small json that tables are made from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from revgrad.errors import DataError
from revgrad.files import write_atomically, write_json

#: In a row's folder, as `revgrad train` writes it.
RESULT = "result.json"


@dataclass(frozen=True)
class Record:
    """One method, one cell, one seed.

    budget                  steps, and what data were cut down to, in words
    source_accuracy         on held-out source
    target_accuracy         on the target's test, by the method's own classifier at the end
    target_accuracy_svm     the same by a linear SVM on the last hidden layer
    target_accuracy_oracle  the best over a choice made on the test's own labels
    data                    the domains that were read, by their role
    """

    cell: str
    method: str
    seed: int
    steps: int
    budget: str
    source_accuracy: float | None
    target_accuracy: float | None
    settings: dict[str, Any]
    command: str
    torch: str
    seconds: float
    target_accuracy_svm: float | None = None
    target_accuracy_oracle: float | None = None
    data: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        write_json(folder / RESULT, asdict(self))


def read_record(path: Path) -> Record | None:
    """The record in a file; None where there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from None
    try:
        return _record(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is not a record of a result ({error}); delete it") from None


def read_records(folder: Path) -> list[Record]:
    """Every record under a folder: `*.json`, one each, and `*.jsonl`, one a line."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        record = read_record(path)
        if record is not None:
            found.append(record)
    for path in sorted(folder.rglob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                found.append(_record(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                raise DataError(f"{path}, line {number}: not a record ({error})") from None
    return found


def write_records(path: Path, records: Iterable[Record]) -> None:
    """All records in one file, one a line."""
    lines = (json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records)
    write_atomically(path, "".join(lines).encode())


def _record(values: Any) -> Record:
    if not isinstance(values, dict):
        raise ValueError("no json object")
    names = {item.name for item in fields(Record)}
    return Record(**{key: value for key, value in values.items() if key in names})
