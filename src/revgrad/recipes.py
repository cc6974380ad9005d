"""Recipes: whole ways of training, by name: `PAPER`, as printed, `STABILISED`, for any data,
`RECOMMENDED`, for images, `VECTORS`, `SERIES` and `REGRESSION`, by the kind of data and labels,
`REMOVAL`, of attributes.

`PAPER` is the paper's own (§4, appendix C). `RECOMMENDED` is one set of settings for image domains,
best with a network that has batch normalisation, as `compact`. It differs from the paper's in

- the input: each image is standardised by its own mean and deviation;
- the batches: the source's classes come alike often;
- the objective: beside the label loss and a weak reversal (.01 λ), a target image that is changed a
  little must keep the class the network is sure of (FixMatch-style consistency), and no class may
  be lost (`AdversarialConsistency`); source images are changed alike (`Jitter`);
- the optimiser: Adam, its learning rate annealed from .003;
- BatchNorm: each domain is normalised by itself, and the target's statistics are kept;
- the weights: an exponential moving average (EMA) of them is what is evaluated.

`STABILISED` is gradient reversal alone, for any data, with today's means: each sample's features
are divided by their root mean square in front of the domain classifier, λ waits until the source's
classes are learned, the source's classes come alike often, each domain has BatchNorm statistics of
its own in training, Adam, gradients limited in norm, and the EMA of the weights is handed back.

`VECTORS` is `RECOMMENDED`'s objective for classes of vectors and series: the small change is noise
of a share of each feature's deviation, the reversal is .1 λ, and a large, constant learning rate
lets pseudo-labels travel along the target's clusters. It was developed on two moons turned by 20
to 45 degrees with target accuracy in view; the last choice was the mutual information's.
`SERIES` is the same objective with the whole reversal and an annealed learning rate. It was
developed on a watch that is turned on the wrist and chosen over reversal alone by mutual
information on the other arm, where target accuracies were seen too. `REGRESSION` matches the
domains' features by a kernel (MMD), which needs no classes.

`REMOVAL` takes attributes out of features: heads of one wide layer that learn ten times as fast as
the network, large batches, and features that correlate with no attribute, which leaves a linear
classifier nothing; the heads see to the rest. Of the weights at each evaluation those are handed
back that hold the least. It is what adversaries without a target are trained with unless another is
named. It was developed on three planted sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import isclass
from typing import Any, Literal

from torch import nn

from revgrad.errors import InputError, unknown
from revgrad.networks.domain_classifier import NORMALISATIONS, Normalisation
from revgrad.objectives import (
    OBJECTIVES,
    AdversarialConsistency,
    LabelLoss,
    Noise,
    Objective,
    cross_entropy,
)
from revgrad.schedules import Annealed, RampUp
from revgrad.training.settings import Settings, SettingsChanges, without_addresses

#: Learning rates at the start that are safe with an optimiser on networks that people bring.
RATES = {"sgd": 0.01, "adam": 0.001, "adamw": 0.001}
#: How inputs are standardised: by what both domains have in common, or each image by itself.
STANDARDISED = ("fitted", "per-image")

#: Units of a hidden layer of the domain classifier: a million is a typing mistake.
WIDEST = 1_000_000


def _widths(given: Any) -> tuple[int, ...]:
    try:
        widths = tuple(int(width) for width in given)
    except (TypeError, ValueError):
        widths = (0,)
    if not all(1 <= width <= WIDEST for width in widths):
        raise InputError(
            f"domain_classifier takes hidden widths from 1 to {WIDEST}, such as (1024, 1024), or a "
            f"module, not {given}"
        )
    return widths


@dataclass(frozen=True)
class Recipe:
    """A way of training: what is minimised, and everything it is trained with.

    Attributes
    ----------
    method
        "adversarial" (DANN, the paper's), "stabilised" (DANN whose λ waits for the
        classes), "adversarial-entropy", "adversarial-consistency",
        "two-losses", "mean-matching" (DDC), "kernel-matching" (MMD), "coral",
        "cdan", "cdan-e", "mcc", "dann-mcc", "mdd", "removal" (DANN whose features
        correlate with no attribute), an objective of your own; or
        the bounds to compare with, "source-only" and "train-on-target" (with
        the target's labels)
    settings
        steps, batches, schedules, optimiser, …
    domain_classifier
        hidden widths of the domain classifier, or a module of your own; None: the
        network's own choice, else 1024, 1024
    normalise
        each sample's features in front of the domain classifier: "none", "rms" (by
        their root mean square) or "layer" (layer norm)
    preprocessing
        "fitted": one mean and scale for both domains (pretrained networks: their
        own); "per-image": each image by its own; or a module of your own
    balanced
        draw all classes of the source alike often, however many samples each has
    label_loss
        (predictions, labels) → loss; None: cross-entropy for class labels, squared
        error for float labels

    Examples
    --------
    >>> recipe = revgrad.Recipe("cdan", revgrad.Settings(steps=2000, optimiser="adam"))
    >>> recipe.changed({"steps": 500}).settings.steps
    500
    >>> revgrad.adapt(network, source, target, recipe=recipe)  # doctest: +SKIP
    """

    method: str | Objective = "adversarial"
    settings: Settings = field(default_factory=Settings)
    domain_classifier: Sequence[int] | nn.Module | None = None
    normalise: Normalisation = "none"
    preprocessing: Literal["fitted", "per-image"] | nn.Module = "fitted"
    balanced: bool = False
    label_loss: LabelLoss | None = None

    def __post_init__(self) -> None:
        if isinstance(self.method, str) and self.method not in OBJECTIVES:
            raise unknown("method", self.method, OBJECTIVES)
        for name in ("method", "label_loss"):
            given = getattr(self, name)
            if given is None or isinstance(given, str):
                continue
            if isclass(given) or not callable(given):
                came = f"the class {given.__name__}" if isclass(given) else repr(given)
                made = f"an instance, {given.__name__}()" if isclass(given) else "a function"
                raise InputError(f"{name} is {came}: {made} would do")
        if isinstance(self.preprocessing, str) and self.preprocessing not in STANDARDISED:
            raise unknown("preprocessing", self.preprocessing, STANDARDISED)
        if self.normalise not in NORMALISATIONS:
            raise unknown("normalisation", self.normalise, NORMALISATIONS)
        widths = self.domain_classifier
        if widths is not None and not isinstance(widths, nn.Module):
            object.__setattr__(self, "domain_classifier", _widths(widths))

    def changed(self, changes: RecipeChanges) -> Recipe:
        """The recipe with other fields, its own or its settings'; an unknown name is refused."""
        own = [item.name for item in fields(self) if item.name != "settings"]
        of_settings = [item.name for item in fields(Settings)]
        given: dict[str, Any] = dict(changes)
        for name in given:
            if name not in (*own, *of_settings):
                raise unknown("setting", name, [*own, *of_settings])
        settings = {name: value for name, value in given.items() if name in of_settings}
        if given.get("optimiser", self.settings.optimiser) != self.settings.optimiser:
            settings = {**safe_learning_rate(given["optimiser"]), **settings}
        rest = {name: value for name, value in given.items() if name in own}
        return replace(self, settings=replace(self.settings, **settings), **rest)

    def describe(self) -> dict[str, Any]:
        """The recipe in a record, beside its settings."""
        normalised = {} if self.normalise == "none" else {"normalise": self.normalise}
        return {"objective": self.objective_text, "balanced": self.balanced, **normalised} | (
            {"per_image": self.preprocessing == "per-image"}
            if isinstance(self.preprocessing, str)
            else {"preprocessing": without_addresses(repr(self.preprocessing))}
        )

    @property
    def objective_text(self) -> str:
        """The objective with its own numbers, as text."""
        method = self.method
        made = OBJECTIVES[method](cross_entropy) if isinstance(method, str) else method
        return without_addresses(repr(made))


