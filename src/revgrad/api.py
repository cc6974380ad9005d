"""The front door: from a network and two domains to an adapted network, in one call."""

from __future__ import annotations

import copy
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from revgrad._distributed import process_group
from revgrad._permutation import MOST_INDEXED
from revgrad.adapter import DeployableModel, DomainAdapter
from revgrad.auto import Automatic, held_out_part, refuse_other_run, unjudged
from revgrad.diagnostics.attribute_evidence import AttributeRecorder
from revgrad.diagnostics.attribute_score import AttributeScore
from revgrad.diagnostics.choice import Choice
from revgrad.diagnostics.early_signs import EarlySigns
from revgrad.diagnostics.recorder import EVIDENCE_SAMPLES, EvidenceRecorder, has_classes
from revgrad.diagnostics.scores import RECOMMENDED_SCORE, SCORES
from revgrad.domains.attributes import DOMAIN, share_attribute
from revgrad.domains.common_shape import (
    match_colours,
    resized,
    with_channels,
    with_classes,
    with_numbers,
)
from revgrad.domains.domain import HELD_OUT, Domain
from revgrad.domains.encoded import Encoder, encode, encoder_from_state, encoder_of, fit_encoder
from revgrad.domains.joined import joined
from revgrad.domains.moved import Move
from revgrad.domains.registry import as_domain
from revgrad.domains.table import is_frame
from revgrad.errors import InputError, RunError, unknown
from revgrad.evaluation import evaluate, features_at, outputs, results_by_chunk
from revgrad.networks.domain_classifier import DOMAIN_CLASSIFIER
from revgrad.networks.registry import (
    NETWORKS,
    NO_WEIGHTS,
    Blueprint,
    blueprint_named,
    blueprint_of,
    build_network,
)
from revgrad.networks.zoo import zoo_of
from revgrad.objectives import (
    CORRELATION,
    FOR_CLASSES,
    OBJECTIVES,
    ONE_DOMAIN,
    TWO_DOMAINS,
    WITH_ADVERSARIES,
    Adversaries,
    Adversary,
    LabelLoss,
    NeedsHead,
    Objective,
    Stabilised,
    cross_entropy,
)
from revgrad.objectives.adversaries import heads_for
from revgrad.preprocessing import Preprocessing
from revgrad.recipes import AUTO, PAPER, REMOVAL, STABILISED, Recipe, RecipeChanges, recipe_named
from revgrad.source_free import (
    DEFAULT_ROUNDS,
    LEARNING_RATE,
    WEIGHT_DECAY,
    SourceFree,
    default_steps,
)
from revgrad.tasks import (
    Binary,
    ClassLabels,
    Columns,
    Evaluation,
    MultiLabel,
    Task,
    choose_task,
    planned_outputs,
    restored_task,
)
from revgrad.training.callbacks import Callback, ProgressBar, TrainingResult
from revgrad.training.run import BASELINE, Provenance, Run, RunConfig
from revgrad.training.settings import Settings, SettingsChanges
from revgrad.training.trainer import Scorer, Trainer, check_domains
from revgrad.training.weights import restore_weights

if TYPE_CHECKING:
    from revgrad.diagnostics.verdict import Verdict

log = logging.getLogger("revgrad")


