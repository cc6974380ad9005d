"""Records of results: written, read back, and read under the names that settings had before."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from revgrad.errors import DataError
from revgrad.training.record import Record, read_record, read_records, write_records
from revgrad.training.settings import Settings

RECORD = Record(
    cell="a->b",
    method="adversarial",
    seed=0,
    steps=100,
    budget="100 steps",
    source_accuracy=0.9,
    target_accuracy=0.7,
    settings=Settings().describe(),
    command="revgrad train a b",
    torch="2.9.0",
    seconds=1.5,
    data={"source": "a", "test": "b"},
)


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = [replace(RECORD, seed=seed) for seed in range(4)]
    write_records(tmp_path / "many.jsonl", records[:3])
    (tmp_path / "one").mkdir()
    records[3].write(tmp_path / "one")
    assert read_records(tmp_path) == [records[3], *records[:3]]


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none.json") is None
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(DataError, match=r"bad.json is not a record"):
        read_records(tmp_path)
    (tmp_path / "bad.json").unlink()
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"bad.jsonl, line 1"):
        read_records(tmp_path)


def test_settings_of_old_records_have_todays_names(tmp_path: Path) -> None:
    old = {
        "rate": "constant:0.01",
        "factor": "ramp-up:10.0,1.0",
        "batch": 128,
        "average": 0.998,
        "clip": 5.0,
        "max_norm": 4.0,
        "domain_rate": 0.3,
        "steps": 8000,
    }
    new = {
        "learning_rate": "constant:0.01",
        "adaptation_factor": "ramp-up:10.0,1.0",
        "batch_size": 128,
        "ema_decay": 0.998,
        "max_gradient_norm": 5.0,
        "max_weight_norm": 4.0,
        "domain_lr_factor": 0.3,
        "steps": 8000,
    }
    assert set(new) <= set(Settings().describe())
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**asdict(RECORD), "settings": {"reads": old, **old}}))
    record = read_record(path)
    assert record is not None
    assert record.settings == {"reads": new, **new}
