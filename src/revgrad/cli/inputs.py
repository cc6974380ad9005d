"""Inputs of commands: data, networks and runs, opened as the command line names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad.errors import InputError, some

if TYPE_CHECKING:
    from torch import nn

    from revgrad.adapted import Adapted
    from revgrad.domains import Domain
    from revgrad.domains.folder_chunks import FolderChunks
    from revgrad.tasks import Task


@dataclass(frozen=True)
class ImageOptions:
    """How images and tables are read: the same for a run's training and for everything after it.

    Attributes
    ----------
    size
        one number or HEIGHTxWIDTH; None: as they are
    fit, corrupt, follow_links, storage
        as `from_folder` takes them
    layout, channels
        of the images of .npz files, as `from_npz` takes them
    colour
        whether grey images are shown as colour
    label
        the column of a table's labels, or several
    groups, weights
        columns of the labelled source's groups and weights: of a table, or arrays of an .npz file
    class_weights
        of the labelled source's classes: "balanced", or by name or number
    attributes
        columns of a table, arrays of an .npz file, or names for levels of folders
    drop, categorical
        columns of the labelled source's table that are left out, and whose numbers are names
    text
        the column of a table that holds texts, where these alone are read
    tokenizer
        the network of transformers whose tokens texts become; None: words
    """

    size: str | None = None
    fit: str = "crop"
    corrupt: str = "fail"
    colour: bool = False
    label: str | tuple[str, ...] | None = None
    groups: str | None = None
    weights: str | None = None
    class_weights: str | dict[str, float] | None = None
    follow_links: bool = False
    layout: str = "auto"
    channels: int | None = None
    attributes: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    storage: str = "auto"
    text: str | None = None
    tokenizer: str | None = None

    def source(self, text: str, classes: Sequence[str] | None = None) -> Domain:
        """The labelled source that `text` means, with its groups and weights."""
        of_tables: dict[str, Any] = {"groups": self.groups, "weights": self.weights}
        of_tables |= {"drop": self.drop, "categorical": self.categorical}
        opened = self.opened(text, classes=classes, **of_tables)
        given = self.class_weights
        if given is None:
            return opened
        if isinstance(given, dict) and opened.classes is None:
            return opened.weighted(
                opened.weights, by_class={_class_number(key): one for key, one in given.items()}
            )
        return opened.weighted(opened.weights, by_class=given)

    def opened(
        self,
        text: str,
        *,
        labels: bool | None = None,
        classes: Sequence[str] | None = None,
        **of_tables: Any,
    ) -> Domain:
        """The domain that `text` means; labels are dropped where `labels` is False."""
        from revgrad.domains import open_domain

        domain = open_domain(
            text,
            size=parse_size(self.size),
            fit=self.fit,
            corrupt=self.corrupt,
            labels=labels,
            classes=classes,
            label=self.label,
            follow_links=self.follow_links,
            storage=self.storage,
            layout=self.layout,
            channels=self.channels,
            attributes=self.attributes,
            text_column=self.text,
            tokenizer=self._tokenizer(),
            **of_tables,
        )
        if self.colour and domain.is_images and domain.shape[0] == 1:
            domain = domain.as_colour()
        return domain.without_labels() if labels is False else domain

    def _tokenizer(self) -> Any:
        if self.text is None or self.tokenizer is None:
            return None
        from revgrad.networks.zoo.transformers import tokenizer_of

        return tokenizer_of(self.tokenizer)


def parse_class_weights(text: str | None) -> str | dict[str, float] | None:
    """`balanced`, or `ant=2,bee=0.5`: weights by the class's name or number."""
    if text is None or text == "balanced":
        return text
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        try:
            found[name.strip()] = float(weight)
        except ValueError:
            found.clear()
            break
    if not found or "" in found:
        raise InputError(
            f"--class-weights takes balanced or CLASS=WEIGHT,…, such as ant=2,bee=0.5, not '{text}'"
        )
    return found