@dataclass(frozen=True)
class Adapted:
    """An adapted network: the plain network, and the preprocessing that belongs in front of it.

    Data is given as to `adapt`: a Domain, an array or tensor, (X, y), a folder, a Dataset. Images
    are brought to the size and the number of channels that the network was trained with.

    Attributes
    ----------
    network, preprocessing
        the user's own module, and what comes in front of it
    layer
        where the domain classifier was attached
    classes
        the source's class names, where it has them
    input_shape
        of one sample, as the network was trained with
    task
        what its outputs mean: loss, predictions, probabilities, metrics
    output
        the part of the network's output that is meant; None: all of it
    result
        how training ended; None for a network that was loaded
    baseline
        the source-only network of the same budget, where one was asked for
    run
        the folder that keeps metrics, checkpoints and evidence, where one was
        given
    adapter
        the network with its domain classifier, as it was trained
    encoder
        what makes inputs of raw samples (a frame's, texts), where the source
        was of such; `encoder.state()` is plain json
    choice
        what `recipe="auto"` tried, what it handed back, and why
    """

    network: nn.Module
    preprocessing: nn.Module
    layer: str
    classes: tuple[str, ...] | None
    input_shape: Any
    task: Task
    output: str | int | None = None
    result: TrainingResult | None = None
    baseline: Adapted | None = None
    run: Path | None = None
    adapter: DomainAdapter | None = None
    encoder: Encoder | None = None
    choice: Choice | None = None

    @property
    def model(self) -> DeployableModel:
        """Preprocessing and network as one module, from raw inputs (uint8 images) to outputs."""
        return DeployableModel(self.preprocessing, self.network, self.output)

    def outputs(self, data: Any) -> Tensor:
        """The network's output for every sample, (n, …), in evaluation mode."""
        model = self.model
        return outputs(model, model, self.domain(data).without_labels())

    def probabilities(self, data: Any) -> np.ndarray:
        """The probability of every class for every sample, (n, classes); of several labels a
        sample, of each; a regression has none."""
        return self._by_chunk(self.task.probabilities, data)

    def predict(self, data: Any) -> np.ndarray:
        """A prediction for every sample, as the labels were given: the name of the most likely
        class, or its number where classes have no names; numbers of a regression; (n, labels) yes
        and no of a multi-label task; maps of class numbers."""
        return self._by_chunk(self.task.predictions, data)

    def features(self, data: Any) -> np.ndarray:
        """The attached layer's output for every sample, flattened to (n, features)."""
        domain = self.domain(data).without_labels()
        return features_at(self.network, self.layer, domain, preprocessing=self.preprocessing)

    def evaluate(
        self, data: Any, labels: Any = None, *, label_loss: LabelLoss | None = None
    ) -> Evaluation:
        """The task's metrics and the loss on labelled data: `evaluate(X, y)`, or a domain with
        labels, a folder with a subfolder per class, …"""
        domain = self.domain(data if labels is None else (data, labels))
        model = self.model
        return evaluate(model, model, domain, self.task, label_loss)

    def verdict(self) -> Verdict:
        """Did it work? Judged without target labels, from what the run recorded."""
        return verdict(self._folder("verdict"))

    def report(self, path: Path | str | None = None) -> Path:
        """One self-contained page: did it work, and why. By default RUN/report.html."""
        return report([self._folder("report")], path)

    def export(
        self, path: Path | str, example: Any = None, *, kind: str | None = None, check: bool = True
    ) -> Path:
        """Write the network to `path`; the suffix says what: .safetensors and .pt (the plain
        network's weights), .pt2 and .onnx (preprocessing inside). See `revgrad.exporting`.

        Parameters
        ----------
        example
            data of two samples or more, for the shapes and types of the inputs; made up
            unless given. Inputs of several parts need it for programs (.pt2, .onnx)
        """
        from revgrad.exporting import export, is_program

        inputs = None
        if example is not None:
            shown = self.domain(example)
            inputs = shown.batch([0, min(1, len(shown) - 1)]).inputs
        elif is_program(path, kind):
            inputs = self._example()
        return export(self.model, path, inputs, kind=kind, check=check)

    def domain(self, data: Any) -> Domain:
        """`data` as a domain that fits the network: its size, channels, and class numbers."""
        shape = self.input_shape
        size = tuple(shape[1:]) if isinstance(shape, tuple) and len(shape) == 3 else None
        read = {"size": size} if size is not None and isinstance(data, str | Path) else {}
        channels = None if size is None else shape[0]
        domain = as_domain(data, "the data", like=self.encoder, channels=channels, **read)
        domain = encode(domain, self.encoder, labels=True)
        if domain.is_images and size is not None:
            domain = resized(domain, (size[0], size[1]))
            domain = with_channels(domain, shape[0])
        if len(domain) and domain.shape != shape:
            one = isinstance(shape, tuple) and (len(domain), *domain.shape) == shape
            raise InputError(
                f"{domain.name} has inputs of shape {domain.shape}; this network takes {shape}"
                + (": of one sample, data[None] would do" if one else "")
            )
        if self.classes is None:  # names that are those numbers, or none
            return with_numbers(domain, sys.maxsize) if self.task.one_class else domain
        return with_classes(domain, self.classes)

    def table(self, data: Any) -> Columns:
        """Predictions as columns of a table, a value a sample: class and confidence, value, …"""
        domain = self._unlabelled(data)
        parts = results_by_chunk(self.task.columns, self.model, domain)
        return {name: [one for part in parts for one in part[name]] for name in parts[0]}

    def _by_chunk(self, function: Callable[[Any], np.ndarray], data: Any) -> np.ndarray:
        """`function` of the outputs, chunk by chunk: outputs may be larger than what is made."""
        return np.concatenate(results_by_chunk(function, self.model, self._unlabelled(data)))

    def _unlabelled(self, data: Any) -> Domain:
        domain = self.domain(data).without_labels()
        if not len(domain):
            raise InputError(f"{domain.name} is empty: there is nothing to predict")
        return domain

    def _example(self) -> Any:
        """Two made-up samples of the input shape."""
        own = getattr(self.encoder, "example", None)  # of tokens, of series with their mask
        if own is not None:
            return own()
        shape, random = self.input_shape, torch.Generator().manual_seed(0)
        if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
            raise InputError(
                "the network takes inputs of several parts: a program needs data that shows them, "
                "example=X (on the command line: --example DATA)"
            )
        if len(shape) == 3:
            return torch.randint(0, 256, (2, *shape), dtype=torch.uint8, generator=random)
        return torch.randn((2, *shape), generator=random)

    def _folder(self, what: str) -> Path:
        if self.run is None:
            raise InputError(
                f"the {what} is made from what a run's folder recorded: adapt(…, run='runs/first')"
            )
        return self.run


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
    _check_network(network, layer)
    _check_callbacks(callbacks)
    if return_weights not in ("last", "best", None):
        raise InputError(f"return_weights is last or best, not {return_weights!r}")
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    automatic = recipe == AUTO and "method" not in changes
    several = len(_several(source)) > 1 or (target is not None and len(_several(target)) > 1)
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
        given = _Data.of(method, source, target, held_out, test, size, adversaries)
        known = replace(known, network=known.network or network)
        network, given = _named_network(network, made_for, given, whole.settings.seed, task)
    else:
        given = _Data.of(method, source, target, held_out, test, adversaries=adversaries)
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
    known = _completed(known, given)
    data = given.with_one_shape()
    settings = _settled(network, whole.settings)
    used = () if method in ONE_DOMAIN else data.targets
    label = "source only" if method == "source-only" else "adapted" if baseline else "training"
    with process_group(settings.device):
        placed = None if adversaries is None else _placed(adversaries, network, layer, method)
        adapter = _adapter(network, layer, data.sources, used, whole, settings, output, placed)
        chosen = _task(task, adapter, data.source, whole)
        objective = _objective(method, whole.label_loss, chosen, placed)
        by_attributes = removing and return_weights == "best"
        judged = "last" if by_attributes else return_weights
        recorder = _recorder(data, chosen, evidence_samples, judged, score, run)
        signs = _early_signs(data, chosen, callbacks)
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
    data: _Data,
    changes: RecipeChanges,
    *,
    run: Path | None,
    evidence_samples: int,
    progress: bool,
    **given: Any,
) -> Adapted:
    """`recipe="auto"`: the same network, with the weights of the training that was chosen; of a
    task that can't be judged, with those of a fixed recipe."""
    assert data.target is not None  # `_Data.of` has asked for it
    known = given.pop("provenance")
    judged_on = held_out_part(data.held_out)
    data = replace(data, held_outs=() if judged_on is None else (judged_on,))
    shaped = data.with_one_shape()
    check_domains(shaped.sources, shaped.targets)
    assert shaped.target is not None
    whole = STABILISED.changed(changes)
    probe = _adapter(
        copy.deepcopy(network),
        given["layer"],
        shaped.sources,
        shaped.targets,
        whole,
        _settled(network, whole.settings),
        given["output"],
    )
    task = _task(given.pop("task"), probe, shaped.source, whole)

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
    if run is not None:
        refuse_other_run(run)
    held_out, target = shaped.held_out, shaped.target
    assert target is not None
    choice, chosen, start = Automatic(
        *(shaped.source, held_out, target),
        partial(train, shown=False),
        run,
        evidence_samples or EVIDENCE_SAMPLES,
        progress,
    ).fit(network, changes)
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


