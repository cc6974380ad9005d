"""One step of every task, beside the same step written out by hand in NumPy, in float64.

The three networks of the cases are all f = W₁ x, h = max(f, 0), z = W₂ h at every position: a
vector has one, a series five, an image 64 (x are then the 27 numbers of a pixel's surroundings).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from revgrad import Callback, Preprocessing, adapt
from task_cases import CASES, Case, Pixels, Steps

LAMBDA, RATE, SAMPLES = 0.7, 0.05, 12


class Notes(Callback):
    """The parameters before the step, and the gradients of it."""

    def __init__(self) -> None:
        self.before: dict[str, np.ndarray] = {}
        self.gradients: dict[str, np.ndarray] = {}

    def on_start(self, trainer: Any, step: int) -> None:
        named = trainer.adapter.named_parameters()
        self.before = {name: p.detach().numpy().copy() for name, p in named}

    def on_step(self, trainer: Any, step: int) -> None:
        named = trainer.adapter.named_parameters()
        self.gradients = {name: p.grad.numpy().copy() for name, p in named}


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def softmax(z: np.ndarray) -> np.ndarray:
    shares = np.exp(z - z.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def label_gradient(name: str, z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """∂L_y/∂z of outputs (n, positions, k): L_y is the mean over samples, or labelled positions."""
    n, _, k = z.shape
    if name in ("classes", "names", "booleans"):
        numbers = np.unique(labels, return_inverse=True)[1]
        return (softmax(z) - np.eye(k)[numbers][:, None]) / n
    if name in ("binary", "binary names"):
        truth = np.unique(labels, return_inverse=True)[1].reshape(n, 1, 1)
        return (sigmoid(z) - truth) / n
    if name == "multi-label":
        return (sigmoid(z) - labels[:, None]) / (n * k)
    if name.startswith("regression"):
        return 2 * (z - labels.reshape(n, 1, k)) / (n * k)
    if name == "ordinal":
        above = labels[:, None] > np.arange(k)
        return (sigmoid(z) - above[:, None]) / (n * k)
    if name in ("dense", "sequence"):
        flat = labels.reshape(n, -1)
        known = flat != (255 if name == "dense" else -100)
        truth = np.eye(k)[np.where(known, flat, 0)]
        return (softmax(z) - truth) * known[..., None] / known.sum()
    assert name == "custom"  # the quantile of .9
    below = labels[:, None, None] > z
    return np.where(below, -0.9, 0.1) / n


def positions_of(case: Case, inputs: np.ndarray) -> np.ndarray:
    """(n, positions, numbers): what W₁ is applied to."""
    if case.network is Steps:
        return inputs
    if case.network is not Pixels:
        return inputs[:, None]
    padded = np.pad(inputs, ((0, 0), (0, 0), (1, 1), (1, 1)))
    found = [
        padded[:, :, row : row + 3, column : column + 3].reshape(len(inputs), -1)
        for row in range(8)
        for column in range(8)
    ]
    return np.stack(found, 1)


def flat_features(case: Case, f: np.ndarray) -> np.ndarray:
    """As torch lays them out: of an image the channels first."""
    return (f.transpose(0, 2, 1) if case.network is Pixels else f).reshape(len(f), -1)


def gradients_by_hand(
    case: Case, p: dict[str, np.ndarray], source: Any, target: np.ndarray
) -> dict[str, np.ndarray]:
    inputs, labels = source
    x = positions_of(case, np.concatenate([inputs, target]))
    n, units = len(inputs), len(p["network.lower.bias"])
    w1 = p["network.lower.weight"].reshape(units, -1)
    w2 = p["network.upper.weight"].reshape(-1, units)
    f = x @ w1.T + p["network.lower.bias"]
    # the label predictor, on the source
    h = np.maximum(f[:n], 0)
    dz = label_gradient(case.name, h @ w2.T + p["network.upper.bias"], labels)
    dh = dz @ w2
    # the domain classifier, on both: the mean of −log p(domain)
    domain = np.repeat([0.0, 1.0], [n, len(target)])
    flat = flat_features(case, f)
    one, two = "domain_classifier.fc1_d", "domain_classifier.fc2_d"
    g = flat @ p[f"{one}.weight"].T + p[f"{one}.bias"]
    a = np.maximum(g, 0)
    s = (a @ p[f"{two}.weight"].T + p[f"{two}.bias"])[:, 0]
    ds = ((sigmoid(s) - domain) / len(domain))[:, None]
    dg = ds @ p[f"{two}.weight"] * (g > 0)
    back = dg @ p[f"{one}.weight"]
    # what reaches the features: the label predictor's gradient, less λ times the domains'
    shape = (len(f), units, -1) if case.network is Pixels else f.shape
    back = back.reshape(shape)
    df = -LAMBDA * (back.transpose(0, 2, 1) if case.network is Pixels else back)
    df[:n] += dh * (f[:n] > 0)
    return {
        "network.lower.weight": np.einsum("npu,npx->ux", df, x),
        "network.lower.bias": df.sum((0, 1)),
        "network.upper.weight": np.einsum("npk,npu->ku", dz, h),
        "network.upper.bias": dz.sum((0, 1)),
        f"{one}.weight": dg.T @ flat,
        f"{one}.bias": dg.sum(0),
        f"{two}.weight": ds.T @ a,
        f"{two}.bias": ds.sum(0),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradients_and_update_are_those_written_out_by_hand(case: Case) -> None:
    x, labels = case.source(SAMPLES)
    target = case.target(SAMPLES)[0]
    if case.network is Pixels:  # as the network gets them: the channels first
        x, target = (one.transpose(0, 3, 1, 2) / 255 for one in (x, target))
    inputs, target = x.astype(np.float64), target.astype(np.float64)
    if labels.dtype.kind == "f":
        labels = labels.astype(np.float64)
    network, notes = case.build().double(), Notes()
    made = adapt(
        network,
        (inputs, labels),
        target,
        recipe="paper",
        layer="lower",
        task=case.task,
        preprocessing=Preprocessing.identity().double(),
        domain_classifier=(4,),
        held_out=0,
        steps=1,
        batch_size=2 * SAMPLES,  # all samples
        adaptation_factor=LAMBDA,
        learning_rate=RATE,
        momentum=0.0,
        callbacks=[notes],
        progress=False,
        device="cpu",
    )
    assert all(one.dtype == np.float64 for one in notes.before.values())
    expected = gradients_by_hand(case, notes.before, (inputs, labels), target)
    assert set(expected) == set(notes.gradients)
    after = dict(made.adapter.named_parameters())  # type: ignore[union-attr]
    for name, gradient in expected.items():
        before = notes.before[name]
        found = notes.gradients[name]
        scale = max(abs(gradient).max(), 1e-3)
        np.testing.assert_allclose(
            found, gradient.reshape(found.shape), rtol=0, atol=1e-12 * scale, err_msg=name
        )
        updated = torch.from_numpy(before - RATE * gradient.reshape(before.shape))
        torch.testing.assert_close(after[name].detach(), updated, rtol=0, atol=1e-12)
