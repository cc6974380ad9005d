"""`recipe="auto"`, the default: source-only first, a few ways to adapt from there, a choice among
them without target labels; where none is judged better, the source-only network is handed back.

A way that shows early signs of harm is ended there, and goes on from its last good weights with a
weaker λ. RUN/baseline holds the source-only training, RUN/candidates/NAME each other one, all of
them runs of their own that resume; RUN itself then holds what was handed back, and choice.json why.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from torch import Tensor, nn

from revgrad._system import copy_atomically, disk_errors
from revgrad.adapter import DomainAdapter
from revgrad.diagnostics.choice import (
    OPINION_SAMPLES,
    SOURCE_ONLY,
    Candidate,
    Choice,
    Opinions,
    choose,
    image_descriptors,
    opinions_of,
    refusal,
    sign_of_harm,
    signals_of,
)
from revgrad.diagnostics.early_signs import EarlySigns, HarmSeen, Look
from revgrad.diagnostics.evidence import (
    ClassLogits,
    Evidence,
    NotFiniteError,
    gather_evidence,
)
from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.recorder import EVIDENCE_FOLDER, EVIDENCE_SAMPLES, has_classes, thumbnails
from revgrad.diagnostics.second_opinion import descriptors
from revgrad.diagnostics.vetoes import source_fall
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.domains.moved import Move, can_move
from revgrad.errors import NonFiniteLossError, RunError
from revgrad.evaluation import features_at
from revgrad.networks.registry import blueprint_of
from revgrad.objectives import AdversarialConsistency, Noise
from revgrad.preprocessing import Preprocessing
from revgrad.recipes import (
    RECOMMENDED,
    SERIES,
    STABILISED,
    VECTORS,
    Recipe,
    RecipeChanges,
    recipe_named,
)
from revgrad.schedules import Annealed, Constant, RampUp
from revgrad.tasks import Task
from revgrad.training.callbacks import Callback, ProgressBar, TrainingResult
from revgrad.training.checkpoint import sweep
from revgrad.training.record import RESULT
from revgrad.training.run import BASELINE, CANDIDATES, CONFIG, ENCODER, METRICS, Run

log = logging.getLogger("revgrad")

DataKind = Literal["images", "vectors", "series", "other"]
#: Passes over the larger domain that a training makes, and the bounds of its steps.
PASSES, FEWEST_STEPS, MOST_STEPS = 16, 1000, 10_000
#: A candidate that starts from the source-trained network takes this share of the steps; all of
#: them where the source was still being learned at the end.
SHARE_OF_STEPS = 0.5
#: Rise of the held-out source accuracy over the last evaluation that says so.
STILL_LEARNING = 0.02
#: The EMA of the weights looks back over this share of the steps.
LOOKS_BACK = 1 / 6
#: Evaluations of a training, for its evidence and early signs; held-out samples of each at most.
EVALUATIONS, MOST_HELD_OUT = 4, 20_000
#: Hidden width of the domain classifier, for networks that have none of their own.
SMALL_CLASSIFIER = (128,)
#: What λ rises to in a reversal, and what it is multiplied by after a step back.
REVERSAL, STEP_BACK = 0.3, 0.1
#: The learning rate of gradient descent, with momentum and limited gradients, on the source.
DESCENT_RATE = 0.03
#: Median deviation of the coordinates, over their root mean square, below which they are uneven.
UNEVEN = 0.6
#: Gain in held-out source accuracy for which Adam's start is taken, where it is more than chance.
KNOWS_MORE = 0.01
#: The learning rate of consistency, which must let classes spread along the target's clusters.
CONSISTENCY_RATE = 0.003


class Trained(Protocol):
    """What a training hands back, as far as it is needed here."""

    @property
    def network(self) -> nn.Module: ...

    @property
    def preprocessing(self) -> nn.Module: ...

    @property
    def adapter(self) -> DomainAdapter | None: ...

    @property
    def task(self) -> Task: ...

    @property
    def result(self) -> TrainingResult | None: ...


@dataclass(frozen=True)
class Rung:
    """A way to adapt: from the source-trained network; where `fresh`, from the first weights.
    `moved`: on a source that is moved to the target's means and deviations."""

    name: str
    recipe: Recipe
    fresh: bool = False
    moved: bool = False


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

    `plainer`: the same start by gradient descent, for vectors whose coordinates vary unevenly (as
    principal components do). Adam, which gives every coordinate steps of one size, learns from
    those that hardly vary in the source as from the others, and pays for it on the target; where
    descent knows the held-out source as well, it is the start.
    """

    start: Recipe
    rungs: tuple[Rung, ...]
    plainer: Recipe | None = None

    @staticmethod
    def of(kind: DataKind, network: nn.Module, samples: int, changes: RecipeChanges) -> Ladder:
        """For this kind of data, with the user's own settings in all of them."""
        base, fixed = settled(STABILISED, network, samples, changes)
        plain = replace(base, normalise="none")

        def height(own: float) -> float | None:
            return None if fixed else own

        rungs = [
            _from_start("stabilised", base, height(REVERSAL)),
            _from_start("kernel-matching", replace(plain, method="kernel-matching"), height(1.0)),
        ]
        if kind == "images":
            whole, _ = settled(RECOMMENDED, network, samples, changes)
            return Ladder(source_only(base), (*rungs, Rung("recommended", whole, fresh=True)))
        if kind != "other":
            spread = AdversarialConsistency(threshold=0.9, reversal=0.1, augment=Noise(0.1))
            consistent = replace(plain, method=spread)
            if "learning_rate" not in changes:
                rate = Annealed(CONSISTENCY_RATE, 10.0, 0.75)
                settings = replace(consistent.settings, learning_rate=rate)
                consistent = replace(consistent, settings=settings)
            rungs.append(_from_start("consistency", consistent, height(1.0)))
            rungs.append(replace(rungs[-1], name="consistency-moved", moved=True))
            # the kind's own recipe, in place of the weak reversal: labels of a network that is not
            # sure of its classes yet can still travel along the target's clusters
            own = VECTORS if kind == "vectors" else SERIES
            rungs[0] = Rung(kind, settled(own, network, samples, changes)[0], fresh=True)
        start = source_only(base)
        said = "optimiser" in changes or "learning_rate" in changes
        if said or kind != "vectors":
            return Ladder(start, tuple(rungs))
        rate = Annealed(DESCENT_RATE, 10.0, 0.75)
        descent = replace(start.settings, optimiser="sgd", learning_rate=rate)
        return Ladder(start, tuple(rungs), replace(start, settings=descent))


