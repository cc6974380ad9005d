"""How long one waits before anything happens: imports and --help, against what is allowed."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from measuring import BRIEF, Measurement, header

ROUNDS = 1 if BRIEF else 9
IMPORT, HELP = 0.3, 0.6  # seconds allowed

#: Everything of the front door that a program uses, not only the name of the package.
USE = "import revgrad; revgrad.adapt, revgrad.from_folder, revgrad.Trainer, revgrad.layers"


def seconds(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    header("seconds, against what is allowed")
    plain, ours, shown = [], [], []
    for _ in range(ROUNDS):
        plain.append(seconds("-c", "import torch"))
        ours.append(seconds("-c", f"import torch; {USE}"))
        shown.append(seconds("-m", "revgrad", "--help"))
    added = statistics.median(b - a for a, b in zip(plain, ours, strict=True))
    Measurement("import revgrad, beyond torch", added, IMPORT, IMPORT / max(added, 1e-9)).show()
    took = statistics.median(shown)
    Measurement("revgrad --help", took, HELP, HELP / took).show()


if __name__ == "__main__":
    main()
