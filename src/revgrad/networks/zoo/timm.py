"""Networks of timm: `timm:resnet18`, or `timm:FOLDER` with a config.json and weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from revgrad.errors import InputError, unknown
from revgrad.networks.zoo import Model
from revgrad.networks.zoo.packages import asking_hub, imported


def build(name: str, pretrained: bool) -> Model:
    """The network with its own classifier; `name` may be a folder as timm saves it."""
    text = f"timm:{name}"
    timm = imported("timm", text)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder} is no network of timm: it has no config.json")
        name = f"local-dir:{folder.resolve()}"
    elif not timm.is_model(name):
        raise unknown("network of timm", name, timm.list_models())
    if pretrained:
        with asking_hub(text):
            network: nn.Module = timm.create_model(name, pretrained=True)
    else:
        network = timm.create_model(name, pretrained=False)
    facts: dict[str, Any] = network.pretrained_cfg  # type: ignore[assignment]
    channels, height, _ = facts["input_size"]
    return Model(
        network,
        _classifier(network, text),
        size=height,
        mean=_each(facts["mean"], channels),
        sd=_each(facts["std"], channels),
    )


def _classifier(network: nn.Module, text: str) -> str:
    find: Any = getattr(network, "get_classifier", lambda: None)
    found = find()
    if not isinstance(found, nn.Linear):
        raise InputError(
            f"network '{text}' ends in no single linear classifier that could be replaced: build "
            "it yourself, --network module:function"
        )
    paths: Iterator[str] = (path for path, part in network.named_modules() if part is found)
    return next(paths)


def _each(values: Any, channels: int) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    return numbers if len(numbers) == channels else (numbers[0],) * channels
