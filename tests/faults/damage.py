"""Bits flipped and tails cut off in every file that a run, a search, a cache or a table keeps."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    """

    name: str
    work: str
    files: tuple[str, ...]
    read: Callable[[Path], str]


def _read_run(folder: Path) -> str:
    from revgrad import Run
    from revgrad.diagnostics.recorder import read_evidence
    from revgrad.training.record import RESULT, read_record

    run = Run(folder / "run")
    read_evidence(run.folder)
    return f"{run.config} {run.records()} {read_record(run.folder / RESULT)}" + run_digest(
        run.folder
    )


def _read_cache(folder: Path) -> str:
    from revgrad import from_folder

    domain = from_folder(folder.parent / "data" / "photos", size=6, cache=folder / "cache")
    return f"{domain.batch(range(len(domain))).inputs.tolist()} {domain.files} {domain.labels}"  # type: ignore[union-attr]


def _read_made(folder: Path) -> str:
    from revgrad.paper.synthetic.make import make_domain

    os.environ["REVGRAD_CACHE"] = str(folder / "cache")
    domain = make_domain("syn-numbers", count=40, workers=1)
    return f"{domain.batch(range(len(domain))).inputs.sum()} {domain.labels}"  # type: ignore[union-attr]


def _read_search(folder: Path) -> str:
    """As the command that goes on with it does."""
    done = WORKS["tune"].do(folder)
    if done.code:
        from revgrad.errors import RunError

        if "Traceback" in done.said or len(done.lines) != 1:
            raise AssertionError(done.said[-300:])
        raise RunError(done.lines[0])
    return done.said.split("see ")[0] + WORKS["tune"].digest(folder)


KEPT = (
    Kept(
        "a run",
        "train",
        ("run/*.json", "run/metrics.jsonl", "run/*.safetensors", "run/evidence/*.safetensors"),
        _read_run,
    ),
    Kept("a folder's cache", "folder cache", ("cache/*/*.npy", "cache/*/*.json"), _read_cache),
    Kept("a generated set", "data make", ("cache/**/*.npy", "cache/**/*.json"), _read_made),
    Kept("a search", "tune", ("search/search.json", "search/study.journal"), _read_search),
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
        if short and kept.name == "a search":
            continue
        for number in range(1 if short else 4 if kept.name == "a search" else 3):
            count = ALTERATIONS[short] if kept.name != "a search" else 6
            do = _damaged(kept, number, count)
            yield Trial("bits flipped and tails cut off", kept.name, number, do)


def _damaged(kept: Kept, number: int, count: int) -> Callable[[Bench], Outcome]:
    def do(bench: Bench) -> Outcome:
        from trials import Outcome

        outcome, folder = Outcome(), bench.place("damaged")
        assert WORKS[kept.work].do(folder).code == 0
        expected = kept.read(folder)
        chance = random.Random(f"{kept.name} {number}")
        for pattern in kept.files:
            for path in sorted(folder.glob(pattern)):
                whole = path.read_bytes()
                for turn in range(count):
                    what, data = altered(whole, chance, turn)
                    path.write_bytes(data)
                    outcome.see(_noticed(kept, folder, path, what, expected))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(whole)
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