def _class_number(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def parse_size(text: str | None) -> int | tuple[int, int] | None:
    """`28` or `32x48` (height x width)."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.lower().replace("×", "x").split("x")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise InputError(f"a size is one number or HEIGHTxWIDTH, not '{text}'")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


@dataclass(frozen=True)
class TrainingData:
    """The domains of a training, and the name of the network that is to fit them.

    Attributes
    ----------
    task
        what labels mean, where it was said
    """

    network: str
    sources: tuple[Domain, ...]
    targets: tuple[Domain, ...] = ()
    test: Domain | None = None
    task: Task | None = None

    @property
    def source(self) -> Domain:
        """The first."""
        return self.sources[0]

    def build(self, seed: int, init: Path | None = None, weights: str | None = None) -> nn.Module:
        """The network with that seed's weights, pretrained where it comes so or `weights` is a file
        of them, or with the weights of `init` (a run or a file)."""
        # not the test data, which decides nothing
        domains = [*self.sources, *self.targets]
        channels = max((d.shape[0] for d in domains if len(d) and d.is_images), default=1)
        shape = (channels, *self.source.shape[1:]) if self.source.is_images else self.source.shape
        built = _network_for(self.network, shape, self._outputs(), seed, weights)
        if init is not None:
            from revgrad.training.weights import load_initial

            load_initial(built, init)
        return built

    def _outputs(self) -> int:
        from revgrad.tasks import planned_outputs

        source = self.source
        if source.labels is None:
            return source.class_count or 1
        return planned_outputs(source.known_labels(), source.classes, self.task)


def open_training_data(
    network: str | None,
    sources: Sequence[str],
    targets: Sequence[str],
    test: str | None = None,
    *,
    images: ImageOptions,
    with_target_labels: bool = False,
    task: Task | None = None,
) -> TrainingData:
    """Open what the options name.

    Parameters
    ----------
    network
        None: the default for inputs of the source's shape
    images
        a size of None is the one that the network is made for
    with_target_labels
        whether the target keeps the labels it has; else they are dropped unread
    """
    from revgrad.domains import FrameEncoder, encoder_of
    from revgrad.networks import blueprint_named, default_network

    blueprint = blueprint_named(network or "compact")
    if images.size is None and blueprint is not None and blueprint.size is not None:
        images = replace(images, size=str(blueprint.size))
    if blueprint is not None and blueprint.channels == 3:
        images = replace(images, colour=True)
    if network is not None and network.startswith("transformers:"):
        images = replace(images, tokenizer=network.partition(":")[2])
    labelled = images.source(sources[0])
    encoder = encoder_of(labelled)
    if images.text is not None and images.label is None:
        raise InputError(f"--label is missing: the column of {sources[0]} that holds the labels")
    if isinstance(encoder, FrameEncoder) and images.label is None:
        raise InputError(
            f"--label is missing: the column of {sources[0]} that holds the labels (columns: "
            f"{some(list(dict.fromkeys(one.column for one in encoder.inputs)), 12)})"
        )
    others = [images.source(one, classes=labelled.classes) for one in sources[1:]]
    labels = None if with_target_labels else False
    unlabelled = [images.opened(one, labels=labels, classes=labelled.classes) for one in targets]
    tested = None if test is None else images.opened(test, classes=labelled.classes)
    chosen = network or default_network(labelled.shape)
    return TrainingData(chosen, (labelled, *others), tuple(unlabelled), tested, task)


def load_run(folder: Path, network: str | None, task: str | None = None) -> Adapted:
    """A run's network. One of the user's own is built from what the user says now; so is a task."""
    from revgrad.adapted import load
    from revgrad.networks.registry import NO_WEIGHTS
    from revgrad.training.run import Run

    meant = None if task is None else parse_task(task)
    if network is None:
        return load(folder, task=meant)
    config = Run(folder).config
    seed = config.settings["seed"]
    built = _network_for(network, config.input_shape, config.outputs or 1, seed, NO_WEIGHTS)
    return load(folder, built, task=meant)


def parse_task(text: str) -> Task:
    """The task that a text means: a name, or module:name of the user's own."""
    from revgrad.networks.registry import current_directory_first, import_object
    from revgrad.tasks import TASKS, Task, task_named

    if ":" not in text or text.partition(":")[0] in TASKS:
        return task_named(text)
    with current_directory_first():
        found: Any = import_object(text, "task")
        if callable(found) and not isinstance(found, Task):
            found = found()
    if not isinstance(found, Task):
        raise InputError(
            f"task '{text}' must be a revgrad.tasks.Task, such as CustomTask(loss, predict), not "
            f"{type(found).__name__}"
        )
    return found


def parse_part(text: str | None) -> str | int | None:
    """A part of the network's output: a name, or a place as a number."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def open_for(
    adapted: Adapted, text: str, *, labels: bool | None = None, follow_links: bool = False
) -> Domain:
    """Data for a run's network, read as the run read its own: same size, same classes."""
    images = _as_it_read(adapted, follow_links)
    if adapted.encoder is not None and adapted.encoder.takes == "texts" and images.text is None:
        raise InputError(
            f"{adapted.run} was trained on texts that were not a table's column (--text): "
            f"revgrad.load('{adapted.run}', network).predict(['a text', …]) takes them"
        )
    return adapted.domain(images.opened(text, labels=labels, classes=adapted.classes))


def folder_for(adapted: Adapted, text: str, follow_links: bool) -> FolderChunks | None:
    """The images of a folder, read as `open_for` reads them but as they are asked for; None where
    the text is no folder, or the network's inputs are no grey or colour images."""
    from revgrad.domains import DOMAINS
    from revgrad.domains.folder_chunks import FolderChunks

    shape, path = _image_shape(adapted.input_shape), Path(text).expanduser()
    if text.partition(":")[0] in DOMAINS or not path.is_dir():
        return None
    if shape is None or shape[0] not in (1, 3):
        return None
    images = _as_it_read(adapted, follow_links)
    return FolderChunks(
        path,
        size=(shape[1], shape[2]),
        channels=shape[0],
        fit=images.fit,
        corrupt=images.corrupt,
        follow_links=images.follow_links,
    )


def _as_it_read(adapted: Adapted, follow_links: bool) -> ImageOptions:
    """How the run read its own data."""
    from revgrad.training.run import Run

    assert adapted.run is not None  # it was loaded
    known, shape = Run(adapted.run).config.provenance, _image_shape(adapted.input_shape)
    return ImageOptions(
        None if shape is None else f"{shape[1]}x{shape[2]}",
        known.fit,
        known.corrupt,
        label=known.label or getattr(adapted.encoder, "label", ()) or None,
        text=known.text,
        follow_links=follow_links or known.follow_links,
        channels=None if shape is None else shape[0],
    )


def _network_for(
    network: str, shape: Any, outputs: int, seed: int, weights: str | None = None
) -> nn.Module:
    """The network for inputs of `shape`: images, or anything else (then without a size)."""
    from revgrad.networks import build_network
    from revgrad.networks.registry import PRETRAINED

    of_images = _image_shape(shape)
    channels, height, width = of_images or (1, 1, 1)
    return build_network(
        network,
        classes=outputs,
        channels=channels,
        size=(height, width),
        seed=seed,
        shape=shape,
        weights=weights or PRETRAINED,
    )


def _image_shape(shape: Any) -> tuple[int, int, int] | None:
    """Channels, height and width; None for vectors, sequences and inputs of several parts."""
    if isinstance(shape, dict) or len(shape) != 3 or not all(isinstance(n, int) for n in shape):
        return None
    return (shape[0], shape[1], shape[2])
