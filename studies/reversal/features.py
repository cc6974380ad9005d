"""What plain reversal does to the features: their size, L_y and L_d in the first steps.

python studies/reversal/features.py            the variants, by name
python studies/reversal/features.py printed    train it; a line in features.jsonl

SVHN → MNIST on network (b), λ from 0 to 1 within the training. `size` is the root mean square of a
domain's features where the domain classifier is attached, over images that stay the same.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from revgrad import Callback, Domain, Recipe, Settings, Trainer, adapt, open_domain
from revgrad.adapter import evaluating
from revgrad.domains import match_colours
from revgrad.errors import NonFiniteLossError
from revgrad.networks import build_network
from revgrad.schedules import Constant, RampUp
from revgrad.training.callbacks import TrainingRecord

RUNS = Path(__file__).with_name("features.jsonl")
STEPS = 300
BATCH = 64
EVERY = 10
#: Images of each domain whose features are measured; labelled target images that are looked at.
MEASURED = 256
LOOKED_AT = 2_000


@dataclass(frozen=True)
class Kept:
    """A way to keep reversal from tearing features apart, or none.

    weights    how large the network's first weights are, in He's
    limited    weights limited to the network's norm, gradients to a norm of 5
    normalise  the features in front of the domain classifier
    method     "adversarial", "stabilised" (λ waits for the classes), "source-only"
    """

    title: str
    weights: float = 1.0
    limited: bool = True
    normalise: str = "none"
    method: str = "adversarial"


VARIANTS = {
    "source-only": Kept("source only", method="source-only"),
    "printed": Kept("reversal, nothing limited", limited=False),
    "limited": Kept("weights and gradients limited"),
    "small": Kept("limited, weights of .35 at the start", weights=0.35),
    "rms": Kept("limited, features divided by their root mean square", normalise="rms"),
    "waiting": Kept("the same, λ waits for the classes", normalise="rms", method="stabilised"),
}


class FeatureSize(Callback):
    """Notes losses and the features' size every `EVERY` steps."""

    def __init__(self, domains: list[Domain]) -> None:
        self.inputs = [
            domain.sample(MEASURED).batch(np.arange(MEASURED)).inputs for domain in domains
        ]
        self.points: list[dict[str, Any]] = []

    def on_log(self, trainer: Trainer, record: TrainingRecord) -> None:
        sizes = [self._size(trainer, inputs) for inputs in self.inputs]
        self.points.append(
            {
                "step": record.step,
                "label_loss": rounded(record.label_loss),
                "domain_loss": rounded(record.domain_loss),
                "size": [rounded(size) for size in sizes],
            }
        )

    @torch.no_grad()
    def _size(self, trainer: Trainer, inputs: Any) -> float:
        adapter = trainer.adapter
        with evaluating(adapter):
            features: Tensor = adapter.cut.features(adapter.preprocessing(inputs))
        return float(features.double().square().mean().sqrt())


def rounded(value: float | None) -> float | None:
    """Four digits; None where there is no finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def run(name: str, steps: int = STEPS) -> dict[str, Any]:
    """One training, as a record."""
    kept = VARIANTS[name]
    source, target = match_colours([open_domain(text, size=32) for text in ("svhn", "mnist")])
    network = build_network("svhn", classes=10, channels=3, size=(32, 32), seed=0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(kept.weights)
    settings = Settings(
        steps=steps,
        batch_size=BATCH,
        learning_rate=Constant(0.01),
        adaptation_factor=RampUp(10.0),
        max_weight_norm=None if kept.limited else 0.0,
        max_gradient_norm=5.0 if kept.limited else None,
        evaluate_every=0,
        log_every=EVERY,
    )
    noted = FeatureSize([source, target])
    began, ended, accuracy = time.monotonic(), f"{steps} steps", None
    try:
        adapted = adapt(
            network,
            source,
            None if kept.method == "source-only" else target.without_labels(),
            recipe=Recipe(kept.method, settings, normalise=kept.normalise),  # type: ignore[arg-type]
            test=target.sample(LOOKED_AT),
            held_out=0,
            callbacks=[noted],
            progress=False,
        )
        assert adapted.result is not None
        assert adapted.result.last is not None
        accuracy = adapted.result.last.target_accuracy
    except NonFiniteLossError as error:
        ended = str(error).partition(" (")[0].partition(". ")[0]
    return {
        "variant": name,
        "steps": steps,
        "ended": ended,
        "target_accuracy": accuracy,
        "points": noted.points,
        "seconds": round(time.monotonic() - began),
    }


def read(path: Path = RUNS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def as_markdown(runs: list[dict[str, Any]]) -> str:
    """A line a variant: the largest loss and size, and the losses at the end."""
    lines = [
        "| | features' size: first, largest | largest L_d | L_y at the end | ended |",
        "| --- | --- | --- | --- | --- |",
    ]
    found = {run["variant"]: run for run in runs}
    for name, kept in VARIANTS.items():
        if name not in found:
            continue
        points = found[name]["points"]
        sizes = [max(point["size"]) for point in points if None not in point["size"]]
        domain = [point["domain_loss"] for point in points if point["domain_loss"] is not None]
        most = f"{max(domain):.3g}" if domain else "–"
        label = points[-1]["label_loss"]
        lines.append(
            f"| {kept.title} | {sizes[0]:.3g}, {max(sizes):.3g} | {most} | {label:.3g} "
            f"| {found[name]['ended']} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="variants to train")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        if name not in VARIANTS:
            parser.error(f"no variant '{name}' (there are: {', '.join(VARIANTS)})")
    for name in options.names:
        record = json.dumps(run(name))
        with RUNS.open("a") as file:
            file.write(record + "\n")
        sys.stdout.write(f"{record[:200]}\n")
    if not options.names:
        print("\n".join(f"{name:12} {kept.title}" for name, kept in VARIANTS.items()))


if __name__ == "__main__":
    main()
