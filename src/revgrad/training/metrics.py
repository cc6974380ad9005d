"""Means of the steps since the last record: losses, and how often the domain classifier was right.

Nothing is read from the device until a record is due. Sums go into checkpoints, so that a record
that spans a stop is of all its steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from revgrad._distributed import rank, sum_over_processes
from revgrad.objectives import Losses, domain_decisions


class AdversarySums(NamedTuple):
    """Of one adversary: its losses, its samples told right (`AdversaryLoss`), the known ones."""

    loss: float
    right: float
    known: float


class Sums(NamedTuple):
    """Over steps and processes. A step without a label anywhere has no L_y, and counts for none."""

    label: float = 0.0
    label_steps: float = 0.0
    domain: float = 0.0
    domain_steps: float = 0.0
    right: float = 0.0
    samples: float = 0.0
    adversaries: tuple[AdversarySums, ...] = ()
    adversary_steps: float = 0.0

    @property
    def adversary_losses(self) -> list[float]:
        """The mean loss of each adversary."""
        return [one.loss / max(self.adversary_steps, 1) for one in self.adversaries]

    @property
    def adversary_scores(self) -> list[float | None]:
        """How well each tells its attribute; None of one that met no known value."""
        return [one.right / one.known if one.known else None for one in self.adversaries]

    @property
    def label_loss(self) -> float | None:
        return self.label / self.label_steps if self.label_steps else None

    @property
    def domain_loss(self) -> float | None:
        return self.domain / self.domain_steps if self.domain_steps else None

    @property
    def domain_accuracy(self) -> float | None:
        return self.right / self.samples if self.samples else None


#: Sums that are not of adversaries.
_OF_DOMAINS = 4
_NOTHING = torch.zeros(())
#: Steps that are remembered one by one: they are added up together, which costs less, but a
#: training that never logs must not remember all of them.
_MOST_STEPS = 256


class _Folded(NamedTuple):
    """One process's sums: label loss, domain loss, right decisions, samples, then three of each
    adversary; and the steps."""

    sums: Tensor
    label_steps: float
    domain_steps: float
    adversary_steps: float


class _Shown(NamedTuple):
    """One step, as it was added."""

    losses: Losses
    domains: Tensor
    labelled: bool


class RunningMeans:
    """Steps as they come; a process's losses are its shares of a sum over all."""

    def __init__(self, device: torch.device) -> None:
        self.home = torch.device("cpu") if device.type == "mps" else device  # mps has no float64
        self.before = Sums()
        self._folded: _Folded | None = None
        self.steps: list[_Shown] = []

    def add(self, losses: Losses, domains: Tensor, labelled: bool) -> None:
        # without the total's graph: it would keep the step's memory
        self.steps.append(_Shown(Losses(_NOTHING, *losses[1:]), domains, labelled))
        if len(self.steps) == _MOST_STEPS:
            self._fold()

    def clear(self) -> None:
        self.before, self._folded = Sums(), None
        self.steps.clear()

    def _fold(self) -> _Folded:
        """This process's sums so far, of `before` too; the steps are then forgotten."""
        every = [one.losses for one in self.steps]
        labels = [one.label for one in every if one.label is not None]
        shown = [one.domain for one in every if one.domain is not None]
        decided = [
            (one.losses.domain_logits, one.domains)
            for one in self.steps
            if one.losses.domain_logits is not None
        ]
        adversaries = max((len(one.adversaries) for one in every), default=0)
        if self._folded is None:
            # what was before is known to all processes, and counts once
            before = self.before if rank() == 0 else Sums()
            sums = torch.tensor(
                [before.label, before.domain, before.right, before.samples]
                + [value for one in before.adversaries for value in one],
                dtype=torch.float64,
                device=self.home,
            )
            steps = (self.before.label_steps, self.before.domain_steps, self.before.adversary_steps)
            self._folded = _Folded(sums, *steps)
        sums, label_steps, domain_steps, adversary_steps = self._folded
        if len(sums) < _OF_DOMAINS + 3 * adversaries:
            sums = torch.cat([sums, sums.new_zeros(_OF_DOMAINS + 3 * adversaries - len(sums))])
        # one after the other: a stop between two steps changes no digit
        for at, values in ((0, labels), (1, shown)):
            for value in values:
                sums[at] += value.to(self.home)
        if decided:
            logits, domains = (torch.cat(parts) for parts in zip(*decided, strict=True))
            sums[2] += (domain_decisions(logits) == domains).sum().to(self.home)
            sums[3] += len(domains)
        for one in every:
            for number, adversary in enumerate(one.adversaries):
                at = _OF_DOMAINS + 3 * number
                sums[at] += adversary.loss.to(self.home)
                sums[at + 1] += adversary.right.to(self.home)
                sums[at + 2] += adversary.known
        label_steps += sum(one.labelled for one in self.steps)
        domain_steps += len(shown)
        adversary_steps += sum(bool(one.adversaries) for one in every)
        self._folded = _Folded(sums, label_steps, domain_steps, adversary_steps)
        self.steps.clear()
        return self._folded

    def sums(self) -> Sums:
        """Every process must ask."""
        own, label_steps, domain_steps, adversary_steps = self._fold()
        label, domain, right, samples, *rest = sum_over_processes(own.clone()).tolist()
        return Sums(
            *(label, label_steps, domain, domain_steps, right, samples),
            tuple(AdversarySums(*rest[at : at + 3]) for at in range(0, len(rest), 3)),
            adversary_steps,
        )

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint; every process must ask."""
        self.before, self._folded = self.sums(), None
        *of_domains, adversaries, steps = self.before
        found = {"sums": torch.tensor(of_domains, dtype=torch.float64)}
        if adversaries:
            values = [*(value for one in adversaries for value in one), steps]
            found["adversaries"] = torch.tensor(values, dtype=torch.float64)
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """From a checkpoint, on every process; runs of older versions have none."""
        self.clear()
        if not tensors:
            return
        *rest, steps = tensors["adversaries"].tolist() if "adversaries" in tensors else (0.0,)
        label, label_steps, domain, domain_steps, right, samples = tensors["sums"].tolist()
        self.before = Sums(
            *(label, label_steps, domain, domain_steps, right, samples),
            tuple(AdversarySums(*rest[at : at + 3]) for at in range(0, len(rest), 3)),
            steps,
        )
