"""From a network and two domains to an adapted network, in one call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.adapter import DomainAdapter, Shipped
from revgrad.diagnostics.kept import ROWS as EVIDENCE_ROWS
from revgrad.diagnostics.kept import EvidenceKeeper
from revgrad.diagnostics.scores import RECOMMENDED
from revgrad.domains.domain import HELD_OUT, Domain
from revgrad.domains.matching import match_colours
from revgrad.errors import InputError, RunError, unknown
from revgrad.evaluation.accuracy import Evaluation, evaluate
from revgrad.evaluation.features import features_at
from revgrad.evaluation.predicting import outputs
from revgrad.networks import NETWORKS, build_network
from revgrad.objectives import (
    OBJECTIVES,
    ONE_DOMAIN,
    LabelLoss,
    Objective,
    cross_entropy,
    squared_error,
)
from revgrad.preprocessing import Preprocessing
from revgrad.training.distributed import together
from revgrad.training.events import Events, Outcome
from revgrad.training.progress import ProgressBar
from revgrad.training.restoring import restore_weights
from revgrad.training.runs import BASELINE, Run, RunConfig
from revgrad.training.settings import Settings
from revgrad.training.trainer import Trainer, check_domains


@dataclass(frozen=True)
class Adapted:
    """What comes out: the plain network, and the preprocessing that belongs in front of it.

    baseline   the source-only network of the same budget, where one was asked for
    """

    network: nn.Module
    preprocessing: nn.Module
    layer: str
    classes: tuple[str, ...] | None
    outcome: Outcome | None = None
    adapter: DomainAdapter | None = None
    baseline: Adapted | None = None

    @property
    def model(self) -> Shipped:
        """Preprocessing and network as one module, from raw inputs (uint8 images) to outputs."""
        return Shipped(self.preprocessing, self.network)

    def outputs(self, inputs: Domain) -> Tensor:
        """The network's output for every input, (n, …), in evaluation mode."""
        model = self.model
        return outputs(model, model, inputs)

    def features(self, inputs: Domain) -> Tensor:
        """The attached layer's output for every input, flattened to (n, features)."""
        values = features_at(self.network, self.layer, inputs, preprocessing=self.preprocessing)
        return torch.from_numpy(values)

    def predict(self, inputs: Domain) -> np.ndarray:
        """The most likely class of every input, (n,)."""
        return self.outputs(inputs).argmax(1).numpy()

    def evaluate(self, domain: Domain, label_loss: LabelLoss = cross_entropy) -> Evaluation:
        """Accuracy (regression: loss) on labelled data."""
        model = self.model
        return evaluate(model, model, domain, label_loss)


