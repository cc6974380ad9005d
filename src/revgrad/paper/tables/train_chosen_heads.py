"""Jobs on Office-Caltech10: a head trained with several weights of its method, one of them chosen
without target labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from revgrad import RECIPES, Adapted, Domain, Preprocessing, Recipe, adapt
from revgrad.diagnostics.evidence import gather_evidence
from revgrad.diagnostics.scores import score
from revgrad.objectives import Objective
from revgrad.paper.networks.feature_head import INITIAL_SCALE, FeatureHead
from revgrad.paper.tables.feature_split import FeatureSplit, in_span, open_split
from revgrad.paper.tables.job import (
    Job,
    Predicted,
    Progress,
    ProgressCallback,
    accuracy,
    domain_names,
)
from revgrad.recipes import AUTO
from revgrad.schedules import RampUp

#: Hidden widths of the domain classifier, for a bottleneck of 256 numbers.
HIDDEN = (256, 256)
#: What chooses among a method's weights.
SCORE = "mutual-information"
#: A candidate that is worse on held-out source than the best by more than this is left out.
SOURCE_MAY_FALL = 0.1


@dataclass(frozen=True)
class Candidates:
    """A method's recipe, and the heights that its λ may rise to.

    Attributes
    ----------
    recipe
        None: recipe "auto", which chooses by itself
    factors
        heights of λ; None: the recipe's own λ and nothing to choose
    """

    recipe: Recipe | None
    factors: tuple[float, ...] | None = None


def _of(method: str | Objective, *factors: float) -> Candidates:
    recipe = replace(RECIPES["paper"], method=method, domain_classifier=HIDDEN)
    return Candidates(recipe, factors or None)


#: What each method chooses among. Three heights for each, of the size at which its loss is of the
#: order of the label loss: that of covariances of 256 features is a thousand times smaller.
CANDIDATES: Mapping[str, Candidates] = {
    "source-only": _of("source-only"),
    "adversarial": _of("adversarial", 0.1, 0.3, 1.0),
    "cdan": _of("cdan", 0.1, 0.3, 1.0),
    "mcc": _of("mcc", 0.3, 1.0, 3.0),
    "mdd": _of("mdd", 0.03, 0.1, 0.3),
    "mean-matching": _of("mean-matching", 0.01, 0.1, 1.0),
    "kernel-matching": _of("kernel-matching", 1.0, 10.0, 100.0),
    "coral": _of("coral", 1.0, 10.0, 100.0),
    # the recommended objective in its form for vectors: the small change is noise
    "adversarial-consistency": _of(RECIPES["vectors"].method, 0.3, 1.0, 3.0),
    "auto": Candidates(None),
}


@dataclass(frozen=True)
class Trained:
    """One candidate, after its training."""

    factor: float | None
    adapted: Adapted
    score: float
    source_accuracy: float


def chosen_head_job(job: Job, progress: Progress) -> Predicted:
    """Every candidate trained, the chosen one's predictions; target labels are read at the end."""
    split = in_span(open_split(job), own_means=False)
    target = split.target.without_labels()
    factors = CANDIDATES[job.method].factors or (None,)
    trained = [
        _train(job, split, target, factor, _part_of(progress, number, len(factors)))
        for number, factor in enumerate(factors)
    ]
    chosen = choose(trained)
    predictions = [one.adapted.outputs(target).argmax(1).numpy() for one in trained]
    accuracies = [accuracy(found, split.target) for found in predictions]
    number = trained.index(chosen)
    assert chosen.adapted.result is not None
    return Predicted(
        predictions=predictions[number],
        target_accuracy=accuracies[number],
        target_accuracy_oracle=max(accuracies) if len(accuracies) > 1 else None,
        source_accuracy=chosen.source_accuracy,
        steps=chosen.adapted.result.steps,
        seconds=round(sum(one.adapted.result.seconds for one in trained if one.adapted.result), 2),
        data=domain_names(split.source, split.target),
        chosen={} if chosen.factor is None else {"chosen_factor": chosen.factor},
    )


def choose(trained: list[Trained]) -> Trained:
    """The one of the highest score among those that have kept the source."""
    best = max(one.source_accuracy for one in trained)
    kept = [one for one in trained if one.source_accuracy >= best - SOURCE_MAY_FALL]
    return max(kept, key=lambda one: one.score)


def chosen_head_settings(job: Job) -> dict[str, Any]:
    """Every setting of such a job, as its record keeps it."""
    recipe, factors = chosen_head_recipe(job), CANDIDATES[job.method].factors
    choice = {} if factors is None else {"adaptation_factor": list(factors), "rule": SCORE}
    trained = {**recipe.settings.describe(), **recipe.describe()}
    if CANDIDATES[job.method].recipe is None:
        trained = {"recipe": AUTO, **_of_auto(recipe)}
    return {
        **trained,
        "backbone": job.cell.backbone,
        "test": job.cell.test,
        "initial_scale": INITIAL_SCALE,
        "one_mean": True,
        **choice,
    }


def chosen_head_recipe(job: Job) -> Recipe:
    """The recipe of a job, with the budget's steps and the job's seed; of "auto" these alone
    count."""
    recipe = CANDIDATES[job.method].recipe or RECIPES["paper"]
    return recipe.changed(
        {
            "steps": job.budget.steps_of("bottleneck", job.experiment, job.method),
            "seed": job.seed,
            "batch_size": job.budget.batch_size or recipe.settings.batch_size,
            "evaluate_every": 0,
        }
    )


def _train(
    job: Job, split: FeatureSplit, target: Domain, factor: float | None, progress: Progress
) -> Trained:
    recipe = chosen_head_recipe(job)
    if factor is not None:
        recipe = recipe.changed({"adaptation_factor": RampUp(height=factor)})
    network = FeatureHead(split.source.shape[0], split.source.class_count or 1, seed=job.seed)
    adapted = adapt(
        network,
        split.source,
        target,
        held_out=split.held_out,
        callbacks=[ProgressCallback(progress)],
        progress=False,
        **_how(job, recipe),
    )
    assert adapted.adapter is not None
    assert adapted.result is not None
    assert adapted.result.last is not None
    # no score asks the head in the domain classifier's place
    evidence = gather_evidence(adapted.adapter, split.held_out, target, domain_logits=False)
    return Trained(
        factor, adapted, score(SCORE, evidence), adapted.result.last.source_accuracy or 0.0
    )


def _how(job: Job, recipe: Recipe) -> dict[str, Any]:
    # the coordinates have unit scale as a whole; each scaled by itself, no two samples were alike
    same: dict[str, Any] = {"preprocessing": Preprocessing.identity()}
    if CANDIDATES[job.method].recipe is None:
        return {"recipe": AUTO, **_of_auto(recipe), **same}
    return {"recipe": recipe, **same}


def _of_auto(recipe: Recipe) -> dict[str, Any]:
    """What is given to "auto" by name."""
    settings = recipe.settings
    return {name: getattr(settings, name) for name in ("steps", "seed", "batch_size")}


def _part_of(progress: Progress, number: int, count: int) -> Progress:
    """Progress of one training of several, as part of them all."""
    return lambda done, steps: progress(number * steps + done, count * steps)
