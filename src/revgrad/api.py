"""The front door: from a network and two domains to an adapted network, in one call."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import torch
from torch import nn

from revgrad._distributed import process_group
from revgrad._permutation import MOST_INDEXED
from revgrad.adapted import Adapted, load
from revgrad.assembly import (
    adapter_for,
    check_callbacks,
    check_network,
    completed_provenance,
    early_signs,
    evidence_recorder,
    in_colours_of,
    named_network,
    objective_for,
    placed_adversaries,
    settings_for,
    task_for,
)
from revgrad.auto import Automatic, held_folder, held_out_part, unjudged
from revgrad.diagnostics.attribute_evidence import AttributeRecorder
from revgrad.diagnostics.attribute_score import AttributeScore
from revgrad.diagnostics.recorder import EVIDENCE_SAMPLES
from revgrad.diagnostics.scores import RECOMMENDED_SCORE, SCORES
from revgrad.domains.domain import HELD_OUT
from revgrad.domains.encoded import encoder_of
from revgrad.domains.moved import Move
from revgrad.errors import InputError, unknown
from revgrad.networks.registry import (
    blueprint_named,
)
from revgrad.objectives import (
    ONE_DOMAIN,
    Adversary,
)
from revgrad.recipes import AUTO, PAPER, REMOVAL, STABILISED, Recipe, RecipeChanges, recipe_named
from revgrad.source_free import (
    DEFAULT_ROUNDS,
    LEARNING_RATE,
    WEIGHT_DECAY,
    SourceFree,
    default_steps,
)
from revgrad.tasks import (
    Task,
)
from revgrad.training.callbacks import Callback, ProgressBar
from revgrad.training.run import BASELINE, Provenance, Run
from revgrad.training.settings import Settings, SettingsChanges
from revgrad.training.trainer import Scorer, Trainer, check_domains
from revgrad.training_data import TrainingData, several_domains

log = logging.getLogger("revgrad")


@torch.inference_mode(mode=False)  # also where the caller's own code runs without gradients
@torch.enable_grad()
def adapt(
    network: nn.Module | str,
    source: Any,
    target: Any = None,
    *,
    layer: str | None = None,
    task: Task | str | None = None,
    output: str | int | None = None,
    recipe: Recipe | str = AUTO,
    adversaries: Sequence[Adversary] | None = None,
    held_out: Any = HELD_OUT,
    test: Any = None,
    run: Path | str | None = None,
    baseline: bool = False,
    return_weights: Literal["last", "best"] | None = None,
    score: str = RECOMMENDED_SCORE,
    evidence_samples: int = EVIDENCE_SAMPLES,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    provenance: Provenance | None = None,
    **changes: Unpack[RecipeChanges],
) -> Adapted:
    """Train `network` on the labelled `source` so that it works on the unlabelled `target`.

    Parameters
    ----------
    network
        a module, or the name of one as `--network` takes it ("compact",
        "timm:resnet18"), which is then built for the classes of the source, with
        pretrained weights where it comes with them
    source, target
        a Domain (`from_arrays`, `from_folder`, …), or what one is made of: arrays,
        (X, y), a folder, a Dataset. The target's labels are dropped unread, but for
        those that `target.keeping_labels(n)` kept (semi-supervised). A list of Domains
        (or paths, Datasets, frames) is several domains, each one of its own for the
        domain classifier; `share_out` says how they share a batch
    layer
        where the domain classifier is attached (`revgrad.layers` lists what can be)
    task
        what labels and outputs mean: "classes", "binary" (one logit), "multi-label",
        "regression", "ordinal", "dense", "sequence", or a `Task` (`revgrad.tasks`),
        as `CustomTask(loss, predict)`; by default what they leave no doubt about
    output
        of a network that returns a dict, a tuple or a ModelOutput: the part that is
        meant, "logits" or 0
    recipe
        "auto", the default: source only first, a few ways to adapt from there, and the
        one that is judged best without target labels; the source-only network where
        none is (`Adapted.choice` says why). Or a whole way of training: "paper" (DANN
        as printed), "stabilised" (DANN for any data), "recommended" (ours, for
        images), a `Recipe`. Any field of it, and of its settings, can be given by
        name: steps=…, learning_rate=…, seed=…; method=… alone is that method with
        the paper's settings
    adversaries
        what the features must not tell, each `Adversary` at a layer of its own: by
        default the domain alone. Without a target: attributes that labelled data have
        and predictions must not know; the verdict says whether they are gone
    held_out
        share of the source kept for evaluation, or data for it; 0: none
    test
        labelled target data to report accuracy on; it decides nothing
    run
        a folder for metrics, checkpoints and evidence; the same call resumes it
    baseline
        train the source-only network of the same budget too, from the same first
        weights (in RUN/baseline), for the verdict to compare with
    return_weights
        "last", the default, or "best": of those at each evaluation the ones that the
        label-free `score` (of `diagnostics.SCORES`) likes best. Where attributes are
        removed (recipe "removal"), "best" is the default, and judges by fresh
        classifiers of the training samples
    score
        the label-free score that `return_weights="best"` goes by
    evidence_samples
        of target and held-out source that a run keeps outputs of, for the verdict
        and the report; 0: none
    callbacks
        what is told of every record
    progress
        draw a bar on a terminal, and say evaluations in a line each
    provenance
        where network and data came from, where the command line knows better
    changes
        any field of `Recipe` and of `Settings`, by name

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(200, 4)).astype("float32")
    >>> y = (X[:, 0] > 0).astype(int)
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> adapted = revgrad.adapt(
    ...     network, (X, y), X + 0.5, layer="1", recipe="stabilised", steps=20, progress=False
    ... )
    >>> adapted.predict(X + 0.5).shape
    (200,)
    """
    check_network(network, layer)
    check_callbacks(callbacks)
    if return_weights not in ("last", "best", None):
        raise InputError(f"return_weights is last or best, not {return_weights!r}")
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    automatic = recipe == AUTO and "method" not in changes
    several = len(several_domains(source)) > 1 or (
        target is not None and len(several_domains(target)) > 1
    )
    fixed = REMOVAL if adversaries is not None and target is None else PAPER
    if automatic and (several or adversaries is not None):
        log.info(
            "auto chooses among ways to adapt one source to one target: with adversaries or "
            "several domains the recipe is '%s'",
            "removal" if fixed is REMOVAL else "paper",
        )
        automatic = False
    if recipe == AUTO:
        named = STABILISED if automatic else PAPER if "method" in changes else fixed
    else:
        named = recipe_named(recipe)
    whole = named.changed(changes)
    method = whole.method
    removing = adversaries is not None and target is None
    if return_weights is None:
        return_weights = "best" if removing and method == "removal" else "last"
    known = provenance or Provenance()
    if isinstance(network, str):
        made_for = blueprint_named(network)
        size = None if made_for is None else made_for.size
        given = TrainingData.of(method, source, target, held_out, test, size, adversaries)
        known = replace(known, network=known.network or network)
        network, given = named_network(network, made_for, given, whole.settings.seed, task)
    else:
        given = TrainingData.of(method, source, target, held_out, test, adversaries=adversaries)
    given = in_colours_of(network, given)
    if automatic:
        return _automatic(
            network,
            given,
            changes,
            layer=layer,
            task=task,
            output=output,
            run=None if run is None else Path(run),
            return_weights=return_weights,
            score=score,
            evidence_samples=evidence_samples,
            callbacks=callbacks,
            progress=progress,
            provenance=known,
        )
    untouched = copy.deepcopy(network) if baseline and method not in ONE_DOMAIN else None
    known = completed_provenance(known, given)
    data = given.with_one_shape()
    settings = settings_for(network, whole.settings)
    used = () if method in ONE_DOMAIN else data.targets
    label = "source only" if method == "source-only" else "adapted" if baseline else "training"
    with process_group(settings.device):
        placed = (
            None if adversaries is None else placed_adversaries(adversaries, network, layer, method)
        )
        adapter = adapter_for(network, layer, data.sources, used, whole, settings, output, placed)
        chosen = task_for(task, adapter, data.source, whole)
        objective = objective_for(method, whole.label_loss, chosen, placed)
        by_attributes = removing and return_weights == "best"
        judged = "last" if by_attributes else return_weights
        recorder = evidence_recorder(data, chosen, evidence_samples, judged, score, run)
        signs = early_signs(data, chosen, callbacks)
        # a recipe's balance is for classes, and an index: other labels, and domains that are too
        # large for one, are trained as they come
        balanced = whole.balanced and data.source.is_classification
        balanced = balanced and max(map(len, data.sources)) <= MOST_INDEXED
        training = [one.balanced() if balanced else one for one in data.sources]
        scorer: Scorer | None = recorder if judged == "best" else None
        if by_attributes:
            scorer = AttributeScore(
                data.sources,
                samples=evidence_samples or EVIDENCE_SAMPLES,
                class_logits=chosen.class_logits if chosen.one_class else None,
            )
        trainer = Trainer(
            adapter,
            training,
            used,
            objective=objective,
            settings=settings,
            held_out=data.held_out,
            test=data.test,
            run=None if run is None else Run(run),
            scorer=scorer,
            callbacks=[
                *([recorder] if recorder is not None else []),
                *signs,
                *callbacks,
                *([ProgressBar(label)] if progress else []),
            ],
            method=method if isinstance(method, str) else None,
            provenance=known,
            task=chosen,
        )
        attributes = None
        if trainer.adversaries and run is not None and evidence_samples:
            attributes = AttributeRecorder(
                trainer.adversaries,
                data.held_outs,
                data.targets,
                samples=evidence_samples,
                class_logits=chosen.class_logits if chosen.one_class else None,
            )
            trainer.watch(attributes)
        result = trainer.fit()
    below = None
    if untouched is not None:
        below = adapt(
            untouched,
            list(given.sources),
            list(given.targets) or None,
            layer=adapter.layer,
            task=chosen,
            output=output,
            # one domain: there is no target to take BatchNorm's statistics from
            recipe=replace(
                whole,
                method="source-only",
                settings=replace(settings, batch_norm="joint"),
                domain_classifier=None,
            ),
            held_out=list(given.held_outs) or 0,
            test=given.test,
            run=None if run is None else Path(run) / BASELINE,
            evidence_samples=evidence_samples,
            callbacks=[] if attributes is None else [attributes],
            progress=progress,
            provenance=known,
        )
    return Adapted(
        network,
        adapter.preprocessing,
        adapter.layer,
        data.source.classes,
        data.source.shape,
        chosen,
        output,
        result,
        below,
        None if run is None else Path(run),
        adapter,
        encoder_of(data.source),
    )


def _automatic(
    network: nn.Module,
    data: TrainingData,
    changes: RecipeChanges,
    *,
    run: Path | None,
    evidence_samples: int,
    progress: bool,
    **given: Any,
) -> Adapted:
    """`recipe="auto"`: the same network, with the weights of the training that was chosen; of a
    task that can't be judged, with those of a fixed recipe."""
    assert data.target is not None  # `TrainingData.of` has asked for it
    known = given.pop("provenance")
    judged_on = held_out_part(data.held_out)
    data = replace(data, held_outs=() if judged_on is None else (judged_on,))
    shaped = data.with_one_shape()
    check_domains(shaped.sources, shaped.targets)
    assert shaped.target is not None
    whole = STABILISED.changed(changes)
    probe = adapter_for(
        copy.deepcopy(network),
        given["layer"],
        shaped.sources,
        shaped.targets,
        whole,
        settings_for(network, whole.settings),
        given["output"],
    )
    task = task_for(given.pop("task"), probe, shaped.source, whole)

    def train(
        trained: nn.Module,
        recipe: Recipe,
        folder: Path | None = run,
        init: str | None = None,
        watching: Sequence[Callback] = (),
        move: Move | None = None,
        shown: bool = progress,
    ) -> Adapted:
        held_out = data.held_out
        if move is not None and held_out is not None:
            held_out = move.applied(held_out)
        return adapt(
            trained,
            data.source if move is None else move.applied(data.source),
            data.target,
            task=task,
            recipe=recipe,
            held_out=0 if held_out is None else held_out,
            test=data.test,
            run=folder,
            evidence_samples=evidence_samples,
            provenance=replace(known, init=init or known.init),
            progress=shown,
            **{**given, "callbacks": [*given["callbacks"], *watching]},
        )

    if not task.one_class:
        return train(network, unjudged(network, shaped.source, shaped.target, task, changes))
    held_out, target = shaped.held_out, shaped.target
    assert target is not None
    ladder = Automatic(
        *(shaped.source, held_out, target),
        partial(train, shown=False),
        run,
        evidence_samples or EVIDENCE_SAMPLES,
        progress,
    )
    with held_folder(run):
        choice, chosen, start = ladder.fit(network, changes)
    assert isinstance(chosen, Adapted)
    assert isinstance(start, Adapted)
    network.load_state_dict(chosen.network.state_dict())
    return replace(chosen, network=network, run=run, baseline=start, choice=choice)