def adapt(
    network: nn.Module,
    source: Domain,
    target: Domain | None,
    *,
    layer: str | None = None,
    method: str | Objective = "adversarial",
    settings: Settings | None = None,
    label_loss: LabelLoss | None = None,
    hidden: Sequence[int] | None = None,
    domain_classifier: nn.Module | None = None,
    preprocessing: nn.Module | None = None,
    per_image: bool = False,
    balance: bool = False,
    held_out: float | Domain = HELD_OUT,
    target_test: Domain | None = None,
    semi_supervised: bool = False,
    run: Path | str | None = None,
    keep: str = "last",
    score: str = RECOMMENDED,
    baseline: bool = False,
    evidence: int = EVIDENCE_ROWS,
    events: Sequence[Events] = (),
    progress: bool = True,
    network_name: str | None = None,
    options: dict[str, Any] | None = None,
    **changes: Any,
) -> Adapted:
    """Train `network` on the labelled `source` so that it works on the unlabelled `target`.

    layer             where the domain classifier is attached (`revgrad.layers` lists what can be)
    method            "adversarial" (the paper's), "adversarial-entropy", "two-losses",
                      "mean-matching", "kernel-matching", an objective; or the bounds
                      "source-only" and "train-on-target" (with the target's labels)
    settings          a `Settings`; any of its fields can also be given by name (steps=…, seed=…)
    label_loss        cross-entropy for class labels, squared error for float labels, by default
    hidden            widths of the domain classifier's hidden layers; or give `domain_classifier`
    preprocessing     a module in front of the network; by default one mean and scale for both
                      domains' images, or each image's own (`per_image`)
    balance           draw all classes of the source alike often, however many samples each has
    held_out          share of the source kept for evaluation, or a domain for it; 0: none
    target_test       labelled target data to report accuracy on; it decides nothing
    semi_supervised   use the labels that `target` has; otherwise they are dropped unread
    run               a directory for metrics and checkpoints; the same call resumes it
    keep              "last": hand back the last weights; "best": of those at each evaluation the
                      ones that the label-free `score` (of `diagnostics.SCORES`) likes best
    baseline          train the source-only network of the same budget too, from the same first
                      weights (in RUN/baseline), for the verdict to compare with
    evidence          rows of target and held-out source that a run keeps outputs of, for
                      `diagnostics.verdict` and the report; 0: none
    """
    if keep not in ("last", "best"):
        raise InputError(f"keep is last or best, not {keep!r}")
    _require_settings(changes)
    untouched = copy.deepcopy(network) if baseline and method not in ONE_DOMAIN else None
    chosen = replace(Settings() if settings is None else settings, **changes)
    if method == "train-on-target":
        if target is None or not target.labelled_count:
            raise InputError("train-on-target needs a target with labels")
        source, target = target, None
    check_domains([source])
    unlabelled = target if target is None or semi_supervised else target.without_labels()
    training, unlabelled, evaluated, tested = _matched(source, unlabelled, held_out, target_test)
    if balance:
        training = training.balanced()
    objective = _objective(method, label_loss, source)
    used = None if method in ONE_DOMAIN else unlabelled
    if used is None and isinstance(method, str) and method not in ONE_DOMAIN:
        raise InputError(f"method '{method}' needs a target; without one, take 'source-only'")
    keeper = _keeper(evaluated, unlabelled, evidence, keep, score, run)
    with together(chosen.device):
        adapter = _adapter(
            *(network, layer, training, used, hidden, domain_classifier, preprocessing),
            *(per_image, chosen),
        )
        trainer = Trainer(
            adapter,
            training,
            used,
            objective=objective,
            settings=chosen,
            held_out=evaluated,
            target_test=tested,
            run=None if run is None else Run(run),
            scorer=keeper if keep == "best" else None,
            events=[
                *([keeper] if keeper is not None else []),
                *events,
                *([ProgressBar()] if progress else []),
            ],
            network_name=network_name,
            method=method if isinstance(method, str) else None,
            options=options,
        )
        outcome = trainer.fit()
    below = None
    if untouched is not None:
        below = adapt(
            untouched,
            source,
            target,
            layer=layer,
            method="source-only",
            # one domain: there is no target to take BatchNorm's statistics from
            settings=replace(chosen, batch_norm="joint"),
            label_loss=label_loss,
            preprocessing=preprocessing,
            per_image=per_image,
            balance=balance,
            held_out=held_out,
            target_test=target_test,
            run=None if run is None else Path(run) / BASELINE,
            evidence=evidence,
            progress=progress,
            network_name=network_name,
            options=options,
        )
    return Adapted(
        *(network, adapter.preprocessing, adapter.layer, source.classes, outcome, adapter, below)
    )


def _keeper(
    held_out: Domain | None,
    target: Domain | None,
    rows: int,
    keep: str,
    score: str,
    run: Path | str | None,
) -> EvidenceKeeper | None:
    """What keeps evidence, and judges by it; None where there is nothing to judge."""
    if rows < 0:
        raise InputError(f"evidence must be 0 rows or more, not {rows}")
    classified = held_out is None or held_out.is_classification
    wanted = keep == "best" or (run is not None and rows > 0)
    if keep == "best" and (target is None or not classified):
        raise InputError("keep='best' judges by predicted classes of a target: it needs both")
    if target is None or not wanted or not classified:
        return None
    keeper = EvidenceKeeper(held_out, target, rows=rows or EVIDENCE_ROWS, score=score)
    if keep == "best":
        keeper.require_score()
    return keeper


