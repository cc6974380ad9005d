"""The tables' runs that are still missing, the most worth first; each is trained and recorded.

python studies/numbers/missing_runs.py              what is missing, in order
python studies/numbers/missing_runs.py --run        train one after the other, on one thread

Stopped, the same command goes on where it was: a job's folder resumes, and a run whose record is
under results/ is left out. Run it from a clone of its own, so that the code stays as it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from revgrad.paper.tables.cells import choose_cells
from revgrad.paper.tables.job import JOB_RECORD, folder_name

ROOT = Path(__file__).resolve().parents[2]
#: Cell → its folder under results/.
RESULTS = {
    "mnist->mnist-m": "mnist-m",
    "syn-numbers->svhn": "svhn",
    "svhn->mnist": "mnist",
    "syn-signs->gtsrb": "gtsrb",
    "mnist->svhn": "mnist-to-svhn",
}


@dataclass(frozen=True)
class Wanted:
    """One run of a table at the standard budget; `minutes` of one quiet core, about."""

    table: str
    cell: str
    method: str
    seed: int
    minutes: int

    @property
    def record(self) -> Path:
        return ROOT / "results" / RESULTS[self.cell] / f"{self.method}-{self.seed}.json"

    def job_record(self, output: Path) -> Path:
        folder = f"{self.method}-{self.seed}"
        return output / "standard" / folder_name(self.cell) / folder / JOB_RECORD

    def command(self, output: Path) -> list[str]:
        words = ["reproduce", self.table, "--cell", self.cell, "--method", self.method]
        words += ["--seeds", str(self.seed), "--budget", "standard", "--jobs", "1"]
        return [sys.executable, "-m", "revgrad", *words, "--output", str(output)]


def _seeds(
    table: str, cell: str, method: str, minutes: int, seeds: tuple[int, ...] = (0, 1, 2)
) -> list[Wanted]:
    return [Wanted(table, cell, method, seed, minutes) for seed in seeds]


QUEUE = [
    *_seeds("mnist-to-svhn", "mnist->svhn", "recommended-colours", 7),
    *_seeds("table1", "mnist->mnist-m", "stabilised", 5),
    *_seeds("table1", "svhn->mnist", "stabilised", 16, (0,)),
    *_seeds("table1", "syn-signs->gtsrb", "stabilised", 26, (0,)),
    *_seeds("table1", "syn-numbers->svhn", "stabilised", 32, (0,)),
    *_seeds("table1", "svhn->mnist", "stabilised", 16, (1, 2)),
    *_seeds("table1", "syn-signs->gtsrb", "stabilised", 26, (1, 2)),
    *_seeds("table1", "syn-numbers->svhn", "stabilised", 32, (1, 2)),
    *_seeds("mnist-to-svhn", "mnist->svhn", "stabilised", 16),
    *_seeds("table1", "mnist->mnist-m", "source-only", 12),
    *_seeds("table1", "svhn->mnist", "source-only", 14, (1, 2)),
    *_seeds("mnist-to-svhn", "mnist->svhn", "recommended", 7, (1, 2)),
    *_seeds("table1", "syn-signs->gtsrb", "source-only", 22, (1, 2)),
]


def missing(queue: list[Wanted] | None = None) -> list[Wanted]:
    """Those without a record under results/."""
    return [one for one in (QUEUE if queue is None else queue) if not one.record.exists()]


def run(one: Wanted, output: Path) -> None:
    """Train it, then put its record under results/."""
    subprocess.run(one.command(output), check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    one.record.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(one.job_record(output), one.record)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", action="store_true", help="train them")
    parser.add_argument("--output", type=Path, default=Path("reproduce"), help="folder of the runs")
    options = parser.parse_args()
    for one in missing():
        choose_cells(one.table, [one.cell])
        print(f"{one.cell:18} {one.method:20} seed {one.seed}  about {one.minutes} min", flush=True)
        if options.run:
            run(one, options.output)


if __name__ == "__main__":
    main()
