"""Gradient reversal under Accelerate: python examples/loops/with_accelerate.py"""

from collections.abc import Iterator

import torch
from accelerate import Accelerator
from moons import accuracy, moons
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from revgrad import Annealed, RampUp, reverse_gradient
from revgrad.networks import DomainClassifier


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.labels, self.domains = nn.Linear(64, 2), DomainClassifier(64, hidden=(64,))

    def forward(self, inputs: Tensor, factor: float = 0.0) -> tuple[Tensor, Tensor]:
        found = self.features(inputs)
        return self.labels(found), self.domains(reverse_gradient(found, factor))


def pairs(source: DataLoader, others: DataLoader) -> Iterator:
    while True:  # both have as many batches here; each pass is shuffled anew
        yield from zip(source, others, strict=True)


def train(x: Tensor, y: Tensor, target: Tensor, steps: int = 1000, batch: int = 100) -> nn.Module:
    torch.manual_seed(0)
    accelerator, network, ramp_up, annealed = Accelerator(), Network(), RampUp(), Annealed(0.05)
    optimiser = torch.optim.SGD(network.parameters(), lr=annealed(0.0), momentum=0.9)
    loaders = [DataLoader(TensorDataset(*one), batch, shuffle=True) for one in ((x, y), (target,))]
    network, optimiser, source, others = accelerator.prepare(network, optimiser, *loaders)
    for step, ((inputs, labels), (z,)) in zip(range(steps), pairs(source, others), strict=False):
        optimiser.param_groups[0]["lr"] = annealed(step / steps)
        classes, domains = network(torch.cat([inputs, z]), ramp_up(step / steps))
        domain = torch.arange(len(domains), device=domains.device) >= len(inputs)  # 1: target
        domain_loss = F.binary_cross_entropy_with_logits(domains, domain.float())
        optimiser.zero_grad()
        accelerator.backward(F.cross_entropy(classes[: len(inputs)], labels) + domain_loss)
        optimiser.step()
    return accelerator.unwrap_model(network).cpu()


if __name__ == "__main__":
    turned, classes = moons(turn=35)
    print(f"target accuracy {accuracy(train(*moons(), turned)(turned)[0], classes):.3f}")
