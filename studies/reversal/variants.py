"""Where plain reversal does not help: SYN NUMBERS → SVHN, with and without it, under many changes.

python studies/reversal/variants.py NAME …      train and add to runs.jsonl beside this file
python studies/reversal/variants.py             list the names

Network (a) of the paper stands in for (b), which costs several times as much; some lines are of (b)
itself. What is looked at are 4,000 samples of the target's *training* split: the test takes no
part. One seed, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter
from torch import nn

from revgrad import Adapted, Domain, Preprocessing, RampUp, Recipe, Settings, adapt, from_arrays
from revgrad.diagnostics import domain_separation
from revgrad.domains import match_colours, open_domain
from revgrad.domains.common_shape import resized
from revgrad.networks import DomainClassifier, build_network
from revgrad.paper.networks.svhn import DENSE, SVHNNetwork
from revgrad.paper.synthetic.syn_numbers import SynNumbers, house_digits, syn_numbers

RUNS = Path(__file__).parent / "runs.jsonl"
LOOKED_AT = 4_000
#: Samples of each domain, for a fresh domain classifier.
SAMPLES = 10_000
#: Side of the images, by network.
SIZES = {"mnist": 28, "svhn": 32}

#: Little blur, much contrast and colour.
CLEAN: dict[str, Any] = {"contrast": (0.35, 0.8), "blur": (0.3, 1.0), "tint": 0.35}
#: Where edges are, how sharp and how strong: as in SVHN's images.
FITTED: dict[str, Any] = {
    "height": (0.7, 1.05),
    "gap": (0.0, 0.16),
    "lengths": (0.08, 0.42, 0.5),
    "blur": (0.6, 1.9),
    "noise": (0.002, 0.012),
    "contrast": (0.15, 0.56),
}
#: The same by search: positions, spectra and strength of edges in unlabelled images of SVHN.
SHAPED: dict[str, Any] = {
    "height": (0.8, 1.12),
    "aspect": (0.4, 0.95),
    "gap": (0.04, 0.16),
    "turn": (-11.0, 11.0),
    "lengths": (0.07, 0.5, 0.43),
    "blur": (0.7, 2.7),
    "contrast": (0.18, 0.74),
}
#: Only how sharp and how strong edges are: as in unlabelled images of SVHN.
BLURRED: dict[str, Any] = {"blur": (0.8, 2.5), "contrast": (0.2, 0.74)}


@dataclass(frozen=True)
class Variant:
    """What is changed. Settings of the training have their usual names.

    rendering          parameters of `SynNumbers`
    listed             vary what the paper lists and no more: no uneven light, outline, shadow, …
    shares             digits as often as in house numbers 1 … 3,000, small numbers before large
    digits             how often each is drawn: all "alike"; "overall" as in house numbers below
                       10,000, in whatever place; "placed" as in house numbers, first, second and
                       third
    classes            the only digits in both domains
    scale              of the inputs, in standard deviations
    same               the target is the source itself
    own                the source is the other half of the target's training samples, with their
                       labels, only sharper and of full contrast: the same glyphs as often
    network            (a), "mnist", or (b), "svhn"
    domain_classifier  widths of its hidden layers
    dropout            share of its hidden units left out in training
    start              of its hidden layers' weights, in terms of the usual one
    keep               shares kept by network (b)'s dropout, where not the usual ones
    through            size that the drawn numbers are reduced to and enlarged from, as SVHN's are
    like               the variant whose source-only training would be the same
    removed            what it changed is no longer in the package: its records stay, it can't be
                       trained
    """

    title: str
    rendering: dict[str, Any] = field(default_factory=dict)
    listed: bool = False
    shares: bool = False
    digits: str = "alike"
    classes: tuple[int, ...] = ()
    steps: int = 3_000
    adaptation_factor: float = 1.0
    max_weight_norm: float | None = None
    weight_decay: float = 0.0
    scale: float = 1.0
    same: bool = False
    own: bool = False
    network: str = "mnist"
    domain_classifier: tuple[int, ...] = (100,)
    dropout: float = 0.0
    start: float = 1.0
    domain_lr_factor: float = 1.0
    keep: tuple[float, ...] = DENSE
    through: int | None = None
    like: str | None = None
    removed: bool = False


#: What the paper gives network (b).
B: dict[str, Any] = {
    "network": "svhn",
    "domain_classifier": (1024, 1024),
    "max_weight_norm": 4.0,
    "steps": 4_000,
}

VARIANTS = {
    "as-is": Variant("as it is"),
    "long": Variant("16,000 steps", steps=16_000),
    "factor-.3": Variant("λ up to .3", adaptation_factor=0.3, like="as-is"),
    "factor-.1": Variant("λ up to .1", adaptation_factor=0.1, like="as-is"),
    "wide": Variant("domain classifier of (b)", domain_classifier=(1024, 1024), like="as-is"),
    "decay": Variant("weight decay .002", weight_decay=0.002),
    "shares": Variant("digits' shares of house numbers", shares=True),
    "shares-long": Variant("these shares, 16,000 steps", shares=True, steps=16_000),
    "shares-norm-1": Variant("these shares, norm limit 1", shares=True, max_weight_norm=1.0),
    "shares-norm-.5": Variant("these shares, norm limit .5", shares=True, max_weight_norm=0.5),
    "shares-scale": Variant("these shares, inputs a quarter as large", shares=True, scale=0.25),
    "mild": Variant("only the paper's variations", listed=True),
    "mild-shares": Variant("only the paper's variations, these shares", listed=True, shares=True),
    "clean": Variant("and these sharp, of strong contrast", CLEAN, listed=True),
    "clean-.3": Variant(
        "the same, λ up to .3", CLEAN, listed=True, adaptation_factor=0.3, like="clean"
    ),
    "clean-.1": Variant(
        "the same, λ up to .1", CLEAN, listed=True, adaptation_factor=0.1, like="clean"
    ),
    "clean-wide": Variant(
        "the same, domain classifier of (b)",
        CLEAN,
        listed=True,
        domain_classifier=(1024, 1024),
        like="clean",
    ),
    "fitted": Variant("edges placed as in SVHN", FITTED),
    "clutter": Variant("clutter behind the numbers", {"clutter": 0.5}),
    "clutter-shares": Variant("clutter, these shares", {"clutter": 0.5}, shares=True),
    "pen": Variant("half of the numbers written by pen", removed=True),
    "six": Variant("0, 4, 6, 7, 8, 9 alone", classes=(0, 4, 6, 7, 8, 9)),
    "same": Variant("the source as the target", same=True, like="as-is"),
    "own": Variant("SVHN's own other half, contrast stretched, as the source", own=True),
    "own-.3": Variant("this source, λ up to .3", own=True, adaptation_factor=0.3, like="own"),
    "own-.1": Variant("this source, λ up to .1", own=True, adaptation_factor=0.1, like="own"),
    "own-long": Variant("this source, 9,000 steps", own=True, steps=9_000),
    "own-wide": Variant(
        "this source, domain classifier of (b)",
        own=True,
        domain_classifier=(1024, 1024),
        like="own",
    ),
    "own-wide-long": Variant(
        "this source, domain classifier of (b), 9,000 steps",
        own=True,
        domain_classifier=(1024, 1024),
        steps=9_000,
        like="own-long",
    ),
    "b": Variant("network (b), digits of house numbers, 4,000 steps", digits="overall", **B),
    "b-listed": Variant(
        "the same, only the paper's variations", listed=True, digits="overall", **B
    ),
    "b-placed": Variant(
        "the same, digits by their place in the number", listed=True, digits="placed", **B
    ),
    **{
        f"b-{steps}": Variant(
            f"the same, {steps:,} steps", listed=True, digits="placed", **{**B, "steps": steps}
        )
        for steps in (2_000, 8_000, 16_000)
    },
    "b-decay-.0005": Variant(
        "4,000 steps, weight decay .0005",
        listed=True,
        digits="placed",
        weight_decay=0.0005,
        **B,
    ),
    "b-decay": Variant(
        "4,000 steps, weight decay .002", listed=True, digits="placed", weight_decay=0.002, **B
    ),
    "b-varied-placed": Variant("all variations, digits by their place", digits="placed", **B),
    "b-shaped": Variant(
        "only the paper's, digits by their place, shapes and blur as in SVHN",
        SHAPED,
        listed=True,
        digits="placed",
        **B,
    ),
    **{
        f"b-{name}": Variant(
            f"4,000 steps, {title}", listed=True, digits="placed", **{**B, **change}
        )
        for name, title, change in (
            ("factor-2", "λ up to 2", {"adaptation_factor": 2.0, "like": "b-placed"}),
            (
                "dropout",
                "dropout .5 in the domain classifier",
                {"dropout": 0.5, "like": "b-placed"},
            ),
            (
                "start-2",
                "its hidden layers start twice as large",
                {"start": 2.0, "like": "b-placed"},
            ),
            ("through-28", "drawn numbers reduced to 28×28 as SVHN's were", {"through": 28}),
            ("norm-2", "norm limit 2", {"max_weight_norm": 2.0}),
            ("norm-1.5", "norm limit 1.5", {"max_weight_norm": 1.5}),
            ("pen", "half of the numbers written by pen", {"removed": True}),
            ("pen-blur", "half by pen, blur of up to 3 pixels", {"removed": True}),
            (
                "domain-rate-5",
                "domain classifier at five times the rate",
                {"domain_lr_factor": 5.0, "like": "b-placed"},
            ),
            ("blurred", "blur and contrast as in SVHN", {"rendering": BLURRED}),
            (
                "convolution-dropout",
                "dropout behind the convolutions too, .1 .1 .2",
                {"keep": (1.0, 0.9, 0.9, 0.8, 0.5, 0.5)},
            ),
            ("scale-2", "inputs twice as large", {"scale": 2.0}),
            ("unstretched", "fonts in their own widths", {"rendering": {"aspect": (1.0, 1.0)}}),
        )
    },
}


class OtherClassifier(DomainClassifier):
    """Its hidden layers with dropout, or weights that start larger or smaller."""

    def __init__(self, features: int, hidden: tuple[int, ...], dropout: float, start: float):
        super().__init__(features, hidden)
        self.dropout = dropout
        with torch.no_grad():
            for layer in list(self.children())[:-1]:
                layer.weight.mul_(start)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = features.flatten(1)
        *inner, last = self.children()
        for layer in inner:
            x = F.dropout(layer(x), self.dropout, self.training)
        logits: torch.Tensor = last(x).squeeze(1)
        return logits


class Scaled(nn.Module):
    """A preprocessing, then a factor."""

    def __init__(self, before: nn.Module, factor: float) -> None:
        super().__init__()
        self.before, self.factor = before, factor

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.before(images) * self.factor
        return scaled


def house_shares(most: int) -> np.ndarray:
    """How often each digit stands in house numbers below `most`, in whatever place."""
    counts = np.zeros(10)
    for number in range(1, most):
        for digit in str(number):
            counts[int(digit)] += np.log1p(1 / number)
    return counts / counts.sum()


def with_shares(domain: Domain, shares: np.ndarray) -> Domain:
    """As many samples as there are for these shares of the classes."""
    labels = np.asarray(domain.labels)
    whole = (np.bincount(labels, minlength=len(shares)) / shares).min()
    kept = [np.flatnonzero(labels == at)[: int(whole * part)] for at, part in enumerate(shares)]
    return domain.subset(np.sort(np.concatenate(kept)))


def stretched(images: np.ndarray) -> np.ndarray:
    """(n, height, width, 3) uint8: sharper, and nine tenths of the grey values over 200 levels."""
    values = images.astype(np.float32)
    values += 1.5 * (values - gaussian_filter(values, (0, 1.5, 1.5, 0)))
    grey = values.mean(axis=3, keepdims=True)
    low, high = np.percentile(grey, (5, 95), axis=(1, 2, 3), keepdims=True)
    values = (values - low) / np.maximum(high - low, 8) * 200 + 28
    return np.clip(values, 0, 255).astype(np.uint8)


def with_stretched(domain: Domain) -> Domain:
    parts = [
        domain.batch(np.arange(at, min(at + 1000, len(domain))), augment=False).inputs
        for at in range(0, len(domain), 1000)
    ]
    images = [stretched(part.permute(0, 2, 3, 1).numpy()) for part in parts]
    return from_arrays(np.concatenate(images), domain.labels, name="svhn-stretched")


def domains(variant: Variant) -> tuple[Domain, Domain, Domain]:
    """Source, target, and the labelled target samples that are looked at."""
    size = SIZES[variant.network]
    target = open_domain("svhn", size=size)
    order = np.random.default_rng(0).permutation(len(target))
    looked_at = target.subset(np.sort(order[:LOOKED_AT]))
    if variant.own:
        half = len(target) // 2
        source = with_stretched(target.subset(np.sort(order[half:])))
        return source, target.subset(np.sort(order[:half])), looked_at
    kind = SynNumbers if variant.listed else SynNumbers.varied
    digits = {
        "alike": ((1.0,) * 10,) * 3,
        "overall": (tuple(house_shares(10_000).round(4)),) * 3,
        "placed": house_digits(),
    }
    parameters = kind(digits=digits[variant.digits], **variant.rendering)
    source = syn_numbers(parameters=parameters)
    if variant.through is not None:
        source = resized(source, variant.through)
    source = resized(source, size)
    if variant.shares:
        source = with_shares(source, house_shares(3_000))
    if variant.classes:
        source, target, looked_at = (
            one.subset(np.flatnonzero(np.isin(one.labels, variant.classes)))
            for one in (source, target, looked_at)
        )
    source, target, looked_at = match_colours([source, target, looked_at])
    return source, source if variant.same else target, looked_at


def told_apart(adapted: Adapted, source: Domain, target: Domain) -> float:
    """Share of unseen samples whose domain a fresh classifier knows by features; ½ is guessing."""
    features = []
    for domain in (source, target):
        chosen = np.random.default_rng(1).permutation(len(domain))[:SAMPLES]
        features.append(adapted.features(domain.subset(np.sort(chosen))))
    return 1 - domain_separation(*features, "mlp", samples=SAMPLES).error


def network(variant: Variant) -> nn.Module:
    if variant.keep != DENSE:
        return SVHNNetwork(keep=variant.keep)
    size = SIZES[variant.network]
    return build_network(variant.network, classes=10, channels=3, size=(size, size), seed=0)


def classifier(variant: Variant) -> DomainClassifier | None:
    """The domain classifier where it is not the usual one; for (b), which has 128 features."""
    if variant.dropout == 0 and variant.start == 1:
        return None
    return OtherClassifier(128, variant.domain_classifier, variant.dropout, variant.start)


def run(name: str, method: str) -> dict[str, Any]:
    """One training, as a record."""
    variant = VARIANTS[name]
    source, target, looked_at = domains(variant)
    plain = method == "adversarial"
    seen = (source, target) if plain else (source,)
    settings = Settings(
        steps=variant.steps,
        adaptation_factor=RampUp(10.0, variant.adaptation_factor),
        max_weight_norm=variant.max_weight_norm,
        weight_decay=variant.weight_decay,
        domain_lr_factor=variant.domain_lr_factor,
        evaluate_every=0,
    )
    began = time.monotonic()
    adapted = adapt(
        network(variant),
        source,
        target.without_labels() if plain else None,
        recipe=Recipe(method, settings),
        domain_classifier=(classifier(variant) if plain else None) or variant.domain_classifier,
        preprocessing="fitted"
        if variant.scale == 1
        else Scaled(Preprocessing.fit(*seen), variant.scale),
        test=looked_at,
    )
    result = adapted.result
    assert result is not None
    assert result.last is not None
    return {
        "variant": name,
        "method": method,
        "steps": variant.steps,
        "rows": len(source),
        "source_accuracy": result.last.source_accuracy,
        "target_accuracy": result.last.target_accuracy,
        "told_apart": round(told_apart(adapted, source, target), 4),
        "seconds": round(time.monotonic() - began),
    }


def read(path: Path = RUNS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def as_markdown(runs: list[dict[str, Any]]) -> str:
    """A line a variant: accuracy on the target samples without and with reversal."""
    found = {(run["variant"], run["method"]): run for run in runs}
    lines = [
        "| change | source only | DANN | held-out source, DANN | told apart, DANN |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, variant in VARIANTS.items():
        plain = found.get((name, "adversarial"))
        only = found.get((variant.like or name, "source-only"))
        if plain is not None:
            lines.append(
                f"| {variant.title} | {_or_dash(only and only['target_accuracy'])} "
                f"| {plain['target_accuracy']:.3f} | {plain['source_accuracy']:.3f} "
                f"| {_or_dash(plain.get('told_apart'))} |"
            )
    return "\n".join(lines)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="variants to train")
    parser.add_argument("--method", action="append", choices=("source-only", "adversarial"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    trainable = {name: variant for name, variant in VARIANTS.items() if not variant.removed}
    for name in options.names:
        if name not in trainable:
            parser.error(f"no variant '{name}' (there are: {', '.join(trainable)})")
    for name in options.names:
        for method in options.method or ("source-only", "adversarial"):
            record = json.dumps(run(name, method))
            with RUNS.open("a") as file:
                file.write(record + "\n")
            print(record)
    if not options.names:
        print("\n".join(f"{name:16} {variant.title}" for name, variant in trainable.items()))


if __name__ == "__main__":
    main()
