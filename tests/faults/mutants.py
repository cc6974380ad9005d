"""`make mutants`: break the most important lines one by one; the tests must notice each.

The lines stand in mutants.toml, each with the narrowest tests that should notice. Every result is a
line of mutants.jsonl; a mutant that was noticed is not tried again while its entry stays as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import tomllib
import traceback
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIST, LEDGER = HERE / "mutants.toml", HERE / "mutants.jsonl"
#: Seconds after which a mutant counts as noticed: it hangs.
PATIENCE = 900
#: Mutants that the list must have; lines that have changed since do not count.
FEWEST = 60
#: pytest's exit codes.
PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """A line of a file of the package, what it is broken into, and the tests that must notice."""

    file: str
    line: str
    broken: str
    tests: list[str]

    @property
    def key(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def read_mutants() -> list[Mutant]:
    """Those of the list whose line stands once in its file; the others are named."""
    found = [Mutant(**one) for one in tomllib.loads(LIST.read_text())["mutant"]]
    there = []
    for mutant in found:
        count = (ROOT / "src" / "revgrad" / mutant.file).read_text().count(mutant.line)
        if count == 1:
            there.append(mutant)
        else:
            print(
                f"{mutant.file} has this line {count} times, mend the list: {mutant.line.strip()}"
            )
    return there


def tests_end(package: Path, tests: list[str]) -> int:
    """pytest's exit code for these tests with the package below that folder, in a fork of this
    process, which has imported what they need but nothing of the package."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            signal.alarm(PATIENCE)
            for kind in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), kind)
            os.environ |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
            sys.path.insert(0, str(package))
            os.chdir(ROOT)
            import pytest

            code = int(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def warm() -> None:
    """Import what tests take long to import; of the package nothing."""
    sys.dont_write_bytecode = True
    import numpy
    import optuna
    import PIL.Image
    import pytest
    import sklearn.linear_model
    import torch
    import torch.fx
    import typer  # noqa: F401

    torch.set_num_threads(1)
    assert not [name for name in sys.modules if name.partition(".")[0] == "revgrad"]
    del numpy, optuna, PIL, pytest, sklearn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mutants of files whose name holds this text")
    options = parser.parse_args()
    mutants = read_mutants()
    known = (
        [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    )
    ends = {str(one["key"]): str(one["end"]) for one in known}
    warm()
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "src"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", package, ignore=ignored)
        for mutant in mutants:
            if ends.get(mutant.key) == "noticed" or options.only not in mutant.file:
                continue
            path = package / "revgrad" / mutant.file
            whole = path.read_text()
            path.write_text(whole.replace(mutant.line, mutant.broken))
            code = tests_end(package, mutant.tests)
            path.write_text(whole)
            end = {PASSED: "survived", FAILED: "noticed", -signal.SIGALRM: "noticed"}.get(code)
            ends[mutant.key] = end or f"pytest ended with {code}"
            if ends[mutant.key] != "noticed":
                print(f"{ends[mutant.key]}: {mutant.file}: {mutant.line.strip()}", flush=True)
            write(mutants, ends)
    noticed = sum(ends.get(mutant.key) == "noticed" for mutant in mutants)
    print(f"{len(mutants)} mutants, {noticed} noticed")
    return int(noticed < len(mutants) or len(mutants) < FEWEST)


def write(mutants: list[Mutant], ends: dict[str, str]) -> None:
    """The results of the mutants that are in the list, a line each."""
    lines = [
        json.dumps({"key": one.key, "file": one.file, "end": ends[one.key]})
        for one in mutants
        if one.key in ends
    ]
    LEDGER.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
