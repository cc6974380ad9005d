"""What a layer says of every input of a domain, as an array: for classifiers, distances, plots."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from revgrad.adapter import DomainAdapter
from revgrad.batches import Inputs
from revgrad.cutting import cut
from revgrad.domains.domain import Domain
from revgrad.errors import InputError
from revgrad.evaluation.predicting import ROWS, outputs
from revgrad.preprocessing import Preprocessing


def features_at(
    model: nn.Module,
    layer: str,
    domain: Domain,
    *,
    preprocessing: nn.Module | None = None,
    batch: int = ROWS,
    positions: bool = False,
) -> np.ndarray:
    """The output of `layer` for every input of `domain`, flattened to (n, features).

    model          a network, or an adapter with its own preprocessing
    layer          any layer that runs once and gives one row per sample; the network runs that far
    preprocessing  what comes in front of a network; by default inputs are taken as they are
    batch          inputs at once; it changes no result beyond rounding
    positions      keep the places of a feature map: (n, height × width, channels), row by row; a
                   layer that gives (n, places, channels) is left so, a vector is one place

    Evaluation mode and no gradient; afterwards the model is in the mode it was in. Labels are never
    read.
    """
    if batch < 1:
        raise InputError(f"features are read at least one input at a time, not {batch}")
    if isinstance(model, DomainAdapter):
        if preprocessing is not None:
            raise InputError("an adapter has its own preprocessing; give its network instead")
        network, prepare = model.network, model.preprocessing
    else:
        network, prepare = model, preprocessing or _as_they_are(model)
    if not len(domain):
        raise InputError(f"{domain.name} is empty: it has no features")
    tapped = cut(network, layer, tap=True)  # only the front is wanted: what crosses is no matter
    shape = _positions if positions else _flat

    def extract(raw: Inputs) -> Tensor:
        return shape(tapped.features(prepare(raw)))

    both = nn.ModuleList([prepare, network])  # both in evaluation mode, parameters of either
    array: np.ndarray = outputs(extract, both, domain, batch).numpy()
    return array


def _as_they_are(network: nn.Module) -> nn.Module:
    parameter = next(network.parameters(), None)
    identity = Preprocessing.identity()
    return identity if parameter is None else identity.to(parameter.device, parameter.dtype)


def _flat(features: Tensor) -> Tensor:
    return features.flatten(1)


def _positions(features: Tensor) -> Tensor:
    if features.ndim <= 2:
        return features.reshape(len(features), 1, -1)
    if features.ndim == 3:
        return features
    return features.flatten(2).transpose(1, 2).contiguous()
