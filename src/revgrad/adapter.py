"""Figure 1 of the paper: a network cut at a layer, and a domain classifier attached there."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from revgrad.batches import Batch, Inputs, call_on, map_inputs, row_count, select_rows
from revgrad.cutting import Cut, cut
from revgrad.errors import InputError
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.preprocessing import Preprocessing

#: How BatchNorm sees the domains: see `DomainAdapter`.
BatchNormPolicy = Literal["joint", "separate", "target"]
POLICIES: tuple[BatchNormPolicy, ...] = ("joint", "separate", "target")


class Outputs(NamedTuple):
    """What the adapter computes from a batch."""

    features: Tensor  # of all rows, (n, …)
    predictions: Any  # the label predictor's, of the rows it ran on; None where there are none


class DomainAdapter(nn.Module):
    """Preprocessing, a network cut at `layer`, and a domain classifier on that layer's output.

    `network` is the user's own module: same object, same parameters, same state_dict keys.

    batch_norm says what BatchNorm layers see in training:
      joint     one pass over all rows: statistics of the mixture, for normalising and for inference
      separate  a pass per domain: each is normalised by its own statistics; those kept for
                inference are a moving average over both domains' batches
      target    a pass per domain, and only the target's statistics are kept for inference
    Networks without BatchNorm are not affected.
    """

    def __init__(
        self,
        network: nn.Module,
        layer: str,
        domain_classifier: nn.Module,
        preprocessing: nn.Module | None = None,
        *,
        batch_norm: BatchNormPolicy = "joint",
        pieces: Cut | None = None,
    ) -> None:
        super().__init__()
        if batch_norm not in POLICIES:
            raise InputError(f"batch_norm is one of {', '.join(POLICIES)}, not {batch_norm!r}")
        self.preprocessing = Preprocessing.identity() if preprocessing is None else preprocessing
        self.network = network
        self.domain_classifier = domain_classifier
        parameter = next(network.parameters(), None)
        if parameter is not None:
            self.preprocessing.to(parameter.device, parameter.dtype)
        self.layer = layer
        self.batch_norm = batch_norm
        self.cut = cut(network, layer) if pieces is None else pieces  # cut already
        self._norms = [m for m in network.modules() if isinstance(m, _BATCH_NORMS)]
        behind = network if self.cut.predictor is None else self.cut.predictor
        self._norms_behind = any(isinstance(m, _BATCH_NORMS) for m in behind.modules())

    @staticmethod
    def attach(
        network: nn.Module,
        layer: str,
        example: Inputs,
        *,
        hidden: Sequence[int] = (1024, 1024),
        domains: int = 2,
        preprocessing: nn.Module | None = None,
        batch_norm: BatchNormPolicy = "joint",
        seed: int = 0,
    ) -> DomainAdapter:
        """An adapter with a new `DomainClassifier`, as wide as the layer's output for `example`."""
        prepare = Preprocessing.identity() if preprocessing is None else preprocessing
        pieces = cut(network, layer)
        parameter = next(network.parameters(), None)
        if parameter is not None:
            prepare.to(parameter.device, parameter.dtype)
            device = parameter.device
            example = map_inputs(lambda tensor: tensor.to(device), example)
        with torch.no_grad(), evaluating(network):
            width = pieces.features(prepare(example)).flatten(1).shape[1]
        with torch.random.fork_rng(devices=[]):  # layers draw weights before they get ours
            classifier = DomainClassifier(width, hidden=hidden, domains=domains, seed=seed)
        if parameter is not None:
            classifier.to(parameter.device, parameter.dtype)
        return DomainAdapter(
            network, layer, classifier, prepare, batch_norm=batch_norm, pieces=pieces
        )

    def forward(self, batch: Batch, every_row: bool = False) -> Outputs:
        """Features of all rows and predictions of the labelled ones (or of every row), in training
        or evaluation."""
        inputs = self.preprocessing(batch.inputs)
        if self.batch_norm == "joint" or not self._norms or not self.training:
            if every_row:
                rows: slice | Tensor | None = slice(0, len(batch.domains))
            elif batch.prefix is not None:
                rows = slice(0, batch.prefix) if batch.prefix else None
            else:
                rows = batch.labelled if batch.labelled_count else None
            return Outputs(*self.cut.forward(inputs, rows))
        return self._separate_passes(inputs, batch, every_row)

    def predict(self, inputs: Inputs) -> Any:
        """The network's output for raw inputs: what is shipped."""
        return call_on(self.network, self.preprocessing(inputs))

    @contextmanager
    def keeping_statistics(self, keep: bool = True) -> Iterator[None]:
        """Inside, training leaves BatchNorm's statistics for inference as they are (if `keep`)."""
        with frozen_statistics(self._norms if keep else ()):
            yield

    def _separate_passes(self, inputs: Inputs, batch: Batch, every_row: bool) -> Outputs:
        features, predictions = [], []
        for domain, where in enumerate(batch.domain_slices()):
            if where.start == where.stop:
                continue
            own = select_rows(inputs, where)
            labelled = batch.labelled[where]
            if every_row:
                labelled = torch.ones_like(labelled)
            wanted = labelled if bool(labelled.any()) else None
            if self.batch_norm == "target" and domain != 1:
                with frozen_statistics(self._norms):
                    extracted, predicted = self.cut.forward(own, wanted)
            elif self.batch_norm == "target" and self._norms_behind:
                # BatchNorm layers of the label predictor get the target's statistics too
                extracted, predicted = self.cut.forward(own, slice(0, row_count(own)))
                predicted = None if wanted is None or predicted is None else predicted[wanted]
            else:
                extracted, predicted = self.cut.forward(own, wanted)
            features.append(extracted)
            if predicted is not None:
                predictions.append(predicted)
        return Outputs(torch.cat(features), torch.cat(predictions) if predictions else None)

    def __deepcopy__(self, memo: dict[int, Any]) -> DomainAdapter:
        # cut again: parts of the copy must never reach into the original
        copied = DomainAdapter(
            copy.deepcopy(self.network, memo),
            self.layer,
            copy.deepcopy(self.domain_classifier, memo),
            copy.deepcopy(self.preprocessing, memo),
            batch_norm=self.batch_norm,
        )
        copied.training = self.training  # the parts have theirs already
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.network, self.layer, self.domain_classifier, self.preprocessing)
        return (_rebuild, (*parts, self.batch_norm))


class Shipped(nn.Module):
    """What leaves the house: preprocessing and the plain network, from raw inputs to outputs."""

    def __init__(self, preprocessing: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.network = network

    def forward(self, inputs: Inputs) -> Any:
        return call_on(self.network, self.preprocessing(inputs))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every submodule is in the mode it was in."""
    with keeping_modes(module):
        module.eval()
        yield


@contextmanager
def keeping_modes(module: nn.Module) -> Iterator[None]:
    """Afterwards every submodule is in the mode, training or evaluation, that it was in before."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def frozen_statistics(norms: Sequence[nn.Module]) -> Iterator[None]:
    """BatchNorm normalises by the batch inside, and its running statistics stay as they are."""
    tracking = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False  # type: ignore[assignment]
    try:
        yield
    finally:
        for norm, mode in zip(norms, tracking, strict=True):
            norm.track_running_stats = mode


def _rebuild(
    network: nn.Module, layer: str, classifier: nn.Module, prepare: nn.Module, policy: Any
) -> DomainAdapter:
    return DomainAdapter(network, layer, classifier, prepare, batch_norm=policy)


_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
