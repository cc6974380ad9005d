"""Run examples whole; keep what they measured and what they drew.

python studies/examples/record_examples.py [NAME ...]

Each example leaves `scores`, lists of numbers (one a seed) by name: they go to NAME.json in this
folder, from where the docs take them, its picture to docs/images/.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def record(example: Path) -> None:
    """One example, whole; its pictures are written to docs/images."""
    import matplotlib as mpl

    mpl.use("Agg")
    started = time.process_time()
    here = Path.cwd()
    os.chdir(ROOT / "docs" / "images")
    try:
        found = runpy.run_path(str(example), run_name="__main__")
    finally:
        os.chdir(here)
    scores = {name: [round(one, 4) for one in values] for name, values in found["scores"].items()}
    entry = {
        "command": f"python examples/{example.name}",
        "scores": scores,
        "means": {name: round(fmean(values), 4) for name, values in scores.items()},
        "cpu_seconds": round(time.process_time() - started),
    }
    path = Path(__file__).parent / f"{example.stem}.json"
    path.write_text(json.dumps(entry, indent=1) + "\n")
    print(f"{path.name}: {entry['means']}", flush=True)


if __name__ == "__main__":
    os.environ.pop("REVGRAD_SHORT", None)
    chosen = sys.argv[1:]
    for one in EXAMPLES:
        if not chosen or one.stem in chosen:
            record(one)
