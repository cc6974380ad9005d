"""Records of results: the small json that a finished training leaves, and tables are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from revgrad._seals import sealed_line, unsealed, unsealed_line, write_sealed
from revgrad._system import read_file, write_atomically
from revgrad.domains.registry import DOMAINS
from revgrad.errors import DataError
from revgrad.training.callbacks import TrainingResult
from revgrad.training.run import RunConfig

#: In a run's folder, written when its training is complete.
RESULT = "result.json"

#: What settings were called in records that were written before they got today's names.
FORMER_NAMES = {
    "rate": "learning_rate",
    "factor": "adaptation_factor",
    "batch": "batch_size",
    "average": "ema_decay",
    "clip": "max_gradient_norm",
    "max_norm": "max_weight_norm",
    "domain_rate": "domain_lr_factor",
}


@dataclass(frozen=True)
class Record:
    """One method, one cell, one seed.

    Attributes
    ----------
    budget
        steps, and what data were cut down to, in words
    source_accuracy
        on held-out source
    target_accuracy
        on the target's test, by the method's own classifier at the end
    target_accuracy_svm
        the same by a linear SVM on the last hidden layer
    target_accuracy_oracle
        the best over a choice made on the test's own labels
    data
        the domains that were read, by their role
    source_metrics, target_metrics
        the task's further metrics by name: r2, mean_absolute_error, mean_iou, f1, …
    commit
        of revgrad's own code, where it is a checkout; else ""
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
    commit: str = ""
    source_metrics: dict[str, float] = field(default_factory=dict)
    target_metrics: dict[str, float] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        write_sealed(folder / RESULT, asdict(self))


def record_of(config: RunConfig, result: TrainingResult) -> Record:
    """The record of a finished run."""
    last, known = result.last, config.provenance
    return Record(
        cell=cell_of(known.source, known.target or known.test),
        method=config.method,
        seed=config.settings["seed"],
        steps=result.steps,
        budget=f"{result.steps} steps",
        source_accuracy=None if last is None else last.source_accuracy,
        target_accuracy=None if last is None else last.target_accuracy,
        settings={
            **config.settings,
            "network": config.network,
            "layer": config.layer,
            "objective": config.objective,
            "domain_classifier": config.domain_classifier,
            "normalise": config.normalise,
            "preprocessing": config.preprocessing,
            "input_shape": config.input_shape,
            "test": known.test,
            **{key: config.machine[key] for key in ("threads", "processes")},
        },
        command=known.command,
        torch=config.machine["torch"],
        seconds=result.seconds,
        data={role: facts["name"] for role, facts in config.domains.items()},
        commit=source_commit(),
        source_metrics={} if last is None else last.source_metrics,
        target_metrics={} if last is None else last.target_metrics,
    )


def cell_of(source: str, target: str | None) -> str:
    """The pair of domains as tables name it: named domains without their split."""

    def short(text: str) -> str:
        name = text.partition(":")[0]
        return name if name in DOMAINS else text

    return f"{short(source)}->{short(target) if target else '-'}"


def source_commit() -> str:
    """The commit of the checkout that this package is imported from; "" where it is none."""
    git = Path(__file__).resolve().parents[3] / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (git / name).is_file():
            return (git / name).read_text(encoding="utf-8").strip()
        packed = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    except (OSError, UnicodeDecodeError):
        return ""


def read_record(path: Path) -> Record | None:
    """The record in a file; None where there is no such file."""
    try:
        text = read_file(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read: {error}") from None
    try:
        return _record(unsealed(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is not a record of a result ({error}); delete it") from None


def read_records(folder: Path) -> list[Record]:
    """Every record under a folder: `*.json`, one each, and `*.jsonl`, one a line."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        record = read_record(path)
        if record is not None:
            found.append(record)
    for path in sorted(folder.rglob("*.jsonl")):
        for number, line in enumerate(read_file(path).splitlines(True), start=1):
            try:
                found.append(_record(unsealed_line(line.decode())))
            except (ValueError, TypeError, KeyError) as error:
                raise DataError(f"{path}, line {number}: not a record ({error})") from None
    return found


def write_records(path: Path, records: Iterable[Record]) -> None:
    """All records in one file, one a line."""
    lines = (sealed_line(asdict(record)) for record in records)
    write_atomically(path, "".join(lines).encode())


def _record(values: Any) -> Record:
    if not isinstance(values, dict):
        raise ValueError("no json object")
    names = {item.name for item in fields(Record)}
    known = {key: value for key, value in values.items() if key in names}
    return Record(**{**known, "settings": _todays_names(known["settings"])})


def _todays_names(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings by their names of today, also those of a run that this one reads."""
    return {
        FORMER_NAMES.get(key, key): _todays_names(value) if isinstance(value, dict) else value
        for key, value in settings.items()
    }
