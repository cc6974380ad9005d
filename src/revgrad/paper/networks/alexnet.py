"""AlexNet with a bottleneck on fc7, the paper's network for Office; loads pretrained weights.

The layout is torchvision's: 64-192-384-256-256 maps in one column. The paper used Caffe's variant,
which has 96-256-384-384-256 maps, convolutions in two groups and local response normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from revgrad.errors import DataError, InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import ConvolutionReLU, LinearReLU, MaxPoolReLU
from revgrad.networks.registry import Blueprint, mark_pretrained
from revgrad.networks.sizes import Size, map_size, require_positive

#: Our name of each layer that torchvision's AlexNet has too, and its name there.
TORCHVISION_NAMES = {
    "conv1": "features.0",
    "conv2": "features.3",
    "conv3": "features.6",
    "conv4": "features.8",
    "conv5": "features.10",
    "fc6": "classifier.1",
    "fc7": "classifier.4",
}
CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4", "conv5")


class AlexNet(nn.Module):
    """(n, channels, size, size) → (n, classes) logits.

    `bottleneck` is a linear layer of 256 units on fc7, and the label predictor behind it is the
    linear `fc8`. Any size from 63 on works: `avgpool` makes 6×6 of what the convolutions leave
    (at 224 and 227 it has nothing to do).
    """

    #: Pixels as torchvision's ImageNet weights want them, in uint8 values.
    blueprint: ClassVar[Blueprint] = Blueprint(
        "bottleneck",
        size=224,
        pixel_mean=(0.485 * 255, 0.456 * 255, 0.406 * 255),
        pixel_scale=(0.229 * 255, 0.224 * 255, 0.225 * 255),
    )

    def __init__(
        self,
        classes: int = 31,
        channels: int = 3,
        size: Size = 224,
        bottleneck: int = 256,
        dropout: bool = True,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        require_positive(classes=classes, channels=channels, bottleneck=bottleneck)

        def drop() -> nn.Module:
            return nn.Dropout(0.5) if dropout else nn.Identity()

        self.conv1 = nn.Conv2d(channels, 64, 11, stride=4, padding=2)
        self.pool1 = MaxPoolReLU(3, 2)
        self.conv2 = nn.Conv2d(64, 192, 5, padding=2)
        self.pool2 = MaxPoolReLU(3, 2)
        self.conv3 = ConvolutionReLU(192, 384, 3, padding=1)
        self.conv4 = ConvolutionReLU(384, 256, 3, padding=1)
        self.conv5 = nn.Conv2d(256, 256, 3, padding=1)
        self.pool5 = MaxPoolReLU(3, 2)
        map_size(size, self.conv1, self.pool1, self.conv2, self.pool2, self.pool5)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.drop5 = drop()
        self.fc6 = LinearReLU(256 * 6 * 6, 4096)
        self.drop6 = drop()
        self.fc7 = LinearReLU(4096, 4096)
        self.bottleneck = nn.Linear(4096, bottleneck)
        self.fc8 = nn.Linear(bottleneck, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool1(self.conv1(images))
        x = self.pool2(self.conv2(x))
        x = self.conv4(self.conv3(x))
        x = self.pool5(self.conv5(x))
        x = self.avgpool(x)
        x = self.fc6(self.drop5(x).flatten(1))
        x = self.fc7(self.drop6(x))
        logits: Tensor = self.fc8(self.bottleneck(x))
        return logits

    def load_pretrained(self, state_dict: Mapping[str, Tensor]) -> None:
        """Take conv1 … fc7 from a state dict of torchvision's `alexnet`; its last layer is left.

        Nothing is changed unless everything fits.
        """
        self._load(
            {
                f"{ours}.{kind}": (f"{theirs}.{kind}", state_dict.get(f"{theirs}.{kind}"))
                for ours, theirs in TORCHVISION_NAMES.items()
                for kind in ("weight", "bias")
            },
            "the state dict",
        )
        mark_pretrained(self, ("bottleneck", "fc8"))

    def load_convolutions(self, path: str | PathLike[str]) -> None:
        """Take conv1 … conv5 from an `.npz` file with arrays convN_weight and convN_bias.

        Nothing is changed unless everything fits; no code in the file is run.
        """
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            given = {key: torch.from_numpy(array) for key, array in arrays.items()}
        except FileNotFoundError:
            raise DataError(f"no file {path} to load AlexNet's convolutions from") from None
        except Exception as error:  # a damaged zip fails in many ways
            reason = " ".join(str(error).split())
            raise DataError(f"{path} is not a readable .npz file of arrays: {reason}") from error
        self._load(
            {
                f"{name}.{kind}": (f"{name}_{kind}", given.get(f"{name}_{kind}"))
                for name in CONVOLUTIONS
                for kind in ("weight", "bias")
            },
            str(path),
        )
        mark_pretrained(self, ("fc6", "fc7", "bottleneck", "fc8"))

    def _load(self, found: Mapping[str, tuple[str, Tensor | None]], origin: str) -> None:
        for name, (key, value) in found.items():
            wanted = tuple(self.get_parameter(name).shape)
            if value is None:
                raise InputError(f"{origin} has no '{key}', which AlexNet's {name} is read from")
            if tuple(value.shape) != wanted:
                raise InputError(
                    f"'{key}' of {origin} has shape {tuple(value.shape)}; "
                    f"AlexNet's {name} takes {wanted}"
                )
        with torch.no_grad():
            for name, (_, value) in found.items():
                assert value is not None
                self.get_parameter(name).copy_(value)
