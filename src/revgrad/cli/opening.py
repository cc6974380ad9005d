"""Data and network as `revgrad train` names them, opened alike by every command that trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from revgrad.cli.common import ImageOptions

if TYPE_CHECKING:
    from torch import nn

    from revgrad.domains import Domain


@dataclass(frozen=True)
class Opened:
    """The domains, the options they were read with, and the network that fits them.

    images     what later commands read other data of the run with
    outputs    classes of the source; 1 for a regression target
    """

    network: str
    source: Domain
    target: Domain | None
    test: Domain | None
    images: ImageOptions
    outputs: int
    init: Path | None = None

    def build(self, seed: int) -> nn.Module:
        """The network with that seed's weights, or those of `init`."""
        from revgrad.networks import build_network

        domains = [d for d in (self.source, self.target, self.test) if d is not None]
        channels = max((d.shape[0] for d in domains if len(d) and d.is_images), default=1)
        shape = self.source.shape if self.source.is_images else (channels, 1, 1)
        built = build_network(
            self.network,
            classes=self.outputs,
            channels=channels,
            size=(shape[1], shape[2]),
            seed=seed,
        )
        if self.init is not None:
            from revgrad.training.restoring import load_initial

            load_initial(built, self.init)
        return built


def open_data(
    network: str,
    source: str,
    target: str | None,
    test: str | None = None,
    *,
    size: str | None = None,
    fit: str = "crop",
    corrupt: str = "fail",
    target_labels: bool = False,
    init: Path | None = None,
) -> Opened:
    """Open what the options name, images in the size the network is made for.

    target_labels   whether the target keeps the labels it has; else they are dropped unread
    """
    from revgrad.networks import NETWORKS

    default_size = getattr(NETWORKS.get(network), "size", None)
    images = ImageOptions(size or (default_size and str(default_size)), fit, corrupt)
    labelled = images.opened(source)
    classes = labelled.classes
    unlabelled = None
    if target is not None:
        kept = None if target_labels else False
        unlabelled = images.opened(target, labels=kept, classes=classes)
    tested = None if test is None else images.opened(test, classes=classes)
    outputs = labelled.class_count or 1
    return Opened(network, labelled, unlabelled, tested, images, outputs, init)
