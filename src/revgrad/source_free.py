"""Source-free adaptation (SHOT, Liang et al. 2020): a trained network, the target, no source.

The label predictor stays as it is; the feature extractor learns, round by round, to give the target
features that it is sure about. Each round begins with pseudo-labels of the whole target, by the
nearest class centre among its features, and is a training of its own: RUN/rounds/1, RUN/rounds/2, …
Its weights are a function of the round before, so that a run that was stopped goes on as it was.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from revgrad._distributed import rank, sharing_out
from revgrad.adapter import DomainAdapter, evaluating
from revgrad.auto import hand_over
from revgrad.batch import Inputs
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.evaluation import features_at, outputs
from revgrad.objectives.information import InformationMaximisation
from revgrad.schedules import Annealed
from revgrad.tasks import Task
from revgrad.training.callbacks import Callback, TrainingResult
from revgrad.training.run import Provenance, Run
from revgrad.training.settings import Settings
from revgrad.training.trainer import Trainer

log = logging.getLogger("revgrad")

#: In a run's folder: the rounds.
ROUNDS = "rounds"
#: Steps of a round: a pass over the target, within these bounds.
FEWEST_STEPS, MOST_STEPS = 20, 500
#: Rounds, unless said otherwise.
DEFAULT_ROUNDS = 10
#: μ over all rounds together, and the weight decay (SHOT's for pretrained layers).
LEARNING_RATE = Annealed(0.001, 10.0, 0.75)
WEIGHT_DECAY = 1e-3


def pseudo_labels(features: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The class of the nearest centre for every sample, (n, d) and (n, classes) → (n,).

    A class's centre is the mean of all features, each weighing as much as the class is likely for
    it; then, once more, the mean of the features that were nearest to it. Near is by the angle,
    with a 1 appended to the features. A class that no sample is most likely of has no centre.
    """
    if len(features) != len(probabilities) or not len(features):
        raise InputError(
            f"features of {len(features)} samples and probabilities of {len(probabilities)}: "
            "both are of the same samples, one or more"
        )
    points = np.concatenate([features, np.ones((len(features), 1))], axis=1).astype(np.float64)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = probabilities.astype(np.float64)
    there = np.flatnonzero(np.bincount(weights.argmax(1), minlength=weights.shape[1]))
    nearest = np.empty(0, dtype=np.int64)
    for _ in range(2):
        centres = weights[:, there].T @ points
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        centres /= np.where(lengths > 0, lengths, 1.0)
        nearest = there[(points @ centres.T).argmax(1)]
        weights = np.eye(weights.shape[1])[nearest]
    return nearest


def predictor_parameters(adapter: DomainAdapter, example: Inputs) -> tuple[str, ...]:
    """Names of the parameters behind the layer: those that its features do not depend on."""
    network = adapter.network
    named = [(name, value) for name, value in network.named_parameters() if value.requires_grad]
    with evaluating(adapter), torch.enable_grad():
        features = adapter.cut.features(adapter.preprocessing(example))
        found = torch.autograd.grad(
            features.sum(), [value for _, value in named], allow_unused=True
        )
    return tuple(name for (name, _), gradient in zip(named, found, strict=True) if gradient is None)


@dataclass(frozen=True, eq=False)
class SourceFree:
    """One source-free adaptation: of what, on what, for how long.

    Attributes
    ----------
    rounds
        pseudo-labels are made anew at the beginning of each
    settings
        of every round; its learning rate is a schedule over all of them
    """

    network: nn.Module
    layer: str
    preprocessing: nn.Module
    target: Domain
    task: Task
    classes: tuple[str, ...] | None
    output: str | int | None
    rounds: int
    settings: Settings
    run: Path | None = None

    def fit(
        self, callbacks: Sequence[Callback] = (), provenance: Provenance | None = None
    ) -> tuple[DomainAdapter, TrainingResult]:
        """Train `network` in place."""
        if self.rounds < 1:
            raise InputError(f"at least one round is needed, not {self.rounds}")
        if not self.task.one_class:
            raise InputError(
                f"source-free adaptation needs one class a sample, and this is {self.task.noun}"
            )
        adapter = self._adapter()
        example = self.target.batch([0, min(1, len(self.target) - 1)], augment=False).inputs
        frozen = predictor_parameters(adapter, example)
        if not frozen:
            raise InputError(
                f"no parameter lies behind the layer '{self.layer}': the label predictor must stay "
                "as the source trained it; name an earlier layer when you train on the source"
            )
        result: TrainingResult | None = None
        for number in range(self.rounds):
            folder = None if self.run is None else self.run / ROUNDS / str(number + 1)
            result = Trainer(
                adapter,
                self._labelled(),
                objective=InformationMaximisation(),
                settings=self._of_round(number, frozen),
                run=None if folder is None else Run(folder),
                callbacks=callbacks,
                method="source-free",
                provenance=provenance,
                task=self.task,
            ).fit()
            adapter = self._adapter()
        assert result is not None
        if self.run is not None and rank() == 0:
            hand_over(self.run / ROUNDS / str(self.rounds), self.run)
        return adapter, result

    def _adapter(self) -> DomainAdapter:
        return DomainAdapter(
            self.network, self.layer, nn.Identity(), self.preprocessing, output=self.output
        )

    def _labelled(self) -> Domain:
        """The target with pseudo-labels."""
        model = self._adapter()
        with sharing_out():
            logits = self.task.class_logits(outputs(model.predict, model, self.target))
            features = features_at(
                self.network, self.layer, self.target, preprocessing=self.preprocessing
            )
        chances = logits.double().softmax(1).numpy()
        labels = pseudo_labels(features, chances)
        shares = np.bincount(labels, minlength=chances.shape[1]) / len(labels)
        log.info(
            "source-free: %.1f %% of the target's samples change their class; %d of %d classes",
            *(100 * float(np.mean(labels != chances.argmax(1))), np.count_nonzero(shares)),
            len(shares),
        )
        return self.target.with_labels(labels, self.classes)

    def _of_round(self, number: int, frozen: tuple[str, ...]) -> Settings:
        rate = self.settings.learning_rate
        assert callable(rate)
        return replace(
            self.settings,
            learning_rate=rate((number + 0.5) / self.rounds),
            freeze=(*self.settings.freeze, *frozen),
        )


def default_steps(samples: int, batch_size: int) -> int:
    """Steps of a round: one pass over the target, whose share of a batch is a half."""
    once = math.ceil(samples / max(batch_size // 2, 1))
    return min(max(once, FEWEST_STEPS), MOST_STEPS)
