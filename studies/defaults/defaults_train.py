"""What defaults give on many kinds of data: every method of every pair, one record each.

python studies/defaults/defaults_train.py RECORDS.jsonl [auto | fixed] [reserve] [SEED ...]

`auto`: recipe "auto" and its source-only start alone, with every candidate's signals and accuracy,
so that its choice can be made again from the records; `fixed`: the other methods alone. `reserve`:
on the pairs of the reserve, with the few methods that auto is compared with there. Goes on where
the file of records ends. Target labels are read for the record alone.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pairs"))

import revgrad
from pair_catalogue import FROZEN, PairData
from pair_catalogue import PAIRS as CATALOGUE
from pair_reserve import RESERVE
from revgrad import Annealed, RampUp, Recipe, Settings

#: Steps and samples of a batch of every training; those of auto's candidates follow from them.
STEPS, BATCH = 300, 64
#: Every pair by name.
PAIRS = {**CATALOGUE, **RESERVE}
#: What auto is compared with on the reserve.
COMPARED = ("plain", "kernel matching")
#: The pairs of this study, in their order of training; which are frozen the pairs' own list says.
STUDIED: tuple[str, ...] = (
    *("moons by 30 degrees", "moons by 60 degrees", "small digits, noisy"),
    *("small digits, other sensor", "made table, moved", "made table, swapped columns"),
    *("breast cancer, other sensor", "breast cancer, by size", "houses, by age"),
    *("houses, other sensor", "cars of other countries", "diabetes, by weight"),
    *("watch as a table, other people", "watch, slower", "watch, turned", "watch, other people"),
    *("watch spectra, other people", "watch spectra, slower"),
    *("films -> tweets", "products -> films", "tweets -> products", "tweets, words lost"),
    *("amazon -> webcam", "amazon -> dslr", "webcam -> amazon", "surf caltech -> webcam"),
    *("mnist -> usps", "usps -> mnist", "mnist, turned", "svhn -> mnist"),
    *("drawn signs -> signs", "signs, noisy", "hues, warm light", "hues, blue light"),
    *("surfaces, dark", "surfaces, turned", "scenes, grey", "usps, halves"),
)


def plain(method: str, height: float = 1.0, **changes: Any) -> Recipe:
    """As a user of Adam would train it, without any remedy."""
    settings = Settings(
        steps=STEPS,
        batch_size=BATCH,
        learning_rate=Annealed(0.002),
        adaptation_factor=RampUp(10.0, height),
        optimiser="adam",
        evaluate_every=0,
    )
    return Recipe(method, settings, domain_classifier=(64,)).changed(changes)  # type: ignore[arg-type]


def methods(images: bool) -> dict[str, Recipe]:
    """Every fixed method, and each remedy alone and all together."""
    found = {
        "plain": plain("adversarial"),
        "plain, factor .1": plain("adversarial", 0.1),
        "rms alone": plain("adversarial", normalise="rms"),
        "waiting alone": plain("stabilised"),
        "balanced alone": plain("adversarial", balanced=True),
        "ema alone": plain("adversarial", ema_decay=0.98),
        "stabilised": plain(
            *("stabilised", 0.3),
            normalise="rms",
            balanced=True,
            ema_decay=0.98,
            max_gradient_norm=5.0,
        ),
        "kernel matching": plain("kernel-matching"),
    }
    if images:
        found["recommended"] = revgrad.RECIPES["recommended"].changed(
            {
                "steps": STEPS,
                "batch_size": BATCH,
                "ema_decay": 0.98,
                "domain_classifier": (64,),
                "evaluate_every": 0,
            }
        )
    return found


def auto_records(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One of auto and one of its source-only network."""
    data, common = PAIRS[name].open(), _common(name, seed)
    with TemporaryDirectory() as folder:
        began = time.process_time()
        auto = _adapted(
            *(data, data.network(seed), seed),
            recipe="auto",
            steps=STEPS,
            batch_size=BATCH,
            run=folder,
        )
        seconds = time.process_time() - began
        assert auto.baseline is not None
        assert auto.choice is not None
        below = _accuracy(auto.baseline, data)
        yield {**common, "method": "source only", "accuracy": below, "seconds": None}
        tried = {}
        for one in auto.choice.candidates:
            tried[one.name] = {"signals": one.signals and asdict(one.signals)}
            if one.signals is not None:
                again = revgrad.load(Path(folder) / "candidates" / one.name, data.network(seed))
                tried[one.name]["accuracy"] = _accuracy(again, data)
    yield {
        **common,
        "method": "auto",
        "accuracy": _accuracy(auto, data),
        "baseline": below,
        "seconds": round(seconds, 2),
        "chosen": auto.choice.chosen,
        "candidates": tried,
    }


def fixed_records(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One of every other method."""
    data = PAIRS[name].open()
    for method, recipe in methods(data.source_x.ndim == 4).items():
        if name in RESERVE and method not in COMPARED:
            continue
        began = time.process_time()
        found = _adapted(data, data.network(seed), seed, recipe=recipe)
        yield {
            **_common(name, seed),
            "method": method,
            "accuracy": _accuracy(found, data),
            "seconds": round(time.process_time() - began, 2),
        }


def _common(name: str, seed: int) -> dict[str, Any]:
    pair = PAIRS[name]
    known = {"pair": name, "kind": pair.kind, "shift": pair.shift}
    return {**known, "frozen": name in FROZEN, "seed": seed}


def _adapted(data: PairData, network: Any, seed: int, **given: Any) -> revgrad.Adapted:
    return revgrad.adapt(
        network,
        (data.source_x, data.source_y),
        data.target_x,
        layer=data.layer,
        seed=seed,
        progress=False,
        **given,
    )


def _accuracy(found: revgrad.Adapted, data: PairData) -> float:
    return round(float(found.evaluate(data.target_x, data.target_y).accuracy or 0.0), 4)


#: What is trained of a pair and seed, by the name of one of its methods.
PARTS = {"auto": auto_records, "plain": fixed_records}


def main(path: Path, wanted: list[str], pairs: Sequence[str], seeds: list[int]) -> None:
    torch.set_num_threads(1)
    logging.getLogger("revgrad").setLevel(logging.WARNING)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(one["pair"], one["seed"], one["method"]) for one in map(json.loads, lines)}
    for seed, part, name in product(seeds, wanted, pairs):
        if (name, seed, part) in done:
            continue
        made = [json.dumps(one) + "\n" for one in PARTS[part](name, seed)]
        with path.open("a") as file:
            file.write("".join(made))
        print(name, seed, part, flush=True)


if __name__ == "__main__":
    given = sys.argv[2:]
    parts = [{"auto": "auto", "fixed": "plain"}[one] for one in given if one in ("auto", "fixed")]
    numbers = [int(one) for one in given if one.isdigit()]
    pairs = tuple(RESERVE) if "reserve" in given else STUDIED
    main(Path(sys.argv[1]), parts or list(PARTS), pairs, numbers or [0, 1, 2])
