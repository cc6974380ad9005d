"""The cut against the plain network, written out by hand, for networks that make it hard."""

from __future__ import annotations

import copy
import logging
import pickle
import random
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from revgrad.cutting import Cut, cut, layers
from revgrad.cutting.crossing import CrossingWatch
from revgrad.cutting.tracing import required_arguments
from revgrad.errors import CutError, UnknownNameError


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(6)
        self.fc2 = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.norm(self.drop(torch.tanh(self.fc1(x)))))


class AlexLike(nn.Module):
    """In-place ReLUs right behind the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 4, 3, padding=1),
                relu1=nn.ReLU(inplace=True),
                conv2=nn.Conv2d(4, 5, 3),
                relu2=nn.ReLU(inplace=True),
                pool=nn.AdaptiveAvgPool2d(2),
            )
        )
        self.fc = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.features(x), 1))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.relu(self.norm1(self.conv1(x))))
        out += x
        return self.relu(out)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.stage1 = nn.Sequential(Block(4), Block(4))
        self.stage2 = nn.Sequential(Block(4))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage2(self.stage1(self.stem(x)))
        return self.fc(torch.flatten(self.pool(x), 1))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        self.embed = nn.Linear(5, 8)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


class FunctionalDropout(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(torch.tanh(self.fc1(x)), 0.5, training=self.training)
        return self.fc2(self.norm(x))


class RandomNoise(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.norm(self.fc1(x) + torch.rand(6).to(x)))


class PythonCoin(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if random.random() < 2:  # always, so that both modes have one graph
            x = torch.tanh(x)
        return self.fc2(x)


class DataDependent(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if x.abs().sum() > 0:
            x = torch.tanh(x)
        return self.fc2(self.norm(self.drop(x)))


class Counting(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(1)
        return super().forward(x)


class CountingBuffer(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return super().forward(x)


class AddingBuffer(CountingBuffer):
    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return Mlp.forward(self, x)


class FrozenFront(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.fc1(x)
        return self.fc2(x)


class AsksType(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tensor):
            x = 2 * x
        return self.fc2(self.fc1(x))


class TwoInputs(nn.Module):
    """Two inputs, an optional one, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 6)
        self.right = nn.Linear(2, 6)
        self.join = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)
        self.aux = nn.Linear(6, 2)

    def forward(self, a: Tensor, b: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        x = self.left(a) + self.right(b)
        if mask is not None:
            x = x * mask
        x = F.relu_(self.join(x))
        return {"classes": self.head(x), "aux": self.aux(x)}


def seeded(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return kind().double()


def inputs_for(network: nn.Module, rows: int = 6) -> Tensor:
    torch.manual_seed(1)
    images = (AlexLike, Residual, Upsampling)
    shape = (3, 8, 8) if isinstance(network, images) else {Encoder: (7, 5)}.get(type(network), (4,))
    return torch.randn(rows, *shape, dtype=torch.float64)


def hooks_of(network: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return sum(len(getattr(module, kind)) for module in network.modules() for kind in kinds)


def snapshot(network: nn.Module) -> list[object]:
    """Everything a cut must leave alone."""
    tensors = {key: value.clone() for key, value in network.state_dict().items()}
    attributes = [sorted(map(str, vars(module))) for module in network.modules()]
    modes = [module.training for module in network.modules()]
    return [list(tensors), [v.tolist() for v in tensors.values()], attributes, modes]


TRACED = [
    (Mlp, "fc1"),
    (Mlp, "drop"),
    (AlexLike, "features.conv1"),
    (AlexLike, "features.conv2"),
    (AlexLike, "features.relu2"),
    (AlexLike, "features"),
    (Residual, "stem"),
    (Residual, "stage1.0"),
    (Residual, "stage1"),
    (Residual, "pool"),
    (Encoder, "embed"),
    (Encoder, "encoder"),
]
TAPPED = [
    (FunctionalDropout, "fc1", "training mode"),
    (RandomNoise, "fc1", "random numbers"),
    (PythonCoin, "fc1", "random numbers"),
    (DataDependent, "fc1", "depends on the data"),
    (Counting, "fc1", "changes the attribute 'calls'"),
    (CountingBuffer, "fc1", "changes the attribute 'count'"),
    (AddingBuffer, "fc1", "changes 'count'"),
    (FrozenFront, "fc1", "switches gradients"),
    (AsksType, "fc1", "isinstance"),
    (Encoder, "encoder.layers.0", "depends on the data"),
]
ALL = [*TRACED, *((kind, layer) for kind, layer, _ in TAPPED)]


@pytest.mark.parametrize(("kind", "layer"), TRACED)
def test_traced(kind: type[nn.Module], layer: str) -> None:
    made = cut(seeded(kind), layer)
    assert made.traced
    assert made.reason is None
    assert isinstance(made.predictor, nn.Module)


@pytest.mark.parametrize(("kind", "layer", "reason"), TAPPED)
def test_tapped_with_reason_and_a_line(
    kind: type[nn.Module], layer: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "revgrad"):
        made = cut(seeded(kind), layer)
    assert not made.traced
    assert made.predictor is None
    assert made.reason is not None
    assert reason in made.reason
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert made.reason in caplog.text
    with pytest.raises(CutError, match="features alone"):
        made.predict(torch.zeros(2, 6))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("tap", [False, True])
@pytest.mark.parametrize(("kind", "layer"), ALL)
def test_bit_for_bit_the_plain_network(
    kind: type[nn.Module], layer: str, tap: bool, training: bool
) -> None:
    network = seeded(kind).train(training)
    x = inputs_for(network)
    seen: list[Tensor] = []
    reference = copy.deepcopy(network)
    made = cut(network, layer, tap=tap)

    def run() -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(2)
        features, out = made.forward(x, slice(0, len(x)))
        torch.manual_seed(2)
        expected = reference(x)
        if kind is not Encoder or training:  # a hook would switch the fast path off
            handle = reference.get_submodule(layer).register_forward_hook(
                lambda module, args, output: seen.append(output.clone())
            )
            torch.manual_seed(2)
            reference(x)
            handle.remove()
            assert torch.equal(features, seen[-1])
        return features, out, expected

    features, out, expected = run()
    assert torch.equal(out, expected)
    with torch.no_grad():
        features, out, expected = run()
        assert torch.equal(out, expected)
        if made.traced and not training:
            assert torch.equal(made.predict(features), expected)
            assert torch.equal(made.predictor(features.clone()), expected)
            assert torch.equal(made.features(x), features)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("kind", "layer"), TRACED)
def test_cut_and_tap_agree(kind: type[nn.Module], layer: str, mask: bool) -> None:
    """Features, predictions, gradients and running statistics, on some rows, in training mode."""
    rows = torch.tensor([True, False, True, True, False, False]) if mask else slice(0, 3)
    results = []
    for tap in (False, True):
        network = seeded(kind)
        made = cut(network, layer, tap=tap)
        assert made.traced is not tap
        torch.manual_seed(3)
        features, out = made.forward(inputs_for(network), rows)
        assert features.shape[0] == 6
        assert out.shape == (3, 3)
        (out.square().sum() + features.pow(3).sum()).backward()
        gradients = [parameter.grad for parameter in network.parameters()]
        results.append([features, out, *gradients, *network.buffers()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tap", [False, True])
def test_behind_the_cut_only_chosen_rows_are_seen(tap: bool) -> None:
    network = seeded(Mlp)
    by_hand = copy.deepcopy(network)
    x = inputs_for(network)
    torch.manual_seed(4)
    features, out = cut(network, "fc1", tap=tap).forward(x, slice(2, 5))
    torch.manual_seed(4)
    h = by_hand.fc1(x)
    expected = by_hand.fc2(by_hand.norm(by_hand.drop(torch.tanh(h[2:5]))))
    assert torch.equal(features, h)
    assert torch.equal(out, expected)
    assert torch.equal(network.norm.running_mean, by_hand.norm.running_mean)
    assert torch.equal(network.norm.running_var, by_hand.norm.running_var)


def test_tapped_functional_dropout_draws_the_masks_of_the_chosen_rows() -> None:
    network = seeded(FunctionalDropout)
    by_hand = copy.deepcopy(network)
    x = inputs_for(network)
    torch.manual_seed(5)
    _, out = cut(network, "fc1").forward(x, slice(0, 4))
    torch.manual_seed(5)
    h = F.dropout(torch.tanh(by_hand.fc1(x)[:4]), 0.5, training=True)
    assert torch.equal(out, by_hand.fc2(by_hand.norm(h)))
    network.eval(), by_hand.eval()
    # fc1 sees all rows in both: how a product rounds may depend on their number
    expected = by_hand.fc2(by_hand.norm(torch.tanh(by_hand.fc1(x)[:4])))
    assert torch.equal(cut(network, "fc1").forward(x, slice(0, 4))[1], expected)


@pytest.mark.parametrize("tap", [False, True])
@pytest.mark.parametrize("rows", [slice(0, 6), slice(0, 3), torch.ones(6, dtype=torch.bool)])
def test_in_place_relu_leaves_the_features(tap: bool, rows: slice | Tensor) -> None:
    network = seeded(AlexLike)
    made = cut(network, "features.conv1", tap=tap)
    x = inputs_for(network)
    features, out = made.forward(x, rows)
    expected = network.features.conv1(x)
    assert bool((expected < 0).any())
    assert torch.equal(features, expected)
    (features.sum() + out.sum()).backward()
    if not tap:
        given = expected.detach().clone()
        made.predict(given)
        assert torch.equal(given, expected)


@pytest.mark.parametrize("tap", [False, True])
@pytest.mark.parametrize("rows", [None, slice(0, 0), torch.zeros(6, dtype=torch.bool)])
def test_no_row_means_no_label_predictor(tap: bool, rows: slice | Tensor | None) -> None:
    network = seeded(Mlp)
    x = inputs_for(network)
    before = network.norm.num_batches_tracked.clone()
    features, out = cut(network, "fc1", tap=tap).forward(x, rows)
    assert out is None
    assert torch.equal(features, network.fc1(x))
    assert torch.equal(network.norm.num_batches_tracked, before)


@pytest.mark.parametrize(("kind", "layer"), ALL)
def test_network_is_untouched(kind: type[nn.Module], layer: str) -> None:
    network = seeded(kind)
    network.get_submodule(layer).eval()  # a mixed mode, as with a frozen layer
    before = snapshot(network)
    identities = [id(value) for value in (*network.parameters(), *network.buffers())]
    torch.manual_seed(6)
    random.seed(6)
    made = cut(network, layer)
    drawn = torch.rand(3), random.random()
    assert made.network is network
    assert snapshot(network) == before
    assert [id(value) for value in (*network.parameters(), *network.buffers())] == identities
    torch.manual_seed(6)
    random.seed(6)
    assert torch.equal(drawn[0], torch.rand(3))
    assert drawn[1] == random.random()
    if kind is Counting:
        assert (network.calls, network.seen) == (0, [])
    network.eval()
    attributes = snapshot(network)[2:]
    made.forward(inputs_for(network), slice(0, 2))
    made.features(inputs_for(network))
    assert snapshot(network)[2:] == attributes
    assert hooks_of(network) == 0
    if made.predictor is not None:
        own = {id(parameter) for parameter in network.parameters()}
        assert all(id(parameter) in own for parameter in made.predictor.parameters())


def test_residual_cut_inside_a_block_names_what_crosses_and_what_works() -> None:
    network = seeded(Residual)
    with pytest.raises(CutError) as caught:
        cut(network, "stage1.0.conv1")
    message = str(caught.value)
    assert "'stage1.0.conv1'" in message
    assert "the output of 'stem'" in message
    suggested = message.split("layers that work: ")[1].replace("'", "").split(", ")
    assert suggested[0] == "stem"
    assert "stage1.0" in suggested
    assert len(suggested) <= 5
    for name in suggested:
        assert cut(network, name).traced
    with pytest.raises(CutError, match=r"behind layer 'stage1\.0\.conv1'.*cross the cut"):
        cut(network, "stage1.0.conv1", tap=True).forward(inputs_for(network), slice(0, 3))
    with pytest.raises(CutError, match="cross the cut"):  # one row broadcasts without an error
        cut(network, "stage1.0.conv1", tap=True).forward(inputs_for(network), slice(0, 1))
    assert hooks_of(network) == 0


class Sizes(nn.Module):
    """Sizes of earlier values used behind the layer: the rows, and others."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.act = nn.Tanh()
        self.fc1 = nn.Linear(4, 6)
        self.fc2 = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.what == "shape[0]":
            number = x.shape[0] * 1
        elif self.what == "unpacked":
            number, _ = x.shape
        elif self.what == "hidden":
            x = torch.relu(x)
            number = x.size(0)
        elif self.what == "module":
            number = self.act(x).size(0)
        elif self.what == "width":
            number = x.shape[1] // 4
        elif self.what == "made":
            number = torch.full((1,), 2.0, dtype=x.dtype)
        elif self.what == "merged":
            number = x.view(-1, 2).size(0)
        elif self.what == "stacked":
            number = torch.cat([x, x]).size(0)
        else:
            return self.fc2(self.fc1(x)) + x.sum()
        return self.fc2(self.fc1(x)) / number


@pytest.mark.parametrize("what", ["shape[0]", "unpacked", "hidden", "module"])
def test_the_number_of_rows_is_that_of_the_features(what: str) -> None:
    torch.manual_seed(0)
    network = Sizes(what).double()
    made = cut(network, "fc1")
    x = inputs_for(network)
    assert made.traced
    assert torch.equal(made.forward(x, slice(0, 6))[1], network(x))
    expected = network(x)[:2] * 6 / 2
    torch.testing.assert_close(made.forward(x, slice(0, 2))[1], expected, rtol=1e-12, atol=0)


class Upsampling(nn.Module):
    """F.interpolate between the layers; the end reads the number of samples from what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, padding=1)
        self.deep = nn.Conv2d(4, 4, 3, padding=1)
        self.join = nn.Conv2d(4, 4, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(16, 3)

    def joined(self, deep: Tensor, kept: Tensor) -> Tensor:
        return self.join(deep + kept)

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.relu(self.down(x))
        deep = self.deep(F.max_pool2d(kept, 2))
        large = F.interpolate(self.joined(F.interpolate(deep, scale_factor=2), kept), size=(9, 9))
        return self.fc(self.pool(large).view(large.shape[0], -1))


class UNet(Upsampling):
    """What was upsampled and what was there before, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Conv2d(8, 4, 3, padding=1)

    def joined(self, deep: Tensor, kept: Tensor) -> Tensor:
        return self.join(torch.cat([deep, kept], 1))


@pytest.mark.parametrize("layer", ["down", "join", "pool"])
@pytest.mark.parametrize("kind", [Upsampling, UNet])
def test_networks_that_interpolate_are_cut_where_nothing_crosses(
    kind: type[nn.Module], layer: str
) -> None:
    network = seeded(kind)
    made = cut(network, layer)
    x = inputs_for(network)
    assert made.traced
    assert torch.equal(made.forward(x, slice(0, 6))[1], network(x))
    torch.testing.assert_close(made.forward(x, slice(0, 2))[1], network(x)[:2])
    with pytest.raises(CutError, match="'relu' is used behind it as well; layers that work: '"):
        cut(network, "deep")


@pytest.mark.parametrize(("what", "number"), [("width", 1), ("made", 2)])
def test_other_sizes_need_a_tap(what: str, number: int) -> None:
    torch.manual_seed(0)
    network = Sizes(what).double()
    made = cut(network, "fc1")
    x = inputs_for(network)
    assert not made.traced
    assert "sizes" in (made.reason or "")
    # fc1 sees all rows in both: how a product rounds may depend on their number
    expected = network.fc2(network.fc1(x)[:2]) / number
    assert torch.equal(made.forward(x, slice(0, 2))[1], expected)


@pytest.mark.parametrize(
    ("what", "named"), [("merged", "size"), ("stacked", "size"), ("input", "sum")]
)
def test_values_that_cross_are_named(what: str, named: str) -> None:
    with pytest.raises(CutError, match=f"'{named}"):
        cut(Sizes(what), "fc1")


class Crossing(Mlp):
    """Values of the whole batch, computed in front of `fc1` and used behind it (or not)."""

    def __init__(self, what: str, asks: bool = False) -> None:
        super().__init__()
        self.what = what
        self.asks = asks  # for a value in Python: no graph, hence a tap

    def forward(self, x: Tensor) -> Any:
        if self.asks and x.sum() > 1e9:
            return x
        mean = x.mean(0)
        norm = self.norm(self.fc1.weight.mean(1) + x.sum(1, keepdim=True))
        h = self.fc1(x)
        if self.what == "broadcast":
            return self.fc2(h) + mean.sum()
        if self.what == "in place":
            h[:, :4].sub_(mean)
            return self.fc2(h)
        if self.what == "viewed":
            return self.fc2(h) * mean.view(2, 2)[0, 0]
        if self.what == "returned":
            return {"classes": self.fc2(h), "mean": mean}
        if self.what == "input":
            return self.fc2(h) + x[:1, :3]
        if self.what == "module":
            return self.fc2(h) + norm[0, :3]
        if self.what == "training" and self.training:
            return self.fc2(h) + mean.sum()
        # none crosses: a shared norm, values made to a kind, a value that nothing behind uses
        h = self.norm(h) + x.new_ones(6) + torch.zeros(6).to(x)
        mean.add_(1)
        return self.fc2(h)


CROSSING = [
    ("broadcast", "'sum' is"),
    ("in place", "'mean' is"),
    ("viewed", "'mean' is"),
    ("returned", "'mean' is"),
    ("input", "the input is"),
    ("module", "the output of 'norm' is"),
]


@pytest.mark.parametrize(("what", "named"), CROSSING)
@pytest.mark.parametrize("rows", [slice(0, 3), slice(0, 6), torch.arange(6) < 1])
def test_a_tap_refuses_what_crosses_as_a_graph_does(
    what: str, named: str, rows: slice | Tensor
) -> None:
    refused = r"can't cut at layer 'fc1': .* used behind it as well"
    with pytest.raises(CutError, match=refused):
        cut(Crossing(what), "fc1")
    for network, tap in ((Crossing(what), True), (Crossing(what, asks=True), False)):
        made = cut(network.double(), "fc1", tap=tap)
        assert not made.traced
        assert made.features(inputs_for(network)).shape == (6, 6)
        for _ in range(2):  # a refusal is not forgotten
            with pytest.raises(CutError, match=refused) as caught:
                made.forward(inputs_for(network), rows)
            assert f"'fc1': {named} used" in str(caught.value)
    found = {layer.name: layer for layer in layers(network, inputs_for(network))}
    assert "used behind it as well" in (found["fc1"].reason or "")


def test_a_tap_lets_through_what_does_not_cross() -> None:
    network = Crossing("nothing", asks=True).double()
    x = inputs_for(network)
    found = {layer.name: layer for layer in layers(network, x)}
    assert found["fc1"].cuttable
    _, out = cut(network, "fc1").forward(x, slice(0, 6))
    torch.testing.assert_close(out, network(x), rtol=1e-12, atol=1e-12)


def test_a_tap_is_watched_in_the_first_run_of_each_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(CrossingWatch):
        def __init__(self, network: nn.Module, inputs: Tensor) -> None:
            super().__init__(network, inputs)
            made.append(network.training)

    monkeypatch.setattr("revgrad.cutting.tap.CrossingWatch", Counted)
    network = Crossing("training", asks=True).double().eval()
    tapped = cut(network, "fc1")
    x = inputs_for(network)
    for _ in range(3):
        tapped.features(x)
        tapped.forward(x, slice(0, 3))
    assert made == [False]
    network.train()
    with pytest.raises(CutError, match="'sum' is used behind it"):
        tapped.forward(x, slice(0, 3))
    assert made == [False, True]


class Spread(Mlp):
    """One answer for all samples, as often as there are inputs: their number is no tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x)).mean(0).expand(len(x), 3)


def test_a_tap_refuses_an_output_of_more_samples_than_chosen() -> None:
    network = seeded(Spread)
    with pytest.raises(CutError, match="gives 6 samples for 2 chosen ones"):
        cut(network, "fc1", tap=True).forward(inputs_for(network), slice(0, 2))


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.twice = nn.Linear(4, 4)
        self.never = nn.Linear(4, 4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.pair = Pair()
        self.unused = nn.Linear(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.twice(self.twice(self.fc(x)))
        self.unused(x)
        x = self.pair(self.lstm(x)[0])[1]
        return self.last(x)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x + 1


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("", "whole network"),
        ("twice", "called 2 times.*layers that work: .*'fc'"),
        ("never", "never reached.*layers that work"),
        ("lstm", "LSTM.* not return one tensor"),
        ("unused", "does not reach the network's output"),
        ("last", "no label predictor is left"),
    ],
)
def test_layers_that_cannot_be_cut_at(layer: str, message: str) -> None:
    with pytest.raises(CutError, match=message):
        cut(Odd(), layer)


def test_faults_seen_only_when_running() -> None:
    x = torch.randn(3, 5, 4)
    with pytest.raises(CutError, match="'pair' returns a tuple"):
        cut(Odd(), "pair").features(x)
    for layer, message in [
        ("pair", "returns a tuple"),
        ("twice", "more than once"),
        ("never", "never reached"),
        ("last", "no label predictor"),
    ]:
        network = Odd()
        with pytest.raises(CutError, match=message):
            cut(network, layer, tap=True).forward(x, slice(0, 2))
        assert hooks_of(network) == 0
    merging = nn.Sequential(nn.Flatten(0, 1), nn.Linear(4, 3))
    for tap in (False, True):
        with pytest.raises(CutError, match="one row per sample"):
            cut(merging, "0", tap=tap).forward(x, slice(0, 2))


def test_unknown_layer() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fc1'"):
        cut(Mlp(), "fc11")


@pytest.mark.parametrize("tap", [False, True])
def test_tuple_and_dict_inputs_and_two_heads(tap: bool) -> None:
    network = seeded(TwoInputs)
    made = cut(network, "join", tap=tap)
    torch.manual_seed(7)
    a, b = torch.randn(6, 4).double(), torch.randn(6, 2).double()
    mask = torch.rand(6, 6).double()
    for inputs in ((a, b), {"b": b, "a": a}, (a, b, mask), {"a": a, "b": b, "mask": mask}):
        plain = network(**inputs) if isinstance(inputs, dict) else network(*inputs)
        features, out = made.forward(inputs, slice(0, 6))
        assert features.shape == (6, 6)
        assert bool((features < 0).any())  # before the relu_ behind it
        assert out.keys() == plain.keys()
        assert all(torch.equal(out[key], plain[key]) for key in plain)
        _, some = made.forward(inputs, slice(1, 4))
        torch.testing.assert_close(some["aux"], plain["aux"][1:4], rtol=1e-12, atol=1e-12)
    assert made.traced is not tap
    assert required_arguments(network) == ("a", "b")


class Shifted(nn.Module):
    """Parameters, buffers and arithmetic on them on both sides of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((4,), 0.5))
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.fc1 = nn.Linear(4, 4)
        self.fc2 = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1((x - self.mean) * self.scale)
        return self.fc2((x - 2 * self.mean) * self.scale)


def test_follows_the_network_to_another_dtype() -> None:
    torch.manual_seed(0)
    network = Shifted()
    made = cut(network, "fc1")
    assert made.traced
    network.double()
    network.mean += 1
    x = inputs_for(network)
    assert torch.equal(made.forward(x, slice(0, 6))[1], network(x))
    assert torch.equal(made.predictor(made.features(x)), network(x))
    x, _ = x.float(), network.float()
    assert torch.equal(made.predict(made.features(x)), network(x))


def test_training_moves_the_network_and_the_cut_together() -> None:
    network = seeded(Shifted)
    made = cut(network, "fc1")
    x = inputs_for(network)
    before = network(x)
    made.predictor.fc2.weight.data.add_(1)
    assert not torch.equal(network(x), before)
    assert torch.equal(made.forward(x, slice(0, 6))[1], network(x))


def copied(made: Cut, way: str) -> Cut:
    return copy.deepcopy(made) if way == "deepcopy" else pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
@pytest.mark.parametrize(("kind", "layer"), [(Mlp, "fc1"), (DataDependent, "fc1")])
def test_copies_share_nothing(kind: type[nn.Module], layer: str, way: str) -> None:
    network = seeded(kind).eval()
    made = cut(network, layer)
    other = copied(made, way)
    x = inputs_for(network)
    expected = network(x)
    with torch.no_grad():
        for parameter in other.network.parameters():
            parameter.add_(1)
    other.network.train()
    other.forward(x, slice(0, 4))
    assert torch.equal(network(x), expected)
    assert torch.equal(made.forward(x, slice(0, 6))[1], expected)
    other.network.eval()
    assert torch.equal(other.forward(x, slice(0, 6))[1], other.network(x))
    assert not torch.equal(other.network(x), expected)
    assert (other.traced, other.layer) == (made.traced, layer)
    assert cut(network, layer, tap=True).reason == copied(cut(network, layer, tap=True), way).reason


def test_network_copied_with_its_cut_stays_together() -> None:
    network = seeded(Mlp)
    pair = copy.deepcopy({"network": network, "cut": cut(network, "fc1")})
    assert pair["cut"].network is pair["network"]


class Failing(DataDependent):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        raise KeyError("mine")


def test_tap_is_removed_when_the_network_fails() -> None:
    network = Failing()
    made = cut(network, "fc1")
    with pytest.raises(KeyError, match="mine"):
        made.forward(torch.randn(4, 4), slice(0, 4))
    assert hooks_of(network) == 0
    with pytest.raises(RuntimeError, match="shapes"):  # in front of the layer: not the cut's fault
        made.forward(torch.randn(4, 5), slice(0, 2))
    assert hooks_of(network) == 0


class SelfCutting(DataDependent):
    """Looks at its own features before it runs, through a tap of its own."""

    inner: Cut | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.inner is not None:
            inner, self.inner = self.inner, None
            features, out = inner.forward(x, slice(0, 1))
            self.inner = inner
            assert features.shape[0] == 6
            assert out.shape[0] == 1
        return super().forward(x)


@pytest.mark.parametrize("layer", ["fc1", "norm"])
def test_taps_nest(layer: str) -> None:
    network = seeded(SelfCutting).eval()
    x = inputs_for(network)
    expected = network(x)
    outer = cut(network, "fc1")
    network.inner = cut(network, layer)
    features, out = outer.forward(x, slice(0, 4))
    assert torch.equal(features, network.fc1(x))
    torch.testing.assert_close(out, expected[:4], rtol=1e-12, atol=1e-12)
    assert torch.equal(outer.features(x), features)
    assert hooks_of(network) == 0


class Swallowing(DataDependent):
    def forward(self, x: Tensor) -> Tensor:
        try:
            return super().forward(x)
        except Exception:
            raise AssertionError("the private signal was caught") from None


def test_tap_stops_at_the_layer_past_the_networks_own_except() -> None:
    network = seeded(Swallowing)
    assert cut(network, "fc1").features(inputs_for(network)).shape == (6, 6)


def test_hooks_of_the_user_still_run() -> None:
    network = seeded(Mlp)
    network.register_forward_hook(lambda module, args, output: output + 1)
    network.fc1.register_forward_hook(lambda module, args, output: output * 2)
    made = cut(network.eval(), "fc1")
    x = inputs_for(network)
    assert "hooks" in (made.reason or "")
    features, out = made.forward(x, slice(0, 6))
    assert torch.equal(features, network.fc1(x))
    assert torch.equal(out, network(x))


def test_no_grad_inside_the_network_is_kept() -> None:
    network = seeded(FrozenFront)
    features, out = cut(network, "fc1").forward(inputs_for(network), slice(0, 3))
    assert not features.requires_grad
    out.sum().backward()
    assert network.fc1.weight.grad is None
    assert network.fc2.weight.grad is not None


def test_layers_of_a_traceable_network() -> None:
    network = seeded(Residual)
    before = snapshot(network)
    found = {layer.name: layer for layer in layers(network, inputs_for(network, 3))}
    assert snapshot(network) == before
    assert hooks_of(network) == 0
    names = list(found)
    assert names.index("stem") < names.index("stage1.0.conv1") < names.index("stage1.0")
    assert names.index("stage1.0") < names.index("stage1") < names.index("fc")
    assert found["stem"][1:] == ("Conv2d", (4, 8, 8), True, None)
    assert found["pool"].shape == (4, 1, 1)
    assert "the output of 'stem' is used behind it" in (found["stage1.0.conv1"].reason or "")
    assert found["stage1.0.relu"].reason == "called 2 times"
    assert "no label predictor" in (found["fc"].reason or "")
    for layer in found.values():
        if layer.cuttable:
            cut(network, layer.name)
        else:
            with pytest.raises(CutError):
                cut(network, layer.name)


class UntracedSkip(DataDependent):
    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if x.abs().sum() > 0:
            x = x + self.norm(x)
        return self.fc2(x)


def test_layers_of_an_untraceable_network() -> None:
    network = seeded(UntracedSkip)
    before = snapshot(network)
    found = {layer.name: layer for layer in layers(network, inputs_for(network, 4))}
    assert snapshot(network) == before
    assert hooks_of(network) == 0
    assert list(found) == ["fc1", "norm", "fc2", "drop"]
    assert found["fc1"][1:] == ("Linear", (6,), True, None)
    assert not found["norm"].cuttable
    assert "cross the cut" in (found["norm"].reason or "")
    assert "no label predictor" in (found["fc2"].reason or "")
    assert found["drop"][2:] == (None, False, "never reached")
    with pytest.raises(CutError, match=r"the output of 'fc1' is used behind it"):  # it broadcasts
        cut(network.eval(), "norm").forward(inputs_for(network, 4), slice(0, 1))


def test_layers_runs_in_evaluation_mode() -> None:
    network = seeded(Mlp).train()
    found = layers(network, inputs_for(network, 1))  # BatchNorm refuses one row in training
    assert [layer.name for layer in found if layer.cuttable] == ["fc1", "drop", "norm"]
    assert network.norm.training


def test_tapped_encoder_layer_is_exact_beside_its_fast_path() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    network = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Tanh())
    network.eval()
    x = torch.randn(8, 16, 64)
    made = cut(network, "0.layers.0")
    assert not made.traced
    with torch.no_grad():
        features, out = made.forward(x, slice(0, 8))
        assert torch.equal(features, network[0].layers[0](x))
        assert torch.equal(out, network(x))
    assert hooks_of(network) == 0


def test_layers_agree_with_the_layers_of_an_encoder() -> None:
    network = seeded(Encoder)
    found = {layer.name: layer for layer in layers(network, inputs_for(network))}
    assert found["encoder.layers.0"].shape == (7, 8)
    assert found["encoder.layers.0"].cuttable
    assert not found["encoder.layers.0.linear1"].cuttable
    assert found["encoder"].cuttable


def test_layers_takes_nested_inputs() -> None:
    example = {"a": torch.randn(4, 4).double(), "b": torch.randn(4, 2).double()}
    found = {layer.name: layer for layer in layers(seeded(TwoInputs), example)}
    assert found["join"].cuttable
    assert not found["left"].cuttable
    assert "'right'" in (found["left"].reason or "")


def test_layers_lists_what_is_not_one_tensor() -> None:
    found = {layer.name: layer for layer in layers(Odd(), torch.randn(3, 5, 4))}
    assert "tuple" in (found["lstm"].reason or "")
    assert "tuple" in (found["pair"].reason or "")
    assert "never reached" in (found["never"].reason or "")
    assert found["fc"].cuttable
