"""CPU time of a training step against a hand-written eager NCHW loop of the same arithmetic.

The reference is what one would write by hand: uint8 images in memory, the networks layer by layer
as in the figures (convolution, ReLU, pooling), the label predictor on the source half, momentum
SGD. One thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from measuring import BRIEF, Measurement, compare, header, work

#: turns of each, and steps of a turn
TURNS = {"mnist": 9, "svhn": 7, "gtsrb": 7, "mlp": 41}
STEPS = {"mnist": 10, "svhn": 2, "gtsrb": 2, "mlp": 100}
if BRIEF:
    STEPS = {"mnist": 1, "mlp": 2}
SIZES = {"mnist": 28, "svhn": 32, "gtsrb": 40}


def data(kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Source inputs, their labels, target inputs."""
    torch.manual_seed(0)
    if kind == "mlp":
        return torch.randn(4000, 32), torch.randint(10, (4000,)), torch.randn(4000, 32)
    images = torch.randint(0, 256, (2, 4000, 3, *[SIZES[kind]] * 2), dtype=torch.uint8)
    return images[0], torch.randint(10, (4000,)), images[1]


# -- by hand ------------------------------------------------------------------------------------


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * gradient, None


def by_hand(kind: str) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Feature extractor, label predictor, domain classifier."""
    if kind == "mnist":
        features = nn.Sequential(
            *(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(32, 48, 5), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()),
        )
        labels = perceptron(768, 100, 100, 10)
        return features, labels, perceptron(768, 100, 1)
    if kind == "svhn":
        features = nn.Sequential(
            *(nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
            *(nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
            *(nn.Conv2d(64, 128, 5), nn.ReLU(), nn.Flatten()),
        )
        labels = nn.Sequential(
            *(nn.Linear(128, 3072), nn.ReLU(), nn.Dropout()),
            *(nn.Linear(3072, 2048), nn.ReLU(), nn.Dropout(), nn.Linear(2048, 10)),
        )
        return features, labels, perceptron(128, 1024, 1024, 1)
    if kind == "gtsrb":
        features = nn.Sequential(
            *(nn.Conv2d(3, 96, 5), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(96, 144, 3), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(144, 256, 5), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()),
        )
        return features, perceptron(1024, 512, 43), perceptron(1024, 1024, 1024, 1)
    features = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
    return features, nn.Linear(64, 10), perceptron(64, 64, 1)


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def reference(kind: str) -> Callable[[], None]:
    source, labels, target = data(kind)
    parts = by_hand(kind)
    features, predictor, classifier = parts
    parameters = [p for part in parts for p in part.parameters()]
    weights = [p for p in parameters if p.ndim > 1]
    optimiser = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    # both loops standardise their inputs: images by one scale, vectors feature by feature
    vectors = kind == "mlp"
    mean = source.mean(0) if vectors else torch.full((3, 1, 1), 127.5)
    scale = source.std(0) if vectors else torch.tensor(74.0)
    domains = torch.cat([torch.zeros(64), torch.ones(64)])
    numbers = permutations(len(source))
    loss = nn.BCEWithLogitsLoss()

    def turn() -> None:
        for _ in range(STEPS[kind]):
            rows, others = next(numbers), next(numbers)
            inputs = torch.cat([source[rows], target[others]])
            inputs = (inputs.float() - mean) / scale
            extracted = features(inputs)
            label = F.cross_entropy(predictor(extracted[:64]), labels[rows])
            domain = loss(classifier(Reverse.apply(extracted, 0.5)).squeeze(1), domains)
            optimiser.zero_grad()
            (label + domain).backward()
            optimiser.step()
            if kind == "svhn":
                with torch.no_grad():
                    for weight in weights:
                        weight.copy_(torch.renorm(weight, 2, 0, 4.0))
            float(label.detach())  # any loop shows its loss

    return turn


def permutations(length: int) -> Iterator[Tensor]:
    while True:
        order = torch.randperm(length)
        for start in range(0, length - 63, 64):
            yield order[start : start + 64]


# -- ours ---------------------------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.out = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.hidden(inputs))
        return logits


def ours(kind: str) -> Callable[[], None]:
    import revgrad
    from revgrad.paper.networks.gtsrb import GTSRBNetwork
    from revgrad.paper.networks.mnist import MNISTNetwork
    from revgrad.paper.networks.svhn import SVHNNetwork
    from revgrad.training.session import keep_large_buffers

    inputs, labels, others = data(kind)
    source = revgrad.from_arrays(inputs.numpy(), labels.numpy())
    target = revgrad.from_arrays(others.numpy())
    kinds = {"mnist": MNISTNetwork, "svhn": SVHNNetwork, "gtsrb": GTSRBNetwork, "mlp": Small}
    network = kinds[kind]()
    adapter = revgrad.DomainAdapter.attach(
        network,
        "hidden" if kind == "mlp" else network.blueprint.layer,
        source.batch([0, 1]).inputs,
        hidden=(64,) if kind == "mlp" else network.blueprint.domain_classifier,
        preprocessing=revgrad.Preprocessing.fit(source, target),
    )
    settings = revgrad.Settings(
        steps=10**6,
        max_weight_norm=4.0 if kind == "svhn" else None,
        **dict.fromkeys(("evaluate_every", "checkpoint_every"), 0),
    )
    trainer = revgrad.Trainer(adapter, source, target, settings=settings)
    adapter.train()
    keep_large_buffers()
    done = 0

    def turn() -> None:
        nonlocal done
        for _ in range(STEPS[kind]):
            factor, rate = trainer.train_step(done)
            done += 1
            trainer._after(done, factor, rate)

    return turn


def main() -> None:
    torch.set_num_threads(1)
    if "--worker" in sys.argv:
        who, kind = sys.argv[-2:]
        work(ours(kind) if who == "ours" else reference(kind))
        return
    header("CPU seconds of a training step, ours against a hand-written NCHW loop")
    chosen = [word for word in sys.argv[1:] if word in STEPS] or list(STEPS)
    for kind in chosen:
        steps = STEPS[kind]
        mine, hand = compare(__file__, ["ours", kind], ["hand", kind], TURNS[kind])
        Measurement(f"step {kind}", mine / steps, hand / steps, hand / mine).show()


if __name__ == "__main__":
    main()