def load(run: Path | str, network: nn.Module | None = None) -> Adapted:
    """The network of a run, with its last checkpoint's weights.

    Networks of ours are built by their name. Code is never run because a file says so: for a
    network of your own, build it and give it here.
    """
    directory = Run(run)
    config = directory.config
    checkpoint = directory.checkpoint()
    if checkpoint is None:
        raise RunError(f"{directory.folder} has no checkpoint yet")
    if network is None:
        network = _registered_network(directory.folder, config)
    preprocessing = restore_weights(network, checkpoint)
    classes = None if config.classes is None else tuple(config.classes)
    return Adapted(network, preprocessing, config.layer, classes)


def _registered_network(folder: Path, config: RunConfig) -> nn.Module:
    if config.network not in NETWORKS:
        raise RunError(
            f"{folder} holds a network of your own ({config.network}): give it again "
            "(network=… or --network module:function)"
        )
    channels, *size = config.input_shape
    return build_network(
        config.network,
        classes=config.options.get("outputs") or config.class_count or 1,
        channels=channels,
        size=(size[0], size[1]),
        seed=0,
        pretrained=False,
    )


def _require_settings(changes: dict[str, Any]) -> None:
    """What `adapt` doesn't name itself must be a setting."""
    settings = [field.name for field in fields(Settings)]
    own = list(signature(adapt).parameters)[:-1]  # without `changes`
    for name in changes:
        if name not in settings:
            raise unknown("option or setting", name, [*own, *settings])


def _matched(
    source: Domain, target: Domain | None, held_out: float | Domain, test: Domain | None
) -> tuple[Domain, Domain | None, Domain | None, Domain | None]:
    """The source without what is held out, the target, the held-out part and the test data, all
    with one number of channels."""
    evaluated: Domain | None
    if isinstance(held_out, Domain):
        training, evaluated = source, held_out
    elif held_out > 0:
        training, evaluated = source.split(held_out)
    else:
        training, evaluated = source, None
    others = [target, evaluated, test]
    first, *matched = match_colours([training, *(d for d in others if d is not None)])
    given = iter(matched)
    rest = [None if domain is None else next(given) for domain in others]
    return first, rest[0], rest[1], rest[2]


def _objective(method: str | Objective, label_loss: LabelLoss | None, source: Domain) -> Objective:
    if not isinstance(method, str):
        return method
    if method not in OBJECTIVES:
        raise unknown("method", method, OBJECTIVES)
    default = cross_entropy if source.is_classification else squared_error
    return OBJECTIVES[method](label_loss or default)


def _adapter(
    network: nn.Module,
    layer: str | None,
    source: Domain,
    target: Domain | None,
    hidden: Sequence[int] | None,
    domain_classifier: nn.Module | None,
    preprocessing: nn.Module | None,
    per_image: bool,
    settings: Settings,
) -> DomainAdapter:
    attached = layer or getattr(network, "layer", None)
    if not isinstance(attached, str):
        raise InputError(
            "name the layer that the domain classifier is attached to (layer=…); "
            "revgrad.layers(network, example) lists those that can be"
        )
    domains = [source] if target is None else [source, target]
    prepare = preprocessing or Preprocessing.fit(*domains, per_image=per_image)
    if domain_classifier is not None:
        return DomainAdapter(
            network, attached, domain_classifier, prepare, batch_norm=settings.batch_norm
        )
    widths = hidden if hidden is not None else getattr(network, "domain_hidden", (1024, 1024))
    example = source.batch([0, min(1, len(source) - 1)], augment=False).inputs
    return DomainAdapter.attach(
        network,
        attached,
        example,
        hidden=widths,
        preprocessing=prepare,
        batch_norm=settings.batch_norm,
        seed=settings.seed,
    )
