"""Three sets of digits: two sources pooled, or kept apart, for the third as target.

    REVGRAD_DATA=~/data python studies/domains/three_domains.py

Each of mnist, usps and mnist-m is the target once. A line of `three_domains.jsonl` is one run, its
source-only baseline and its verdict; what is there is not run again. The accuracies are measured
with the target's test labels, which decide nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

import revgrad

NAMES = ("mnist", "usps", "mnist-m")
WAYS = ("pooled", "apart")
RECORD = Path(__file__).parent / "three_domains.jsonl"
#: Of each domain at most; a small budget on purpose.
SAMPLES, STEPS = 5000, 400


def opened(name: str, samples: int, split: str = "train") -> revgrad.Domain:
    return revgrad.open_domain(f"{name}:{split}", size=28).sample(samples)


def trained(target: str, way: str, seed: int, steps: int, samples: int) -> dict[str, Any]:
    """One run and its baseline, as a line of the record."""
    sources = [opened(name, samples) for name in NAMES if name != target]
    given: Any = revgrad.joined(sources) if way == "pooled" else sources
    with tempfile.TemporaryDirectory() as folder:
        adapted = revgrad.adapt(
            "mnist",
            given,
            opened(target, samples).without_labels(),
            recipe="stabilised",
            steps=steps,
            seed=seed,
            test=opened(target, samples, "test"),
            baseline=True,
            run=folder,
            evaluate_every=0,
            progress=False,
            device="cpu",
        )
        judged = adapted.verdict()
    assert adapted.result is not None
    assert adapted.result.last is not None
    assert adapted.baseline is not None
    assert adapted.baseline.result is not None
    assert adapted.baseline.result.last is not None
    return {
        "target": target,
        "sources": [name for name in NAMES if name != target],
        "way": way,
        "seed": seed,
        "steps": steps,
        "samples": samples,
        "outcome": judged.outcome,
        "estimate": None if judged.estimate is None else round(judged.estimate.value, 4),
        "accuracy": adapted.result.last.target_accuracy,
        "source_only": adapted.baseline.result.last.target_accuracy,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--way", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.record.read_text().splitlines() if options.record.exists() else []
    done = {(one["target"], one["way"], one["seed"]) for one in map(json.loads, lines)}
    for target in options.target:
        for way in options.way:
            if (target, way, options.seed) in done:
                continue
            line = trained(target, way, options.seed, options.steps, options.samples)
            with options.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(line)


if __name__ == "__main__":
    main()
