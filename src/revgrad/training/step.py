"""One step's forward pass: the one module that DistributedDataParallel and torch.compile wrap."""

from __future__ import annotations

from torch import Tensor, nn

from revgrad.adapter import DomainAdapter
from revgrad.batches import Batch
from revgrad.objectives import Losses, Objective
from revgrad.processes import world_size


class Step(nn.Module):
    """(batch, λ) → losses. Gradients of several processes are averaged, losses are shares of a sum:
    the total is multiplied by the number of processes to make up for it."""

    def __init__(self, adapter: DomainAdapter, objective: Objective) -> None:
        super().__init__()
        self.adapter = adapter
        self.objective = objective
        self.world = world_size()

    def forward(self, batch: Batch, factor: float | Tensor) -> Losses:
        losses = self.objective(self.adapter, batch, factor)
        return losses if self.world == 1 else losses._replace(total=losses.total * self.world)
