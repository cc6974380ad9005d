"""An adapted network, as `adapt` hands it back and `load` reads it; its verdict and report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.adapter import DeployableModel, DomainAdapter
from revgrad.diagnostics.choice import Choice
from revgrad.domains.common_shape import (
    resized,
    with_channels,
    with_classes,
    with_numbers,
)
from revgrad.domains.domain import Domain
from revgrad.domains.encoded import Encoder, encode, encoder_from_state
from revgrad.domains.registry import as_domain
from revgrad.errors import InputError, RunError
from revgrad.evaluation import evaluate, features_at, outputs, results_by_chunk
from revgrad.networks.registry import (
    NETWORKS,
    NO_WEIGHTS,
    build_network,
)
from revgrad.networks.zoo import zoo_of
from revgrad.objectives import (
    LabelLoss,
)
from revgrad.tasks import (
    Columns,
    Evaluation,
    Task,
    restored_task,
)
from revgrad.training.callbacks import TrainingResult
from revgrad.training.run import Run, RunConfig
from revgrad.training.weights import restore_weights

if TYPE_CHECKING:
    from revgrad.diagnostics.verdict import Verdict


@dataclass(frozen=True)
class Adapted:
    """An adapted network: the plain network, and the preprocessing that belongs in front of it.

    Data is given as to `adapt`: a Domain, an array or tensor, (X, y), a folder, a Dataset. Images
    are brought to the size and the number of channels that the network was trained with.

    Attributes
    ----------
    network, preprocessing
        the user's own module, and the preprocessing in front of it
    layer
        where the domain classifier was attached
    classes
        the source's class names, where it has them
    input_shape
        of one sample, as the network was trained with
    task
        what its outputs mean: loss, predictions, probabilities, metrics
    output
        the part of the network's output that is meant; None: all of it
    result
        how training ended; None for a network that was loaded
    baseline
        the source-only network of the same budget, where one was asked for
    run
        the folder that keeps metrics, checkpoints and evidence, where one was
        given
    adapter
        the network with its domain classifier, as it was trained
    encoder
        what makes inputs of raw samples (a frame's, texts), where the source
        was of such; `encoder.state()` is plain json
    choice
        what `recipe="auto"` tried, what it handed back, and why

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> adapted = revgrad.adapt(
    ...     network, (X, X[:, 0] > 0), X + 1, layer="1", recipe="paper", steps=9, progress=False
    ... )
    >>> adapted.predict(X + 1).shape, adapted.probabilities(X + 1).shape
    ((200,), (200, 2))
    >>> adapted.features(X + 1).shape  # where the domain classifier is attached
    (200, 8)
    >>> adapted.network is network
    True
    """

    network: nn.Module
    preprocessing: nn.Module
    layer: str
    classes: tuple[str, ...] | None
    input_shape: Any
    task: Task
    output: str | int | None = None
    result: TrainingResult | None = None
    baseline: Adapted | None = None
    run: Path | None = None
    adapter: DomainAdapter | None = None
    encoder: Encoder | None = None
    choice: Choice | None = None

    @property
    def model(self) -> DeployableModel:
        """Preprocessing and network as one module, from raw inputs (uint8 images) to outputs."""
        return DeployableModel(self.preprocessing, self.network, self.output)

    def outputs(self, data: Any) -> Tensor:
        """The network's output for every sample, (n, …), in evaluation mode."""
        model = self.model
        return outputs(model, model, self.domain(data).without_labels())

    def probabilities(self, data: Any) -> np.ndarray:
        """The probability of every class for every sample, (n, classes); of several labels a
        sample, of each; a regression has none."""
        return self._by_chunk(self.task.probabilities, data)

    def predict(self, data: Any) -> np.ndarray:
        """A prediction for every sample, as the labels were given: the name of the most likely
        class, or its number where classes have no names; numbers of a regression; (n, labels) yes
        and no of a multi-label task; maps of class numbers."""
        return self._by_chunk(self.task.predictions, data)

    def features(self, data: Any) -> np.ndarray:
        """The attached layer's output for every sample, flattened to (n, features)."""
        domain = self.domain(data).without_labels()
        return features_at(self.network, self.layer, domain, preprocessing=self.preprocessing)

    def evaluate(
        self, data: Any, labels: Any = None, *, label_loss: LabelLoss | None = None
    ) -> Evaluation:
        """The task's metrics and the loss on labelled data: `evaluate(X, y)`, or a domain with
        labels, a folder with a subfolder per class, …"""
        domain = self.domain(data if labels is None else (data, labels))
        model = self.model
        return evaluate(model, model, domain, self.task, label_loss)

    def verdict(self) -> Verdict:
        """Did it work? Judged without target labels, from what the run recorded."""
        return verdict(self._folder("verdict"))

    def report(self, path: Path | str | None = None) -> Path:
        """One self-contained page: did it work, and why. By default RUN/report.html."""
        return report([self._folder("report")], path)

    def export(
        self, path: Path | str, example: Any = None, *, kind: str | None = None, check: bool = True
    ) -> Path:
        """Write the network to `path`; the suffix says what: .safetensors and .pt (the plain
        network's weights), .pt2 and .onnx (preprocessing inside). See `revgrad.exporting`.

        Parameters
        ----------
        example
            data of two samples or more, for the shapes and types of the inputs; made up
            unless given. Inputs of several parts need it for programs (.pt2, .onnx)
        """
        from revgrad.exporting import export, is_program

        inputs = None
        if example is not None:
            shown = self.domain(example)
            inputs = shown.batch([0, min(1, len(shown) - 1)]).inputs
        elif is_program(path, kind):
            inputs = self._example()
        return export(self.model, path, inputs, kind=kind, check=check)

    def domain(self, data: Any) -> Domain:
        """`data` as a domain that fits the network: its size, channels, and class numbers."""
        shape = self.input_shape
        size = tuple(shape[1:]) if isinstance(shape, tuple) and len(shape) == 3 else None
        read = {"size": size} if size is not None and isinstance(data, str | Path) else {}
        channels = None if size is None else shape[0]
        domain = as_domain(data, "the data", like=self.encoder, channels=channels, **read)
        domain = encode(domain, self.encoder, labels=True)
        if domain.is_images and size is not None:
            domain = resized(domain, (size[0], size[1]))
            domain = with_channels(domain, shape[0])
        if len(domain) and domain.shape != shape:
            one = isinstance(shape, tuple) and (len(domain), *domain.shape) == shape
            raise InputError(
                f"{domain.name} has inputs of shape {domain.shape}; this network takes {shape}"
                + (": of one sample, data[None] would do" if one else "")
            )
        if self.classes is None:  # names that are those numbers, or none
            return with_numbers(domain, sys.maxsize) if self.task.one_class else domain
        return with_classes(domain, self.classes)

    def table(self, data: Any) -> Columns:
        """Predictions as columns of a table, a value a sample: class and confidence, value, …"""
        domain = self._unlabelled(data)
        parts = results_by_chunk(self.task.columns, self.model, domain)
        return {name: [one for part in parts for one in part[name]] for name in parts[0]}

    def _by_chunk(self, function: Callable[[Any], np.ndarray], data: Any) -> np.ndarray:
        """`function` of the outputs, chunk by chunk: outputs may be larger than what is made."""
        return np.concatenate(results_by_chunk(function, self.model, self._unlabelled(data)))

    def _unlabelled(self, data: Any) -> Domain:
        domain = self.domain(data).without_labels()
        if not len(domain):
            raise InputError(f"{domain.name} is empty: there is nothing to predict")
        return domain

    def _example(self) -> Any:
        """Two made-up samples of the input shape."""
        own = getattr(self.encoder, "example", None)  # of tokens, of series with their mask
        if own is not None:
            return own()
        shape, random = self.input_shape, torch.Generator().manual_seed(0)
        if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
            raise InputError(
                "the network takes inputs of several parts: a program needs data that shows them, "
                "example=X (on the command line: --example DATA)"
            )
        if len(shape) == 3:
            return torch.randint(0, 256, (2, *shape), dtype=torch.uint8, generator=random)
        return torch.randn((2, *shape), generator=random)

    def _folder(self, what: str) -> Path:
        if self.run is None:
            raise InputError(
                f"the {what} is made from what a run's folder recorded: adapt(…, run='runs/first')"
            )
        return self.run


def load(
    run: Path | str,
    network: nn.Module | str | None = None,
    *,
    task: Task | None = None,
    tokenizer: Any = None,
) -> Adapted:
    """The network of a run, with its last checkpoint's weights.

    Networks of ours are built by their name. Code is never run because a file says so: for a
    network of your own, build it and give it here, and so for a task of your own and a tokenizer
    that is a function of your own (those of `tokenizers` and `transformers` are in the run's
    folder).

    Parameters
    ----------
    run
        its folder
    network
        of a network of your own: built as for the training, weights of any value; a name that
        `adapt` takes would do too
    task
        a task of your own, where the run has one
    tokenizer
        a tokenizer that is a function of your own, where the run has one

    Examples
    --------
    >>> adapted = revgrad.load("runs/first", network)  # doctest: +SKIP
    >>> adapted.predict("photos")  # doctest: +SKIP
    """
    directory = Run(run)
    config = directory.config
    checkpoint = directory.checkpoint()
    if checkpoint is None:
        raise RunError(f"{directory.folder} has no checkpoint yet")
    if network is None or isinstance(network, str):
        network = _registered_network(directory.folder, config, network or config.network)
    preprocessing = restore_weights(network, checkpoint)
    state = directory.encoder
    return Adapted(
        network,
        preprocessing,
        config.layer,
        None if config.classes is None else tuple(config.classes),
        _as_tuples(config.input_shape),
        restored_task(config.task) if task is None else task,
        config.output,
        run=directory.folder,
        encoder=None if state is None else encoder_from_state(state, tokenizer),
    )


def verdict(run: Adapted | Path | str, *, baseline: Path | str | None = None) -> Verdict:
    """Judge a run without target labels: adapted, no gain, harmed, or can't tell; and why.

    Parameters
    ----------
    run
        its folder, or what `adapt` returned
    baseline
        a source-only run of the same domains; by default the one in RUN/baseline

    Examples
    --------
    >>> judged = revgrad.verdict("runs/first")  # doctest: +SKIP
    >>> print(judged.outcome, judged.sentence)  # doctest: +SKIP
    """
    from revgrad.diagnostics.verdict import verdict as judge

    return judge(run._folder("verdict") if isinstance(run, Adapted) else run, baseline=baseline)


def report(
    runs: Sequence[Adapted | Path | str] | Adapted | Path | str, path: Path | str | None = None
) -> Path:
    """One self-contained page of a run, or of several side by side; its path.

    Parameters
    ----------
    runs
        what `adapt` returned or a run's folder; a list of them is one page side by side
    path
        by default report.html in the run's folder; of several runs, here

    Examples
    --------
    >>> revgrad.report(["runs/first", "runs/second"], "both.html")  # doctest: +SKIP
    """
    from revgrad.reports.page import write_report

    given = [runs] if isinstance(runs, Adapted | Path | str) else list(runs)
    folders = [one._folder("report") if isinstance(one, Adapted) else Path(one) for one in given]
    return write_report(folders, None if path is None else Path(path))


def _as_tuples(shape: Any) -> Any:
    """A shape that json has made lists of, or a tuple or dict of such."""
    if isinstance(shape, dict):
        return {key: _as_tuples(one) for key, one in shape.items()}
    return tuple(_as_tuples(one) for one in shape) if isinstance(shape, list) else shape


def _registered_network(folder: Path, config: RunConfig, name: str) -> nn.Module:
    shape = config.input_shape
    if zoo_of(name) is None and name not in NETWORKS:
        raise RunError(
            f"{folder} holds a network of your own ({config.network}): give it again "
            "(network=… or --network module:function)"
        )
    image = isinstance(shape, list | tuple) and len(shape) == 3
    channels, size = (shape[0], (shape[1], shape[2])) if image else (1, (1, 1))
    return build_network(
        name,
        classes=config.outputs or config.class_count or 1,
        channels=channels,
        size=size,
        shape=None if isinstance(shape, dict) else shape,
        seed=0,
        weights=NO_WEIGHTS,
    )