def adapt_without_source(
    trained: Adapted | Path | str,
    target: Any,
    *,
    network: nn.Module | None = None,
    rounds: int = DEFAULT_ROUNDS,
    run: Path | str | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **changes: Unpack[SettingsChanges],
) -> Adapted:
    """Adapt a trained network to `target` where the source is no longer at hand (SHOT).

    A second stage: train on the source first, by `adapt` or by hand. The label predictor stays as
    it is; the feature extractor learns to give the target features that it is sure about, with
    pseudo-labels that are made anew each round. Labels of the target are dropped unread.

    Parameters
    ----------
    trained
        what `adapt` returned, which stays as it is, or a run's folder
    target
        unlabelled data, as `adapt` takes it
    network
        for a run of a network of your own: build it and give it here
    rounds
        pseudo-labels are made anew at the beginning of each
    run
        a folder for the rounds, metrics and checkpoints; the same call resumes it
    callbacks
        what is told of every record
    progress
        draw a bar on a terminal, and say each round in a line
    changes
        settings of every round by name: steps=… (a pass over the target unless given),
        learning_rate=… (a schedule over all rounds together), seed=…

    Returns
    -------
    Adapted
        with a network of its own. It has no verdict: there is no held-out source to judge by.

    Examples
    --------
    >>> start = revgrad.adapt(
    ...     network, source, layer="features", method="source-only"
    ... )  # doctest: +SKIP
    >>> adapted = revgrad.adapt_without_source(start, "photos", run="runs/second")  # doctest: +SKIP
    """
    start = trained if isinstance(trained, Adapted) else load(trained, network)
    domain = start.domain(target).without_labels()
    if not len(domain):
        raise InputError(f"{domain.name} is empty: there is nothing to adapt to")
    unknown_names = [name for name in changes if name not in SettingsChanges.__annotations__]
    if unknown_names:
        raise unknown("setting", unknown_names[0], list(SettingsChanges.__annotations__))
    given: dict[str, Any] = {"learning_rate": LEARNING_RATE, "weight_decay": WEIGHT_DECAY}
    given |= changes
    given.setdefault(
        "steps", default_steps(len(domain), int(given.get("batch_size", Settings().batch_size)))
    )
    settings = Settings(**given)
    copied = copy.deepcopy(start.network)
    second = SourceFree(
        copied,
        start.layer,
        start.preprocessing,
        domain,
        start.task,
        start.classes,
        start.output,
        rounds,
        settings,
        None if run is None else Path(run),
    )
    with process_group(settings.device):
        adapter, result = second.fit(
            [*callbacks, *([ProgressBar("source-free")] if progress else [])],
            Provenance(
                target=domain.name,
                init=None if start.run is None else str(start.run),
                network="" if start.run is None else Run(start.run).config.network,
            ),
        )
    return replace(
        start,
        network=copied,
        result=result,
        baseline=None,
        run=None if run is None else Path(run),
        adapter=adapter,
        choice=None,
    )