def load(
    run: Path | str,
    network: nn.Module | None = None,
    *,
    task: Task | None = None,
    tokenizer: Any = None,
) -> Adapted:
    """The network of a run, with its last checkpoint's weights.

    Networks of ours are built by their name. Code is never run because a file says so: for a
    network of your own, build it and give it here, and so for a task of your own and a tokenizer
    that is a function of your own (those of `tokenizers` and `transformers` are in the run's
    folder).

    Parameters
    ----------
    run
        its folder
    network
        of a network of your own: built as for the training, weights of any value
    task
        a task of your own, where the run has one
    tokenizer
        a tokenizer that is a function of your own, where the run has one

    Examples
    --------
    >>> adapted = revgrad.load("runs/first", network)  # doctest: +SKIP
    >>> adapted.predict("photos")  # doctest: +SKIP
    """
    directory = Run(run)
    config = directory.config
    checkpoint = directory.checkpoint()
    if checkpoint is None:
        raise RunError(f"{directory.folder} has no checkpoint yet")
    if network is None:
        network = _registered_network(directory.folder, config)
    preprocessing = restore_weights(network, checkpoint)
    state = directory.encoder
    return Adapted(
        network,
        preprocessing,
        config.layer,
        None if config.classes is None else tuple(config.classes),
        _as_tuples(config.input_shape),
        restored_task(config.task) if task is None else task,
        config.output,
        run=directory.folder,
        encoder=None if state is None else encoder_from_state(state, tokenizer),
    )


