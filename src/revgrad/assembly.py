"""The parts of a training, made of what a user gave to `adapt`, each mistake a line."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from revgrad.adapter import DomainAdapter, evaluating
from revgrad.diagnostics.early_signs import EarlySigns
from revgrad.diagnostics.recorder import EVIDENCE_SAMPLES, EvidenceRecorder, has_classes
from revgrad.domains.attributes import DOMAIN, share_attribute
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.networks.domain_classifier import DOMAIN_CLASSIFIER
from revgrad.networks.registry import (
    Blueprint,
    blueprint_of,
    build_network,
)
from revgrad.objectives import (
    CORRELATION,
    FOR_CLASSES,
    OBJECTIVES,
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
from revgrad.recipes import Recipe
from revgrad.tasks import (
    Binary,
    ClassLabels,
    MultiLabel,
    Task,
    choose_task,
    planned_outputs,
)
from revgrad.training.callbacks import Callback
from revgrad.training.run import Provenance
from revgrad.training.settings import Settings
from revgrad.training_data import TrainingData

log = logging.getLogger("revgrad")


def named_network(
    name: str, made_for: Blueprint | None, data: TrainingData, seed: int, task: Task | str | None
) -> tuple[nn.Module, TrainingData]:
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


def in_colours_of(network: nn.Module, data: TrainingData) -> TrainingData:
    """The data, grey images as colour where the network takes three channels and not one."""
    shapes = [one.shape for one in (*data.sources, *data.targets) if one.is_images and len(one)]
    first = next((part for part in network.modules() if isinstance(part, nn.Conv2d)), None)
    if first is None or first.in_channels != 3 or {shape[0] for shape in shapes} != {1}:
        return data
    grey = first.weight.new_zeros(2, *shapes[0])
    try:
        with torch.no_grad(), evaluating(network):
            network(grey)
    except Exception:  # of whatever kind the network raises
        log.info("the network takes three channels: grey images are read as colour")
        return data.in_colour()
    return data


def check_network(network: Any, layer: Any) -> None:
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


def check_callbacks(callbacks: Any) -> None:
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


def settings_for(network: nn.Module, settings: Settings) -> Settings:
    """With the limits and rates that the network is made for, where nothing else is said."""
    blueprint = blueprint_of(network)
    if blueprint is None:
        return settings
    if settings.max_weight_norm is None:
        settings = replace(settings, max_weight_norm=blueprint.max_weight_norm)
    if settings.pretrained_lr_factor is None and blueprint.new_layers is not None:
        settings = replace(settings, pretrained_lr_factor=blueprint.pretrained_lr_factor)
    return settings


def completed_provenance(given: Provenance, data: TrainingData) -> Provenance:
    """Names of the data where nothing better is known."""
    return replace(
        given,
        source=given.source or " + ".join(one.name for one in data.sources),
        target=given.target or " + ".join(one.name for one in data.targets) or None,
        test=given.test or (None if data.test is None else data.test.name),
    )


def evidence_recorder(
    data: TrainingData,
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


def early_signs(data: TrainingData, task: Task, callbacks: Sequence[Callback]) -> list[Callback]:
    """What says early signs of harm, where they can be seen and nothing that was given does so."""
    if data.held_out is None or data.target is None or not task.one_class:
        return []
    watched = any(isinstance(one, EarlySigns) for one in callbacks)
    if watched or not has_classes(data.held_out):
        return []
    return [EarlySigns(data.held_out, data.target, class_logits=task.class_logits)]


def task_for(
    given: Task | str | None, adapter: DomainAdapter, source: Domain, recipe: Recipe
) -> Task:
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


def placed_adversaries(
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


def objective_for(
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


def adapter_for(
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
