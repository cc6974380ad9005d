"""Features of a whole domain: against the network run by hand, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import DomainAdapter, DomainClassifier, from_arrays
from revgrad.adapted import Adapted
from revgrad.errors import CutError, InputError, UnknownNameError
from revgrad.evaluation import features_at
from revgrad.preprocessing import Preprocessing
from revgrad.tasks import ClassLabels
from tiny import Images, Perceptron, images, seeded, vectors


def by_hand(net: Images, pixels: Tensor) -> dict[str, Tensor]:
    """`Images` in evaluation mode, one image at a time."""
    rows: dict[str, list[Tensor]] = {"pool": [], "fc": []}
    for image in pixels:
        x = net.conv(image[None])
        scale = net.norm.weight / (net.norm.running_var + net.norm.eps).sqrt()
        x = (x - net.norm.running_mean[:, None, None]) * scale[:, None, None]
        pool = net.pool((x + net.norm.bias[:, None, None]).clamp(min=0))
        rows["pool"].append(pool)
        rows["fc"].append(net.fc(net.conv2(pool).flatten(1)))
    return {name: torch.cat(values).detach() for name, values in rows.items()}


def network() -> Images:
    net = seeded(Images, 1, torch.float64)
    with torch.no_grad():
        net.norm.running_mean.add_(0.3)
        net.norm.running_var.mul_(1.7)
    return net


@pytest.mark.parametrize("batch", [1, 4, 500])
def test_features_are_the_layers_output(batch: int) -> None:
    net, domain = network(), images(9, 1)
    prepare = Preprocessing(100.0, 50.0).double()
    pixels = (domain.batch(range(9)).inputs.double() - 100) / 50  # type: ignore[union-attr]
    wanted = by_hand(net, pixels)
    for layer in ("pool", "fc"):
        found = features_at(net, layer, domain, preprocessing=prepare, batch=batch)
        assert found.shape == (9, wanted[layer][0].numel())
        np.testing.assert_allclose(found, wanted[layer].flatten(1).numpy(), atol=1e-12)
    spatial = features_at(net, "pool", domain, preprocessing=prepare, positions=True)
    assert spatial.shape == (9, 9, 4)
    for row in range(3):
        for column in range(3):
            np.testing.assert_allclose(
                spatial[:, 3 * row + column], wanted["pool"][:, :, row, column].numpy(), atol=1e-12
            )
    places = features_at(net, "fc", domain, preprocessing=prepare, positions=True)
    np.testing.assert_allclose(places[:, 0], wanted["fc"].numpy(), atol=1e-12)


def test_an_adapter_brings_its_preprocessing() -> None:
    net, domain = network(), images(5, 2)
    prepare = Preprocessing(90.0, 40.0)
    adapter = DomainAdapter(net, "flat", DomainClassifier(16), prepare)
    found = features_at(adapter, "fc", domain)
    assert np.array_equal(found, features_at(net, "fc", domain, preprocessing=prepare))
    with pytest.raises(InputError, match="its own preprocessing"):
        features_at(adapter, "fc", domain, preprocessing=prepare)
    front = Adapted(net, prepare, "fc", None, domain.shape, ClassLabels()).features(domain)
    assert np.array_equal(front, found)


def test_nothing_is_changed_and_no_label_is_read() -> None:
    net, domain = network(), images(12, 1)
    net.train()
    net.norm2.eval()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.get_rng_state()
    found = features_at(net, "out", domain)
    assert net.training
    assert net.drop.training
    assert not net.norm2.training
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(found, features_at(net, "out", domain.without_labels()))
    assert not net.conv._forward_hooks


def test_an_in_place_layer_behind_does_not_overwrite() -> None:
    net, domain = seeded(Perceptron), vectors(20, 1)
    found = features_at(net, "lower", domain)
    inputs = domain.batch(range(20)).inputs
    np.testing.assert_allclose(found, net.lower(inputs).detach().numpy(), rtol=1e-6)
    assert (found < 0).any()


class Tokens(nn.Module):
    """(n, 4) → (n, 2 places, 3), and a value that crosses the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 3)
        self.out = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.embed(x.reshape(-1, 2, 2)).flatten(1)) + x[:, :2]


def test_tokens_keep_their_places_and_crossing_values_are_no_matter() -> None:
    net, domain = seeded(Tokens), vectors(6, 1)
    found = features_at(net, "embed", domain, positions=True)
    assert found.shape == (6, 2, 3)
    assert np.array_equal(features_at(net, "embed", domain), found.reshape(6, 6))


def test_mistakes_are_one_line() -> None:
    net, domain = seeded(Perceptron), vectors(6, 1)
    with pytest.raises(UnknownNameError, match="no layer 'lwer'; did you mean 'lower'"):
        features_at(net, "lwer", domain)
    with pytest.raises(InputError, match="at least one input at a time, not 0"):
        features_at(net, "lower", domain, batch=0)
    with pytest.raises(InputError, match="is empty"):
        features_at(net, "lower", from_arrays(np.zeros((0, 4), np.float32)))
    net.spare = nn.Linear(2, 2)
    with pytest.raises(CutError, match="never reached"):
        features_at(net, "spare", domain)
