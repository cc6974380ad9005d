"""Sentiment across four pairs of domains: MiniLM's vectors; source only, the recipe that matches
features by a kernel, of the same budget, and the estimator's default, a choice without labels.

python studies/examples/sentence_pairs.py [--seeds 1]

The pairs are the first four of texts in studies/pairs. One json line a training goes to
sentence_pairs.jsonl; what is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RECORD = HERE / "sentence_pairs.jsonl"
PAIRS = (
    *(("films", "tweets"), ("products", "films")),
    *(("films", "products"), ("tweets", "products")),
)
METHODS = {
    "source only": {"method": "source-only", "recipe": "regression"},
    "matched": {"recipe": "regression"},
    "default": {},
}


def encoded(domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and classes of a domain's clear sentences, of 800 drawn."""
    from revgrad.domains.sentences import NEITHER, rated_sentences, sentence_vectors

    found = rated_sentences(domain).drawn(800)
    clear = np.abs(found.scores) > NEITHER
    return sentence_vectors(found.texts)[clear], (found.scores[clear] > 0).astype(int)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=1)
    seeds = options.parse_args().seeds
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    done = {(one["pair"], one["method"], one["seed"]) for one in map(json.loads, lines)}
    from revgrad import DANNClassifier

    for seed in range(seeds):
        for source, target in PAIRS:
            (x, y), (z, truth) = encoded(source), encoded(target)
            for name, given in METHODS.items():
                pair = f"{source} -> {target}"
                if (pair, name, seed) in done:
                    continue
                model = DANNClassifier(random_state=seed, **given).fit(x, y, X_target=z)
                entry = {"pair": pair, "method": name, "seed": seed}
                entry["accuracy"] = round(float(model.score(z, truth)), 4)
                with RECORD.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
                print(entry, flush=True)


if __name__ == "__main__":
    main()
