"""The paper's networks: one contract for all, then what is special to each."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from revgrad._system import named
from revgrad.errors import InputError, UnknownNameError
from revgrad.networks import (
    NETWORKS,
    CompactNetwork,
    Perceptron,
    SeriesNetwork,
    blueprint_named,
    build_network,
    initialise,
)
from revgrad.networks.efficientnet import EfficientNetLite0
from revgrad.networks.sizes import map_size
from revgrad.paper.networks.alexnet import AlexNet
from revgrad.paper.networks.gtsrb import GTSRBNetwork
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.paper.networks.one_hidden import OneHidden
from revgrad.paper.networks.svhn import SRIVASTAVA, WHOLE, SVHNNetwork


def literal_mnist(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = F.max_pool2d(F.relu(F.conv2d(x, net.conv1.weight, net.conv1.bias)), 2, 2)
    features = F.max_pool2d(F.relu(F.conv2d(x, net.conv2.weight, net.conv2.bias)), 2, 2)
    x = F.relu(F.linear(features.flatten(1), net.fc3.weight, net.fc3.bias))
    x = F.relu(F.linear(x, net.fc4.weight, net.fc4.bias))
    return features, F.linear(x, net.fc5.weight, net.fc5.bias)


def literal_svhn(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    for layer in (net.conv1, net.conv2):
        # a row and a column that no maximum takes, where Caffe's last window reaches over the edge
        x = F.pad(F.relu(F.conv2d(x, layer.weight, layer.bias)), (0, 1, 0, 1), value=-1.0)
        x = F.max_pool2d(x, 3, 2)
    features = F.relu(F.conv2d(x, net.conv3.weight, net.conv3.bias))
    x = F.relu(F.linear(features.flatten(1), net.fc4.weight, net.fc4.bias))
    x = F.relu(F.linear(x, net.fc5.weight, net.fc5.bias))
    return features, F.linear(x, net.fc6.weight, net.fc6.bias)


def literal_gtsrb(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = F.max_pool2d(F.relu(F.conv2d(x, net.conv1.weight, net.conv1.bias)), 2, 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, net.conv2.weight, net.conv2.bias)), 2, 2)
    features = F.max_pool2d(F.relu(F.conv2d(x, net.conv3.weight, net.conv3.bias)), 2, 2)
    x = F.relu(F.linear(features.flatten(1), net.fc4.weight, net.fc4.bias))
    return features, F.linear(x, net.fc5.weight, net.fc5.bias)


def literal_alexnet(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = F.conv2d(x, net.conv1.weight, net.conv1.bias, stride=4, padding=2)
    x = F.max_pool2d(F.relu(x), 3, 2)
    x = F.conv2d(x, net.conv2.weight, net.conv2.bias, padding=2)
    x = F.max_pool2d(F.relu(x), 3, 2)
    x = F.relu(F.conv2d(x, net.conv3.weight, net.conv3.bias, padding=1))
    x = F.relu(F.conv2d(x, net.conv4.weight, net.conv4.bias, padding=1))
    x = F.relu(F.conv2d(x, net.conv5.weight, net.conv5.bias, padding=1))
    x = F.adaptive_avg_pool2d(F.max_pool2d(x, 3, 2), (6, 6))
    x = F.relu(F.linear(x.flatten(1), net.fc6.weight, net.fc6.bias))
    x = F.relu(F.linear(x, net.fc7.weight, net.fc7.bias))
    features = F.linear(x, net.bottleneck.weight, net.bottleneck.bias)
    return features, F.linear(features, net.fc8.weight, net.fc8.bias)


def literal_one_hidden(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    features = F.linear(x.flatten(1), net.hidden.weight, net.hidden.bias)
    return features, F.linear(F.relu(features), net.output.weight, net.output.bias)


@dataclass(frozen=True)
class Case:
    name: str
    network: Callable[..., nn.Module]
    classes: int
    size: int  # of the images the test makes: AlexNet is tried at its smallest
    layer: str
    features: tuple[int, ...]
    layers: tuple[str, ...]
    parameters: int  # counted by hand
    domain_classifier: tuple[int, ...]
    max_weight_norm: float | None
    literal: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]
    without_dropout: dict[str, bool]
    gentle: dict[str, float] = field(default_factory=dict)  # of layers, beside He's scale


CASES = [
    Case(
        *("mnist", MNISTNetwork, 10, 28, "pool2", (48, 4, 4)),
        layers=("conv1", "conv2", "fc3", "fc4", "fc5"),
        parameters=(75 * 32 + 32) + (800 * 48 + 48) + 768 * 100 + 100 + 10_100 + 1_010,
        domain_classifier=(100,),
        max_weight_norm=None,
        literal=literal_mnist,
        without_dropout={},
    ),
    Case(
        *("svhn", SVHNNetwork, 10, 32, "conv3", (128, 1, 1)),
        layers=("conv1", "conv2", "conv3", "fc4", "fc5", "fc6"),
        parameters=7_022_538,
        domain_classifier=(1024, 1024),
        max_weight_norm=4.0,
        literal=literal_svhn,
        gentle={"fc4": 0.3, "fc5": 0.3 * math.sqrt(0.5), "fc6": math.sqrt(0.5)},
        without_dropout={"keep": WHOLE},
    ),
    Case(
        *("gtsrb", GTSRBNetwork, 43, 40, "pool3", (256, 2, 2)),
        layers=("conv1", "conv2", "conv3", "fc4", "fc5"),
        parameters=1_600_571,
        domain_classifier=(1024, 1024),
        max_weight_norm=None,
        literal=literal_gtsrb,
        without_dropout={},
    ),
    Case(
        *("alexnet", AlexNet, 31, 63, "bottleneck", (256,)),
        layers=("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "bottleneck", "fc8"),
        # torchvision's 61,100,840 without its last layer of 4,097,000; the bottleneck; fc8
        parameters=61_100_840 - 4_097_000 + 4096 * 256 + 256 + 256 * 31 + 31,
        domain_classifier=(1024, 1024),
        max_weight_norm=None,
        literal=literal_alexnet,
        without_dropout={"dropout": False},
    ),
    Case(
        *("one-hidden", OneHidden.for_images, 10, 28, "hidden", (256,)),
        layers=("hidden", "output"),
        parameters=3 * 28 * 28 * 256 + 256 + 256 * 10 + 10,
        domain_classifier=(100,),
        max_weight_norm=None,
        literal=literal_one_hidden,
        without_dropout={},
    ),
]
each_network = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def images(case: Case, rows: int = 4, dtype: torch.dtype = torch.float32) -> Tensor:
    """Noise with a blank border and a blank image: there, windows are full of ties."""
    x = torch.randn(rows, 3, case.size, case.size, generator=torch.Generator().manual_seed(1))
    x[:, :, : case.size // 3] = 0
    x[0] = 0
    return x.to(dtype)


def test_the_registry_is_what_is_tested() -> None:
    elsewhere = {"efficientnet-lite0": EfficientNetLite0.pretrained, "compact": CompactNetwork}
    elsewhere |= {"perceptron": Perceptron, "series": SeriesNetwork}  # in test_by_shape.py
    tested = {case.name: case.network for case in CASES} | elsewhere
    assert tested == {name: named(text) for name, text in NETWORKS.items()}


def test_every_named_network_has_a_size_of_its_own() -> None:
    """Those that a method of a class builds too: they once lost it on the command line."""
    sizes = {name: getattr(blueprint_named(name), "size", None) for name in NETWORKS}
    assert sizes == {
        "mnist": 28,
        "svhn": 32,
        "gtsrb": 40,
        "alexnet": 224,
        "compact": 28,
        "perceptron": None,
        "series": None,
        "efficientnet-lite0": 224,
        "one-hidden": 28,
    }
    assert blueprint_named("torch.nn:Flatten") is None
    assert blueprint_named("revgrad.networks.compact:CompactNetwork") is CompactNetwork.blueprint


@each_network
def test_contract(case: Case) -> None:
    net = case.network()
    assert net.blueprint.layer == case.layer
    sizes = {"mnist": 28, "svhn": 32, "gtsrb": 40, "alexnet": 224, "one-hidden": 28}
    assert net.blueprint.size == sizes[case.name]
    assert net.blueprint.domain_classifier == case.domain_classifier
    assert net.blueprint.max_weight_norm == case.max_weight_norm
    wanted = [f"{layer}.{kind}" for layer in case.layers for kind in ("weight", "bias")]
    assert list(net.state_dict()) == wanted
    assert sum(p.numel() for p in net.parameters()) == case.parameters
    seen: list[Tensor] = []
    net.get_submodule(case.layer).register_forward_hook(lambda *a: seen.append(a[2]))
    assert net.eval()(images(case)).shape == (4, case.classes)
    assert seen[0].shape == (4, *case.features)


@pytest.mark.slow
@each_network
def test_pooling_before_relu_is_the_figure_bit_for_bit(case: Case) -> None:
    net = case.network(**case.without_dropout).double()
    seen: list[Tensor] = []
    net.get_submodule(case.layer).register_forward_hook(lambda *a: seen.append(a[2].clone()))
    for dtype in (torch.float32, torch.float64):
        seen.clear()
        net.to(dtype)
        x = images(case, dtype=dtype)
        logits = net(x)
        features, wanted = case.literal(net, x)
        assert torch.equal(seen[0], features)
        assert torch.equal(logits, wanted)
        if case.layer not in ("bottleneck", "hidden"):
            assert float(features.detach().min()) == 0 < float(features.detach().max())
    labels = torch.arange(4)
    parameters = list(net.parameters())
    ours = torch.autograd.grad(F.cross_entropy(logits, labels), parameters)
    theirs = torch.autograd.grad(F.cross_entropy(wanted, labels), parameters)
    for one, other in zip(ours, theirs, strict=True):
        assert float((one - other).abs().max()) <= 1e-12
        assert float(one.abs().max()) > 0


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.name)
def test_the_memory_format_changes_speed_only(case: Case) -> None:
    net = case.network(**case.without_dropout).double()
    assert net.conv2.weight.is_contiguous(memory_format=torch.channels_last)
    plain = case.network(**case.without_dropout).double().to(memory_format=torch.contiguous_format)
    assert plain.conv2.weight.is_contiguous()
    x = images(case, dtype=torch.float64)
    torch.testing.assert_close(net(x), plain(x), rtol=1e-12, atol=1e-12)


@each_network
def test_the_seed_alone_decides(case: Case) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one = initialise(case.network(seed=None), 3)
    torch.manual_seed(6)
    with_seed = case.network(seed=3)
    for (name, first), second in zip(one.named_parameters(), with_seed.parameters(), strict=True):
        scale = case.gentle.get(name.partition(".")[0], 1.0)
        assert torch.allclose(first * scale, second, rtol=1e-6, atol=0)
    last = case.layers[-1] + ".weight"
    assert not torch.equal(initialise(one, 4).get_parameter(last), with_seed.get_parameter(last))
    torch.set_rng_state(state)
    initialise(with_seed, 7)
    assert torch.equal(torch.get_rng_state(), state)


@each_network
def test_he_scale(case: Case) -> None:
    net = case.network(seed=11)
    for name in case.layers:
        layer = net.get_submodule(name)
        count = layer.weight.numel()
        fan_in = count // layer.weight.shape[0]
        std = math.sqrt((1 if name == case.layers[-1] else 2) / fan_in) * case.gentle.get(name, 1)
        found = float(layer.weight.detach().double().square().mean().sqrt())
        # five standard errors of an estimated standard deviation
        assert abs(found / std - 1) < 5 / math.sqrt(2 * count), name
        assert not layer.bias.any()


def test_without_a_seed_pytorch_initialises() -> None:
    torch.manual_seed(0)
    net = MNISTNetwork(seed=None)
    bound = 1 / math.sqrt(75)
    assert 0.9 * bound < float(net.conv1.weight.detach().abs().max()) <= bound
    assert net.conv1.bias.any()


def test_initialise_leaves_what_is_not_a_layer_with_weights() -> None:
    module = nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    kept = [p.clone() for p in (*module[0].parameters(), *module[1].parameters())]
    linear = module[2].weight.clone()
    assert initialise(module, 0) is module
    for old, new in zip(kept, (*module[0].parameters(), *module[1].parameters()), strict=True):
        assert torch.equal(old, new)
    assert not torch.equal(linear, module[2].weight)


def test_initialise_finds_layers_whose_module_was_traced_away() -> None:
    net = MNISTNetwork()
    initialise(net, 9)
    traced = initialise(torch.fx.symbolic_trace(MNISTNetwork()), 9)
    for name, parameter in net.named_parameters():
        assert torch.equal(parameter, traced.get_parameter(name)), name


@each_network
def test_traceable_by_fx(case: Case) -> None:
    net = case.network().eval()
    traced = torch.fx.symbolic_trace(net)
    assert sorted(traced.state_dict()) == sorted(net.state_dict())
    x = images(case)
    assert torch.equal(traced(x), net(x))
    x = images(case, rows=7)  # the batch size is not baked in
    assert torch.equal(traced(x), net(x))


def test_compact_is_its_layers_written_out() -> None:
    net = CompactNetwork(classes=7, widths=((4,), (6, 5)), seed=3).double()
    assert (net.blueprint.layer, net.blueprint.size, net.blueprint.domain_classifier) == (
        "pool",
        28,
        (128,),
    )
    x = torch.randn(5, 3, 12, 12, dtype=torch.float64)

    def normalised(values: Tensor, axes: tuple[int, ...]) -> Tensor:
        mean = values.mean(axes, keepdim=True)
        variance = (values - mean).square().mean(axes, keepdim=True)
        return ((values - mean) / (variance + 1e-5).sqrt()).clamp(min=0)

    slow = x
    weights = [m.weight for m in net.modules() if isinstance(m, nn.Conv2d)]
    for number, weight in enumerate(weights):
        if number == 1:
            slow = F.max_pool2d(slow, 2)
        slow = normalised(F.conv2d(slow, weight, padding=1), (0, 2, 3))
    squares = [slow[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for i in range(3) for j in range(3)]
    slow = torch.stack([square.mean((2, 3)) for square in squares], 2).flatten(1)
    slow = normalised(slow @ net.hidden[0].weight.T, (0,)) @ net.out.weight.T + net.out.bias
    assert torch.allclose(net(x), slow, atol=1e-12)
    assert [w.shape[:2] for w in weights] == [(4, 3), (6, 4), (5, 6)]
    assert net(torch.randn(2, 3, 12, 20, dtype=torch.float64)).shape == (2, 7)


def test_svhn_dropout_rates_and_modes() -> None:
    def rates(net: nn.Module) -> list[float]:
        return [m.p for m in net.modules() if isinstance(m, nn.Dropout)]

    assert rates(SVHNNetwork(keep=SRIVASTAVA)) == pytest.approx([0.1, 0.25, 0.25, 0.5, 0.5, 0.5])
    net = SVHNNetwork()
    assert rates(net) == [0.5, 0.5]
    x = images(CASES[1])
    torch.manual_seed(0)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))
    bare = SVHNNetwork(keep=WHOLE)
    bare.load_state_dict(net.state_dict())
    assert not any(isinstance(m, nn.Dropout) for m in bare.modules())
    assert torch.equal(bare.train()(x), net(x))


def test_svhn_starts_gently() -> None:
    """The drawn weights of He, less where dropout stands before a layer and where it is dense."""
    keep = (0.9, 0.8, 1.0, 0.6, 0.5, 0.25)
    ours, drawn = SVHNNetwork(keep=keep, seed=4), SVHNNetwork(seed=None)
    initialise(drawn, 4)
    dense = [1, 1, 1, 0.3, 0.3, 1]
    for layer, share, part in zip(CASES[1].layers, keep, dense, strict=True):
        wanted = drawn.get_submodule(layer).weight * math.sqrt(share) * part  # type: ignore[operator]
        assert torch.allclose(ours.get_submodule(layer).weight, wanted, atol=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("network", "size", "features"),
    [
        (MNISTNetwork, (28, 36), 48 * 4 * 6),
        (MNISTNetwork, 32, 48 * 5 * 5),
        (SVHNNetwork, 36, 128 * 2 * 2),
        (SVHNNetwork, (34, 41), 128 * 1 * 3),
        (GTSRBNetwork, 48, 256 * 3 * 3),
    ],
)
def test_other_sizes_and_channels(
    network: Callable[..., nn.Module], size: int | tuple[int, int], features: int
) -> None:
    net = network(classes=7, channels=1, size=size).eval()
    first = next(m for m in net.modules() if isinstance(m, nn.Linear))
    assert first.in_features == features
    height, width = (size, size) if isinstance(size, int) else size
    assert net(torch.zeros(2, 1, height, width)).shape == (2, 7)


def test_one_hidden_takes_vectors_and_drops_rectified_units() -> None:
    net = OneHidden(7, hidden=400, classes=3, dropout=0.25)
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net.eval()(x), net(x.reshape(5, 1, 7)))
    assert net(x).shape == (5, 3)
    seen: list[Tensor] = []
    net.drop.register_forward_hook(lambda *a: seen.extend((a[1][0], a[2])))
    torch.manual_seed(0)
    net.train()(x)
    rectified, kept = seen
    on = rectified > 0
    assert 0.2 < float((kept[on] == 0).double().mean()) < 0.3
    torch.testing.assert_close(kept[kept > 0], rectified[kept > 0] / 0.75)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MNISTNetwork(size=12), "images of 12×12 are too small"),
        (lambda: SVHNNetwork(size=31), "images of 31×31 are too small"),
        (lambda: GTSRBNetwork(size=(40, 20)), "images of 40×20 are too small"),
        (lambda: AlexNet(size=62), "images of 62×62 are too small"),
        (lambda: MNISTNetwork(classes=0), "classes must be at least 1, got 0"),
        (lambda: SVHNNetwork(channels=-1), "channels must be at least 1, got -1"),
        (lambda: SVHNNetwork(keep=(0.5, 0.5)), "keep takes six shares"),
        (lambda: SVHNNetwork(keep=(1, 1, 1, 1, 0, 1)), "above 0 and at most 1"),
        (lambda: AlexNet(bottleneck=0), "bottleneck must be at least 1, got 0"),
        (lambda: OneHidden(4, hidden=0), "hidden must be at least 1, got 0"),
        (lambda: OneHidden.for_images(channels=0), "channels must be at least 1, got 0"),
    ],
)
def test_refused_when_built(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


SETTINGS = {"classes": 4, "channels": 1, "size": 28, "seed": 2}


def test_build_network_by_name() -> None:
    net = build_network("mnist", **SETTINGS)
    assert isinstance(net, MNISTNetwork)
    wanted = MNISTNetwork(classes=4, channels=1, size=28, seed=2)
    assert torch.equal(net.fc5.weight, wanted.fc5.weight)
    with pytest.raises(UnknownNameError, match="no network 'mnits'; did you mean 'mnist'"):
        build_network("mnits", **SETTINGS)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module in the current directory; its name is forgotten again afterwards."""
    (tmp_path / "my_own_networks.py").write_text(
        "from torch import nn\n"
        "def some(*, classes, size):\n"
        "    assert size == 28\n"
        "    return nn.Linear(3, classes)\n"
        "def everything(**settings):\n"
        "    net = nn.Identity()\n"
        "    net.settings = settings\n"
        "    return net\n"
        "def lazy():\n"
        "    import my_own_helper\n"
        "    return my_own_helper.network\n"
        "def nothing(): return 5\n"
        "def fails(): raise KeyError('two\\nlines')\n"
        "def wants(depth): return nn.Linear(depth, 1)\n"
        "number = 3\n"
    )
    (tmp_path / "my_own_helper.py").write_text("from torch import nn\nnetwork = nn.Linear(2, 2)\n")
    (tmp_path / "my_own_broken.py").write_text("1 / 0\n")
    (tmp_path / "my_own_needy.py").write_text("import no_such_package_at_all\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield "my_own_networks"
    assert sys.path == before
    for name in [name for name in sys.modules if name.startswith("my_own_")]:
        del sys.modules[name]


def test_build_network_of_the_users_own(own_module: str) -> None:
    state = torch.get_rng_state()
    net = build_network(f"{own_module}:some", **SETTINGS)
    assert isinstance(net, nn.Linear)
    assert net.out_features == 4
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert torch.equal(net.weight, build_network(f"{own_module}:some", **SETTINGS).weight)
    other = build_network(f"{own_module}:some", **{**SETTINGS, "seed": 3})
    assert not torch.equal(net.weight, other.weight)
    assert build_network(f"{own_module}:everything", **SETTINGS).settings == {
        **SETTINGS,
        "shape": (1, 28, 28),
    }
    assert isinstance(build_network(f"{own_module}:lazy", **SETTINGS), nn.Linear)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_own_nowhere:f", "no module 'my_own_nowhere' in .* or among the installed packages"),
        ("my_own_networks.sub:f", "no module 'my_own_networks.sub'|failed"),
        ("my_own_needy:f", "'my_own_needy' needs 'no_such_package_at_all', which is missing"),
        ("my_own_broken:f", "importing 'my_own_broken' failed: ZeroDivisionError"),
        ("my_own_networks:sum", r"no function .* 'sum'; did you mean 'some'\?"),
        ("my_own_networks:number", "'number' is not a function"),
        ("my_own_networks:nothing", "must return a torch.nn.Module, got int"),
        ("my_own_networks:fails", "could not be built: KeyError: .*two.*lines"),
        ("my_own_networks:wants", "could not be built: TypeError: .*depth"),
        ("my_own_networks:", "not of the form module:function"),
        (":f", "not of the form module:function"),
    ],
)
def test_build_network_says_in_one_line_what_is_wrong(
    own_module: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build_network(text, **SETTINGS)
    assert "\n" not in str(caught.value)


def test_no_import_without_a_colon(own_module: str) -> None:
    with pytest.raises(UnknownNameError):
        build_network(own_module, **SETTINGS)
    assert own_module not in sys.modules


def test_map_size_is_what_the_layers_give() -> None:
    for n in range(3, 24):
        for kernel, stride, up in itertools.product((1, 2, 3), (1, 2, 3), (False, True)):
            pool = nn.MaxPool2d(kernel, stride, padding=kernel // 2, ceil_mode=up)
            assert map_size((n, n + 1), pool) == pool(torch.zeros(1, 1, n, n + 1)).shape[2:]
