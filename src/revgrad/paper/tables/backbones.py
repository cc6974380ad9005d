"""Pretrained networks as feature extractors: frozen, computed once an image, kept in the cache."""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from revgrad._system import cache_folder, data_folder, sha256, write_atomically
from revgrad.domains import Domain
from revgrad.errors import DataError, MissingExtraError, unknown
from revgrad.evaluation import features_at
from revgrad.networks import blueprint_of
from revgrad.networks.efficientnet import SHA256, EfficientNetLite0, weights_file
from revgrad.paper.data.catalogue import MissingData
from revgrad.paper.networks.alexnet import AlexNet
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.preprocessing import Preprocessing

#: AlexNet's convolutions, in the data folder.
ALEXNET_CONVOLUTIONS = Path("weights") / "alexnet_imagenet_conv_features.npz"
#: Images at once: more gains nothing on a CPU and costs memory.
BATCH = 32

log = logging.getLogger("revgrad")


class Features(NamedTuple):
    """What a backbone says of every image of a domain."""

    maps: np.ndarray  # (n, positions, channels): the last convolutional map
    features: np.ndarray  # (n, d)


@dataclass(frozen=True)
class Backbone:
    """A pretrained network whose `map_layer` gives maps, and `finish` makes features of maps.

    Attributes
    ----------
    weights
        a text that changes with the weights; it raises where they are missing
    """

    build: Callable[[], nn.Module]
    map_layer: str
    finish: Callable[[Any, Tensor], Tensor]  # (network, maps (n, c, h, w)) → (n, d)
    weights: Callable[[], str]

    def require(self) -> None:
        """Raise, in one line, where the weights can't be had."""
        self.weights()


def backbone_features(name: str, domain: Domain) -> Features:
    """The features of every image of `domain`; computed once, then read from the cache.

    No label is read.
    """
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    backbone = BACKBONES[name]
    unlabelled = domain.without_labels()
    known = [name, backbone.weights(), backbone.map_layer, unlabelled.fingerprint()]
    key = hashlib.sha256("\n".join(known).encode()).hexdigest()[:32]
    path = cache_folder() / f"features-{key}.npz"
    if path.is_file():
        try:
            with np.load(path, allow_pickle=False) as found:
                return Features(found["maps"], found["features"])
        except Exception as error:  # a damaged zip fails in many ways
            log.warning("%s is damaged (%s): its features are computed anew", path, error)
    log.info("computing %s features of %s, %d images, once", name, domain.name, len(domain))
    computed = _compute(backbone, unlabelled)
    buffer = io.BytesIO()
    np.savez(buffer, maps=computed.maps, features=computed.features)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
    return computed


def _compute(backbone: Backbone, domain: Domain) -> Features:
    network = backbone.build().eval()
    blueprint = blueprint_of(network)
    pretrained = blueprint is not None and blueprint.pixel_mean is not None
    prepare = Preprocessing.pretrained(network) if pretrained else Preprocessing(127.0, 64.0)
    maps = features_at(
        network,
        backbone.map_layer,
        domain.as_colour(),
        preprocessing=prepare,
        batch=BATCH,
        positions=True,
    )
    side = round(maps.shape[1] ** 0.5)
    finished = []
    with torch.no_grad():
        for start in range(0, len(maps), BATCH):
            part = torch.from_numpy(maps[start : start + BATCH]).transpose(1, 2)
            part = part.reshape(len(part), -1, side, side)
            finished.append(backbone.finish(network, part))
    return Features(maps, torch.cat(finished).numpy())


def _alexnet() -> AlexNet:
    network = AlexNet(dropout=False)
    network.load_convolutions(data_folder() / ALEXNET_CONVOLUTIONS)
    return network


def _convolutions() -> str:
    path = data_folder() / ALEXNET_CONVOLUTIONS
    try:
        return sha256(path.read_bytes())
    except FileNotFoundError:
        raise MissingData(
            f"AlexNet's convolutions are missing: {path}, an .npz of conv1_weight, conv1_bias … "
            "conv5_bias as in torchvision's AlexNet"
        ) from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from None


def _torchvision() -> Any:
    """torchvision's AlexNet with ImageNet's weights; torchvision may fail to import in many ways,
    and its weights are downloaded when first asked for."""
    try:
        from torchvision.models import AlexNet_Weights, alexnet
    except (ImportError, RuntimeError) as error:
        raise MissingExtraError(
            f"the whole of AlexNet comes from torchvision, which can't be imported ({error}); "
            "the backbones alexnet-conv5 and efficientnet-lite0 do without"
        ) from None
    return alexnet(weights=AlexNet_Weights.IMAGENET1K_V1)


def _whole_alexnet() -> AlexNet:
    network = AlexNet(dropout=False)
    network.load_pretrained(_torchvision().state_dict())
    return network


def _from_torchvision() -> str:
    _torchvision()
    return "torchvision IMAGENET1K_V1"


def _efficientnet_weights() -> str:
    weights_file()
    return SHA256


def _flat(network: nn.Module, maps: Tensor) -> Tensor:
    return maps.flatten(1)


def _fc6(network: AlexNet, maps: Tensor) -> Tensor:
    features: Tensor = network.fc6(network.avgpool(maps).flatten(1))
    return features


#: Backbones by name; one line adds one.
BACKBONES: dict[str, Backbone] = {
    "alexnet-conv5": Backbone(_alexnet, "pool5", _flat, _convolutions),
    "alexnet-fc6": Backbone(_whole_alexnet, "pool5", _fc6, _from_torchvision),
    "alexnet-fc7": Backbone(
        _whole_alexnet, "pool5", lambda n, maps: n.fc7(_fc6(n, maps)), _from_torchvision
    ),
    "efficientnet-lite0": Backbone(
        EfficientNetLite0.pretrained,
        "blocks",
        lambda n, maps: n.pool(n.head(maps)),
        _efficientnet_weights,
    ),
    # what the tiny budget takes: needs no weights, and its features still tell digits apart
    "untrained": Backbone(lambda: MNISTNetwork(seed=0), "pool2", _flat, lambda: "seed 0"),
}
