"""torchvision's compiled operators are missing beside another build of torch, and without their
schemas it does not import. The tests need none of them: declared, they make its networks (and timm,
which imports it) usable. The package itself never does this."""

from __future__ import annotations

import importlib.util

import torch

_kept: list[torch.library.Library] = []


def declare() -> None:
    """Declare the operators where torchvision is installed and its own are not there."""
    if _kept or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)
        importlib.import_module("torchvision")
