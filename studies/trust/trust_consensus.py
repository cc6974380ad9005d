"""The consensus of classifiers on each pair's target, and how often it is right: consensus.json.

python studies/trust/trust_consensus.py [--pair NAME …]

It needs no training: classifiers of the inputs know nothing of networks. What is there is skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "pairs"))
from pair_catalogue import PAIRS
from revgrad._system import write_atomically
from revgrad.diagnostics.consensus import consensus_of

OUTPUT = Path(__file__).parent / "consensus.json"


def numbers(pair: str) -> dict[str, float]:
    data = PAIRS[pair].open()
    order = np.random.default_rng(0).permutation(len(data.source_y))
    found = consensus_of(data.source_x[order], data.source_y[order], data.target_x, data.classes)
    right = [float((p.argmax(1) == data.target_y).mean()) for p in (found.pooled, found.learned)]
    values = {
        "sureness": found.sureness,
        "steadiness": found.steadiness,
        "most_reliable": float(found.reliability.max()),
        "competence": found.competence,
        "agreement": found.agreement,
        "target_samples": len(data.target_y),
        "accuracy": right[0],
        "accuracy_learned": right[1],
    }
    return {name: round(value, 4) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", action="append", default=[])
    known = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else {}
    for pair in parser.parse_args().pair or list(PAIRS):
        if pair not in known:
            known[pair] = numbers(pair)
            write_atomically(OUTPUT, (json.dumps(known, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
