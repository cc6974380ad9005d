"""`recipe="auto"`: source-only first, a short ladder of ways to adapt from there, a choice among
them without target labels; where none is judged better, the source-only network is handed back.

RUN/baseline holds the source-only training, RUN/candidates/NAME each other one, all of them runs of
their own that resume; RUN itself then holds what was handed back, and choice.json why.
"""

from __future__ import annotations

import copy
import logging
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from torch import nn

from revgrad._system import disk_errors
from revgrad.adapter import DomainAdapter
from revgrad.diagnostics.choice import (
    OPINION_SAMPLES,
    SOURCE_ONLY,
    Candidate,
    Choice,
    Opinions,
    Signals,
    choose,
    harm,
    image_descriptors,
    opinions_of,
    refusal,
    signals_of,
)
from revgrad.diagnostics.evidence import Evidence, NotFiniteError, gather_evidence
from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.recorder import EVIDENCE_FOLDER, EVIDENCE_SAMPLES, thumbnails
from revgrad.diagnostics.second_opinion import descriptors
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.errors import NonFiniteLossError, RunError
from revgrad.evaluation import features_at
from revgrad.networks.registry import blueprint_of
from revgrad.recipes import RECOMMENDED, STABILISED, Recipe, RecipeChanges
from revgrad.schedules import RampUp
from revgrad.training.record import RESULT
from revgrad.training.run import BASELINE, CONFIG, ENCODER, METRICS

log = logging.getLogger("revgrad")

DataKind = Literal["images", "vectors", "series", "other"]
#: In a run's folder: the trainings that were chosen among.
CANDIDATES = "candidates"
#: Passes over the larger domain that a training makes, and the bounds of its steps.
PASSES, FEWEST_STEPS, MOST_STEPS = 16, 1000, 10_000
#: A candidate that starts from the source-trained network takes this share of the steps.
SHARE_OF_STEPS = 0.5
#: The EMA of the weights looks back over this share of the steps.
LOOKS_BACK = 1 / 6
#: Evaluations of a training, for its evidence and early signs.
EVALUATIONS = 4
#: Hidden width of the domain classifier, for networks that have none of their own.
SMALL_CLASSIFIER = (128,)
#: λ that the first rung of reversal rises to, and the second: more where the first did no harm.
FIRST_FACTOR, STRONGER, WEAKER = 0.3, 1.0, 0.1


class Trained(Protocol):
    """What a training hands back, as far as it is needed here."""

    @property
    def network(self) -> nn.Module: ...

    @property
    def preprocessing(self) -> nn.Module: ...

    @property
    def adapter(self) -> DomainAdapter | None: ...


@dataclass(frozen=True)
class Rung:
    """A way to adapt: from the source-trained network; where `fresh`, from the first weights."""

    name: str
    recipe: Recipe
    fresh: bool = False


def data_kind(source: Domain) -> DataKind:
    """The kind of data, by the shape of one input."""
    if source.is_images:
        return "images"
    shape = source.shape
    whole = isinstance(shape, tuple) and all(isinstance(length, int) for length in shape)
    if whole and len(shape) == 1:
        return "vectors"
    return "series" if whole and len(shape) == 2 else "other"