def verdict(run: Adapted | Path | str, *, baseline: Path | str | None = None) -> Verdict:
    """Judge a run without target labels: adapted, no gain, harmed, or can't tell; and why.

    Parameters
    ----------
    run
        its folder, or what `adapt` returned
    baseline
        a source-only run of the same domains; by default the one in RUN/baseline

    Examples
    --------
    >>> judged = revgrad.verdict("runs/first")  # doctest: +SKIP
    >>> print(judged.outcome, judged.sentence)  # doctest: +SKIP
    """
    from revgrad.diagnostics.verdict import verdict as judge

    return judge(run._folder("verdict") if isinstance(run, Adapted) else run, baseline=baseline)


def report(
    runs: Sequence[Adapted | Path | str] | Adapted | Path | str, path: Path | str | None = None
) -> Path:
    """One self-contained page of a run, or of several side by side; its path.

    Parameters
    ----------
    runs
        what `adapt` returned or a run's folder; a list of them is one page side by side
    path
        by default report.html in the run's folder; of several runs, here

    Examples
    --------
    >>> revgrad.report(["runs/first", "runs/second"], "both.html")  # doctest: +SKIP
    """
    from revgrad.reports.page import write_report

    given = [runs] if isinstance(runs, Adapted | Path | str) else list(runs)
    folders = [one._folder("report") if isinstance(one, Adapted) else Path(one) for one in given]
    return write_report(folders, None if path is None else Path(path))