def safe_learning_rate(optimiser: Any) -> dict[str, Any]:
    """The learning rate that comes with another optimiser than a recipe's own, where none is given:
    .01 for sgd, .001 for those that divide by the gradients' size; of a callable nothing is known.
    """
    if not isinstance(optimiser, str) or optimiser not in RATES:
        return {}
    return {"learning_rate": Annealed(RATES[optimiser], 10.0, 0.75)}


class RecipeChanges(SettingsChanges, total=False):
    """Fields of `Recipe` and of its settings as keywords: `adapt(…, method=…, steps=…)`."""

    method: str | Objective
    domain_classifier: Sequence[int] | nn.Module | None
    normalise: Normalisation
    preprocessing: Literal["fitted", "per-image"] | nn.Module
    balanced: bool
    label_loss: LabelLoss | None


PAPER = Recipe(
    "adversarial",
    Settings(learning_rate=Annealed(0.01, 10.0, 0.75), adaptation_factor=RampUp(10.0)),
)

RECOMMENDED = Recipe(
    "adversarial-consistency",
    Settings(
        learning_rate=Annealed(0.003, 10.0, 0.75),
        adaptation_factor=RampUp(10.0),
        optimiser="adam",
        batch_norm="target",
        ema_decay=0.998,
    ),
    preprocessing="per-image",
    balanced=True,
)

