"""The paper's networks (appendix B), domain classifiers, and how a network is found by its name."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from revgrad.networks.alexnet import AlexNet
from revgrad.networks.building import build
from revgrad.networks.compact import CompactNetwork
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.networks.efficientnet import EfficientNetLite0, efficientnet_lite0
from revgrad.networks.gtsrb import GTSRBNetwork
from revgrad.networks.initialisation import initialise
from revgrad.networks.mnist import MNISTNetwork
from revgrad.networks.one_hidden import OneHidden, one_hidden
from revgrad.networks.svhn import SVHNNetwork
from revgrad.networks.xor import XorDomainClassifier

__all__ = [
    "NETWORKS",
    "AlexNet",
    "CompactNetwork",
    "DomainClassifier",
    "EfficientNetLite0",
    "GTSRBNetwork",
    "MNISTNetwork",
    "OneHidden",
    "SVHNNetwork",
    "XorDomainClassifier",
    "build_network",
    "efficientnet_lite0",
    "initialise",
    "one_hidden",
]

#: The networks the command line knows by name.
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mnist": MNISTNetwork,
    "svhn": SVHNNetwork,
    "gtsrb": GTSRBNetwork,
    "alexnet": AlexNet,
    "compact": CompactNetwork,
    "efficientnet-lite0": efficientnet_lite0,
    "one-hidden": one_hidden,
}
#: The same without weights that another file would have to give.
UNTRAINED: dict[str, Callable[..., nn.Module]] = {
    **NETWORKS,
    "efficientnet-lite0": EfficientNetLite0,
}


def build_network(
    text: str,
    *,
    classes: int,
    channels: int,
    size: int | tuple[int, int],
    seed: int,
    pretrained: bool = True,
) -> nn.Module:
    """The network that `text` names: one of `NETWORKS`, or "module:function" of the user's own.

    The user's module may lie in the current directory; it is imported here and only where the
    text holds a colon. The function gets those of classes, channels, size and seed that it takes.
    Without `pretrained`, no network of `NETWORKS` reads weights: the caller has them.
    """
    registry = NETWORKS if pretrained else UNTRAINED
    return build(text, registry, classes=classes, channels=channels, size=size, seed=seed)
