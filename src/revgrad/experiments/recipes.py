"""How a network is trained: the paper's way, and the one we recommend.

`PLAIN` is exactly as printed (§4, appendix C). `RECOMMENDED` is one set of settings for every cell
of image domains. It differs from the paper's in

- the network: `compact`, 3×3 convolutions with batch normalisation;
- the input: each image is standardised by its own mean and deviation;
- the batches: the source's classes come alike often;
- the objective: beside the label loss and a weak reversal (.01 λ), a target image that is changed a
  little must keep the class the network is sure of, and no class may be lost
  (`AdversarialConsistency`); source images are changed alike (`Jitter`);
- the optimiser: Adam, its rate annealed from .003;
- BatchNorm: each domain is normalised by itself, and the target's statistics are kept;
- the weights: a moving average of them is what is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from revgrad.errors import unknown
from revgrad.experiments.experiment import Experiment
from revgrad.networks import NETWORKS
from revgrad.objectives import OBJECTIVES, cross_entropy
from revgrad.schedules import Annealed, RampUp
from revgrad.training.settings import Settings, without_addresses


@dataclass(frozen=True)
class Recipe:
    """A method of `OBJECTIVES` and everything it is trained with but steps and seed.

    network     instead of the experiment's own
    per_image   standardise each image by itself
    balanced    bring the source's classes alike often
    """

    objective: str
    settings: Settings = field(default_factory=Settings)
    network: str | None = None
    per_image: bool = False
    balanced: bool = False

    def describe(self) -> dict[str, Any]:
        """What a record says of it beside the settings."""
        return {
            "objective": without_addresses(repr(OBJECTIVES[self.objective](cross_entropy))),
            "per_image": self.per_image,
            "balanced": self.balanced,
        }


PLAIN = Recipe("adversarial", Settings(rate=Annealed(0.01, 10.0, 0.75), factor=RampUp(10.0)))

RECOMMENDED = Recipe(
    "adversarial-consistency",
    Settings(
        rate=Annealed(0.003, 10.0, 0.75),
        factor=RampUp(10.0),
        optimiser="adam",
        batch_norm="target",
        average=0.998,
    ),
    network="compact",
    per_image=True,
    balanced=True,
)

#: By the name that `revgrad train --recipe` takes.
RECIPES = {"plain": PLAIN, "recommended": RECOMMENDED}

#: Heads on frozen features (Table 2), all trained as printed.
HEADS: dict[str, Recipe] = {
    "bottleneck-only": replace(PLAIN, objective="source-only"),
    "adversarial": PLAIN,
    "mean-matching": replace(PLAIN, objective="mean-matching"),
    "kernel-matching": replace(PLAIN, objective="kernel-matching"),
}

#: What λ of DDC and DaNN is chosen from, without target labels (`feature_rows.choose_factor`).
#: DDC's own .25 is the largest: it was for features of another scale.
FACTORS: dict[str, tuple[float, ...]] = {
    "mean-matching": (0.003, 0.01, 0.03, 0.1, 0.25),
    "kernel-matching": (1.0, 10.0, 100.0),
}

#: Of the tables' methods that train a network on images, what each minimises.
TRAINED = {
    "source-only": "source-only",
    "adversarial": "adversarial",
    "train-on-target": "train-on-target",
    "real-only": "source-only",
    "both": "adversarial",
}


def recipe_for(experiment: Experiment, method: str) -> Recipe:
    """The recipe of a row, for its cell: the network's norm limit, the cell's own rate and clip."""
    if method == "recommended":
        return RECOMMENDED
    if method not in TRAINED:
        raise unknown("trained method", method, [*TRAINED, "recommended"])
    settings = replace(
        PLAIN.settings, max_norm=getattr(NETWORKS[experiment.network], "max_norm", None)
    )
    if experiment.rate is not None:
        settings = replace(settings, rate=experiment.rate)
    if TRAINED[method] == "adversarial":
        settings = replace(settings, clip=experiment.clip)
    return replace(PLAIN, objective=TRAINED[method], settings=settings)
