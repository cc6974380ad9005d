"""Sentiment across four pairs of domains: MiniLM's vectors; source only, and the recipe that
matches features by a kernel, of the same budget; what a label-free scorer says of both; and the
estimator's default, a choice among more ways.

python studies/examples/sentence_pairs.py [--seeds 3]

The pairs are the first four of texts in studies/pairs. One json line a training goes to
sentence_pairs.jsonl; what is there is not trained again. `judged` is the scorer's number, which
reads no label of the target: of the first two, the one that it ranks higher is its choice.
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
#: Sentences that are drawn of each domain.
SENTENCES = 800


def encoded(domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and classes of a domain's clear sentences."""
    from revgrad.domains.sentences import NEITHER, rated_sentences, sentence_vectors

    found = rated_sentences(domain).drawn(SENTENCES)
    clear = np.abs(found.scores) > NEITHER
    return sentence_vectors(found.texts)[clear], (found.scores[clear] > 0).astype(int)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    given = options.parse_args()
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    done = {(one["pair"], one["method"], one["seed"]) for one in map(json.loads, lines)}
    from revgrad import DANNClassifier
    from revgrad.estimators import label_free_scorer

    judge = label_free_scorer()
    for seed in range(given.seeds):
        for source, target in PAIRS:
            (x, y), (z, truth) = encoded(source), encoded(target)
            both = np.concatenate([x, z])
            masked = np.concatenate([y, np.full(len(z), -1)])
            sample_domain = np.repeat([1, -1], [len(x), len(z)])
            for name in given.methods:
                pair = f"{source} -> {target}"
                if (pair, name, seed) in done:
                    continue
                model = DANNClassifier(random_state=seed, **METHODS[name]).fit(x, y, X_target=z)
                entry = {"pair": pair, "method": name, "seed": seed}
                entry["accuracy"] = round(float(model.score(z, truth)), 4)
                judged = judge(model, both, masked, sample_domain=sample_domain)
                entry["judged"] = round(float(judged), 4)
                with RECORD.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
                print(entry, flush=True)


if __name__ == "__main__":
    main()