def source_only(recipe: Recipe) -> Recipe:
    """The recipe without a target: of one domain there is one BatchNorm."""
    settings = replace(recipe.settings, batch_norm="joint")
    return replace(recipe, method=SOURCE_ONLY, settings=settings, domain_classifier=None)


def start_recipe(network: nn.Module, source: Domain, changes: RecipeChanges) -> Recipe:
    """Of the source-only training alone, where there is no target."""
    return source_only(settled(STABILISED, network, len(source), changes)[0])


def unjudged(
    network: nn.Module, source: Domain, target: Domain, task: Task, changes: RecipeChanges
) -> Recipe:
    """The one recipe for a task that can't be judged by predicted classes."""
    name = "regression" if task.name == "regression" else "stabilised"
    log.warning(
        "auto judges by predicted classes, and this is %s: recipe '%s' without a choice; whether "
        "it gains over source only (method='source-only') is for you to see",
        *(task.noun, name),
    )
    return settled(recipe_named(name), network, max(len(source), len(target)), changes)[0]


def _from_start(name: str, base: Recipe, factor: float | None) -> Rung:
    """A rung that goes on from the source-trained network, λ rising to `factor`; None: as given."""
    recipe = shortened(base, SHARE_OF_STEPS)
    if factor is not None:
        settings = replace(recipe.settings, adaptation_factor=RampUp(10.0, factor))
        recipe = replace(recipe, settings=settings)
    return Rung(name, recipe)