def default_steps(samples: int, batch_size: int) -> int:
    """Steps of a training: so many passes over the larger domain, within bounds.

    Parameters
    ----------
    samples
        of the larger domain; half of a batch is drawn from it
    """
    passes = PASSES * samples / max(batch_size // 2, 1)
    return int(min(max(round(passes), FEWEST_STEPS), MOST_STEPS))


def ema_decay(steps: int) -> float:
    """Of an average over the last part of a training; .998 at most, as long ones have."""
    return min(1 - 1 / max(LOOKS_BACK * steps, 2.0), 0.998)


def settled(
    recipe: Recipe, network: nn.Module, samples: int, changes: RecipeChanges
) -> tuple[Recipe, bool]:
    """The recipe with steps that follow from the data, and with what a user gave by name, which
    comes first; and whether λ was given. A network with a blueprint keeps its domain classifier."""
    named: dict[str, Any] = dict(changes)
    batch_size = int(named.get("batch_size", recipe.settings.batch_size))
    steps = int(named.get("steps", default_steps(samples, batch_size)))
    every = max(steps // EVALUATIONS, 1)
    own: dict[str, Any] = {
        "steps": steps,
        "evaluate_every": every,
        "checkpoint_every": every,
        "ema_decay": ema_decay(steps),
        "domain_classifier": None if blueprint_of(network) is not None else SMALL_CLASSIFIER,
    }
    changed: Any = {**own, **named}
    return recipe.changed(changed), "adaptation_factor" in named


@dataclass(frozen=True)
class Ladder:
    """What is trained: the source-only start, and ways to adapt from there.

    Attributes
    ----------
    rungs
        tried whatever comes of the others
    between
        of two strengths of reversal: the first where the weaker reversal among the rungs did
        no harm, else the second; none where the user gave λ
    """

    start: Recipe
    rungs: tuple[Rung, ...]
    between: tuple[Rung, Rung] | None

    @staticmethod
    def of(kind: DataKind, network: nn.Module, samples: int, changes: RecipeChanges) -> Ladder:
        """For this kind of data, with the user's own settings in all of them."""
        base, fixed = settled(STABILISED, network, samples, changes)
        # of one domain there is one BatchNorm
        start = replace(
            base,
            method=SOURCE_ONLY,
            settings=replace(base.settings, batch_norm="joint"),
            domain_classifier=None,
        )
        if fixed:
            return Ladder(start, (_from_start(base, "stabilised"), _matching(base, None)), None)
        rungs = [_from_start(base, "stabilised", FIRST_FACTOR), _matching(base, 1.0)]
        if kind == "images":
            whole, _ = settled(RECOMMENDED, network, samples, changes)
            rungs.append(Rung("recommended", whole, fresh=True))
        stronger, weaker = (_from_start(base, "stabilised", one) for one in (STRONGER, WEAKER))
        return Ladder(start, tuple(rungs), (stronger, weaker))


def _matching(base: Recipe, factor: float | None) -> Rung:
    return _from_start(replace(base, normalise="none"), "kernel-matching", factor)


def _from_start(base: Recipe, method: str, factor: float | None = None) -> Rung:
    """A rung that goes on from the source-trained network, λ rising to `factor`; None: as given."""
    steps = max(round(SHARE_OF_STEPS * base.settings.steps), 1)
    decay = None if base.settings.ema_decay is None else ema_decay(steps)
    every = max(steps // EVALUATIONS, 1)
    settings = replace(
        base.settings, steps=steps, ema_decay=decay, evaluate_every=every, checkpoint_every=every
    )
    if factor is None:
        return Rung(method, replace(base, method=method, settings=settings))
    settings = replace(settings, adaptation_factor=RampUp(10.0, factor))
    return Rung(f"{method}-{factor:g}", replace(base, method=method, settings=settings))


class TrainCandidate(Protocol):
    """Trains a network by a recipe, into a folder where there is one."""

    def __call__(
        self, network: nn.Module, recipe: Recipe, run: Path | None, init: str | None, /
    ) -> Trained: ...


@dataclass(frozen=True, eq=False)
class Automatic:
    """One use of `recipe="auto"`: the data, the folder, how a training is done."""

    source: Domain
    held_out: Domain
    target: Domain
    train: TrainCandidate
    run: Path | None = None
    samples: int = EVIDENCE_SAMPLES

    def fit(self, network: nn.Module, changes: RecipeChanges) -> tuple[Choice, Trained, Trained]:
        """The choice, what is handed back by it, and the source-only network; `network` itself
        stays as it came."""
        kind = data_kind(self.source)
        larger = max(len(self.source), len(self.target))
        ladder = Ladder.of(kind, network, larger, changes)
        log.info(
            "auto: data are %s; source only first, %d steps", kind, ladder.start.settings.steps
        )
        start = self.train(copy.deepcopy(network), ladder.start, self._folder(BASELINE), None)
        judge = _Judge.of(self, start, kind)
        tried: dict[str, Trained] = {}
        found: list[Candidate] = []

        def climb(rung: Rung) -> Candidate:
            candidate, trained = self._tried(rung, network, start, judge)
            found.append(candidate)
            if trained is not None:
                tried[rung.name] = trained
            return candidate

        for rung in ladder.rungs:
            climb(rung)
        if ladder.between is not None:
            weak = next(one for one in found if one.method == "stabilised")
            climb(ladder.between[0 if judge.unharmed(weak) else 1])
        choice = choose(kind, found)
        log.info("auto: %s", choice.sentence)
        handed = tried.get(choice.chosen, start)
        if self.run is not None and _is_first_process():
            place = BASELINE if handed is start else f"{CANDIDATES}/{choice.chosen}"
            hand_over(self.run / place, self.run)
            choice.write(self.run)
        return choice, handed, start

    def _tried(
        self, rung: Rung, network: nn.Module, start: Trained, judge: _Judge
    ) -> tuple[Candidate, Trained | None]:
        log.info("auto: %s, %d steps", rung.name, rung.recipe.settings.steps)
        recipe, first = rung.recipe, network if rung.fresh else start.network
        init = None if rung.fresh else str(self._folder(BASELINE) or SOURCE_ONLY)
        where = self._folder(f"{CANDIDATES}/{rung.name}")
        method = str(recipe.method)
        described = recipe.settings.describe()
        try:
            trained = self.train(copy.deepcopy(first), recipe, where, init)
            signals = judge.signals(trained)
        except (NonFiniteLossError, NotFiniteError) as error:
            failed = Candidate(rung.name, method, described, None, f"it failed: {error}")
            return failed, None
        refused = judge.refusal(signals)
        log.info(
            "auto: %s: judged gain %+.1f points%s",
            *(rung.name, 100 * signals.gain, f"; not taken: {refused}" if refused else ""),
        )
        return Candidate(rung.name, method, described, signals, refused), trained

    def _folder(self, name: str) -> Path | None:
        return None if self.run is None else self.run / name


@dataclass(frozen=True, eq=False)
class _Judge:
    """The source-only network's evidence, and what simple classifiers say of the same samples."""

    held_out: Domain
    target: Domain
    start: Evidence
    opinions: Opinions
    start_signals: Signals

    @staticmethod
    def of(given: Automatic, start: Trained, kind: DataKind) -> _Judge:
        held_out, target = (_some(part, given.samples) for part in (given.held_out, given.target))
        known = _some(given.source, OPINION_SAMPLES)
        evidence = _evidence(start, held_out, target)
        own, other = (_described(part, kind, start) for part in (known, target))
        classes = evidence.target_logits.shape[1]
        opinions = opinions_of(own, np.asarray(known.labels), other, classes)
        return _Judge(
            held_out, target, evidence, opinions, signals_of(evidence, evidence, opinions)
        )

    def signals(self, trained: Trained) -> Signals:
        return signals_of(_evidence(trained, self.held_out, self.target), self.start, self.opinions)

    def refusal(self, signals: Signals) -> str:
        return refusal(signals, self.start_signals, len(self.held_out))

    def unharmed(self, candidate: Candidate) -> bool:
        """Whether more of the same may be tried: it shows no sign of harm."""
        return candidate.signals is not None and not harm(
            candidate.signals, self.start_signals, len(self.held_out)
        )


def hand_over(chosen: Path, run: Path) -> None:
    """The chosen training's files as the run's own, so that all that reads runs reads it; the
    checkpoint's json last: with it the run is complete."""
    with disk_errors(run):
        files = [chosen / name for name in (CONFIG, METRICS, RESULT, ENCODER)]
        tensors = sorted(chosen.glob("checkpoint*"), key=lambda path: path.suffix == ".json")
        for path in (*files, *tensors):
            if path.exists():
                shutil.copy2(path, run / path.name)
        shutil.rmtree(run / EVIDENCE_FOLDER, ignore_errors=True)
        if (chosen / EVIDENCE_FOLDER).exists():
            shutil.copytree(chosen / EVIDENCE_FOLDER, run / EVIDENCE_FOLDER)


def refuse_other_run(run: Path) -> None:
    """A folder in which something else than a run by `auto` lies is not written to."""
    if (run / CONFIG).exists() and not (run / BASELINE).exists():
        raise RunError(
            f"{run} is a run of another recipe than 'auto': choose another folder, or name its "
            "recipe to resume it"
        )
    strangers = [] if not run.is_dir() else [path.name for path in run.iterdir()]
    if strangers and not (run / BASELINE).exists():
        raise RunError(
            f"{run} is not empty ({strangers[0]}) and not a run: choose a new or an empty folder"
        )


def _some(domain: Domain, count: int) -> Domain:
    return domain.subset(drawn_indices(len(domain), count))


def _evidence(trained: Trained, held_out: Domain, target: Domain) -> Evidence:
    assert trained.adapter is not None  # it was trained just now
    return gather_evidence(trained.adapter, held_out, target, domain_logits=False)


def _described(domain: Domain, kind: DataKind, start: Trained) -> Array:
    """(n, d) descriptors of the inputs; of what is none of the known kinds, the features of the
    source-only network."""
    if kind == "other" or not len(domain):
        assert start.adapter is not None
        return features_at(
            start.network,
            start.adapter.layer,
            domain.without_labels(),
            preprocessing=start.preprocessing,
        )
    if kind == "images":
        thumbs = thumbnails(domain)
        assert thumbs is not None
        return image_descriptors(thumbs.numpy())
    inputs = domain.batch(np.arange(len(domain)), augment=False).inputs
    values = np.asarray(inputs, dtype=np.float64)
    return descriptors(values)


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"
