"""Bits flipped and tails cut off in every file that a run, a search, a cache or a table keeps."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from injection import NOTHING, Fault
from works import WORKS, Bench, run_digest

if TYPE_CHECKING:
    from trials import Outcome, Trial

#: Flips and cuts of each file, in the long form and in the short.
ALTERATIONS = (36, 3)


@dataclass(frozen=True)
class Kept:
    """What a work keeps, and how all of it is read.

    Attributes
    ----------
    files
        globs below the trial's folder
    read
        everything that is read of it, as a text; a RevgradError where damage is noticed
    dear
        whether reading it takes a command of its own: fewer trials then
    """

    name: str
    work: str
    files: tuple[str, ...]
    read: Callable[[Path], str]
    dear: bool = False


def _read_one(folder: Path) -> str:
    from revgrad import Run
    from revgrad.diagnostics.attribute_evidence import read_attribute_evidence
    from revgrad.diagnostics.choice import read_choice
    from revgrad.diagnostics.recorder import read_evidence
    from revgrad.training.record import RESULT, read_record

    run = Run(folder)
    read_evidence(folder)
    read_attribute_evidence(folder)
    known = f"{run.config} {run.encoder} {run.records()} {read_choice(folder)}"
    return f"{known} {read_record(folder / RESULT)} {run_digest(folder)}"


def _read_run(folder: Path) -> str:
    return _read_one(folder / "run")


def _read_ladder(folder: Path) -> str:
    """The run, and every training that it was chosen among."""
    run = folder / "run"
    below = [run / "baseline", *sorted((run / "candidates").glob("*"))]
    return " ".join(map(_read_one, [run, *below]))


def _read_shards(folder: Path) -> str:
    from revgrad import from_shards

    os.environ["REVGRAD_CACHE"] = str(folder / "cache")
    domain = from_shards(folder.parent / "data" / "shard.tar")
    return f"{domain.batch(range(len(domain))).inputs.tolist()} {domain.labels}"  # type: ignore[union-attr]


def _read_tables(folder: Path) -> str:
    from revgrad.training.record import read_record

    records = sorted((folder / "tables").rglob("job.json"))
    return " ".join(str(read_record(path)) for path in records)


def _read_cache(folder: Path) -> str:
    from revgrad import from_folder

    domain = from_folder(folder.parent / "data" / "photos", size=6, cache=folder / "cache")
    return f"{domain.batch(range(len(domain))).inputs.tolist()} {domain.files} {domain.labels}"  # type: ignore[union-attr]


def _read_made(folder: Path) -> str:
    from revgrad.paper.synthetic.make import make_domain

    os.environ["REVGRAD_CACHE"] = str(folder / "cache")
    domain = make_domain("syn-numbers", count=40, workers=1)
    return f"{domain.batch(range(len(domain))).inputs.sum()} {domain.labels}"  # type: ignore[union-attr]


def _gone_on(work: str) -> Callable[[Path], str]:
    """As the command that goes on with it reads it."""

    def read(folder: Path) -> str:
        done = WORKS[work].do(folder)
        if done.code:
            from revgrad.errors import RunError

            if "Traceback" in done.said or len(done.lines) != 1:
                raise AssertionError(done.said[-300:])
            raise RunError(done.lines[0])
        said = done.said.split("see ")[0] if work == "tune" else ""
        return said + WORKS[work].digest(folder)

    return read


RUN = ("*.json", "metrics.jsonl", "*.safetensors", "evidence/*.safetensors")
KEPT = (
    Kept("a run", "train", tuple(f"run/{one}" for one in RUN), _read_run),
    Kept(
        "the trainings that auto chose among",
        "train",
        tuple(f"run/{place}/{one}" for place in ("baseline", "candidates/*") for one in RUN),
        _read_ladder,
        dear=True,
    ),
    Kept(
        "a run on a table", "train on a table", ("run/encoder.json", "run/config.json"), _read_run
    ),
    Kept(
        "a run against an attribute",
        "train against an attribute",
        ("run/config.json", "run/evidence/*.safetensors"),
        _read_run,
    ),
    Kept("a folder's cache", "folder cache", ("cache/*/*.npy", "cache/*/*.json"), _read_cache),
    Kept("a generated set", "data make", ("cache/**/*.npy", "cache/**/*.json"), _read_made),
    Kept("the index of a shard", "shards' index", ("cache/shards/*",), _read_shards),
    Kept("a record", "reproduce", ("tables/**/job.json",), _read_tables),
    Kept(
        "a search",
        "tune",
        ("search/search.json", "search/study.journal"),
        _gone_on("tune"),
        dear=True,
    ),
    Kept("a table half predicted", "predict", ("out.csv.part*",), _gone_on("predict"), dear=True),
)


def altered(data: bytes, chance: random.Random, turn: int) -> tuple[str, bytes]:
    """A flipped bit, or, every third time, a tail cut off."""
    at = chance.randrange(len(data))
    if turn % 3 == 2:
        return f"cut at {at}", data[:at]
    bit = chance.randrange(8)
    return f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def damage(short: bool) -> Iterator[Trial]:
    from trials import Trial

    for kept in KEPT:
        if short and kept.dear:
            continue
        for number in range(1 if short else 4 if kept.dear else 3):
            do = _damaged(kept, number, 6 if kept.dear else ALTERATIONS[short])
            yield Trial("bits flipped and tails cut off", kept.name, number, do)


def _damaged(kept: Kept, number: int, count: int) -> Callable[[Bench], Outcome]:
    def do(bench: Bench) -> Outcome:
        from trials import Outcome

        outcome, folder = Outcome(), bench.place("damaged")
        chance = random.Random(f"{kept.name} {number}")
        made = bench.place("whole")
        half = kept.name == "a table half predicted"
        ended = WORKS[kept.work].do(made, Fault("term", at=20) if half else NOTHING)
        assert ended.code == (143 if half else 0), ended
        shutil.copytree(made, folder, dirs_exist_ok=True)
        expected = kept.read(folder)
        for pattern in kept.files:
            found = sorted(made.glob(pattern))
            assert found or kept.dear, pattern
            for path in found:
                whole, where = path.read_bytes(), folder / path.relative_to(made)
                for turn in range(count):
                    if kept.dear:  # whoever reads it goes on with it
                        folder = bench.place("damaged")
                        shutil.copytree(made, folder, dirs_exist_ok=True)
                    what, data = altered(whole, chance, turn)
                    where.write_bytes(data)
                    outcome.see(_noticed(kept, folder, where, what, expected))
                    where.parent.mkdir(parents=True, exist_ok=True)
                    where.write_bytes(whole)
        bench.leave(folder)
        return outcome

    return do


def _noticed(kept: Kept, folder: Path, path: Path, what: str, expected: str) -> str:
    """ "" where the damage was named, or mended so that all is as it was."""
    from revgrad.errors import RevgradError

    where = f"{path.relative_to(folder)}, {what}"
    try:
        found = kept.read(folder)
    except RevgradError as error:
        if "\n" in str(error):
            return f"{where}: more than a line"
        return "" if path.name in str(error) else f"{where}: the file is not named: {error}"
    except Exception:
        return f"{where}: {sys.exc_info()[1]!r}"
    return "" if found == expected else f"{where}: read without a word, and otherwise"