STABILISED = Recipe(
    "stabilised",
    Settings(
        learning_rate=Annealed(0.001, 10.0, 0.75),
        adaptation_factor=RampUp(10.0),
        optimiser="adam",
        batch_norm="separate",
        max_gradient_norm=5.0,
        ema_decay=0.998,
    ),
    normalise="rms",
    balanced=True,
)

VECTORS = Recipe(
    AdversarialConsistency(weight=3.0, threshold=0.8, reversal=0.1, augment=Noise(0.1)),
    Settings(
        steps=1000,
        learning_rate=0.02,
        adaptation_factor=RampUp(2.0),
        optimiser="adam",
        ema_decay=0.99,
    ),
)

REGRESSION = Recipe(
    "kernel-matching",
    Settings(
        steps=1500,
        learning_rate=Annealed(0.003, 10.0, 0.75),
        adaptation_factor=RampUp(10.0),
        optimiser="adam",
        ema_decay=0.99,
    ),
)

SERIES = Recipe(
    AdversarialConsistency(weight=1.0, threshold=0.9, reversal=1.0, augment=Noise(0.1)),
    Settings(
        steps=1000,
        learning_rate=Annealed(0.003, 10.0, 0.75),
        adaptation_factor=RampUp(10.0),
        optimiser="adam",
        max_gradient_norm=5.0,
        ema_decay=0.99,
    ),
    balanced=True,
)

REMOVAL = Recipe(
    "removal",
    Settings(
        batch_size=512,
        learning_rate=Annealed(0.01, 10.0, 0.75),
        adaptation_factor=RampUp(10.0),
        domain_lr_factor=10.0,
        evaluate_every=100,
    ),
    domain_classifier=(256,),
)

#: Not one way of training but a choice among several (auto.py).
AUTO = "auto"

#: Recipes by the name that `adapt(recipe=…)` and `revgrad train --recipe` take.
RECIPES: dict[str, Recipe] = {
    "paper": PAPER,
    "stabilised": STABILISED,
    "recommended": RECOMMENDED,
    "vectors": VECTORS,
    "series": SERIES,
    "regression": REGRESSION,
    "removal": REMOVAL,
}


def recipe_named(recipe: Recipe | str) -> Recipe:
    """The recipe that is meant: one of `RECIPES` by name, or a `Recipe` itself."""
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, str):
        raise InputError(f"a recipe is a Recipe or its name, not {type(recipe).__name__}")
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, [AUTO, *RECIPES])
    return RECIPES[recipe]