# -- the parts of a training ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    """The domains of a training by their role; targets without labels that were not meant."""

    sources: tuple[Domain, ...]
    targets: tuple[Domain, ...]
    held_outs: tuple[Domain, ...]  # what each source is evaluated on
    test: Domain | None

    @property
    def source(self) -> Domain:
        """The first, whose classes and kind of inputs hold for all."""
        return self.sources[0]

    @property
    def target(self) -> Domain | None:
        """All targets as one; None where there is none."""
        return joined(self.targets) if self.targets else None

    @property
    def held_out(self) -> Domain | None:
        """All held-out source samples as one."""
        return joined(self.held_outs) if self.held_outs else None

    @staticmethod
    def of(
        method: str | Objective,
        source: Any,
        target: Any,
        held_out: Any,
        test: Any,
        size: int | None = None,
        adversaries: Sequence[Adversary] | None = None,
    ) -> _Data:
        """Domains of what was given; all labels that are read in the first source's class numbers.

        Parameters
        ----------
        size
            of images that are yet to be read: the network's
        """

        def opened(data: Any, name: str, like: Encoder | None = None, **read: Any) -> Domain:
            return as_domain(data, name, like=like, **read, **({"size": size} if size else {}))

        first, *rest = _several(source)
        labelled = [opened(first, "source")]
        like = encoder_of(labelled[0])
        labelled += [opened(one, f"source {at}", like) for at, one in enumerate(rest, start=2)]
        read = {} if method == "train-on-target" else {"labels": False}  # else dropped unread
        given = [] if target is None else _several(target)
        others = [
            opened(one, "target" if at == 1 else f"target {at}", like, **read)
            for at, one in enumerate(given, start=1)
        ]
        if method == "train-on-target":
            if not others or not all(one.labelled_count for one in others):
                raise InputError("train-on-target needs a target with labels")
            labelled, others = others, []
        elif (
            not (others or adversaries or len(labelled) > 1)
            and isinstance(method, str)
            and method not in ONE_DOMAIN
        ):
            raise InputError(
                f"method '{method}' needs a target; without one, take 'source-only', or name "
                "an attribute that the features must not tell (adversaries=[Adversary(…)])"
            )
        check_domains(labelled)
        labelled, evaluated = _split(labelled, held_out, like)
        encoder = fit_encoder(labelled[0])  # of the training part alone
        labelled = [encode(one, encoder) for one in labelled]
        evaluated = [encode(one, encoder, labels=True) for one in evaluated]
        others = [one if one.labels_kept else one.without_labels() for one in others]
        others = [encode(one, encoder) for one in others]
        tested = None
        if test is not None:
            tested = encode(opened(test, "test", encoder), encoder, labels=True)
        leading = labelled[0]
        return _Data(
            (leading, *(_renumbered(one, leading) for one in labelled[1:])),
            tuple(_renumbered(one, leading) if one.labels_kept else one for one in others),
            tuple(_renumbered(one, leading) for one in evaluated),
            None if tested is None else _renumbered(tested, leading),
        )

    def in_colour(self) -> _Data:
        """Grey images shown as colour."""

        def shown(domain: Domain) -> Domain:
            grey = len(domain) and domain.is_images and domain.shape[0] == 1
            return domain.as_colour() if grey else domain

        return _Data(
            tuple(map(shown, self.sources)),
            tuple(map(shown, self.targets)),
            tuple(map(shown, self.held_outs)),
            None if self.test is None else shown(self.test),
        )

    def with_one_shape(self) -> _Data:
        """All with one number of channels; images of different sizes are refused.

        Sources and targets decide which: what is only evaluated on decides nothing.
        """
        matched = match_colours([*self.sources, *self.targets])
        source = matched[0]

        def fitted(one: Domain) -> Domain:
            if len(one) and one.is_images and source.is_images:
                one = with_channels(one, source.shape[0])
            match_colours([source, one])
            return one

        return _Data(
            tuple(matched[: len(self.sources)]),
            tuple(matched[len(self.sources) :]),
            tuple(map(fitted, self.held_outs)),
            None if self.test is None else fitted(self.test),
        )


def _several(data: Any) -> list[Any]:
    """A list of domains, or of what is surely one each, as several; anything else as one."""
    if not isinstance(data, list) or not data:
        return [data]
    sure = [isinstance(one, Domain | Path | Dataset | DataLoader) or is_frame(one) for one in data]
    if all(sure):
        return data
    if any(isinstance(one, Domain) for one in data):
        strange = type(data[sure.index(False)]).__name__
        raise InputError(
            f"a list of several domains holds a {strange}: make a Domain of each (from_arrays(…), "
            "from_folder(…))"
        )
    return [data]


def _split(
    sources: list[Domain], held_out: Any, like: Encoder | None
) -> tuple[list[Domain], list[Domain]]:
    """The sources and what they are evaluated on: a share of each, or other data."""
    if not isinstance(held_out, int | float) or isinstance(held_out, bool):
        found = [as_domain(one, "held-out source", like=like) for one in _several(held_out)]
        return sources, found
    if not 0 <= held_out < 1:
        raise InputError(f"held_out is a share from 0 to 1, or data, not {held_out}")
    if not held_out:
        return sources, []
    parts = [one.split(float(held_out)) for one in sources]
    return [rest for rest, _ in parts], [out for _, out in parts]


def _renumbered(domain: Domain, source: Domain) -> Domain:
    """With the source's class numbers: by name, where both have names."""
    if source.classes is None:
        return with_numbers(domain, source.class_count or 0) if source.is_classification else domain
    return with_classes(domain, source.classes)


