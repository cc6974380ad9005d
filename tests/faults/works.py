"""The commands that faults are tried on: small, and each with all that it leaves behind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from injection import NOTHING, Fault
from processes import Ended, Running, run
from tiny import checkpoint_digest

SHAPES = ("--batch-size", "8", "--domain-classifier", "4", "--threads", "1")
EVERY = ("--log-every", "2", "--checkpoint-every", "2", "--evaluate-every", "4")
DATA = ("--source", "../data/source.npz", "--target", "../data/target.npz")
#: Values that differ from one time to the next.
OF_THE_MOMENT = ("seconds", "command", "version", "commit")


def make_data(base: Path) -> None:
    """What all commands read: vectors, a folder of images, a finished run on images."""
    data = base / "data"
    data.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    inputs = chance.normal(size=(60, 4)).astype(np.float32)
    np.savez(data / "source.npz", inputs=inputs, labels=np.arange(60) % 3)
    np.savez(data / "other.npz", inputs=inputs - 1, labels=np.arange(60) % 3)
    np.savez(data / "target.npz", inputs=inputs + 1)
    for name, shift in (("source", 0), ("target", 1)):
        lines = ["height,colour,age,y"]
        for number, (height, _, _, _) in enumerate(inputs.tolist()):
            lines.append(f"{height + shift:.4f},{'rgb'[number % 3]},{number % 7},k{number % 2}")
        (data / f"{name}.csv").write_text("\n".join(lines) + "\n")
    images = chance.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    np.savez(data / "images.npz", images=images, labels=np.arange(30) % 3)
    for number, image in enumerate(images):
        path = data / "photos" / f"class{number % 3}" / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    with tarfile.open(data / "shard.tar", "w") as shard:
        for number, path in enumerate(sorted((data / "photos").rglob("*.png"))):
            label = io.BytesIO(str(number % 3).encode())
            about = tarfile.TarInfo(f"{number:03d}.cls")
            about.size = len(label.getvalue())
            shard.add(path, f"{number:03d}.png")
            shard.addfile(about, label)
    if not (data / "trained" / "result.json").exists():
        shutil.rmtree(data / "trained", ignore_errors=True)
        given = ("--source", "images.npz", "--target", "images.npz", "--network", "compact")
        words = ("train", *given, "--steps", 2, *SHAPES, "-o", "trained", "--quiet")
        done = run(words, data)
        assert done.code == 0, done.said


@dataclass(frozen=True)
class Work:
    """A command, and a digest of all that it leaves that a repetition leaves too.

    Attributes
    ----------
    before
        what is changed in the forked process, so that it is small
    cost
        how many times a training of vectors it takes: fewer trials of dear ones
    """

    name: str
    words: tuple[object, ...]
    digest: Callable[[Path], str]
    before: Callable[[], None] = lambda: None
    cost: int = 1

    def start(self, folder: Path, fault: Fault = NOTHING) -> Running:
        (folder / "cache").mkdir(parents=True, exist_ok=True)
        return Running(
            self.words, folder, fault, before=self.before, REVGRAD_CACHE=str(folder / "cache")
        )

    def do(self, folder: Path, fault: Fault = NOTHING) -> Ended:
        return self.start(folder, fault).wait()


def run_digest(folder: Path) -> str:
    """Weights and optimiser, metrics, record, evidence; times left out."""
    digest = hashlib.sha256(checkpoint_digest(folder).encode())
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        digest.update(_timeless(json.loads(line)).encode())
    digest.update(_timeless(json.loads((folder / "result.json").read_text())).encode())
    for path in sorted((folder / "evidence").glob("*")):
        digest.update(path.name.encode() + path.read_bytes())
    left = [path.name for path in folder.rglob("*.part")]
    return digest.hexdigest() + (f" and left {left}" if left else "")


def _timeless(values: dict[str, Any]) -> str:
    kept = {k: v for k, v in values.items() if k not in (*OF_THE_MOMENT, "seal")}
    return json.dumps(kept, sort_keys=True)


def runs_digest(folder: Path) -> str:
    """Of a run and of every training in a folder below it."""
    below = sorted(path.parent for path in folder.rglob("config.json"))
    names = [str(one.relative_to(folder)) for one in below]
    return " ".join([*names, *map(run_digest, below)])


def whole_digest(folder: Path) -> str:
    """Of a run by auto: what was chosen and why, and all the trainings that it was chosen among."""
    return f"{_timeless(json.loads((folder / 'choice.json').read_text()))} {runs_digest(folder)}"


def _search_digest(folder: Path) -> str:
    search = folder / "search"
    trials = sorted(search.glob("trial-*"))
    table = (search / "trials.csv").read_text() if (search / "trials.csv").exists() else ""
    values = [line.rsplit(",", 1)[0] for line in table.splitlines()]
    return f"{len(trials)} {[checkpoint_digest(one) for one in trials]} {len(values)}"


def _cached_digest(folder: Path) -> str:
    """Every array below the cache, but for what was left half made."""
    digest = hashlib.sha256()
    for path in sorted((folder / "cache").rglob("*.npy")):
        if not any(part.startswith(".building") for part in path.parts):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _table_digest(folder: Path) -> str:
    left = sorted(path.name for path in folder.glob("*.part*"))
    return hashlib.sha256((folder / "out.csv").read_bytes()).hexdigest() + "".join(left)


def _records_digest(folder: Path) -> str:
    records = sorted((folder / "tables").rglob("job.json"))
    return "".join(_timeless(json.loads(path.read_text())) for path in records) + str(len(records))


def _eight_at_once() -> None:
    from revgrad import evaluation

    evaluation.SAMPLES_AT_ONCE, evaluation.VECTORS_TIMES = 8, 1


def _brief_tables() -> None:
    from revgrad.paper.tables.budgets import BUDGETS
    from table_jobs import SHORT

    BUDGETS["tiny"] = SHORT


TRAIN = ("train", *DATA, "--steps", "8", *SHAPES, *EVERY, "-o", "run", "--quiet")
WORKS = {
    work.name: work
    for work in (
        Work("train", TRAIN, lambda folder: whole_digest(folder / "run")),
        Work(
            "train, best weights",
            (*TRAIN, "--return-weights", "best", "--score", "mutual-information"),
            lambda folder: whole_digest(folder / "run"),
        ),
        Work(
            "train --baseline",
            (*TRAIN, "--recipe", "paper", "--baseline"),
            lambda folder: run_digest(folder / "run") + run_digest(folder / "run" / "baseline"),
        ),
        Work(
            "tune",
            (
                *("tune", *DATA, "--steps", "4", *SHAPES, "--evaluate-every", "2", "--trials", "2"),
                *("--score", "mutual-information", "-o", "search", "--quiet"),
                *("--vary", "learning-rate", "--vary", "height"),
            ),
            _search_digest,
            cost=3,
        ),
        Work(
            "predict",
            ("predict", "../data/trained", "../data/photos", "-o", "out.csv"),
            _table_digest,
            _eight_at_once,
        ),
        Work(
            "train on a table",
            (
                *("train", "--source", "../data/source.csv", "--target", "../data/target.csv"),
                *("--label", "y", "--steps", "4", *SHAPES, *EVERY, "-o", "run", "--quiet"),
            ),
            lambda folder: whole_digest(folder / "run"),
        ),
        Work(
            "train against an attribute",
            (
                *("train", "--source", "../data/source.csv", "--label", "y", "--attribute", "age"),
                *("--adversary", "age", "--steps", "4", *SHAPES, *EVERY, "-o", "run", "--quiet"),
            ),
            lambda folder: run_digest(folder / "run"),
        ),
        Work(
            "train on shards",
            (
                *("train", "--source", "../data/shard.tar", "--target", "../data/photos"),
                *("--recipe", "paper", "--steps", "6", *SHAPES, *EVERY, "-o", "run", "--quiet"),
            ),
            lambda folder: run_digest(folder / "run"),
        ),
        Work(
            "train on two sources",
            (*TRAIN, "--source", "../data/other.npz", "--recipe", "paper"),
            lambda folder: run_digest(folder / "run"),
        ),
        Work(
            "source-free",
            (
                *("source-free", "../data/trained", "../data/photos", "-o", "run", "--quiet"),
                *("--rounds", "2", "--steps", "3"),
            ),
            lambda folder: runs_digest(folder / "run"),
        ),
        Work(
            "shards' index",
            ("data", "check", "../data/shard.tar"),
            lambda folder: str(len(list((folder / "cache").rglob("*.arrays")))),
        ),
        Work("folder cache", ("data", "check", "../data/photos", "--size", "6"), _cached_digest),
        Work(
            "data make",
            ("data", "make", "syn-numbers", "--count", "40", "--workers", "1"),
            _cached_digest,
            cost=2,
        ),
        Work(
            "reproduce",
            (
                *("reproduce", "table1", "--cell", "mnist-to-mnist-m", "--method", "source-only"),
                *("--budget", "tiny", "--jobs", "1", "--output", "tables"),
            ),
            _records_digest,
            _brief_tables,
            cost=8,
        ),
    )
}


class Bench:
    """A folder of trials, with what each work comes to when nothing disturbs it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        make_data(base)

    def place(self, name: str) -> Path:
        """An empty folder for one trial."""
        folder = self.base / name.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    @cache  # noqa: B019 (a bench lives as long as its process)
    def undisturbed(self, name: str) -> tuple[str, Ended]:
        """The work's digest, and how it ended: its writes and its seconds."""
        folder = self.place(f"whole-{name}")
        done = WORKS[name].do(folder)
        assert done.code == 0, (name, done.said)
        other = self.place(f"again-{name}")
        again = WORKS[name].do(other)
        assert again.code == 0, (name, again.said)
        digest = WORKS[name].digest(folder)
        assert digest == WORKS[name].digest(other), name  # else there is nothing to compare with
        return digest, again

    def leave(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        assert os.path.isdir(self.base)
