"""Pretrained weights into AlexNet: all of them in the right place, or one line and no change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad.errors import DataError, InputError
from revgrad.paper.networks.alexnet import AlexNet


def torchvision_layout() -> nn.Module:
    """torchvision's AlexNet as its documentation lays it out, without torchvision."""
    net = nn.Module()
    net.features = nn.Sequential(
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
    )
    net.classifier = nn.Sequential(
        *(nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()),
        nn.Linear(4096, 1000),
    )
    return net


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.fixture(scope="module")
def theirs() -> nn.Module:
    torch.manual_seed(0)
    return torchvision_layout().eval()


@pytest.fixture
def ours() -> AlexNet:
    return AlexNet(classes=5).eval()


def convolutions(theirs: nn.Module) -> dict[str, np.ndarray]:
    layers = [m for m in theirs.features if isinstance(m, nn.Conv2d)]
    return {
        f"conv{number}_{kind}": getattr(layer, kind).detach().numpy()
        for number, layer in enumerate(layers, start=1)
        for kind in ("weight", "bias")
    }


@pytest.mark.parametrize("size", [224, 227])
def test_torchvision_weights_give_its_fc7(ours: AlexNet, theirs: nn.Module, size: int) -> None:
    ours.load_pretrained(theirs.state_dict())
    seen: list[Tensor] = []
    ours.fc7.register_forward_hook(lambda *a: seen.append(a[2]))
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert ours(images).shape == (2, 5)
        wanted = theirs.classifier[:6](theirs.features(images).flatten(1))
    torch.testing.assert_close(seen[0], wanted, rtol=1e-4, atol=1e-5)
    assert float(wanted.max()) > 0


def test_a_state_dict_that_does_not_fit(ours: AlexNet, theirs: nn.Module) -> None:
    before = ours.conv1.weight.clone()
    short = {k: v for k, v in theirs.state_dict().items() if k != "classifier.4.bias"}
    with pytest.raises(InputError, match=r"no 'classifier.4.bias', which AlexNet's fc7.bias"):
        ours.load_pretrained(short)
    wrong = {**theirs.state_dict(), "features.3.weight": torch.zeros(192, 64, 3, 3)}
    with pytest.raises(InputError) as caught:
        ours.load_pretrained(wrong)
    assert str(caught.value) == (
        "'features.3.weight' of the state dict has shape (192, 64, 3, 3); "
        "AlexNet's conv2.weight takes (192, 64, 5, 5)"
    )
    assert torch.equal(ours.conv1.weight, before)


def test_convolutions_from_npz(ours: AlexNet, theirs: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "convolutions.npz"
    arrays = convolutions(theirs)
    np.savez(path, **arrays)
    fc6 = ours.fc6.weight.clone()
    ours.load_convolutions(path)
    for key, array in arrays.items():
        found = ours.get_parameter(key.replace("_", "."))
        assert np.array_equal(found.detach().numpy(), array), key
    assert torch.equal(ours.fc6.weight, fc6)


def test_an_npz_that_does_not_fit(ours: AlexNet, theirs: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "convolutions.npz"
    before = ours.conv1.weight.clone()
    arrays = convolutions(theirs)
    np.savez(path, **{**arrays, "conv5_bias": np.zeros(7, np.float32)})
    with pytest.raises(InputError, match=r"'conv5_bias' of .* has shape \(7,\); .* takes \(256,\)"):
        ours.load_convolutions(path)
    del arrays["conv4_weight"]
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="has no 'conv4_weight'"):
        ours.load_convolutions(path)
    trace = tmp_path / "code-was-run"
    np.savez(path, conv1_weight=np.array([Touch(trace)], dtype=object))
    with pytest.raises(DataError, match=r"not a readable \.npz") as caught:
        ours.load_convolutions(path)
    assert not trace.exists()
    assert "\n" not in str(caught.value)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match=r"not a readable \.npz"):
        ours.load_convolutions(path)
    with pytest.raises(DataError, match=r"no file .*nowhere\.npz"):
        ours.load_convolutions(tmp_path / "nowhere.npz")
    assert torch.equal(ours.conv1.weight, before)


def test_real_convolutions(ours: AlexNet, data_folder: Path) -> None:
    path = data_folder / "weights" / "alexnet_imagenet_conv_features.npz"
    if not path.is_file():
        pytest.skip(f"real weights wanted: no {path}")
    ours.load_convolutions(path)
    with np.load(path, allow_pickle=False) as file:
        for number in range(1, 6):
            for kind in ("weight", "bias"):
                found = ours.get_parameter(f"conv{number}.{kind}").detach().numpy()
                assert np.array_equal(found, file[f"conv{number}_{kind}"])
