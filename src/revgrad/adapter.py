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
    tensors_of,
)
from revgrad.cutting import Cut, CutOutput, call_order, cut, cut_at_all
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


class LayerOutputs(NamedTuple):
    """`Outputs`, and the features of every layer that has a head."""

    features: Tensor
    predictions: Any
    by_layer: dict[str, Tensor]


class Attachment(NamedTuple):
    """A head that is to be made: `make` takes the features and the outputs of a sample."""

    layer: str
    make: Callable[[int, int], nn.Module]


class DomainAdapter(nn.Module):
    """Preprocessing, a network cut at `layer`, and a domain classifier on that layer's output.

    Further heads, each at a layer of its own or at the same one, are `further`: they share the one
    pass of the network, which is cut at the layer that lies behind all the others.

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
        further: Sequence[tuple[str, nn.Module]] = (),
    ) -> None:
        super().__init__()
        if batch_norm not in POLICIES:
            raise InputError(f"batch_norm is one of {', '.join(POLICIES)}, not {batch_norm!r}")
        self.preprocessing = Preprocessing.identity() if preprocessing is None else preprocessing
        self.network = network
        self.domain_classifier = domain_classifier
        self.further = nn.ModuleList([head for _, head in further])
        #: of the domain classifier, then of the further heads
        self.head_layers = (layer, *(name for name, _ in further))
        parameter = next(network.parameters(), None)
        if parameter is not None:
            self.preprocessing.to(parameter.device, parameter.dtype)
        self.layer = layer
        self.batch_norm = batch_norm
        if pieces is None:
            pieces = cut_at_all(network, self.head_layers, output)
        self.cut = pieces
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

        def make(width: int, outputs: int) -> nn.Module:
            own = None if make_head is None else make_head(width, outputs, tuple(hidden), seed)
            if own is not None:
                return own
            return DomainClassifier(width, hidden, domains, seed, normalise)

        return DomainAdapter.attach_heads(
            network,
            [Attachment(layer, make)],
            example,
            preprocessing=preprocessing,
            batch_norm=batch_norm,
            output=output,
            for_classes=make_head is not None,
        )

    @staticmethod
    def attach_heads(
        network: nn.Module,
        heads: Sequence[Attachment],
        example: Inputs,
        *,
        preprocessing: nn.Module | None = None,
        batch_norm: BatchNormPolicy = "joint",
        output: str | int | None = None,
        for_classes: bool = False,
    ) -> DomainAdapter:
        """An adapter with a new head at each of these layers; the first is in the domain
        classifier's place.

        Parameters
        ----------
        for_classes
            whether a head needs to know how many class scores the network gives a sample
        """
        prepare = Preprocessing.identity() if preprocessing is None else preprocessing
        parameter = next(network.parameters(), None)
        if parameter is not None:
            prepare.to(parameter.device, parameter.dtype)
            device = parameter.device
            example = map_inputs(lambda tensor: tensor.to(device), example)
        layers = list(dict.fromkeys(head.layer for head in heads))
        if len(layers) == 1:
            pieces = cut(network, layers[0], output=output)
        with torch.no_grad(), evaluating(network), taking(example):
            prepared = prepare(example)
            if len(layers) > 1:
                last = call_order(network, layers, prepared)[-1]
                others = tuple(one for one in layers if one != last)
                pieces = cut(network, last, output=output, also=others)
            found = pieces.run(prepared, None)
            features = dict(zip((pieces.layer, *pieces.also), found.all_features, strict=True))
            outputs = _outputs_of(part_of(call_on(network, prepared), output)) if for_classes else 0
        with torch.random.fork_rng(devices=[]):  # layers draw weights before they get ours
            made = [
                (head.layer, head.make(features[head.layer].flatten(1).shape[1], outputs))
                for head in heads
            ]
        if parameter is not None:
            for _, head in made:
                head.to(parameter.device, parameter.dtype)
        (layer, classifier), *further = made
        return DomainAdapter(
            network,
            layer,
            classifier,
            prepare,
            batch_norm=batch_norm,
            pieces=pieces,
            further=further,
        )

    @property
    def heads(self) -> tuple[nn.Module, ...]:
        """The domain classifier, then the further heads; their layers are `head_layers`."""
        return (self.domain_classifier, *self.further)

    def forward(self, batch: Batch, every_sample: bool = False) -> Outputs:
        """Features of all samples; predictions for the labelled ones, or all if `every_sample`.

        In training mode the domains pass as `batch_norm` says, else together.
        """
        found = self.at_every_layer(batch, every_sample)
        return Outputs(found.features, found.predictions)

    def at_every_layer(self, batch: Batch, every_sample: bool = False) -> LayerOutputs:
        """`forward`, with the features of every layer that has a head, of the same pass."""
        inputs = self.preprocessing(batch.inputs)
        if self.batch_norm == "joint" or not self.training or not self._meet(inputs, batch):
            if every_sample:
                chosen: slice | Tensor | None = slice(0, len(batch.domains))
            elif batch.prefix is not None:
                chosen = slice(0, batch.prefix) if batch.prefix else None
            else:
                chosen = batch.labelled if batch.labelled_count else None
            found = self.cut.run(inputs, chosen)
            return self.outputs_of(found)
        return self._separate_passes(inputs, batch, every_sample)

    def outputs_of(self, found: CutOutput) -> LayerOutputs:
        """A pass of `cut`, with its features by their layers."""
        by_layer = dict(zip((self.cut.layer, *self.cut.also), found.all_features, strict=True))
        return LayerOutputs(by_layer[self.layer], found.predictions, by_layer)

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

    def samples_meet(self, batch: Batch) -> bool:
        """Whether the network normalises over the samples of a batch, seen on this one."""
        device = next(self.network.parameters()).device
        return self._meet(self.preprocessing(batch.to(device).inputs), batch)

    def _meet(self, inputs: Inputs, batch: Batch) -> bool:
        """Whether the domains need passes of their own: the network normalises over the batch."""
        if self._samples_meet is None:
            if sum(size > 0 for size in batch.sizes) < 2:
                return True  # one pass either way, which may have to leave the statistics alone
            first = next(size for size in batch.sizes if size)
            self._samples_meet = self.statistics.depend_on_batch(inputs, first)
        return self._samples_meet

    def _separate_passes(self, inputs: Inputs, batch: Batch, every_sample: bool) -> LayerOutputs:
        passes: list[CutOutput] = []
        for domain, where in enumerate(batch.domain_slices()):
            if where.start == where.stop:
                continue
            own = select_samples(inputs, where)
            labelled = batch.labelled[where]
            if every_sample:
                labelled = torch.ones_like(labelled)
            wanted = labelled if bool(labelled.any()) else None
            if self.batch_norm == "target" and domain < batch.sources:
                with self.statistics.frozen():
                    found = self.cut.run(own, wanted)
            elif self.batch_norm == "target" and self._norms_behind:
                # BatchNorm layers of the label predictor get the target's statistics too
                found = self.cut.run(own, slice(0, sample_count(own)))
                predicted = found.predictions
                predicted = None if wanted is None or predicted is None else predicted[wanted]
                found = found._replace(predictions=predicted)
            else:
                found = self.cut.run(own, wanted)
            passes.append(found)
        predictions = [one.predictions for one in passes if one.predictions is not None]
        features, *others = (
            torch.cat(parts) for parts in zip(*(one.all_features for one in passes), strict=True)
        )
        together = torch.cat(predictions) if predictions else None
        return self.outputs_of(CutOutput(features, tuple(others), together))

    def __deepcopy__(self, memo: dict[int, Any]) -> DomainAdapter:
        # cut again: parts of the copy must never reach into the original
        network = copy.deepcopy(self.network, memo)
        copied = DomainAdapter(
            network,
            self.layer,
            copy.deepcopy(self.domain_classifier, memo),
            copy.deepcopy(self.preprocessing, memo),
            batch_norm=self.batch_norm,
            pieces=cut(network, self.cut.layer, output=self.output, also=self.cut.also),
            further=list(zip(self.head_layers[1:], copy.deepcopy(self.further, memo), strict=True)),
        )
        copied.training = self.training  # the parts have theirs already
        copied._samples_meet = self._samples_meet
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.network, self.head_layers, list(self.heads), self.preprocessing)
        return (_rebuild, (*parts, self.batch_norm, self.output, self.cut.layer, self.cut.also))


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
        whole = any(not one.is_floating_point() for one in tensors_of(inputs))
        hint = ""
        if (
            whole
            and "dtype" in reason
            and all(one.dtype != torch.uint8 for one in tensors_of(inputs))
        ):
            hint = " (where they are quantities, X.astype('float32') would do)"
        raise InputError(
            f"the network can't be run on inputs of {describe_inputs(inputs)}: "
            f"{type(error).__name__}: {reason}{hint}"
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
    layers: tuple[str, ...],
    heads: list[nn.Module],
    prepare: nn.Module,
    policy: Any,
    output: str | int | None,
    at: str,
    also: tuple[str, ...],
) -> DomainAdapter:
    return DomainAdapter(
        network,
        layers[0],
        heads[0],
        prepare,
        batch_norm=policy,
        pieces=cut(network, at, output=output, also=also),
        further=list(zip(layers[1:], heads[1:], strict=True)),
    )
