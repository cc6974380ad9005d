"""Networks of torchvision that classify images: `torchvision:alexnet`."""

from __future__ import annotations

from typing import Any

from torch import nn

from revgrad.errors import unknown
from revgrad.networks.zoo import Model, last_linear
from revgrad.networks.zoo.packages import asking_hub, imported

#: What ImageNet's weights were trained with, where a network has none that say so.
MEAN, SD, SIZE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224
#: Networks that would return further outputs in training mode.
WITH_AUXILIARY = ("googlenet", "inception_v3")


def build(name: str, pretrained: bool) -> Model:
    """The network with its own classifier of 1000 classes."""
    text = f"torchvision:{name}"
    models = imported("torchvision.models", text)
    known = models.list_models(module=models)
    if name not in known:
        raise unknown("network of torchvision", name, known)
    weights = models.get_model_weights(name).DEFAULT
    if pretrained:
        with asking_hub(text):
            network: nn.Module = models.get_model(name, weights=weights)
        if name in WITH_AUXILIARY:
            network.aux_logits = False  # type: ignore[assignment]
    else:
        plain: dict[str, Any] = {"aux_logits": False} if name in WITH_AUXILIARY else {}
        network = models.get_model(name, weights=None, **plain)
    facts = weights.transforms()
    return Model(
        network,
        last_linear(network, text),
        size=_side(getattr(facts, "crop_size", None)),
        mean=tuple(getattr(facts, "mean", MEAN)),
        sd=tuple(getattr(facts, "std", SD)),
    )


def _side(size: Any) -> int:
    return int(size[0]) if isinstance(size, list | tuple) and size else SIZE
