"""A network's outputs for a whole domain, in evaluation mode, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.adapter import evaluating
from revgrad.batches import Inputs, map_inputs
from revgrad.domains.domain import Domain

#: Rows at once; it changes no result beyond rounding.
ROWS = 500


def device_of(module: nn.Module) -> torch.device:
    """Where a module's parameters live."""
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def chunks(domain: Domain, device: torch.device, rows: int = ROWS) -> Iterator[Inputs]:
    """The domain's inputs in order, without augmentation, on `device`."""
    for start in range(0, len(domain), rows):
        where = np.arange(start, min(start + rows, len(domain)))
        inputs = domain.batch(where, augment=False).inputs
        yield map_inputs(lambda tensor: tensor.to(device), inputs)


@torch.no_grad()
def outputs(
    function: Callable[[Inputs], Any], module: nn.Module, domain: Domain, rows: int = ROWS
) -> Tensor:
    """`function` of every input of `domain`, stacked on the CPU, `module` in evaluation mode."""
    with evaluating(module):
        parts = [function(inputs).cpu() for inputs in chunks(domain, device_of(module), rows)]
    return torch.cat(parts)
