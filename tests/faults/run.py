"""Faults, tried: `python tests/faults/run.py` (an hour; `make faults`), `--short` (the tests').

Every trial is one line of the ledger, written when it has ended: the same command goes on where it
was. The table at the end is what docs/reliability.md shows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from works import Bench

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "helpers")]
LEDGER = HERE / "ledger.jsonl"


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(lines: Iterable[dict[str, object]]) -> list[tuple[str, int, int]]:
    """(fault, tried, held), in the order in which they were first tried; each trial once."""
    found: dict[str, list[int]] = {}
    for line in {str(line["key"]): line for line in lines}.values():
        counts = found.setdefault(str(line["fault"]), [0, 0])
        counts[0] += int(str(line["tried"]))
        counts[1] += int(str(line["held"]))
    return [(name, tried, held) for name, (tried, held) in found.items()]


def warm(bench: Bench, names: Iterable[str]) -> None:
    """Each work once in this process: what they import is then there in every forked one."""
    from revgrad.cli import main as command
    from works import WORKS

    here = os.getcwd()
    for name in names:
        os.chdir(bench.place(f"warm-{name}"))
        sys.argv = ["revgrad", *map(str, WORKS[name].words)]
        WORKS[name].before()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            command()
    os.chdir(here)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    logging.getLogger("revgrad").setLevel(logging.ERROR)  # damage that is mended is a warning


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--only", default="", help="trials whose key holds this text")
    options = parser.parse_args()
    import torch

    from trials import all_trials
    from works import WORKS, Bench

    torch.set_num_threads(1)
    done = {str(line["key"]) for line in read(options.ledger)}
    with tempfile.TemporaryDirectory() as place:
        os.environ["REVGRAD_CACHE"] = f"{place}/cache"
        bench = Bench(Path(place))
        left = [
            trial
            for trial in all_trials(options.short)
            if trial.key not in done and options.only in trial.key
        ]
        warm(bench, dict.fromkeys(trial.what for trial in left if trial.what in WORKS))
        with options.ledger.open("a") as ledger:
            for trial in left:
                began = time.monotonic()
                outcome = trial.do(bench)
                line = {
                    "key": trial.key,
                    "fault": trial.fault,
                    "what": trial.what,
                    "tried": outcome.tried,
                    "held": outcome.held,
                    "notes": [note.replace(place, "") for note in outcome.notes],
                }
                ledger.write(json.dumps(line) + "\n")
                ledger.flush()
                if outcome.notes or time.monotonic() - began > 60:
                    seconds = time.monotonic() - began
                    print(f"{trial.key}: {seconds:.0f} s {outcome.notes[:2]}", flush=True)
    lines = read(options.ledger)
    width = max(len(name) for name, *_ in table(lines))
    for name, tried, held in table(lines):
        print(f"{name:<{width}}  {tried:>6} tried  {held:>6} held")
    return int(any(tried != held for _, tried, held in table(lines)))


if __name__ == "__main__":
    raise SystemExit(main())
