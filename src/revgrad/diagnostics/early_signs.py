"""Early signs of harm, said while a training runs: held-out source falls, predictions collapse,
features explode.

    Trainer(…, callbacks=[EarlySigns(held_out, target)]).fit()
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from revgrad._distributed import rank
from revgrad.diagnostics.certainty import effective_classes
from revgrad.diagnostics.evidence import ClassLogits, Evidence, NotFiniteError, gather_evidence
from revgrad.diagnostics.inputs import given, shares_of
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.training.callbacks import Callback, EvaluationRecord, TrainingEnded
from revgrad.training.weights import copied_state

if TYPE_CHECKING:
    from revgrad.training.trainer import Trainer

log = logging.getLogger("revgrad")

#: Samples of each domain that are looked at.
LOOKED_AT = 500
#: Fall of the held-out source accuracy that is a sign, where it is also this many standard
#: deviations from none.
SOURCE_FALL, DEVIATIONS = 0.08, 2.0
#: Variety of predictions, as a share of the source's and of the best seen before, below which it
#: is a sign.
LEAST_VARIETY, SHRUNK = 0.5, 0.7
#: Growth of the features' root mean square that is a sign.
EXPLOSION = 10.0


@dataclass(frozen=True)
class Look:
    """What is seen of a network at one moment.

    Attributes
    ----------
    accuracy
        on held-out source samples
    variety
        classes predicted on the target beside the first, as a share of the source's
    size
        root mean square of the target's features
    """

    accuracy: float
    variety: float
    size: float

    @staticmethod
    def at(found: Evidence) -> Look:
        """What the evidence of both domains shows."""
        classes = found.target_logits.shape[1]
        labels = given(found.source_labels).astype(np.int64)
        expected = effective_classes(shares_of(labels, classes))
        own = found.target_logits.argmax(axis=1)
        right = given(found.source_logits).argmax(axis=1) == labels
        return Look(
            float(right.mean()),
            (effective_classes(shares_of(own, classes)) - 1) / max(expected - 1, 1e-12),
            float(np.sqrt(np.square(given(found.target_features)).mean())),
        )

    def sign(self, now: Look, samples: int) -> str:
        """What speaks of harm in a later look at `samples` held-out samples; "" for nothing."""
        fall = self.accuracy - now.accuracy
        if fall > least_fall(fall, samples):
            return f"held-out source accuracy fell from {self.accuracy:.2f} to {now.accuracy:.2f}"
        if now.variety < LEAST_VARIETY and now.variety < SHRUNK * self.variety:
            return f"predictions collapse: their variety is {now.variety:.0%} of the source's"
        if now.size > EXPLOSION * self.size:
            return f"features explode: {now.size / self.size:.0f} times as large as before"
        return ""

    def best_with(self, other: Look) -> Look:
        """What later looks are compared with: the best of both."""
        return Look(
            max(self.accuracy, other.accuracy),
            max(self.variety, other.variety),
            min(self.size, other.size),
        )


def least_fall(fall: float, samples: int) -> float:
    """The fall of an accuracy over so many samples that is more than chance."""
    return max(SOURCE_FALL, DEVIATIONS * math.sqrt(max(fall, 0.0) / max(samples, 1)))


class HarmSeen(TrainingEnded):
    """A training showed an early sign of harm and was asked to end there.

    `state` holds the network's weights at the last look that was good, after `step` steps; None:
    there was none.
    """

    def __init__(self, sign: str, at: int, step: int, state: dict[str, Tensor] | None) -> None:
        super().__init__(f"{sign} (after {at} steps)")
        self.step, self.state = step, state
        self._given = sign, at, step, state

    def __reduce__(self) -> tuple[type[HarmSeen], tuple[object, ...]]:
        return HarmSeen, self._given  # to the other processes


class EarlySigns(Callback):
    """Looks at held-out source and target at every evaluation, and says each sign of harm once.

    Target labels are never read. What is compared with is the best seen so far: from the first
    evaluation on, or `before`, of a network that the training starts from.

    Parameters
    ----------
    class_logits
        the network's outputs → (n, classes) logits (`Task.class_logits`)
    before
        the look at the network that training starts from
    stop
        end the training at the first sign, by `HarmSeen`; all of several processes do
    """

    every_process = True

    def __init__(
        self,
        held_out: Domain,
        target: Domain,
        *,
        class_logits: ClassLogits = lambda outputs: outputs,
        before: Look | None = None,
        stop: bool = False,
    ) -> None:
        self.held_out, self.target = (_some(part) for part in (held_out, target.without_labels()))
        self.class_logits = class_logits
        self.stop = stop
        self._best = before
        self._said: set[str] = set()
        self._good: tuple[int, dict[str, Tensor]] | None = None

    def look(self, trainer: Trainer) -> Look:
        """At the weights that would be handed back now."""
        with trainer.as_returned():
            found = gather_evidence(
                trainer.adapter,
                self.held_out,
                self.target,
                domain_logits=False,
                class_logits=self.class_logits,
            )
        return Look.at(found)

    def on_start(self, trainer: Trainer, step: int) -> None:
        if step and self.stop:  # resumed: what was good before is good again
            self._sign(trainer, step)

    def on_evaluation(self, trainer: Trainer, record: EvaluationRecord) -> None:
        sign = self._sign(trainer, record.step)
        if not sign:
            return
        kind = sign.split(":")[0].split(" from ")[0]
        if kind not in self._said:
            self._said.add(kind)
            if rank() == 0:
                log.warning("step %d: %s", record.step, sign)
        if self.stop:
            step, state = self._good or (0, None)
            raise HarmSeen(sign, record.step, step, state)

    def _sign(self, trainer: Trainer, step: int) -> str:
        """What speaks of harm now; where nothing does, the weights are kept as good ones."""
        try:
            now = self.look(trainer)
        except NotFiniteError as error:
            return str(error)
        sign = "" if self._best is None else self._best.sign(now, len(self.held_out))
        if not sign:
            self._best = now if self._best is None else self._best.best_with(now)
            if self.stop:
                with trainer.as_returned():
                    self._good = step, copied_state(trainer.adapter.network)
        return sign


def _some(domain: Domain) -> Domain:
    return domain.subset(drawn_indices(len(domain), LOOKED_AT))
