"""Where to attach the domain classifier: the stabilised recipe at three layers of every pair.

python studies/defaults/layers_train.py studies/defaults/layers.jsonl [SEED ...]

`early` is the first hidden layer, `features` the second, `hidden` the last before the classifier.
Goes on where the file of records ends. Target labels are read for the record alone.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pairs"))

import revgrad
from defaults_train import methods, plain
from pair_catalogue import PAIRS

LAYERS = ("early", "features", "hidden")
#: Two of a kind, where there are two of few seconds.
STUDIED: tuple[str, ...] = (
    *("moons by 30 degrees", "small digits, other sensor"),
    *("breast cancer, other sensor", "made table, moved"),
    *("watch, slower", "watch, other people"),
    *("films -> tweets", "tweets -> products"),
    *("mnist -> usps", "mnist, turned"),
    *("surf caltech -> webcam", "drawn signs -> signs", "amazon -> webcam"),
)


def records(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One of every layer, beside source only from the same first weights."""
    data = PAIRS[name].open()
    fresh = data.network(seed)
    trainings = [("source only", "features", plain("source-only"))]
    stabilised = methods(images=False)["stabilised"]
    trainings += [(layer, layer, stabilised) for layer in LAYERS]
    baseline = 0.0
    for title, layer, recipe in trainings:
        found = revgrad.adapt(
            copy.deepcopy(fresh),
            (data.source_x, data.source_y),
            data.target_x,
            layer=layer,
            recipe=recipe,
            seed=seed,
            progress=False,
        )
        accuracy = round(float(found.evaluate(data.target_x, data.target_y).accuracy or 0.0), 4)
        if title == "source only":
            baseline = accuracy
            continue
        yield {
            "pair": name,
            "kind": PAIRS[name].kind,
            "layer": layer,
            "seed": seed,
            "accuracy": accuracy,
            "baseline": baseline,
        }


def main(path: Path, seeds: list[int]) -> None:
    torch.set_num_threads(1)
    logging.getLogger("revgrad").setLevel(logging.WARNING)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(one["pair"], one["seed"]) for one in map(json.loads, lines)}
    for seed in seeds:
        for name in STUDIED:
            if (name, seed) in done:
                continue
            made = [json.dumps(one) + "\n" for one in records(name, seed)]
            with path.open("a") as file:
                file.write("".join(made))
            print(name, seed, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(one) for one in sys.argv[2:]] or [0, 1])
