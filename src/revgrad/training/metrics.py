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


class Sums(NamedTuple):
    """Over steps and processes. A step without a label anywhere has no L_y, and counts for none."""

    label: float = 0.0
    label_steps: float = 0.0
    domain: float = 0.0
    domain_steps: float = 0.0
    right: float = 0.0
    samples: float = 0.0

    @property
    def label_loss(self) -> float | None:
        return self.label / self.label_steps if self.label_steps else None

    @property
    def domain_loss(self) -> float | None:
        return self.domain / self.domain_steps if self.domain_steps else None

    @property
    def domain_accuracy(self) -> float | None:
        return self.right / self.samples if self.samples else None


#: Steps that are remembered one by one: they are added up together, which costs less, but a
#: training that never logs must not remember all of them.
_MOST_STEPS = 256


class _Folded(NamedTuple):
    """One process's sums: label loss, domain loss, right decisions, samples; and the steps."""

    sums: Tensor
    label_steps: float
    domain_steps: float


class RunningMeans:
    """Steps as they come; a process's losses are its shares of a sum over all."""

    def __init__(self, device: torch.device) -> None:
        self.home = torch.device("cpu") if device.type == "mps" else device  # mps has no float64
        self.before = Sums()
        self._folded: _Folded | None = None
        self.steps: list[tuple[Tensor | None, Tensor | None, Tensor | None, Tensor, bool]] = []

    def add(self, losses: Losses, domains: Tensor, labelled: bool) -> None:
        # without the total: its graph would keep the step's memory
        self.steps.append((losses.label, losses.domain, losses.domain_logits, domains, labelled))
        if len(self.steps) == _MOST_STEPS:
            self._fold()

    def clear(self) -> None:
        self.before, self._folded = Sums(), None
        self.steps.clear()

    def _fold(self) -> _Folded:
        """This process's sums so far, of `before` too; the steps are then forgotten."""
        labels = [label for label, *_ in self.steps if label is not None]
        shown = [domain for _, domain, *_ in self.steps if domain is not None]
        decided = [
            (logits, samples) for _, _, logits, samples, _ in self.steps if logits is not None
        ]
        if self._folded is None:
            # what was before is known to all processes, and counts once
            before = self.before if rank() == 0 else Sums()
            sums = torch.tensor(
                [before.label, before.domain, before.right, before.samples],
                dtype=torch.float64,
                device=self.home,
            )
            self._folded = _Folded(sums, self.before.label_steps, self.before.domain_steps)
        sums, label_steps, domain_steps = self._folded
        # one after the other: a stop between two steps changes no digit
        for at, values in ((0, labels), (1, shown)):
            for value in values:
                sums[at] += value.to(self.home)
        if decided:
            logits, domains = (torch.cat(parts) for parts in zip(*decided, strict=True))
            sums[2] += (domain_decisions(logits) == domains).sum().to(self.home)
            sums[3] += len(domains)
        label_steps += sum(labelled for *_, labelled in self.steps)
        domain_steps += len(shown)
        self._folded = _Folded(sums, label_steps, domain_steps)
        self.steps.clear()
        return self._folded

    def sums(self) -> Sums:
        """Every process must ask."""
        own, label_steps, domain_steps = self._fold()
        label, domain, right, samples = sum_over_processes(own.clone()).tolist()
        return Sums(label, label_steps, domain, domain_steps, right, samples)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint; every process must ask."""
        self.before, self._folded = self.sums(), None
        return {"sums": torch.tensor(self.before, dtype=torch.float64)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """From a checkpoint, on every process; runs of older versions have none."""
        self.clear()
        self.before = Sums(*tensors["sums"].tolist()) if tensors else Sums()