def _as_tuples(shape: Any) -> Any:
    """A shape that json has made lists of, or a tuple or dict of such."""
    if isinstance(shape, dict):
        return {key: _as_tuples(one) for key, one in shape.items()}
    return tuple(_as_tuples(one) for one in shape) if isinstance(shape, list) else shape


def _named_network(
    name: str, made_for: Blueprint | None, data: _Data, seed: int, task: Task | str | None
) -> tuple[nn.Module, _Data]:
    """The network of that name, built for the data; and the data in the colours that it takes."""
    if made_for is not None and made_for.channels == 3:
        data = data.in_colour()
    shapes = [d.shape for d in (*data.sources, *data.targets) if d.is_images]
    size = (shapes[0][1], shapes[0][2]) if shapes else (1, 1)
    channels = max((shape[0] for shape in shapes), default=1)
    source = data.source
    outputs = planned_outputs(source.known_labels(), source.classes, task)
    built = build_network(
        name,
        classes=outputs,
        channels=channels,
        size=size,
        seed=seed,
        shape=None if shapes else source.shape,
    )
    return built, data


def _check_network(network: Any, layer: Any) -> None:
    if layer is not None and not isinstance(layer, str):
        parts = network.named_modules() if isinstance(network, nn.Module) else ()
        paths = [path for path, part in parts if part is layer]
        would = f"'{paths[0]}' is its name" if paths else "revgrad.layers(network, X) lists them"
        raise InputError(f"a layer is named by text, not given as {_named(layer)}: {would}")
    if isinstance(network, str):
        return
    if inspect.isclass(network) and issubclass(network, nn.Module):
        raise InputError(
            f"the network is a class, {network.__name__}: give an instance, {network.__name__}(…)"
        )
    if not isinstance(network, nn.Module):
        raise InputError(f"the network must be a torch.nn.Module, not {type(network).__name__}")
    if any(one.is_meta for one in [*network.parameters(), *network.buffers()]):
        raise InputError(
            "the network is on the meta device, so it has no weights yet: build it on a real one, "
            "or network.to_empty(device='cpu') and load weights"
        )


def _check_callbacks(callbacks: Any) -> None:
    listed = list(callbacks) if isinstance(callbacks, list | tuple) else [None]
    for one in listed:
        if not isinstance(one, Callback):
            came = callbacks if one is None else one
            raise InputError(
                f"callbacks is a list of revgrad.Callback objects, not {_named(came)}: subclass "
                "Callback, callbacks=[Mine()]"
            )


