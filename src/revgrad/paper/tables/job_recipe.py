"""A job's network and recipe: the paper's settings, and what cells and budgets change of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from revgrad import RECIPES, Recipe, Settings
from revgrad.errors import unknown
from revgrad.networks import blueprint_named
from revgrad.networks.registry import PRETRAINED_LR_FACTOR
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import Job
from revgrad.schedules import Constant, RampUp

PAPER, RECOMMENDED = RECIPES["paper"], RECIPES["recommended"]
_T = TypeVar("_T")

#: DANN with today's means, one setting for all cells and the paper's networks: reversal alone, no
#: entropy, no consistency. Features are divided by their root mean square in front of the domain
#: classifier, and λ waits for the classes.
TABLE_STABILISED = Recipe(
    "stabilised",
    Settings(
        learning_rate=Constant(0.01),
        adaptation_factor=RampUp(10.0),
        max_gradient_norm=5.0,
        ema_decay=0.998,
    ),
    normalise="rms",
    preprocessing="per-image",
    balanced=True,
)

#: Methods of the recommended recipe: as it is, and on a source whose colours are drawn.
OF_RECOMMENDED = ("recommended", "recommended-colours")

#: The network of the recommended recipe, for every cell.
RECOMMENDED_NETWORK = "compact"

#: The last hidden layer of each network's label predictor.
LAST_HIDDEN = {
    "mnist": "fc4",
    "svhn": "fc5",
    "gtsrb": "fc4",
    "compact": "hidden",
    "alexnet": "bottleneck",
    "efficientnet-lite0": "bottleneck",
}

#: Behind a head's name: each domain's own mean is subtracted from its features. Without it, one
#: mean of both. Every head has a row of either kind.
CENTRED = "-centred"


def _both_kinds(heads: Mapping[str, _T]) -> dict[str, _T]:
    return {**heads, **{name + CENTRED: one for name, one in heads.items()}}


#: Hidden widths of the domain classifier of heads that the paper does not have.
HEAD_HIDDEN = (256, 256)

#: Heads on frozen features (Table 2): the paper's trained as printed, the stabilised one as in the
#: other tables, the later ones with the paper's settings.
HEADS: Mapping[str, Recipe] = _both_kinds(
    {
        "bottleneck-only": replace(PAPER, method="source-only"),
        "adversarial": PAPER,
        "stabilised": replace(TABLE_STABILISED, preprocessing="fitted"),
        "mean-matching": replace(PAPER, method="mean-matching"),
        "kernel-matching": replace(PAPER, method="kernel-matching"),
        "cdan": replace(PAPER, method="cdan", domain_classifier=HEAD_HIDDEN),
        "mcc": replace(PAPER, method="mcc", domain_classifier=HEAD_HIDDEN),
        "dann-mcc": replace(PAPER, method="dann-mcc", domain_classifier=HEAD_HIDDEN),
    }
)

#: What λ of a head is chosen from, without target labels (`train_heads.choose_factor`). DDC's own
#: .25 is the largest of its: it was for features of another scale.
FACTORS: Mapping[str, tuple[float, ...]] = _both_kinds(
    {
        "mean-matching": (0.003, 0.01, 0.03, 0.1, 0.25),
        "kernel-matching": (1.0, 10.0, 100.0),
        "cdan": (0.1, 0.3, 1.0),
        "mcc": (0.3, 1.0, 3.0),
        "dann-mcc": (0.1, 0.3, 1.0),
    }
)

#: Of the tables' methods that train a network on images, what each minimises.
TRAINED = {
    "source-only": "source-only",
    "adversarial": "adversarial",
    "train-on-target": "train-on-target",
    "real-only": "source-only",
    "both": "adversarial",
    "mcc": "mcc",
}

#: Samples of a step where a large network is fine-tuned on a small set.
FINE_TUNED_BATCH = 32


def network_name(experiment: Experiment, method: str) -> str:
    """The network that a method of a cell trains: the cell's own, or the recommended one."""
    return RECOMMENDED_NETWORK if method in OF_RECOMMENDED else experiment.network


def job_recipe(job: Job) -> Recipe:
    """The recipe of a job that trains, with the budget's steps and the job's seed."""
    if job.experiment.backbone is not None:
        recipe = HEADS[job.method]
    else:
        recipe = image_recipe(job.experiment, job.method)
    name = network_name(job.experiment, job.method)
    return recipe.changed(
        {
            "steps": job.budget.steps_of(name, job.experiment, job.method),
            "seed": job.seed,
            "batch_size": job.budget.batch_size or recipe.settings.batch_size,
            "evaluate_every": 0,  # the test is read once, at the end
            "checkpoint_every": 500,
        }
    )


def image_recipe(experiment: Experiment, method: str) -> Recipe:
    """The recipe of a method that trains on images: the network's limit of the weights' norm, the
    cell's own learning rate and limit of the gradient's."""
    if method in OF_RECOMMENDED:
        return RECOMMENDED
    if method != "stabilised" and method not in TRAINED:
        raise unknown("trained method", method, [*TRAINED, "stabilised", *OF_RECOMMENDED])
    blueprint = blueprint_named(experiment.network)
    assert blueprint is not None
    if method == "stabilised":
        return TABLE_STABILISED.changed({"max_weight_norm": blueprint.max_weight_norm})
    settings = replace(PAPER.settings, max_weight_norm=blueprint.max_weight_norm)
    if experiment.fine_tuned:
        settings = replace(settings, pretrained_lr_factor=PRETRAINED_LR_FACTOR)
    if experiment.whole_source:
        settings = replace(settings, batch_size=FINE_TUNED_BATCH)
    if experiment.learning_rate is not None:
        settings = replace(settings, learning_rate=experiment.learning_rate)
    if TRAINED[method] == "adversarial":
        settings = replace(settings, max_gradient_norm=experiment.max_gradient_norm)
    return replace(PAPER, method=TRAINED[method], settings=settings)
