"""The DANN of Figure 1: a network cut at a layer, and a domain classifier attached there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from revgrad.batch import (
    Batch,
    Inputs,
    call_on,
    describe_inputs,
    map_inputs,
    part_of,
    sample_count,
    select_samples,
)
from revgrad.cutting import Cut, cut
from revgrad.errors import InputError, RevgradError
from revgrad.networks.batch_norm import RunningStatistics, normalises_batches
from revgrad.networks.domain_classifier import DomainClassifier, Normalisation
from revgrad.preprocessing import Preprocessing

#: How BatchNorm sees the domains: see `DomainAdapter`.
BatchNormPolicy = Literal["joint", "separate", "target"]
POLICIES: tuple[BatchNormPolicy, ...] = ("joint", "separate", "target")


#: (features, outputs, hidden widths, seed) → a head in the domain classifier's place, or None.
MakeHead = Callable[[int, int, tuple[int, ...], int], nn.Module | None]


class Outputs(NamedTuple):
    """The adapter's outputs for a batch of n samples."""

    features: Tensor  # of all samples, (n, …)
    predictions: Any  # the label predictor's, for the samples it ran on; None where there are none


class DomainAdapter(nn.Module):
    """Preprocessing, a network cut at `layer`, and a domain classifier on that layer's output.

    `network` is the user's own module: same object, same parameters, same state_dict keys.

    `batch_norm` says what BatchNorm sees in training:

    - `joint`: one pass over all samples: statistics of the mixture, for normalising and for
      inference
    - `separate`: a pass per domain: each is normalised by its own statistics; those kept for
      inference are a moving average over both domains' batches
    - `target`: a pass per domain, and only the target's statistics are kept for inference

    torch's layers, classes of one's own and F.batch_norm are treated alike, as long as what they
    keep is in buffers. Networks that do not normalise over the batch are not affected; where none
    of torch's layers says so, the first training step looks (`RunningStatistics.depend_on_batch`).

    output is the part of the network's output that predictions are, where it returns several values
    (a dict, a tuple, a ModelOutput): a key, an attribute or a place.
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
        output: str | int | None = None,
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
        self.cut = cut(network, layer, output=output) if pieces is None else pieces  # cut already
        self.output = self.cut.output
        self.statistics = RunningStatistics(network)
        # whether samples meet in a pass; known from torch's layers, else seen in the first step
        self._samples_meet = True if self.statistics.of_torch else None
        predictor = self.cut.predictor  # of a tapped network nothing is known: it may normalise
        self._norms_behind = predictor is None or normalises_batches(predictor)

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
        normalise: Normalisation = "none",
        seed: int = 0,
        make_head: MakeHead | None = None,
        output: str | int | None = None,
    ) -> DomainAdapter:
        """An adapter with a new `DomainClassifier`, as wide as the layer's output for `example`.

        Parameters
        ----------
        make_head
            (features, outputs, hidden, seed) → another head in the domain classifier's
            place, of a method that has its own; where it gives None, there is none
        """
        prepare = Preprocessing.identity() if preprocessing is None else preprocessing
        pieces = cut(network, layer, output=output)
        parameter = next(network.parameters(), None)
        if parameter is not None:
            prepare.to(parameter.device, parameter.dtype)
            device = parameter.device
            example = map_inputs(lambda tensor: tensor.to(device), example)
        with torch.no_grad(), evaluating(network), taking(example):
            prepared = prepare(example)
            width = pieces.features(prepared).flatten(1).shape[1]
            outputs = (
                0 if make_head is None else _outputs_of(part_of(call_on(network, prepared), output))
            )
        with torch.random.fork_rng(devices=[]):  # layers draw weights before they get ours
            classifier: nn.Module | None = None
            if make_head is not None:
                classifier = make_head(width, outputs, tuple(hidden), seed)
            if classifier is None:
                classifier = DomainClassifier(width, hidden, domains, seed, normalise)
        if parameter is not None:
            classifier.to(parameter.device, parameter.dtype)
        return DomainAdapter(
            network, layer, classifier, prepare, batch_norm=batch_norm, pieces=pieces
        )

    def forward(self, batch: Batch, every_sample: bool = False) -> Outputs:
        """Features of all samples; predictions for the labelled ones, or all if `every_sample`.

        In training mode the domains pass as `batch_norm` says, else together.
        """
        inputs = self.preprocessing(batch.inputs)
        if self.batch_norm == "joint" or not self.training or not self._meet(inputs, batch):
            if every_sample:
                chosen: slice | Tensor | None = slice(0, len(batch.domains))
            elif batch.prefix is not None:
                chosen = slice(0, batch.prefix) if batch.prefix else None
            else:
                chosen = batch.labelled if batch.labelled_count else None
            return Outputs(*self.cut.forward(inputs, chosen))
        return self._separate_passes(inputs, batch, every_sample)

    def predict(self, inputs: Inputs) -> Any:
        """The network's output for raw inputs, as the deployed model gives it."""
        return part_of(call_on(self.network, self.preprocessing(inputs)), self.output)

    def example_output(self, inputs: Inputs) -> Any:
        """`predict` in evaluation mode, wherever the inputs are; a failure becomes one line."""
        parameter = next(self.network.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        with torch.no_grad(), evaluating(self), taking(inputs):
            return self.predict(map_inputs(lambda tensor: tensor.to(device), inputs))

    @contextmanager
    def keeping_statistics(self, keep: bool = True) -> Iterator[None]:
        """Inside, if `keep`, training passes leave BatchNorm's running statistics as they are."""
        with self.statistics.frozen() if keep else nullcontext():
            yield

    def _meet(self, inputs: Inputs, batch: Batch) -> bool:
        """Whether the domains need passes of their own: the network normalises over the batch."""
        if self._samples_meet is None:
            if sum(size > 0 for size in batch.sizes) < 2:
                return True  # one pass either way, which may have to leave the statistics alone
            first = next(size for size in batch.sizes if size)
            self._samples_meet = self.statistics.depend_on_batch(inputs, first)
        return self._samples_meet

    def _separate_passes(self, inputs: Inputs, batch: Batch, every_sample: bool) -> Outputs:
        features, predictions = [], []
        for domain, where in enumerate(batch.domain_slices()):
            if where.start == where.stop:
                continue
            own = select_samples(inputs, where)
            labelled = batch.labelled[where]
            if every_sample:
                labelled = torch.ones_like(labelled)
            wanted = labelled if bool(labelled.any()) else None
            if self.batch_norm == "target" and domain != 1:
                with self.statistics.frozen():
                    extracted, predicted = self.cut.forward(own, wanted)
            elif self.batch_norm == "target" and self._norms_behind:
                # BatchNorm layers of the label predictor get the target's statistics too
                extracted, predicted = self.cut.forward(own, slice(0, sample_count(own)))
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
            output=self.output,
        )
        copied.training = self.training  # the parts have theirs already
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.network, self.layer, self.domain_classifier, self.preprocessing)
        return (_rebuild, (*parts, self.batch_norm, self.output))