def _named(value: Any) -> str:
    """A short name of a value that should have been another, for a message."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__name__}, a {'class' if inspect.isclass(value) else 'function'}"
    return repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"


def _settled(network: nn.Module, settings: Settings) -> Settings:
    """With the limits and rates that the network is made for, where nothing else is said."""
    blueprint = blueprint_of(network)
    if blueprint is None:
        return settings
    if settings.max_weight_norm is None:
        settings = replace(settings, max_weight_norm=blueprint.max_weight_norm)
    if settings.pretrained_lr_factor is None and blueprint.new_layers is not None:
        settings = replace(settings, pretrained_lr_factor=blueprint.pretrained_lr_factor)
    return settings


def _completed(given: Provenance, data: _Data) -> Provenance:
    """Names of the data where nothing better is known."""
    return replace(
        given,
        source=given.source or " + ".join(one.name for one in data.sources),
        target=given.target or " + ".join(one.name for one in data.targets) or None,
        test=given.test or (None if data.test is None else data.test.name),
    )


def _recorder(
    data: _Data,
    task: Task,
    samples: int,
    return_weights: str,
    score: str,
    run: Path | str | None,
) -> EvidenceRecorder | None:
    """The recorder of evidence, which also judges by it; None where there is nothing to judge."""
    if samples < 0:
        raise InputError(f"evidence_samples must be 0 or more, not {samples}")
    best = return_weights == "best"
    if best and data.target is None:
        raise InputError("return_weights='best' judges by predicted classes of a target: give one")
    if best and not task.one_class:
        raise InputError(
            f"return_weights='best' judges by predicted classes, and this is {task.noun}: "
            "return_weights='last' would do"
        )
    wanted = best or (run is not None and samples > 0)
    if data.target is None or not task.one_class or not wanted:
        return None
    recorder = EvidenceRecorder(
        data.held_out,
        data.target,
        training=data.source,
        samples=samples or EVIDENCE_SAMPLES,
        score=score,
        class_logits=task.class_logits,
        parts=[len(one) for one in data.targets],
    )
    if best:
        recorder.require_score()
    return recorder


def _early_signs(data: _Data, task: Task, callbacks: Sequence[Callback]) -> list[Callback]:
    """What says early signs of harm, where they can be seen and nothing that was given does so."""
    if data.held_out is None or data.target is None or not task.one_class:
        return []
    watched = any(isinstance(one, EarlySigns) for one in callbacks)
    if watched or not has_classes(data.held_out):
        return []
    return [EarlySigns(data.held_out, data.target, class_logits=task.class_logits)]


def _task(given: Task | str | None, adapter: DomainAdapter, source: Domain, recipe: Recipe) -> Task:
    """What was asked for, or what the source's labels and the network's outputs say."""
    shown = adapter.example_output(source.batch([0], augment=False).inputs)
    own = recipe.label_loss
    if own is None and not isinstance(recipe.method, str):
        own = getattr(recipe.method, "label_loss", None)
    labels = source.known_labels()
    chosen = choose_task(
        labels, shown, task=given, label_loss=own, classes=source.classes, name=source.name
    )
    _warn_of_probabilities(adapter.network, shown, chosen)
    if chosen.one_class and source.is_classification and labels.min() == labels.max():
        only = int(labels[0]) if source.classes is None else source.classes[int(labels[0])]
        raise InputError(
            f"{source.name}: all {len(labels)} labels are of one class, {only}: there is nothing "
            "to tell apart; samples of two classes at least would do"
        )
    return chosen


def _warn_of_probabilities(network: nn.Module, outputs: Any, task: Task) -> None:
    """Outputs that went through softmax or sigmoid already: the loss does so too."""
    last = list(network.modules())[-1]
    done = None
    if isinstance(task, ClassLabels) and isinstance(outputs, Tensor):
        sums = outputs.double().sum(1)
        if bool((outputs >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-5):
            done = "softmax"
    elif isinstance(task, Binary | MultiLabel) and isinstance(last, nn.Sigmoid):
        done = "sigmoid"
    if done is not None:
        log.warning(
            "the network's outputs are probabilities already: the loss takes logits and has the "
            "%s inside, so it learns badly: leave the network's own out",
            done,
        )


def _placed(
    adversaries: Sequence[Adversary],
    network: nn.Module,
    layer: str | None,
    method: str | Objective,
) -> tuple[Adversary, ...]:
    """The adversaries, each with the name of its layer."""
    if method not in WITH_ADVERSARIES:
        named = f"'{method}'" if isinstance(method, str) else type(method).__name__
        raise InputError(
            f"adversaries are for the methods {' and '.join(WITH_ADVERSARIES)}, not {named}: each "
            "of them is a reversal of its own (conditional='class' is CDAN's)"
        )
    blueprint = blueprint_of(network)
    attached = layer or (None if blueprint is None else blueprint.layer)
    Adversaries(tuple(adversaries))  # what is wrong with them by themselves
    gone = next((one for one in adversaries if one.layer is None and attached is None), None)
    if gone is not None:
        raise InputError(
            f"name the layer of the adversary of '{gone.attribute}': Adversary("
            f"'{gone.attribute}', layer=…), or layer=… for all; revgrad.layers(network, example) "
            "lists those that can be"
        )
    return tuple(replace(one, layer=one.layer or attached) for one in adversaries)


def _objective(
    method: str | Objective,
    label_loss: LabelLoss | None,
    task: Task,
    adversaries: tuple[Adversary, ...] | None = None,
) -> Objective:
    """The method's objective with the task's loss, unless another was given."""
    if adversaries is not None:
        learned = Stabilised().learned if method == "stabilised" else None
        if any(one.conditional for one in adversaries) and not task.one_class:
            raise InputError(
                f"conditional='class' is for one class a sample, and this is {task.noun}"
            )
        correlation = CORRELATION if method == "removal" else 0.0
        return Adversaries(adversaries, label_loss or task.label_loss, learned, correlation)
    if isinstance(method, str):
        if method in FOR_CLASSES and not task.one_class:
            raise InputError(
                f"method '{method}' is for one class a sample, and this is {task.noun}: "
                "method='adversarial' would do"
            )
        return OBJECTIVES[method](label_loss or task.label_loss)
    own = getattr(method, "label_loss", None)
    left = own is cross_entropy and is_dataclass(method)  # as it was made
    if not left or task.label_loss is cross_entropy:
        return method
    changed: Any = replace(cast(Any, method), label_loss=task.label_loss)
    return cast(Objective, changed)


def _adapter(
    network: nn.Module,
    layer: str | None,
    sources: Sequence[Domain],
    targets: Sequence[Domain],
    recipe: Recipe,
    settings: Settings,
    output: str | int | None,
    adversaries: tuple[Adversary, ...] | None = None,
) -> DomainAdapter:
    """The network cut at the layer, with its preprocessing and a domain classifier, or the heads of
    adversaries."""
    method = recipe.method  # whose head, where it has its own, depends on no loss
    made = OBJECTIVES[method](cross_entropy) if isinstance(method, str) else method
    blueprint = blueprint_of(network)
    attached = layer or (None if blueprint is None else blueprint.layer)
    if adversaries is not None:
        attached = adversaries[0].layer
    if attached is None:
        raise InputError(
            "name the layer that the domain classifier is attached to (layer=…); "
            "revgrad.layers(network, example) lists those that can be"
        )
    domains = [*sources, *targets]
    if len(domains) > 2 and method in TWO_DOMAINS:
        raise InputError(
            f"method '{method}' is for one source and one target, not {len(domains)} domains: "
            "adversaries=[Adversary(conditional='class')] would do for several, or pool them "
            "(revgrad.joined)"
        )
    prepare = recipe.preprocessing
    if isinstance(prepare, str):
        prepare = Preprocessing.suited(network, *domains, per_image=prepare == "per-image")
    widths = recipe.domain_classifier
    if isinstance(widths, nn.Module):
        if adversaries is not None:
            raise InputError(
                "with adversaries, a module of your own is a head of one of them: "
                "Adversary(…, classifier=module)"
            )
        return DomainAdapter(
            network,
            attached,
            widths,
            prepare,
            batch_norm=settings.batch_norm,
            output=output,
        )
    if widths is None:
        widths = DOMAIN_CLASSIFIER if blueprint is None else blueprint.domain_classifier
    source = sources[0]
    example = source.batch([0, min(1, len(source) - 1)], augment=False).inputs
    if adversaries is not None:
        told = {one.attribute: _told_apart(one.attribute, sources, targets) for one in adversaries}
        return DomainAdapter.attach_heads(
            network,
            heads_for(adversaries, attached, told, widths, settings.seed, recipe.normalise),
            example,
            preprocessing=prepare,
            batch_norm=settings.batch_norm,
            output=output,
            for_classes=any(one.conditional for one in adversaries),
        )
    return DomainAdapter.attach(
        network,
        attached,
        example,
        hidden=widths,
        domains=max(len(domains), 2),
        preprocessing=prepare,
        batch_norm=settings.batch_norm,
        normalise=recipe.normalise,
        seed=settings.seed,
        make_head=made.make_head if isinstance(made, NeedsHead) else None,
        output=output,
    )


def _told_apart(attribute: str, sources: Sequence[Domain], targets: Sequence[Domain]) -> int:
    """Outputs of a head that tells the attribute."""
    domains = [*sources, *targets]
    if attribute == DOMAIN:
        return len(domains) if len(domains) > 2 else 1
    known = [(one.name, one.attributes.get(attribute), len(one)) for one in domains]
    return share_attribute(attribute, known, [1] * len(domains)).outputs


def _registered_network(folder: Path, config: RunConfig) -> nn.Module:
    shape = config.input_shape
    if zoo_of(config.network) is None and config.network not in NETWORKS:
        raise RunError(
            f"{folder} holds a network of your own ({config.network}): give it again "
            "(network=… or --network module:function)"
        )
    image = isinstance(shape, list | tuple) and len(shape) == 3
    channels, size = (shape[0], (shape[1], shape[2])) if image else (1, (1, 1))
    return build_network(
        config.network,
        classes=config.outputs or config.class_count or 1,
        channels=channels,
        size=size,
        shape=None if isinstance(shape, dict) else shape,
        seed=0,
        weights=NO_WEIGHTS,
    )