def shortened(recipe: Recipe, share: float) -> Recipe:
    """The recipe for that share of its steps."""
    steps = max(round(share * recipe.settings.steps), 1)
    decay = None if recipe.settings.ema_decay is None else ema_decay(steps)
    every = max(steps // EVALUATIONS, 1)
    settings = replace(
        recipe.settings, steps=steps, ema_decay=decay, evaluate_every=every, checkpoint_every=every
    )
    return replace(recipe, settings=settings)


def held_out_part(held_out: Domain | None) -> Domain | None:
    """What all trainings of a ladder are evaluated on: of very many samples some."""
    if held_out is None or len(held_out) <= MOST_HELD_OUT:
        return held_out
    log.info("auto: evaluated on %d of %d held-out samples", MOST_HELD_OUT, len(held_out))
    return _some(held_out, MOST_HELD_OUT)


class TrainCandidate(Protocol):
    """Trains a network by a recipe, into a folder where there is one."""

    def __call__(
        self,
        network: nn.Module,
        recipe: Recipe,
        run: Path | None,
        init: str | None,
        watching: Sequence[Callback],
        move: Move | None,
        /,
    ) -> Trained: ...


@dataclass(frozen=True, eq=False)
class Automatic:
    """One use of `recipe="auto"`: the data, the folder, how a training is done."""

    source: Domain
    held_out: Domain | None
    target: Domain
    train: TrainCandidate
    run: Path | None = None
    samples: int = EVIDENCE_SAMPLES
    progress: bool = False

    def fit(self, network: nn.Module, changes: RecipeChanges) -> tuple[Choice, Trained, Trained]:
        """The choice, what is handed back by it, and the source-only network; `network` itself
        stays as it came."""
        kind = data_kind(self.source)
        larger = max(len(self.source), len(self.target))
        ladder = Ladder.of(kind, network, larger, changes)
        log.info(
            "auto: data are %s; source only first, %d steps", kind, ladder.start.settings.steps
        )
        start = self._start(network, ladder)
        judge = _Judge.of(self, start, kind)
        longer = "steps" not in changes and _is_still_learning(start)
        if longer:
            log.info("auto: the source is still being learned: the others train for all steps")
        found: list[_Tried] = []
        for rung in ladder.rungs:
            if rung.moved and judge.move is None:
                continue
            if longer and not rung.fresh:
                rung = replace(rung, recipe=shortened(rung.recipe, 1 / SHARE_OF_STEPS))
            found.append(self._tried(rung, network, start, judge))
        tried = {one.name: one.trained for one in found if one.trained is not None}
        choice = choose(kind, judge.candidates(found))
        log.info("auto: %s", choice.sentence)
        handed = tried.get(choice.chosen, start)
        if self.run is not None and _is_first_process():
            place = BASELINE if handed is start else f"{CANDIDATES}/{choice.chosen}"
            hand_over(self.run / place, self.run)
            choice.write(self.run)
        return choice, handed, start

    def _start(self, network: nn.Module, ladder: Ladder) -> Trained:
        """The source-only network: by gradient descent where inputs are uneven, and that knows the
        held-out source as well as the recipe's optimiser does."""

        def trained(recipe: Recipe, name: str) -> Trained:
            bar = self._bar("source only")
            return self.train(copy.deepcopy(network), recipe, self._folder(name), None, bar, None)

        if ladder.plainer is None or not self._is_uneven(network, ladder.start):
            return trained(ladder.start, BASELINE)
        log.info("auto: inputs vary unevenly: source only by gradient descent too")
        usual = trained(ladder.start, f"{CANDIDATES}/{SOURCE_ONLY}-adam")
        name, start = f"{SOURCE_ONLY}-adam", usual
        try:
            plainer = trained(ladder.plainer, f"{CANDIDATES}/{SOURCE_ONLY}-descent")
            rise, chance = self._known_more(usual, plainer)
            if rise <= max(KNOWS_MORE, chance):
                name, start = f"{SOURCE_ONLY}-descent", plainer
        except (NonFiniteLossError, NotFiniteError) as error:
            log.info("auto: source only by gradient descent failed: %s", error)
        log.info("auto: the start is %s", name)
        if self.run is not None and _is_first_process():
            hand_over(self.run / CANDIDATES / name, self.run / BASELINE)
        return start

    def _is_uneven(self, network: nn.Module, recipe: Recipe) -> bool:
        """Whether half of the coordinates, as the network gets them, vary much less than most of
        the whole does."""
        prepare = recipe.preprocessing
        if isinstance(prepare, str):
            prepare = Preprocessing.suited(network, self.source, self.target)
        shown = self.source.sample(OPINION_SAMPLES)
        inputs = prepare(shown.batch(np.arange(len(shown)), augment=False).inputs)
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
            return False
        spread = inputs.double().std(dim=0)
        return float(spread.median()) < UNEVEN * float(spread.square().mean().sqrt())

    def _known_more(self, one: Trained, other: Trained) -> tuple[float, float]:
        """By how much `one` is right more often than `other` on held-out source (or, without, on
        the source), and the standard deviation of that."""
        held_out = _held_out_or_known(self)
        logits = one.task.class_logits
        target = _some(self.target, 1)
        return source_fall(
            *(_evidence(trained, held_out, target, logits) for trained in (other, one))
        )

    def _tried(self, rung: Rung, network: nn.Module, start: Trained, judge: _Judge) -> _Tried:
        """The rung trained; where it shows early signs of harm, from its last good weights on with
        a weaker λ."""
        log.info("auto: %s, %d steps", rung.name, rung.recipe.settings.steps)
        first = copy.deepcopy(network if rung.fresh else start.network)
        init = None if rung.fresh else SOURCE_ONLY
        try:
            return self._judged(rung, first, init, judge)
        except HarmSeen as seen:
            weaker = _weaker(rung, seen.step)
            log.info(
                "auto: %s: %s: a step back to step %d, and λ %g from there",
                *(rung.name, seen, seen.step, weaker.recipe.settings.at(1.0).adaptation_factor),
            )
            again = copy.deepcopy(network if rung.fresh else start.network)
            if seen.state is not None:
                again.load_state_dict(seen.state)
            try:
                return self._judged(weaker, again, f"{rung.name} after {seen.step} steps", judge)
            except HarmSeen as more:
                return _Tried(weaker, None, None, f"signs of harm: {more}")

    def _judged(self, rung: Rung, first: nn.Module, init: str | None, judge: _Judge) -> _Tried:
        where = self._folder(f"{CANDIDATES}/{rung.name}")
        try:
            move = judge.move if rung.moved else None
            watching = [*judge.watching(rung), *self._bar(rung.name)]
            trained = self.train(first, rung.recipe, where, init, watching, move)
            return _Tried(rung, trained, judge.evidence(trained, move))
        except (NonFiniteLossError, NotFiniteError) as error:
            return _Tried(rung, None, None, f"it failed: {error}")

    def _bar(self, name: str) -> list[Callback]:
        return [ProgressBar(name)] if self.progress else []

    def _folder(self, name: str) -> Path | None:
        return None if self.run is None else self.run / name


@dataclass(frozen=True, eq=False)
class _Tried:
    """A rung that was trained, and what the network says; or why there is none."""

    rung: Rung
    trained: Trained | None
    evidence: Evidence | None
    failure: str = ""

    @property
    def name(self) -> str:
        return self.rung.name


@dataclass(frozen=True, eq=False)
class _Judge:
    """The source-only network's evidence, and what simple classifiers say of the same samples."""

    held_out: Domain
    target: Domain
    class_logits: ClassLogits
    start: Evidence
    opinions: tuple[Opinions, ...]
    move: Move | None

    @staticmethod
    def of(given: Automatic, start: Trained, kind: DataKind) -> _Judge:
        known = _labelled(given.source, OPINION_SAMPLES)
        held_out, target = _held_out_or_known(given), _some(given.target, given.samples)
        logits = start.task.class_logits
        evidence = _evidence(start, held_out, target, logits)
        own, other = (_described(part, kind, start) for part in (known, target))
        labels = np.asarray(known.labels).astype(np.int64)
        classes = evidence.target_logits.shape[1]
        opinions = tuple(
            opinions_of(own, labels, other, classes, apart=apart) for apart in (False, True)
        )
        move = Move.of(given.source, given.target) if can_move(given.source) else None
        return _Judge(held_out, target, logits, evidence, opinions, move)

    def evidence(self, trained: Trained, move: Move | None) -> Evidence:
        return _evidence(trained, self._held_out(move), self.target, self.class_logits)

    def _held_out(self, move: Move | None) -> Domain:
        return self.held_out if move is None else move.applied(self.held_out)

    def watching(self, rung: Rung) -> list[Callback]:
        """What ends a training at the first sign of harm."""
        before = None if rung.fresh else Look.at(self.start)
        return [
            EarlySigns(
                self._held_out(self.move if rung.moved else None),
                self.target,
                class_logits=self.class_logits,
                before=before,
                stop=True,
            )
        ]

    def candidates(self, tried: Sequence[_Tried]) -> list[Candidate]:
        """All that was tried, judged."""
        made = []
        sound = {
            one.name: one.evidence.target_logits
            for one in tried
            if one.evidence is not None and not sign_of_harm(one.evidence, self.start)
        }
        for one in tried:
            recipe, signals, refused = one.rung.recipe, None, one.failure
            if one.evidence is not None:
                others = [logits for name, logits in sound.items() if name != one.name]
                signals = signals_of(one.evidence, self.start, self.opinions, others)
                refused = refusal(signals, one.evidence, self.start)
            text = recipe.method if isinstance(recipe.method, str) else one.name
            made.append(Candidate(one.name, text, recipe.settings.describe(), signals, refused))
        return made


def _weaker(rung: Rung, step: int) -> Rung:
    """What is left of a rung's steps after `step` of them, with a weaker λ."""
    settings = rung.recipe.settings
    recipe = shortened(rung.recipe, max(1 - step / settings.steps, 1 / settings.steps))
    factor = STEP_BACK * settings.at(1.0).adaptation_factor
    settings = replace(recipe.settings, adaptation_factor=Constant(factor))
    return replace(rung, name=f"{rung.name}-weaker", recipe=replace(recipe, settings=settings))


def _is_still_learning(start: Trained) -> bool:
    """Whether the held-out source accuracy still rose over the last evaluation."""
    if start.result is None or _in_several():  # of several processes one alone has evaluated
        return False
    records = start.result.evaluations
    accuracies = [one.source_accuracy for one in records if one.source_accuracy is not None]
    return len(accuracies) > 1 and accuracies[-1] - max(accuracies[:-1]) > STILL_LEARNING


def hand_over(chosen: Path, run: Path) -> None:
    """The chosen training's files as the run's own, so that all that reads runs reads it; the
    checkpoint's json last: with it the run is complete. Each takes its place at once, so that what
    a folder held before stays readable where the disk is full or the process is killed."""
    with disk_errors(run):
        run.mkdir(exist_ok=True)
        files = [chosen / name for name in (CONFIG, METRICS, RESULT, ENCODER, EVIDENCE_FOLDER)]
        tensors = sorted(chosen.glob("checkpoint*"), key=lambda path: path.suffix == ".json")
        for path in (*files, *tensors):
            _copied(path, run / path.name)
        sweep(run)


def _copied(source: Path, path: Path) -> None:
    """A file or a folder of files, where there is one; in a folder nothing else stays."""
    if not source.is_dir():
        if source.exists():
            copy_atomically(source, path)
        return
    path.mkdir(exist_ok=True)
    for one in source.iterdir():
        _copied(one, path / one.name)
    for one in path.iterdir():
        if not (source / one.name).exists():
            one.unlink()


@contextmanager
def held_folder(run: Path | None) -> Iterator[None]:
    """The run's folder held against other processes while all is trained and chosen, free of what
    a killed one left; one in which something else than a run by `auto` lies is refused."""
    if run is None:
        yield
        return
    begun = (run / BASELINE).exists() or (run / CANDIDATES).exists()
    if (run / CONFIG).exists() and not begun:
        raise RunError(
            f"{run} is a run of another recipe than 'auto': choose another folder, or name its "
            "recipe to resume it"
        )
    stranger = next(Run(run).strangers(), None) if run.is_dir() and not begun else None
    if stranger is not None:
        raise RunError(
            f"{run} is not empty ({stranger}) and not a run: choose a new or an empty folder"
        )
    if not _is_first_process():
        yield
        return
    with Run(run).held():
        sweep(run)
        yield


def _some(domain: Domain, count: int) -> Domain:
    return domain.subset(drawn_indices(len(domain), count))


def _held_out_or_known(given: Automatic) -> Domain:
    """Some held-out source samples; where they are not of two classes, some that were trained
    on."""
    if given.held_out is not None:
        found = _some(given.held_out, given.samples)
        if has_classes(found):
            return found
    log.info("auto: no source of two classes is held out: falls are seen on what was trained on")
    return _labelled(given.source, OPINION_SAMPLES)


def _labelled(domain: Domain, count: int) -> Domain:
    """Some of the labelled samples; no index of them all where all are labelled."""
    if domain.labelled_count == len(domain):
        return _some(domain, count)
    return _some(domain.subset(np.flatnonzero(domain.labelled)), count)


def _evidence(
    trained: Trained, held_out: Domain, target: Domain, class_logits: ClassLogits
) -> Evidence:
    assert trained.adapter is not None  # it was trained just now
    return gather_evidence(
        trained.adapter, held_out, target, domain_logits=False, class_logits=class_logits
    )


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


def _in_several() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