class DeployableModel(nn.Module):
    """The deployable model: preprocessing followed by the plain network, raw inputs to outputs.

    Parameters
    ----------
    output
        the part of the network's output that is given, where it returns several values
    """

    def __init__(
        self, preprocessing: nn.Module, network: nn.Module, output: str | int | None = None
    ) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.network = network
        self.output = output

    def forward(self, inputs: Inputs) -> Any:
        return part_of(call_on(self.network, self.preprocessing(inputs)), self.output)


@contextmanager
def taking(inputs: Inputs) -> Iterator[None]:
    """Errors of a network that is first run on `inputs` inside become one line that says so."""
    try:
        yield
    except RevgradError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the network can't be run on inputs of {describe_inputs(inputs)}: "
            f"{type(error).__name__}: {reason}"
        ) from error


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


def _outputs_of(shown: Any) -> int:
    """Numbers that the network gives a sample, where that is one vector."""
    if not isinstance(shown, Tensor) or shown.ndim != 2:
        raise InputError(
            "this method is for classes; the network must give one vector of class scores a sample"
        )
    return int(shown.shape[1])


def _rebuild(
    network: nn.Module,
    layer: str,
    classifier: nn.Module,
    prepare: nn.Module,
    policy: Any,
    output: str | int | None,
) -> DomainAdapter:
    return DomainAdapter(network, layer, classifier, prepare, batch_norm=policy, output=output)
